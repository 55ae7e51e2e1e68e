import type { CancelSignal } from '../cancellation.ts'
import type { UsageColumnName } from '../contracts/usage-record.ts'
import type { UsageLake } from './lake.ts'
import type { LogBounds, LogFound, LogQuestion } from './log.ts'
import type { LogObject } from './log-file.ts'
import type { LogFormat } from './log-report.ts'
import type { LogAsk, LogText } from './log-tasks.ts'
import { dateOf, type UsageObject } from './names.ts'
import { whileGone } from './reader.ts'
import { createAskingThread } from './thread.ts'

/** A thread costs some 40 MB; whoever looks at a log looks on. */
const IDLE_MS = 30_000
/** Of the heap; see `LOG_BOUNDS`. */
const HEAP_MIB = 512
const AT_ONCE = 2

const FILENAME = new URL('./log-tasks.ts', import.meta.url).href

/** Finds records of usage, in a thread that ends when it is idle. */
export interface UsageLog {
  /**
   * @param signal ends the search when nobody waits for it
   * @throws GatewayError DEPENDENCY_UNAVAILABLE when the store fails, OVERLOADED when too many wait; what aborted it
   */
  search<Name extends UsageColumnName>(
    question: LogQuestion<Name>,
    signal: CancelSignal,
  ): Promise<LogFound<Name>>
  /** As `search`, as a part of a file; of all columns. */
  write(question: LogQuestion, format: LogFormat, signal: CancelSignal): Promise<LogText>
  /** Ends the thread; a question under way fails. */
  close(): Promise<void>
}

type LogLake = Pick<UsageLake, 'day' | 'fileOf' | 'listed' | 'readPart'>

/** @param bounds of each question; for tests */
export function createUsageLog(lake: LogLake, bounds?: LogBounds): UsageLog {
  const thread = createAskingThread({
    filename: FILENAME,
    idleMs: IDLE_MS,
    heapMib: HEAP_MIB,
    atOnce: AT_ONCE,
  })
  const run = (name: string, task: object, signal: CancelSignal): Promise<unknown> =>
    whileGone(() => thread.run(name, { ...task, bounds }, (ask: LogAsk) => askLake(lake, ask), signal))
  return {
    search: <Name extends UsageColumnName>(question: LogQuestion<Name>, signal: CancelSignal) =>
      run('search', { question }, signal) as Promise<LogFound<Name>>,
    write: (question, format, signal) => run('write', { question, format }, signal) as Promise<LogText>,
    close: thread.close,
  }
}

function logObject(file: UsageObject, lake: LogLake): LogObject {
  const { key, bytes, modifiedAt } = file
  return { key, bytes, putMs: modifiedAt.getTime(), path: lake.fileOf(file) }
}

/** Answers what the thread asks of the files. */
async function askLake(lake: LogLake, ask: LogAsk): Promise<unknown> {
  if (ask.ask === 'read') return (await lake.readPart(ask.key, ask.from, ask.to)).buffer
  if (ask.ask === 'files') return (await lake.day(ask.date)).visible.map((file) => logObject(file, lake))
  const days = (await lake.listed()).keys()
  const [from, to] = [dateOf(ask.fromMs), dateOf(ask.toMs)]
  return [...days].filter((date) => date >= from && date <= to)
}
