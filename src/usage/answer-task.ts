import type { MessagePort } from 'node:worker_threads'
import { TooManyGroups, type UsageAnswer, type UsageQuestion } from './answer.ts'
import { type AnsweredFile, type ReadSums, type SumsPart, TableAnswers } from './table-answers.ts'
import { AskingPort, bytesOfFile } from './thread.ts'

/*
 * Answers questions in a thread of its own, and keeps there what it answers from. Sums that are no files are asked for
 * over a port: the thread has no connection to anything.
 */

export interface AnswerTask {
  readonly questions: readonly UsageQuestion[]
  readonly files: readonly AnsweredFile[]
  /** Takes `SumsWanted`, gives the sums or null. */
  readonly port: MessagePort
}

/** As the arguments of `ReadSums`. */
export interface SumsWanted {
  readonly place: number
  readonly part: SumsPart
}

/** What has to be told by value, since a thread takes no class of an error along. */
export type AnswerOutcome = { readonly answers: readonly UsageAnswer[] } | { readonly tooManyGroups: string }

const tables = new TableAnswers()

export async function answer({ questions, files, port }: AnswerTask): Promise<AnswerOutcome> {
  const asking = new AskingPort<SumsWanted>(port)
  const read: ReadSums = async (place, part) => {
    const path = files[place]?.sums ?? null
    const own = part === 'made' || path === null ? null : bytesOfFile(path, part.from, part.to)
    return own ?? ((await asking.ask({ place, part })) as Awaited<ReturnType<ReadSums>>)
  }
  try {
    return { answers: await tables.answerAll(questions, files, read) }
  } catch (error) {
    if (error instanceof TooManyGroups) return { tooManyGroups: error.message }
    throw error
  } finally {
    asking.close()
  }
}
