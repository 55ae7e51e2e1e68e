import type { MessagePort } from 'node:worker_threads'
import { TooManyGroups, type UsageAnswer, type UsageQuestion } from './answer.ts'
import { type AnsweredFile, type ReadSums, type SumsPart, TableAnswers } from './table-answers.ts'
import { AskingPort } from './thread.ts'

/*
 * Answers questions in a thread of its own, and keeps there what it answers from. Sums are asked for over a port: the
 * thread has no connection to anything.
 */

export interface AnswerTask {
  readonly question: UsageQuestion
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
export type AnswerOutcome = { readonly answer: UsageAnswer } | { readonly tooManyGroups: string }

const answers = new TableAnswers()

export async function answer({ question, files, port }: AnswerTask): Promise<AnswerOutcome> {
  const asking = new AskingPort<SumsWanted>(port)
  const read: ReadSums = (place, part) => asking.ask({ place, part }) as ReturnType<ReadSums>
  try {
    return { answer: await answers.answer(question, files, read) }
  } catch (error) {
    if (error instanceof TooManyGroups) return { tooManyGroups: error.message }
    throw error
  } finally {
    asking.close()
  }
}
