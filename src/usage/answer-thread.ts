import { MessageChannel } from 'node:worker_threads'
import type { Piscina } from 'piscina'
import { TooManyGroups } from './answer.ts'
import type { AnswerOutcome, AnswerTask, SumsGiven, SumsWanted } from './answer-task.ts'
import type { UsageAnswers } from './table-answers.ts'

/** A console that is open asks again within this, and finds what it asked for before. */
const IDLE_MS = 60_000
/** Questions that wait for the store at a time. */
const AT_A_TIME = 4
/** Of the heap; tables are outside of it. */
const HEAP_MIB = 256

const FILENAME = new URL('./answer-task.ts', import.meta.url).href

export interface AnswerThread extends UsageAnswers {
  /** Ends the thread; a question under way fails. */
  close(): Promise<void>
}

/**
 * Answers in a thread that ends when nobody has asked for a while: a question about many hours takes a second of CPU.
 * It is not the one that makes files, since a merge takes seconds.
 */
export function createAnswerThread(): AnswerThread {
  let opened: Promise<Piscina> | null = null
  const open = async () => {
    const { Piscina } = await import('piscina')
    return new Piscina({
      filename: FILENAME,
      name: 'answer',
      minThreads: 0,
      maxThreads: 1,
      idleTimeout: IDLE_MS,
      concurrentTasksPerWorker: AT_A_TIME,
      // A thread that waits so hears nothing over its ports.
      atomics: 'disabled',
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB },
    })
  }
  return {
    async answer(question, files, read) {
      opened ??= open()
      const pool = await opened
      const { port1: own, port2: port } = new MessageChannel()
      const failures: unknown[] = []
      const serve = async ({ number, place, made }: SumsWanted) => {
        try {
          const sums = await read(place, made)
          own.postMessage({ number, sums })
        } catch (error) {
          failures.push(error)
          own.postMessage({ number, sums: undefined } satisfies SumsGiven)
        }
      }
      own.on('message', (wanted: SumsWanted) => void serve(wanted))
      try {
        const task: AnswerTask = { question, files, port }
        const outcome = (await pool.run(task, { transferList: [port] })) as AnswerOutcome
        if ('answer' in outcome) return outcome.answer
        throw new TooManyGroups(outcome.tooManyGroups)
      } catch (error) {
        throw failures[0] ?? error
      } finally {
        own.close()
      }
    },
    close: async () => (await opened)?.destroy(),
  }
}
