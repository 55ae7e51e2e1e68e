import { BLOCK_BYTES, type Block } from '../../contracts/audio.ts'
import type { MemoryHolder } from '../../contracts/budget.ts'
import type { Objects, PartUpload } from '../../contracts/objects.ts'
import { type Clock, deadline } from '../../contracts/time.ts'
import { createBudget, type WaitingBudget } from './budget.ts'
import { overloaded, unavailable } from './failure.ts'
import type { HeldBody } from './held-body.ts'
import type { WrittenTally } from './written.ts'

/** S3 takes no smaller part but the last; larger ones would only hold more memory. */
const PART_BLOCKS = 5
export const PART_BYTES = PART_BLOCKS * BLOCK_BYTES
/** Memory of one body while it is uploaded: the part under way and what arrives meanwhile. */
const RESERVED_BYTES = PART_BYTES + BLOCK_BYTES
/** Bodies of unknown length get this share of the memory at most, because they cannot leave it at any time. */
const PART_SHARE = 0.5
/** Bytes of a body that are held whatever the budget says. */
const SMALL_BYTES = 64 * 1024
const SLACK_BYTES = 4 * BLOCK_BYTES
/** Bytes after the part under way at which the sender is asked to stop. */
const HIGH_WATER_BYTES = 512 * 1024

export interface PartedBodyOptions {
  readonly objects: Objects
  readonly key: string
  readonly workspace: string
  readonly held: HeldBody
  /** Counts what goes into the object; null: nothing does. */
  readonly tally: WrittenTally | null
  readonly budget: WaitingBudget
  /** As made by `createPartMemory`. */
  readonly partMemory: WaitingBudget
  readonly signal: AbortSignal
  /** How long a sender waits, paused, for memory. */
  readonly memoryWaitMs: number
  readonly clock: Clock
  /** How long one part may take. */
  readonly partMs: number
  /** Makes the holder of the body's part memory, from whom others may want it back. */
  readonly holderOf: (units: number) => MemoryHolder
  /** Waits for an upload permit; called once, false when there is none. */
  readonly acquirePermit: () => Promise<boolean>
  readonly onReady: () => void
  /** Called at most once, and not after `finish`. */
  readonly onFailure: (error: Error) => void
}

/** The account of part memory: bodies wait here, and what they are granted is charged to `budget` by force. */
export function createPartMemory(budget: WaitingBudget, clock: Clock): WaitingBudget {
  return createBudget(Math.max(RESERVED_BYTES, budget.limit * PART_SHARE), 0, clock)
}

/**
 * A body of unknown length. Up to one part it stays in memory; what grows beyond goes to the store in parts, one at a
 * time. Its first block is charged as it comes; with the second one it waits until it has the memory of a whole part.
 * A body that holds part memory waits for no more, so bodies never wait for one another in a circle.
 */
export class PartedBody {
  readonly #options: PartedBodyOptions
  #upload: PartUpload | null = null
  #running: Promise<void> | null = null
  #reserving = false
  #reserved = false
  #holder: MemoryHolder | null = null
  /** Waits until what is held of all bodies fits again. */
  #catchingUp = false
  #ended = false
  #complete = false
  /** Set before the store is asked to make the object exist: afterwards only the store knows whether it does. */
  #completing = false
  #failure: Error | null = null

  constructor(options: PartedBodyOptions) {
    this.#options = options
    this.#advance()
  }

  /** True once the body has begun to leave memory. */
  get isUploading(): boolean {
    return this.#upload !== null
  }

  get ready(): boolean {
    if (this.#failure !== null) return true
    if (this.#reserving || this.#catchingUp) return false
    return this.#running === null || this.#options.held.length < HIGH_WATER_BYTES
  }

  write(chunk: Uint8Array): void {
    if (this.#failure !== null) return
    this.#options.held.append(chunk)
    this.#advance()
  }

  /** @returns true when the body went to the store, false when all of it is in `held` */
  async finish(): Promise<boolean> {
    this.#complete = true
    await this.#running
    if (this.#failure === null && this.#upload !== null) {
      this.#running = this.#completeUpload(this.#upload).catch((error: unknown) =>
        this.cancel(unavailable(error)),
      )
      await this.#running
    }
    this.#release()
    if (this.#failure !== null) throw this.#failure
    return this.#upload !== null
  }

  /** Waits for what is under way and leaves nothing. The signal has been aborted by the caller. */
  async abort(): Promise<void> {
    this.#failure ??= new Error('storage: upload aborted')
    await this.#running
    await this.#upload?.abort()
    this.#options.held.release()
    this.#release()
    if (this.#completing) await this.#options.objects.remove(this.#options.key)
  }

  /** Its parts have a limit each. */
  tick(): void {}

  /** Ends the upload with `error` as its failure. */
  cancel(error: Error): void {
    if (this.#failure !== null) return
    this.#failure = error
    if (!this.#complete) this.#options.onFailure(error)
  }

  /** Starts what the present length of the body requires. */
  #advance(): void {
    const { held } = this.#options
    if (!this.#reserved && !this.#reserving && held.length > BLOCK_BYTES) void this.#reserve()
    else if (held.length > SMALL_BYTES && !this.#reserved && !this.#reserving) void this.#catchUp()
    if (this.#running === null && held.length > PART_BYTES) {
      this.#running = this.#sendParts()
        .catch((error: unknown) => this.cancel(unavailable(error)))
        .then(() => {
          this.#running = null
          if (this.#failure !== null) held.release()
          this.#announce()
        })
    }
  }

  async #reserve(): Promise<void> {
    const { budget, partMemory, held, workspace, memoryWaitMs: waitMs, signal } = this.#options
    this.#reserving = true
    this.#reserved = await partMemory.reserve(RESERVED_BYTES, { workspace, waitMs, signal })
    this.#reserving = false
    if (this.#reserved) {
      this.#holder = this.#options.holderOf(RESERVED_BYTES)
      partMemory.enrol(this.#holder)
    }
    if (this.#ended) this.#release()
    else if (!this.#reserved) this.cancel(overloaded('no memory for a part'))
    else if (!this.#complete) {
      const missing = Math.max(0, RESERVED_BYTES - held.charged)
      budget.charge(missing, workspace)
      held.addCredit(missing)
      this.#announce()
    }
  }

  /** Has the sender wait while the budget is overdrawn, unless little of the body is here. */
  async #catchUp(): Promise<void> {
    const { budget, held, workspace, memoryWaitMs: waitMs, signal } = this.#options
    // When its own bytes, or the free rests of a few blocks, are too many, there is nothing to wait for.
    const others = budget.used - held.charged - SLACK_BYTES
    if (this.#catchingUp || this.#complete || others <= budget.limit) return
    this.#catchingUp = true
    const fits = await budget.reserve(0, { workspace, waitMs, signal, heldBytes: () => held.charged })
    this.#catchingUp = false
    if (this.#ended || this.#complete) return
    if (!fits) this.cancel(overloaded('no memory for a chunked body'))
    else this.#announce()
  }

  /** Gives the part memory to others. */
  #release(): void {
    this.#ended = true
    if (!this.#reserved) return
    this.#reserved = false
    if (this.#holder !== null) this.#options.partMemory.dismiss(this.#holder)
    this.#options.partMemory.refund(RESERVED_BYTES, this.#options.workspace)
  }

  async #completeUpload(upload: PartUpload): Promise<void> {
    const { held, partMs, clock } = this.#options
    await this.#sendPart(held.length)
    if (this.#failure !== null) return
    this.#completing = true
    await upload.complete(deadline(clock, partMs))
    held.release()
  }

  async #sendParts(): Promise<void> {
    const { objects, key, held, signal, acquirePermit } = this.#options
    if (this.#upload === null) {
      if (!(await acquirePermit())) throw overloaded('no upload permit')
      this.#upload = await objects.upload(key, { signal })
    }
    // A part is cut only when more than a part is there, so that the last one is never empty.
    while (held.length > PART_BYTES && this.#failure === null) await this.#sendPart(PART_BYTES)
  }

  async #sendPart(bytes: number): Promise<void> {
    const { held, tally, signal, partMs, clock } = this.#options
    const blocks = held.shiftBlocks(Math.ceil(bytes / BLOCK_BYTES))
    const chunks = trimmed(blocks, bytes)
    for (const chunk of chunks) tally?.add(chunk)
    try {
      await this.#upload!.part(chunks, AbortSignal.any([signal, deadline(clock, partMs)]))
    } finally {
      for (const block of blocks) held.giveBlock(block, RESERVED_BYTES)
    }
  }

  #announce(): void {
    if (this.ready && this.#failure === null) this.#options.onReady()
  }
}

/** Views of the first `bytes` bytes of `blocks`. */
function trimmed(blocks: readonly Block[], bytes: number): Uint8Array[] {
  return blocks.map((block, i) => block.subarray(0, Math.min(block.length, bytes - i * BLOCK_BYTES)))
}
