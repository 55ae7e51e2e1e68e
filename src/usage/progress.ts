import type { UsageMarks } from '../contracts/usage-lake.ts'
import type { Clock, Timer } from '../time.ts'

/** A process that has said nothing for so long is counted on no more: its disk must be gone. */
const SILENT_MS = 86_400_000
const NOTE_MS = 5_000

/** What writes the records of this process. */
interface UsageWriter {
  /** Unique to the process. */
  readonly name: string
  /** Everything that ended before was put; epoch milliseconds. */
  readonly doneUntilMs: number
  /** Whether nothing is left to be put. */
  readonly isDone: boolean
  /** Names of dead processes whose records are its own now, once each. */
  takeAdopted(): string[]
}

export interface ProgressTiming {
  /** How often the others are told. */
  readonly noteMs: number
}

interface ProgressParts extends Partial<ProgressTiming> {
  readonly marks: UsageMarks
  /** Null: this process writes none. */
  readonly writer: UsageWriter | null
  readonly clock: Clock
}

/**
 * Knows up to when the records of all processes are in the store: each says so in the state every few seconds. A dead
 * one goes on to say what it said last, until another takes its records over.
 */
export class UsageProgress {
  readonly #parts: ProgressParts
  #timer: Timer | null = null
  #noting: Promise<void> = Promise.resolve()
  /** Of the others, when the state was read last; of those that began later nothing is older. */
  #othersMs = 0
  /** Those whose records were taken over, and who still say something. */
  #adopted: string[] = []

  constructor(parts: ProgressParts) {
    this.#parts = parts
  }

  /** Begins to tell the others. Resolves once they know that there is this process, or the state does not answer. */
  async start(): Promise<void> {
    const { noteMs = NOTE_MS, clock } = this.#parts
    const note = () => {
      this.#noting = this.#noting.then(() => this.#note())
    }
    this.#timer = clock.every(noteMs, note).unref()
    await this.#note()
  }

  /**
   * Everything that ended before is in the store, of all processes that have said something in the last day; epoch
   * milliseconds. 0: the state has never answered. To be asked before the store is.
   */
  async until(): Promise<number> {
    const { marks, writer, clock } = this.#parts
    const nowMs = clock.wallNow()
    const ownMs = writer?.doneUntilMs ?? nowMs
    try {
      const others = [...(await marks.read())].filter(([name]) => name !== writer?.name)
      const heard = others.filter(([, { notedAtMs }]) => notedAtMs > nowMs - SILENT_MS)
      this.#othersMs = Math.min(nowMs, ...heard.map(([, { doneUntilMs }]) => doneUntilMs))
    } catch {
      // What they said last holds.
    }
    return Math.min(ownMs, this.#othersMs)
  }

  /** Tells the others how far it came in the end; to be called when no record is written or put any more. */
  async close(): Promise<void> {
    this.#timer?.close()
    await this.#noting
    const { marks, writer } = this.#parts
    if (writer?.isDone !== true) return this.#note()
    await marks.forget([writer.name, ...this.#adopted, ...writer.takeAdopted()]).catch(() => {})
  }

  /** Never rejects: it is said again. */
  async #note(): Promise<void> {
    const { marks, writer, clock } = this.#parts
    if (writer === null) return
    this.#adopted.push(...writer.takeAdopted())
    try {
      await marks.note(writer.name, { doneUntilMs: writer.doneUntilMs, notedAtMs: clock.wallNow() })
      if (this.#adopted.length === 0) return
      // Only now: from the one moment to the next one of the two has said it.
      await marks.forget(this.#adopted)
      this.#adopted = []
    } catch {
      // The state is away.
    }
  }
}
