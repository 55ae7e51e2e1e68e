import type { MessagePort } from 'node:worker_threads'
import { type LogBounds, type LogFound, type LogQuestion, searchLog } from './log.ts'
import { LogFooters, type LogObject, type LogSource } from './log-file.ts'
import { type LogFormat, recordsText } from './log-report.ts'
import { AskingPort, bytesOfFile } from './thread.ts'

/*
 * Questions for records, run in a thread of their own. It has no connection to anything: what is no file comes through
 * the port of the task, from the thread that has the store.
 */

/** What the thread asks for. */
export type LogAsk =
  | { readonly ask: 'dates'; readonly fromMs: number; readonly toMs: number }
  | { readonly ask: 'files'; readonly date: string }
  | { readonly ask: 'read'; readonly key: string; readonly from: number; readonly to: number }

export interface LogTask {
  readonly question: LogQuestion
  readonly bounds: LogBounds | undefined
  readonly port: MessagePort
}

/** Finds records. */
export async function search({ question, bounds, port }: LogTask): Promise<LogFound> {
  const source = new PortSource(port)
  try {
    return await searchLog(question, source, bounds)
  } finally {
    source.close()
  }
}

/** A part of a file of records. */
export interface LogText extends Omit<LogFound, 'records'> {
  readonly rows: number
  readonly text: Uint8Array<ArrayBuffer>
}

/** Finds records and writes them as text: thousands of records are slow to hand over. */
export async function write({ format, ...task }: LogTask & { readonly format: LogFormat }): Promise<LogText> {
  const { records, ...found } = await search(task)
  return { ...found, rows: records.length, text: new TextEncoder().encode(recordsText(records, format)) }
}

/** Of this thread. */
const FOOTERS = new LogFooters()

class PortSource implements LogSource {
  readonly footers = FOOTERS
  readonly #asking: AskingPort<LogAsk>

  constructor(port: MessagePort) {
    this.#asking = new AskingPort(port)
  }

  dates(fromMs: number, toMs: number) {
    return this.#asking.ask({ ask: 'dates', fromMs, toMs }) as Promise<string[]>
  }

  files(date: string) {
    return this.#asking.ask({ ask: 'files', date }) as ReturnType<LogSource['files']>
  }

  async read({ key, path = null }: LogObject, from: number, to: number) {
    if (path !== null) {
      await this.#asking.turn()
      const own = bytesOfFile(path, from, to)
      if (own?.length === to - from) return own.buffer
    }
    return this.#asking.ask({ ask: 'read', key, from, to }) as Promise<ArrayBuffer>
  }

  close(): void {
    this.#asking.close()
  }
}
