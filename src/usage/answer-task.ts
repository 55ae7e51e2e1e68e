import type { MessagePort } from 'node:worker_threads'
import { TooManyGroups, type UsageAnswer, type UsageQuestion } from './answer.ts'
import { type AnsweredFile, TableAnswers } from './table-answers.ts'

/*
 * Answers questions in a thread of its own, and keeps there what it answers from. Sums are asked for over a port: the
 * thread has no connection to anything.
 */

export interface AnswerTask {
  readonly question: UsageQuestion
  readonly files: readonly AnsweredFile[]
  /** Takes `SumsWanted`, gives `SumsGiven`. */
  readonly port: MessagePort
}

export interface SumsWanted {
  readonly number: number
  readonly place: number
  readonly made: boolean
}

export interface SumsGiven {
  /** That of the request. */
  readonly number: number
  /** Undefined: reading has failed. */
  readonly sums: Uint8Array<ArrayBuffer> | null | undefined
}

/** What has to be told by value, since a thread takes no class of an error along. */
export type AnswerOutcome = { readonly answer: UsageAnswer } | { readonly tooManyGroups: string }

const answers = new TableAnswers()

export async function answer({ question, files, port }: AnswerTask): Promise<AnswerOutcome> {
  const waiting: PromiseWithResolvers<Uint8Array | null>[] = []
  port.on('message', ({ number, sums }: SumsGiven) => {
    if (sums === undefined) waiting[number]?.reject(new Error('usage: sums could not be read'))
    else waiting[number]?.resolve(sums)
  })
  const read = (place: number, made: boolean) => {
    const wanted = Promise.withResolvers<Uint8Array | null>()
    port.postMessage({ number: waiting.push(wanted) - 1, place, made } satisfies SumsWanted)
    return wanted.promise
  }
  try {
    return { answer: await answers.answer(question, files, read) }
  } catch (error) {
    if (error instanceof TooManyGroups) return { tooManyGroups: error.message }
    throw error
  } finally {
    port.close()
  }
}
