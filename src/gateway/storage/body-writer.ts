import type { ArrivingBody, BodySource, StoredBody } from '../../contracts/audio.ts'
import type { HolderPace } from '../../contracts/budget.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { SpoolOptions } from '../../contracts/spool.ts'
import { BodyPlace } from './body-place.ts'
import { SLOW_BYTES_PER_SECOND } from './budget.ts'
import { overloaded, unavailable } from './failure.ts'
import { GrowingBody } from './growing-body.ts'
import type { HeldBody } from './held-body.ts'
import { SenderSpeed } from './sender-speed.ts'
import { ALWAYS_HELD_BYTES, type ArrivingWriter, type BodyContext, SLOW_RETRY_MS } from './spool-context.ts'

/** `finished` and `dropped` are final. */
type State = 'new' | 'starting' | 'arriving' | 'finishing' | 'finished' | 'dropped'

const noop = () => {}

/** The writer of one body: has it placed, moves it when its sender is slow, cleans up whatever happens. */
export class StoredBodyWriter implements ArrivingWriter {
  onReady: () => void = noop
  onFailure: (error: Error) => void = noop
  readonly #context: BodyContext
  readonly #options: SpoolOptions
  readonly #controller = new AbortController()
  readonly #place: BodyPlace
  readonly #speed: SenderSpeed
  #state: State = 'new'
  #received = 0
  #startedMs = 0
  /** Set while its reservation has been taken back and it looks for another place. */
  #moving: Promise<void> | null = null
  #failure: Error | null = null
  /** Reads the body while it comes; null: it is not read before its end. */
  #growing: GrowingBody | null = null
  #cleanup: Promise<void> | null = null

  constructor(context: BodyContext, options: SpoolOptions) {
    this.#context = context
    this.#options = options
    this.#place = new BodyPlace(context, options, {
      signal: this.#controller.signal,
      pace: () => this.#measured(),
      moving: () => {
        this.#growing?.moves()
        this.#speed.restart()
      },
      ready: () => this.onReady(),
      failed: (error) => this.#fail(error),
    })
    this.#speed = new SenderSpeed(context.timing)
  }

  get workspace(): string {
    return this.#options.workspace
  }

  get ready(): boolean {
    if (this.#state === 'new') return false
    // Enough comes while a body waits to tell a slow sender, and no more.
    if (this.#state === 'starting' || this.#moving !== null) return this.#received < ALWAYS_HELD_BYTES
    return this.#place.ready
  }

  async start(): Promise<void> {
    const { budget, clock, count } = this.#context
    if (this.#state !== 'new') throw new Error('spool: start is called once')
    this.#state = 'starting'
    try {
      // A workspace within its share is never refused for memory that another one can give back.
      const isOverdrawn = budget.used > 2 * budget.limit && !budget.tryReserve(0, this.workspace)
      if (isOverdrawn) throw overloaded('over twice the memory budget')
      const { contentLength, stored = false } = this.#options
      if (stored) await this.#place.findInStore()
      else if (contentLength === null) this.#place.openParts()
      else await this.#place.find(contentLength, () => this.#received)
      this.#throwIfDropped()
    } catch (error) {
      if (error instanceof GatewayError && error.code === 'OVERLOADED') count('refused')
      await this.abort()
      throw error
    }
    this.#startedMs = clock.now()
    this.#state = 'arriving'
    this.#context.enter(this)
    if (this.ready) this.onReady()
  }

  write(chunk: Uint8Array): void {
    if (this.#failure !== null || this.#state === 'dropped') return
    this.#received += chunk.length
    this.#place.write(chunk)
    this.#growing?.written(chunk, this.#received)
  }

  arriving(): ArrivingBody {
    if (this.#options.contentLength === null || this.#state !== 'new')
      throw new Error('spool: only a body of known length can be read from its beginning on')
    this.#growing ??= new GrowingBody({ ...this.#context, workspace: this.workspace, held: this.#held })
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
      const source = await this.#place.settle()
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
    const place = this.#place
    place.tick(nowMs)
    if (this.#state !== 'arriving') return
    const { isUploading } = place
    if (this.ready && this.#moving === null) {
      const sendingMs = this.#options.sendingMs?.() ?? nowMs
      this.#speed.sample(sendingMs, this.#received)
      if (isUploading) this.#checkCrawl(sendingMs)
      else if (place.isHeld) this.#checkSlow()
    } else this.#speed.reset()
    if (isUploading && nowMs - this.#startedMs > this.#context.timing.uploadDeadlineMs)
      place.cancel(new GatewayError('REQUEST_TIMEOUT'))
  }

  /** Null once the body goes to the store: next to nothing of it is in memory then. */
  pace(): HolderPace | null {
    return this.#place.isStreamed ? null : this.#measured()
  }

  /** Gives its reservation back and takes its turn for memory, or for an upload permit, once more. */
  shrink(): void {
    const isHeld = this.#state === 'arriving' && this.#place.isHeld
    if (!isHeld || this.#moving !== null || this.#failure !== null || this.#held.credit === 0) return
    this.#held.dropCredit()
    this.#speed.forgetRate()
    this.#moving = this.#moveOn(this.#options.contentLength!)
  }

  end(): number {
    this.#held.release()
    this.#fail(overloaded('too slow to be held', SLOW_RETRY_MS))
    return 0
  }

  get #held(): HeldBody {
    return this.#place.held
  }

  #measured(): HolderPace | null {
    const { rate } = this.#speed
    if (rate === null || this.#state !== 'arriving' || this.#failure !== null) return null
    const { contentLength } = this.#options
    const bytesLeft = contentLength === null ? Number.POSITIVE_INFINITY : contentLength - this.#received
    return { bytesPerSecond: rate, bytesLeft }
  }

  /** Looks for another place in a later turn: the memory that was given back is for its asker. */
  async #moveOn(length: number): Promise<void> {
    await Promise.resolve()
    try {
      await this.#place.find(length, () => this.#received)
      this.#throwIfDropped()
    } catch (error) {
      this.#fail(error as Error)
    }
    this.#moving = null
    if (this.ready) this.onReady()
  }

  #checkSlow(): void {
    const { contentLength } = this.#options
    if (this.#received === contentLength || contentLength! <= ALWAYS_HELD_BYTES) return
    const { rate } = this.#speed
    if (rate === null || rate >= SLOW_BYTES_PER_SECOND) return
    if (this.#place.tryMove()) this.#context.count('demoted')
    else if (this.#context.budget.waiting > 0) {
      // Given back at once, so that no more senders are refused than there are bytes wanted.
      this.#held.release()
      this.#fail(overloaded('too slow to be held, and no upload permit', SLOW_RETRY_MS))
    }
    // Else it stays where it is, in no one's way, and is looked at again with the next tick.
  }

  #checkCrawl(sendingMs: number): void {
    const crawls = this.#speed.crawls(sendingMs, this.#received)
    if (crawls && this.#context.permits.waiting > 0) this.#place.cancel(new GatewayError('REQUEST_TIMEOUT'))
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
    await this.#place.drop()
    this.#context.leave(this)
  }
}
