import { randomBytes } from 'node:crypto'
import type { ArrivingBody, BodySource, StoredBody } from '../contracts/audio.ts'
import type { HolderPace, MemoryHolder } from '../contracts/budget.ts'
import type { Objects } from '../contracts/objects.ts'
import type { BodyWriter, SpoolOptions } from '../contracts/spool.ts'
import { GatewayError } from '../errors.ts'
import type { Logger } from '../log.ts'
import { within } from '../time.ts'
import type { BlockPool } from './blocks.ts'
import type { HeldBodies } from './body-holds.ts'
import { SLOW_BYTES_PER_SECOND, type WaitingBudget } from './budget.ts'
import { overloaded, unavailable } from './failure.ts'
import { GrowingBody } from './growing-body.ts'
import { ChunkQueue, HeldBody, missingBytes } from './held-body.ts'

import { keySegment } from './key.ts'
import { PartedBody } from './part-upload.ts'
import type { SealedObjects } from './sealed-objects.ts'
import { StreamedPut } from './streamed-put.ts'

/** Times of the spool, in milliseconds, and the speeds that belong to them. */
export interface SpoolTiming {
  /** How long a body waits for memory before it goes to the store. */
  readonly memoryWaitMs: number
  /** How long a body that has begun to arrive waits for more memory when it cannot go to the store yet. */
  readonly partMemoryWaitMs: number
  /** How long a body waits for an upload slot. */
  readonly slotWaitMs: number
  /** How long a store may take nothing while there is something for it. */
  readonly stallMs: number
  /** How long one part of 5 MiB may take. */
  readonly partMs: number
  /** Window over which the speed of a held body's sender is measured; also its grace. */
  readonly slowWindowMs: number
  /** Window over which the speed of an uploading sender is measured. */
  readonly crawlWindowMs: number
  /** How long an upload may take in all. */
  readonly uploadDeadlineMs: number
  /** How often speeds and deadlines are looked at. */
  readonly tickMs: number
}

export const SPOOL_TIMING: SpoolTiming = Object.freeze({
  memoryWaitMs: 500,
  partMemoryWaitMs: 5_000,
  slotWaitMs: 2_000,
  stallMs: 5_000,
  partMs: 30_000,
  slowWindowMs: 1_000,
  crawlWindowMs: 30_000,
  uploadDeadlineMs: 15 * 60_000,
  tickMs: 250,
})

/** Bodies up to this size stay in memory whatever their speed; an upload would cost more than they hold. */
const ALWAYS_HELD_BYTES = 64 * 1024
/** An uploading sender below this gives its slot to one that waits for it. */
const CRAWL_BYTES_PER_SECOND = 8_000
/**
 * Streamed uploads at a time. Nodes times this, and what jobs put beside it, must stay below the slots of the store,
 * which otherwise refuses everybody: 1,024 for a Ceph gateway with its defaults.
 */
export const UPLOAD_SLOTS = 256
/** The same for a folder, where an upload is no more than an open file. */
export const FOLDER_UPLOAD_SLOTS = 1_024
/** Pause after which a slow sender without a slot may retry: the slots are held by senders as slow. */
const SLOW_RETRY_MS = 30_000

export interface SpoolParts {
  readonly budget: WaitingBudget
  readonly blocks: BlockPool
  readonly objects: SealedObjects
  readonly log?: Logger
  /** Milliseconds on a clock that never goes back. */
  readonly now?: () => number
  readonly timing?: Partial<SpoolTiming>
  readonly uploadSlots?: number
  /** Who may read bodies in memory beyond their calls; absent: nobody. */
  readonly holds?: HeldBodies
}

/** Counters of the spool since it was made, and its present load. */
export interface SpoolStats {
  /** Bodies that arrived whole and stayed in memory. */
  readonly held: number
  /** Bodies that arrived whole and went to the store. */
  readonly stored: number
  /** Held bodies that moved to the store because their sender was slow. */
  readonly demoted: number
  /** Bodies refused for want of memory or slots. */
  readonly refused: number
  /** Bodies that the store failed. */
  readonly failed: number
  /** Bodies that are arriving. */
  readonly arriving: number
  /** Uploads under way. */
  readonly uploading: number
}

/** Samples kept per window: the window slides in steps of an eighth. */
const STEPS = 8

/** Mean speed over a sliding window, from totals that are sampled now and then. */
class SpeedWindow {
  readonly #spanMs: number
  readonly #samples: { readonly atMs: number; readonly bytes: number }[] = []

  constructor(spanMs: number) {
    this.#spanMs = spanMs
  }

  /** Bytes per second over the last `spanMs`; null while the window is not that long. */
  sample(nowMs: number, totalBytes: number): number | null {
    const samples = this.#samples
    const last = samples.at(-1)
    if (last === undefined || nowMs - last.atMs >= this.#spanMs / STEPS) {
      samples.push({ atMs: nowMs, bytes: totalBytes })
    }
    while (samples.length > 1 && nowMs - samples[1]!.atMs >= this.#spanMs) samples.shift()
    const first = samples[0]!
    const elapsedMs = nowMs - first.atMs
    return elapsedMs < this.#spanMs ? null : ((totalBytes - first.bytes) * 1000) / elapsedMs
  }

  /** Forgets the samples: we held the sender up ourselves. */
  reset(): void {
    this.#samples.length = 0
  }
}

/** Parts that the writers of one spool share. */
export interface BodyContext {
  readonly budget: WaitingBudget
  readonly blocks: BlockPool
  readonly objects: SealedObjects
  /** Upload slots, counted in ones. */
  readonly slots: WaitingBudget
  readonly partMemory: WaitingBudget
  readonly timing: SpoolTiming
  readonly holds: HeldBodies | undefined
  readonly now: () => number
  count(event: 'held' | 'stored' | 'demoted' | 'refused' | 'failed'): void
  /** Starts the calls of `tick`. */
  enter(writer: StoredBodyWriter): void
  leave(writer: StoredBodyWriter): void
  /** Deletes an object in the background. */
  remove(key: string): void
}

/** `finished` and `dropped` are final. */
type State = 'new' | 'starting' | 'arriving' | 'finishing' | 'finished' | 'dropped'

const noop = () => {}

/** The writer of one body: picks where it goes, moves it when its sender is slow, cleans up whatever happens. */
export class StoredBodyWriter implements BodyWriter, MemoryHolder {
  onReady: () => void = noop
  onFailure: (error: Error) => void = noop
  readonly workspace: string
  readonly #context: BodyContext
  readonly #options: SpoolOptions
  readonly #key: string
  readonly #held: HeldBody
  readonly #controller = new AbortController()
  #state: State = 'new'
  #put: StreamedPut | null = null
  #parts: PartedBody | null = null
  #received = 0
  #startedMs = 0
  /** Stands for the upload slot that it has; null while it has none. */
  #slot: MemoryHolder | null = null
  /** Set while its reservation has been taken back and it looks for another place. */
  #moving: Promise<void> | null = null
  /** Bytes per second lately; null while nobody can tell. */
  #rate: number | null = null
  readonly #speed: SpeedWindow
  #uploadSpeed: SpeedWindow | null = null
  #failure: Error | null = null
  /** Reads the body while it comes; null: nobody does. */
  #growing: GrowingBody | null = null
  #cleanup: Promise<void> | null = null

  constructor(context: BodyContext, options: SpoolOptions) {
    this.#context = context
    this.#options = options
    // Callers choose request ids and may repeat them: only the last segment makes the key unique.
    const attempt = randomBytes(8).toString('hex')
    const { kind = 'spool', workspace, id } = options
    this.#key = `${kind}/${keySegment(workspace)}/${keySegment(id)}/${attempt}`
    this.#held = new HeldBody(context.budget, context.blocks, options.workspace, options.contentLength)
    this.workspace = options.workspace
    this.#speed = new SpeedWindow(context.timing.slowWindowMs)
  }

  get ready(): boolean {
    if (this.#state === 'new') return false
    // Enough comes while a body waits to tell a slow sender, and no more.
    if (this.#state === 'starting' || this.#moving !== null) return this.#received < ALWAYS_HELD_BYTES
    return this.#put?.ready ?? this.#parts?.ready ?? true
  }

  async start(): Promise<void> {
    const { budget, now, count } = this.#context
    const { workspace } = this
    if (this.#state !== 'new') throw new Error('spool: start is called once')
    this.#state = 'starting'
    try {
      // A workspace within its share is never refused for memory that another one can give back.
      const isOverdrawn = budget.used > 2 * budget.limit && !budget.tryReserve(0, workspace)
      if (isOverdrawn) throw overloaded('over twice the memory budget')
      const { contentLength, stored = false } = this.#options
      if (stored) await this.#placeInStore()
      else if (contentLength === null) this.#parts = this.#openParts()
      else await this.#findPlace(contentLength)
      this.#throwIfDropped()
    } catch (error) {
      if (error instanceof GatewayError && error.code === 'OVERLOADED') count('refused')
      await this.abort()
      throw error
    }
    this.#startedMs = now()
    this.#state = 'arriving'
    this.#context.enter(this)
    if (this.ready) this.onReady()
  }

  write(chunk: Uint8Array): void {
    if (this.#failure !== null || this.#state === 'dropped') return
    this.#received += chunk.length
    const target = this.#put ?? this.#parts
    if (target === null) this.#held.append(chunk)
    else target.write(chunk)
    this.#growing?.written(chunk, this.#received)
  }

  arriving(): ArrivingBody {
    if (this.#options.contentLength === null || this.#state !== 'new')
      throw new Error('spool: only a body of known length can be read from its beginning on')
    const { objects, budget, blocks } = this.#context
    const { workspace } = this
    this.#growing ??= new GrowingBody({ objects, budget, blocks, workspace, held: this.#held })
    return this.#growing
  }

  async finish(): Promise<StoredBody> {
    if (this.#moving !== null) await this.#moving
    if (this.#failure !== null) throw this.#failure
    this.#throwIfDropped()
    if (this.#state !== 'arriving') throw new Error('spool: finish is called once, after start')
    const { contentLength } = this.#options
    if (contentLength !== null && contentLength !== this.#received)
      throw new Error('spool: finish came early')
    this.#state = 'finishing'
    try {
      const source = await this.#settle()
      this.#throwIfDropped()
      this.#state = 'finished'
      this.#context.leave(this)
      this.#context.count(source.kind === 'memory' ? 'held' : 'stored')
      this.#growing?.rests(source)
      return this.#body(source)
    } catch (error) {
      if (!this.#isDropped()) this.#context.count('failed')
      this.#failure ??= unavailable(error)
      await this.abort()
      throw this.#failure
    }
  }

  abort(): Promise<void> {
    if (this.#state === 'finished') return Promise.resolve()
    this.#state = 'dropped'
    this.#cleanup ??= this.#drop()
    return this.#cleanup
  }

  /** Looks at the sender's speed, the deadline and the store. */
  tick(nowMs: number): void {
    if (this.#failure !== null) return
    this.#put?.tick(nowMs)
    if (this.#state !== 'arriving') return
    const uploading = this.#put !== null || this.#parts?.uploaded === true
    if (this.ready && this.#moving === null) {
      this.#rate = this.#speed.sample(nowMs, this.#received)
      if (uploading) this.#checkCrawl(nowMs)
      else if (this.#parts === null) this.#checkSlow()
    } else {
      this.#speed.reset()
      this.#uploadSpeed?.reset()
      this.#rate = null
    }
    if (uploading && nowMs - this.#startedMs > this.#context.timing.uploadDeadlineMs)
      this.#refuse(new GatewayError('REQUEST_TIMEOUT'))
  }

  /** Null once the body goes to the store: next to nothing of it is in memory then. */
  pace(): HolderPace | null {
    return this.#put === null ? this.#measured() : null
  }

  #measured(): HolderPace | null {
    if (this.#rate === null || this.#state !== 'arriving' || this.#failure !== null) return null
    const { contentLength } = this.#options
    const bytesLeft = contentLength === null ? Number.POSITIVE_INFINITY : contentLength - this.#received
    return { bytesPerSecond: this.#rate, bytesLeft }
  }

  /** Gives its reservation back and takes its turn for memory, or for an upload slot, once more. */
  shrink(): void {
    const isHeld = this.#state === 'arriving' && this.#put === null && this.#parts === null
    if (!isHeld || this.#moving !== null || this.#failure !== null || this.#held.credit === 0) return
    this.#held.dropCredit()
    this.#rate = null
    this.#moving = this.#moveOn(this.#options.contentLength!)
  }

  end(): number {
    this.#held.release()
    this.#fail(overloaded('too slow to be held', SLOW_RETRY_MS))
    return 0
  }

  /** Looks for another place in a later turn: what was given back is for whoever asked for it. */
  async #moveOn(length: number): Promise<void> {
    await Promise.resolve()
    try {
      await this.#findPlace(length)
    } catch (error) {
      this.#fail(error as Error)
    }
    this.#moving = null
    if (this.ready) this.onReady()
  }

  /** Keeps a body of known length in memory if there is some in time, else opens its upload. */
  async #findPlace(length: number): Promise<void> {
    if (this.#tryReserve(length)) return
    const { budget, slots, timing } = this.#context
    // An overdrawn budget is nothing to wait for while there are slots.
    if (budget.used > budget.limit && slots.tryReserve(1, this.workspace)) {
      this.#holdSlot()
      this.#moveToStore()
      return
    }
    const turns = { memory: new AbortController(), slot: new AbortController() }
    const memory = this.#reserve(length, timing.memoryWaitMs + timing.slotWaitMs, turns.memory.signal)
    const isHeldSoon = await within(timing.memoryWaitMs, memory).catch(() => false)
    if (!isHeldSoon && missingBytes(length, this.#held) === 0 && budget.used <= budget.limit) {
      // All of it came meanwhile, has been charged by force, and there is room: to send it away would help nobody.
      turns.memory.abort()
      return
    }
    // A sender who has not brought that much meanwhile would lose the memory again, and others wait for it.
    const isSlow = this.#received < Math.min(length, ALWAYS_HELD_BYTES)
    if (isSlow) turns.memory.abort()
    // All others keep their turn: when slow senders have all slots, memory comes free first.
    const slot = isHeldSoon ? Promise.resolve(false) : this.#acquireSlot(turns.slot.signal)
    await Promise.race([slot.then((granted) => granted || memory), memory.then((granted) => granted || slot)])
    for (const turn of Object.values(turns)) turn.abort()
    const [isHeld] = await Promise.all([memory, slot])
    if (isHeld) this.#releaseSlot()
    this.#throwIfDropped()
    if (this.#slot !== null) this.#moveToStore()
    else if (!isHeld) throw overloaded('no memory, no upload slot', isSlow ? SLOW_RETRY_MS : undefined)
  }

  async #placeInStore(): Promise<void> {
    if (this.#options.contentLength === null) throw new Error('spool: the store is told the length first')
    if (!(await this.#acquireSlot(this.#controller.signal))) throw overloaded('no upload slot')
    this.#throwIfDropped()
    this.#moveToStore()
  }

  /** Takes memory for the body if it is its turn; at once, because a chunk that has none takes its own. */
  #tryReserve(length: number): boolean {
    const { budget } = this.#context
    const missing = missingBytes(length, this.#held)
    if (missing > 0 && !budget.tryReserve(missing, this.workspace)) return false
    this.#held.addCredit(missing)
    return true
  }

  async #reserve(length: number, waitMs: number, turn: AbortSignal): Promise<boolean> {
    const { budget } = this.#context
    const signal = AbortSignal.any([this.#controller.signal, turn])
    const { workspace } = this
    const missing = missingBytes(length, this.#held)
    const heldBytes = () => this.#held.charged
    if (!(await budget.reserve(missing, { workspace, waitMs, signal, heldBytes }))) return false
    // Bytes written in the meantime have been charged already.
    const credit = this.#isDropped() ? 0 : missingBytes(length, this.#held)
    this.#held.addCredit(credit)
    budget.refund(missing - credit, workspace)
    return true
  }

  async #acquireSlot(turn: AbortSignal): Promise<boolean> {
    const { slots, timing } = this.#context
    const signal = AbortSignal.any([this.#controller.signal, turn])
    const { workspace } = this
    const granted = await slots.reserve(1, { workspace, waitMs: timing.slotWaitMs, signal })
    if (granted) this.#holdSlot()
    if (granted && this.#isDropped()) this.#releaseSlot()
    return granted
  }

  /** Counts a slot that was granted as its own, until others want it back. */
  #holdSlot(): void {
    this.#slot = this.#holderOf(1)
    this.#context.slots.enrol(this.#slot)
  }

  #releaseSlot(): void {
    if (this.#slot === null) return
    this.#context.slots.dismiss(this.#slot)
    this.#slot = null
    this.#context.slots.refund(1, this.workspace)
  }

  /** Stands for what the body holds beside memory: `units` that come free some time after it was given up. */
  #holderOf(units: number): MemoryHolder {
    return {
      workspace: this.workspace,
      pace: () => this.#measured(),
      end: () => {
        this.#refuse(overloaded('too slow to be uploaded', SLOW_RETRY_MS))
        return units
      },
    }
  }

  /** Where it is written to when it is not held. */
  get #written(): Objects {
    const { objects } = this.#context
    return this.#options.sealed === true ? objects.sealing : objects
  }

  /** Hands what is held, and all that comes, to one streamed upload. The caller has a slot for it. */
  #moveToStore(): void {
    const { budget, blocks, timing, now } = this.#context
    this.#growing?.moves()
    const queue = new ChunkQueue(budget, blocks, this.workspace)
    queue.adopt(this.#held)
    const put = new StreamedPut({
      objects: this.#written,
      queue,
      now,
      key: this.#key,
      length: this.#options.contentLength!,
      stallMs: timing.stallMs,
      onReady: () => this.onReady(),
      onFailure: (error) => this.#fail(error),
    })
    void put.settled.then(() => this.#releaseSlot())
    this.#put = put
    this.#speed.reset()
    this.#rate = null
  }

  #openParts(): PartedBody {
    const { budget, partMemory, timing } = this.#context
    return new PartedBody({
      objects: this.#written,
      budget,
      partMemory,
      key: this.#key,
      workspace: this.workspace,
      held: this.#held,
      signal: this.#controller.signal,
      memoryWaitMs: timing.partMemoryWaitMs,
      partMs: timing.partMs,
      holderOf: (units) => this.#holderOf(units),
      acquireSlot: () => this.#acquireSlot(this.#controller.signal),
      onReady: () => this.onReady(),
      onFailure: (error) => this.#fail(error),
    })
  }

  #checkSlow(): void {
    const { contentLength } = this.#options
    if (this.#received === contentLength || contentLength! <= ALWAYS_HELD_BYTES) return
    if (this.#rate === null || this.#rate >= SLOW_BYTES_PER_SECOND) return
    const { budget, slots } = this.#context
    if (slots.tryReserve(1, this.workspace)) {
      this.#holdSlot()
      this.#context.count('demoted')
      this.#moveToStore()
    } else if (budget.waiting > 0) {
      // Given back at once, so that no more senders are refused than there are bytes wanted.
      this.#held.release()
      this.#fail(overloaded('too slow to be held, and no upload slot', SLOW_RETRY_MS))
    }
    // Else it stays where it is, in nobody's way, and is looked at again with the next tick.
  }

  #checkCrawl(nowMs: number): void {
    this.#uploadSpeed ??= new SpeedWindow(this.#context.timing.crawlWindowMs)
    const speed = this.#uploadSpeed.sample(nowMs, this.#received)
    const wanted = this.#context.slots.waiting > 0
    if (speed !== null && speed < CRAWL_BYTES_PER_SECOND && wanted)
      this.#refuse(new GatewayError('REQUEST_TIMEOUT'))
  }

  #refuse(error: GatewayError): void {
    this.#put?.cancel(error)
    this.#parts?.fail(error)
  }

  async #settle(): Promise<BodySource> {
    const sealed = this.#options.sealed === true ? ({ sealed: true } as const) : {}
    const object: BodySource = { kind: 'object', key: this.#key, ...sealed }
    if (this.#put !== null) {
      await this.#put.finish()
      return object
    }
    if (this.#parts !== null && (await this.#parts.finish())) {
      this.#releaseSlot()
      return object
    }
    this.#held.dropCredit()
    return { kind: 'memory', blocks: this.#held.blocks }
  }

  #body(source: BodySource): StoredBody {
    let released = false
    const release = () => {
      if (released) return
      released = true
      this.#growing?.close()
      if (source.kind === 'object') this.#context.remove(source.key)
      else if (this.#context.holds === undefined) this.#held.release()
      else this.#context.holds.free(source, () => this.#held.release())
    }
    this.#context.holds?.admit(source)
    return { source, length: this.#received, release }
  }
  #isDropped(): boolean {
    return this.#state === 'dropped'
  }

  #throwIfDropped(): void {
    if (this.#isDropped()) throw this.#failure ?? new GatewayError('CLIENT_CLOSED')
  }

  /** The body cannot be stored any more. Its owner hears of it while the sender still sends. */
  #fail(error: Error): void {
    if (this.#failure !== null || this.#isDropped()) return
    this.#failure = error
    this.#context.count(error instanceof GatewayError && error.code === 'OVERLOADED' ? 'refused' : 'failed')
    void this.abort()
    this.onFailure(error)
    // Bytes that arrive from now on are dropped, so no sender needs to wait.
    this.onReady()
  }

  async #drop(): Promise<void> {
    this.#growing?.fail(this.#failure ?? new GatewayError('CLIENT_CLOSED'))
    this.#controller.abort(new GatewayError('CLIENT_CLOSED'))
    try {
      await this.#put?.abort()
      await this.#parts?.abort()
    } catch {
      // The store is away; if it holds an object all the same, this or the sweeper deletes it.
      this.#context.remove(this.#key)
    }
    this.#held.release()
    this.#releaseSlot()
    this.#context.leave(this)
  }
}
