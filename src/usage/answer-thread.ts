import { TooManyGroups } from './answer.ts'
import type { AnswerOutcome, AnswerTask, SumsWanted } from './answer-task.ts'
import type { UsageAnswers } from './table-answers.ts'
import { createAskingThread } from './thread.ts'

/** A console that is open asks again within this, and finds what it asked for before. */
const IDLE_MS = 60_000
const AT_ONCE = 4
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
  const thread = createAskingThread({
    filename: FILENAME,
    idleMs: IDLE_MS,
    heapMib: HEAP_MIB,
    atOnce: AT_ONCE,
  })
  return {
    async answerAll(questions, files, read) {
      const task: Omit<AnswerTask, 'port'> = { questions, files }
      const serve = ({ place, part }: SumsWanted) => read(place, part)
      const outcome = (await thread.run('answer', task, serve)) as AnswerOutcome
      if ('answers' in outcome) return outcome.answers
      throw new TooManyGroups(outcome.tooManyGroups)
    },
    close: thread.close,
  }
}
