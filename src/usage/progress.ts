import type { Clock, Timer } from '../contracts/time.ts'
import type { UsageMarks } from '../contracts/usage-lake.ts'

/** A process that was silent for so long is ignored: its disk must be gone. */
const SILENT_MS = 86_400_000
const NOTE_MS = 5_000

/** Writes the records of this process. */
interface UsageWriter {
  /** Unique to the process. */
  readonly name: string
  /** Everything that ended before was put; epoch milliseconds. */
  readonly doneUntilMs: number
  /** True: nothing is left to be put. */
  readonly isDone: boolean
  /** Names of dead processes whose records it has taken over; each is returned once. */
  takeAdopted(): string[]
}

export interface ProgressTiming {
  /** How often the others are told. */
  readonly noteMs: number
}

interface ProgressDependencies extends Partial<ProgressTiming> {
  readonly marks: UsageMarks
  /** Null: this process writes none. */
  readonly writer: UsageWriter | null
  readonly clock: Clock
}

/**
 * Knows up to when the records of all processes are in the store: each notes it in the state every few seconds. The
 * last note of a dead process counts until another takes its records over.
 */
export class UsageProgress {
  readonly #deps: ProgressDependencies
  #timer: Timer | null = null
  #noting: Promise<void> = Promise.resolve()
  /** The others' progress when last read; processes that began since have nothing older. */
  #othersMs = 0
  /** Dead processes whose records were taken over, and whose notes are still in the state. */
  #adopted: string[] = []

  constructor(deps: ProgressDependencies) {
    this.#deps = deps
  }

  /** Begins to note the progress. Resolves once the others know of this process, or the state does not answer. */
  async start(): Promise<void> {
    const { noteMs = NOTE_MS, clock } = this.#deps
    const note = () => {
      this.#noting = this.#noting.then(() => this.#note())
    }
    this.#timer = clock.every(noteMs, note).unref()
    await this.#note()
  }

  /**
   * All that ended before is in the store, of every process that was heard in the last day; epoch milliseconds. 0: the
   * state has never answered. To be asked before the store is.
   */
  async until(): Promise<number> {
    const { marks, writer, clock } = this.#deps
    const nowMs = clock.wallNow()
    const ownMs = writer?.doneUntilMs ?? nowMs
    try {
      const others = [...(await marks.read())].filter(([name]) => name !== writer?.name)
      const heard = others.filter(([, { notedAtMs }]) => notedAtMs > nowMs - SILENT_MS)
      this.#othersMs = Math.min(nowMs, ...heard.map(([, { doneUntilMs }]) => doneUntilMs))
    } catch {
      // Their last notes hold.
    }
    return Math.min(ownMs, this.#othersMs)
  }

  /** Notes the final progress; to be called when no record is written or put any more. */
  async close(): Promise<void> {
    this.#timer?.close()
    await this.#noting
    const { marks, writer } = this.#deps
    if (writer?.isDone !== true) return this.#note()
    await marks.forget([writer.name, ...this.#adopted, ...writer.takeAdopted()]).catch(() => {})
  }

  /** Never rejects: the next note makes up for it. */
  async #note(): Promise<void> {
    const { marks, writer, clock } = this.#deps
    if (writer === null) return
    this.#adopted.push(...writer.takeAdopted())
    try {
      await marks.note(writer.name, { doneUntilMs: writer.doneUntilMs, notedAtMs: clock.wallNow() })
      if (this.#adopted.length === 0) return
      // Deleted last, so that one of the two marks always exists.
      await marks.forget(this.#adopted)
      this.#adopted = []
    } catch {
      // The state is away.
    }
  }
}
