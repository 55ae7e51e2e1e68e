import { randomBytes } from 'node:crypto'
import { GatewayError } from '../errors.ts'
import type { BodySource, StoredBody } from '../schema/audio.ts'
import type { Objects } from '../schema/objects.ts'
import type { BodyWriter, SpoolOptions } from '../schema/spool.ts'
import type { BlockPool } from './blocks.ts'
import type { WaitingBudget } from './budget.ts'
import { ChunkQueue } from './chunk-queue.ts'
import { overloaded, unavailable } from './failure.ts'
import { HeldBody, missingBytes } from './held-body.ts'
import { keySegment } from './key.ts'
import { SpeedWindow } from './pace.ts'
import { PartedBody } from './part-upload.ts'
import {
  ALWAYS_HELD_BYTES,
  CRAWL_BYTES_PER_SECOND,
  SLOW_BYTES_PER_SECOND,
  type SpoolTiming,
} from './spool-options.ts'
import { StreamedPut } from './streamed-put.ts'

/** What the writers of one spool share. */
export interface BodyContext {
  readonly budget: WaitingBudget
  readonly blocks: BlockPool
  readonly objects: Objects
  /** Upload slots, counted in ones. */
  readonly slots: WaitingBudget
  readonly partMemory: WaitingBudget
  readonly timing: SpoolTiming
  readonly now: () => number
  count(event: 'held' | 'stored' | 'demoted' | 'refused' | 'failed'): void
  /** From now on `tick` is to be called. */
  enter(writer: StoredBodyWriter): void
  leave(writer: StoredBodyWriter): void
  /** Deletes an object in the background. */
  remove(key: string): void
}

/** `finished` and `dropped` are final. */
type State = 'new' | 'starting' | 'arriving' | 'finishing' | 'finished' | 'dropped'

const noop = () => {}

/** The writer of one body: picks where it goes, moves it when its sender is slow, cleans up whatever happens. */
export class StoredBodyWriter implements BodyWriter {
  onReady: () => void = noop
  onFailure: (error: Error) => void = noop
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
  #hasSlot = false
  #speed: SpeedWindow
  #failure: Error | null = null
  #cleanup: Promise<void> | null = null

  constructor(context: BodyContext, options: SpoolOptions) {
    this.#context = context
    this.#options = options
    // Callers choose request ids and repeat them, so the last segment alone makes the key unique.
    const attempt = randomBytes(8).toString('hex')
    this.#key = `spool/${keySegment(options.workspace)}/${keySegment(options.id)}/${attempt}`
    this.#held = new HeldBody(context.budget, context.blocks, options.app, options.contentLength)
    const { slowWindowMs, crawlWindowMs } = context.timing
    this.#speed = new SpeedWindow(options.contentLength === null ? crawlWindowMs : slowWindowMs)
  }

  get ready(): boolean {
    if (this.#state === 'new' || this.#state === 'starting') return false
    return this.#put?.ready ?? this.#parts?.ready ?? true
  }

  async start(): Promise<void> {
    const { budget, now, count } = this.#context
    if (this.#state !== 'new') throw new Error('spool: start is called once')
    this.#state = 'starting'
    try {
      if (budget.used > 2 * budget.limit) throw overloaded('over twice the memory budget')
      if (this.#options.contentLength === null) this.#parts = this.#openParts()
      else if (!(await this.#reserve(this.#options.contentLength))) await this.#openPut()
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
  }

  async finish(): Promise<StoredBody> {
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
    if (!this.ready) this.#speed.reset()
    else if (uploading) this.#checkCrawl(nowMs)
    else if (this.#parts === null) this.#checkSlow(nowMs)
    if (uploading && nowMs - this.#startedMs > this.#context.timing.uploadDeadlineMs) this.#refuseSlow()
  }

  /** True when the body of `length` bytes may stay in memory. */
  async #reserve(length: number): Promise<boolean> {
    const { budget, timing } = this.#context
    const missing = missingBytes(length, this.#held)
    if (missing === 0) return true
    if (budget.used > budget.limit) return false
    const { app } = this.#options
    const signal = this.#controller.signal
    const granted = await budget.reserve(missing, { app, waitMs: timing.memoryWaitMs, signal })
    if (granted && this.#isDropped()) budget.refund(missing, app)
    else if (granted) this.#held.addCredit(missing)
    return granted
  }

  async #acquireSlot(): Promise<boolean> {
    const { slots, timing } = this.#context
    const { app } = this.#options
    const signal = this.#controller.signal
    const granted = await slots.reserve(1, { app, waitMs: timing.slotWaitMs, signal })
    this.#hasSlot = granted
    if (granted && this.#isDropped()) this.#releaseSlot()
    return granted
  }

  #releaseSlot(): void {
    if (!this.#hasSlot) return
    this.#hasSlot = false
    this.#context.slots.refund(1, this.#options.app)
  }

  async #openPut(): Promise<void> {
    this.#throwIfDropped()
    if (!(await this.#acquireSlot())) throw overloaded('no upload slot')
    this.#throwIfDropped()
    this.#put = this.#stream()
    this.#speed = new SpeedWindow(this.#context.timing.crawlWindowMs)
  }

  /** Hands what is held, and all that comes, to one streamed upload. The caller has a slot for it. */
  #stream(): StreamedPut {
    const { budget, blocks, objects, timing, now } = this.#context
    const queue = new ChunkQueue(budget, blocks, this.#options.app)
    queue.adopt(this.#held)
    const put = new StreamedPut({
      objects,
      queue,
      now,
      key: this.#key,
      length: this.#options.contentLength!,
      stallMs: timing.stallMs,
      onReady: () => this.onReady(),
      onFailure: (error) => this.#fail(error),
    })
    void put.settled.then(() => this.#releaseSlot())
    return put
  }

  #openParts(): PartedBody {
    const { budget, objects, partMemory, timing } = this.#context
    return new PartedBody({
      objects,
      budget,
      partMemory,
      key: this.#key,
      app: this.#options.app,
      held: this.#held,
      signal: this.#controller.signal,
      memoryWaitMs: timing.partMemoryWaitMs,
      partMs: timing.partMs,
      acquireSlot: () => this.#acquireSlot(),
      onReady: () => this.onReady(),
      onFailure: (error) => this.#fail(error),
    })
  }

  #checkSlow(nowMs: number): void {
    const { contentLength, app } = this.#options
    if (this.#received === contentLength || contentLength! <= ALWAYS_HELD_BYTES) return
    const speed = this.#speed.sample(nowMs, this.#received)
    if (speed === null || speed >= SLOW_BYTES_PER_SECOND) return
    // Without a free slot it stays where it is, and is looked at again with the next tick.
    if (!this.#context.slots.tryReserve(1, app)) return
    this.#hasSlot = true
    this.#context.count('demoted')
    this.#put = this.#stream()
    this.#speed = new SpeedWindow(this.#context.timing.crawlWindowMs)
  }

  #checkCrawl(nowMs: number): void {
    const speed = this.#speed.sample(nowMs, this.#received)
    const wanted = this.#context.slots.waiting > 0
    if (speed !== null && speed < CRAWL_BYTES_PER_SECOND && wanted) this.#refuseSlow()
  }

  #refuseSlow(): void {
    const error = new GatewayError('REQUEST_TIMEOUT')
    this.#put?.cancel(error)
    this.#parts?.fail(error)
  }

  async #settle(): Promise<BodySource> {
    const object: BodySource = { kind: 'object', key: this.#key }
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
      if (source.kind === 'memory') this.#held.release()
      else this.#context.remove(source.key)
    }
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
    // What comes now is dropped, so nobody needs to wait.
    this.onReady()
  }

  async #drop(): Promise<void> {
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
