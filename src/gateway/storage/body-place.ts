import type { BodySource } from '../../contracts/audio.ts'
import type { HolderPace, MemoryHolder } from '../../contracts/budget.ts'
import type { Objects } from '../../contracts/objects.ts'
import type { SpoolOptions } from '../../contracts/spool.ts'
import { within } from '../../contracts/time.ts'
import { overloaded } from './failure.ts'
import { ChunkQueue, HeldBody, missingBytes } from './held-body.ts'
import { keySegment, randomName } from './key.ts'
import { PartedBody } from './part-upload.ts'
import { ALWAYS_HELD_BYTES, type BodyContext, SLOW_RETRY_MS } from './spool-context.ts'
import { StreamedPut } from './streamed-put.ts'
import { WrittenTally } from './written.ts'

/** The writer of the body. */
interface PlaceOwner {
  /** Aborts when the body is dropped. */
  readonly signal: AbortSignal
  /** How fast the sender is; null: it cannot be told. */
  pace(): HolderPace | null
  /** The held bytes are about to go to the store, and with them all that come. */
  moving(): void
  ready(): void
  failed(error: Error): void
}

/** Where one body is: in memory, or on its way to the store. Waits for room in either. */
export class BodyPlace {
  readonly held: HeldBody
  readonly #context: BodyContext
  readonly #options: SpoolOptions
  readonly #owner: PlaceOwner
  readonly #key: string
  readonly #tally: WrittenTally | null
  /** The holder of the upload permit, from whom others may take it back; null: it has none. */
  #permit: MemoryHolder | null = null
  /** Takes the bytes to the store; null: they are held. */
  #target: StreamedPut | PartedBody | null = null

  constructor(context: BodyContext, options: SpoolOptions, owner: PlaceOwner) {
    const { kind = 'spool', workspace, id, name = '', contentLength } = options
    // Callers choose request ids and may repeat them: only the last segment makes the key unique.
    // Both rest in the store for hours or days. Others are read at once, and comparing them would cost a quarter.
    this.#tally = kind === 'job' || kind === 'upload' ? new WrittenTally() : null
    this.#key = `${kind}/${keySegment(workspace)}/${keySegment(id)}/${name}${randomName()}`
    this.#context = context
    this.#options = options
    this.#owner = owner
    this.held = new HeldBody(context.budget, context.blocks, workspace, contentLength)
  }

  get ready(): boolean {
    return this.#target?.ready ?? true
  }

  /** All that came is in memory, and stays there for now. */
  get isHeld(): boolean {
    return this.#target === null
  }

  /** Next to nothing of it is in memory. */
  get isStreamed(): boolean {
    return this.#target instanceof StreamedPut
  }

  get isUploading(): boolean {
    return this.#target?.isUploading === true
  }

  write(chunk: Uint8Array): void {
    if (this.#target === null) this.held.append(chunk)
    else this.#target.write(chunk)
  }

  /** Gives up on a store that takes nothing. */
  tick(nowMs: number): void {
    this.#target?.tick(nowMs)
  }

  cancel(error: Error): void {
    this.#target?.cancel(error)
  }

  /**
   * Keeps a body of known length in memory if there is some in time, else opens its upload.
   *
   * @param received bytes of the body so far
   * @throws GatewayError OVERLOADED
   */
  async find(length: number, received: () => number): Promise<void> {
    if (this.#tryMemory(length)) return
    const { budget, timing, clock } = this.#context
    // An overdrawn budget is nothing to wait for while there are permits.
    if (budget.used > budget.limit && this.tryMove()) return
    const turns = { memory: new AbortController(), permit: new AbortController() }
    const memory = this.#reserve(length, timing.memoryWaitMs + timing.permitWaitMs, turns.memory.signal)
    const isHeldSoon = await within(timing.memoryWaitMs, memory, clock).catch(() => false)
    if (!isHeldSoon && missingBytes(length, this.held) === 0 && budget.used <= budget.limit) {
      // All of it came meanwhile, has been charged by force, and there is room: to send it away would help no one.
      turns.memory.abort()
      return
    }
    // A sender who has not brought that much meanwhile would lose the memory again, and others wait for it.
    const isSlow = received() < Math.min(length, ALWAYS_HELD_BYTES)
    if (isSlow) turns.memory.abort()
    // All others keep their turn: when slow senders have all permits, memory comes free first.
    const upload = isHeldSoon ? Promise.resolve(false) : this.#waitForPermit(turns.permit.signal)
    await Promise.race([
      upload.then((granted) => granted || memory),
      memory.then((granted) => granted || upload),
    ])
    for (const turn of Object.values(turns)) turn.abort()
    const [isHeld] = await Promise.all([memory, upload])
    if (isHeld) this.#releasePermit()
    if (this.#owner.signal.aborted) return
    if (this.#permit !== null) this.#moveToStore()
    else if (!isHeld) throw overloaded('no memory, no upload permit', isSlow ? SLOW_RETRY_MS : undefined)
  }

  /** Opens the upload of a body of known length, which is to be in the store. @throws GatewayError OVERLOADED */
  async findInStore(): Promise<void> {
    if (this.#options.contentLength === null) throw new Error('spool: the store is told the length first')
    if (!(await this.#waitForPermit())) throw overloaded('no upload permit')
    if (!this.#owner.signal.aborted) this.#moveToStore()
  }

  /** Moves a held body to the store if a permit is free and it is its turn. */
  tryMove(): boolean {
    if (!this.#context.permits.tryReserve(1, this.#options.workspace)) return false
    this.#holdPermit()
    this.#moveToStore()
    return true
  }

  /** Takes in a body of unknown length. */
  openParts(): void {
    const { budget, partMemory, timing, clock } = this.#context
    const { workspace } = this.#options
    this.#target = new PartedBody({
      objects: this.#written,
      budget,
      partMemory,
      key: this.#key,
      tally: this.#tally,
      workspace,
      held: this.held,
      signal: this.#owner.signal,
      clock,
      memoryWaitMs: timing.partMemoryWaitMs,
      partMs: timing.partMs,
      holderOf: (units) => this.#holderOf(units),
      acquirePermit: () => this.#waitForPermit(),
      onReady: () => this.#owner.ready(),
      onFailure: (error) => this.#owner.failed(error),
    })
  }

  /** All of the body is here. @returns where it is at rest */
  async settle(): Promise<BodySource> {
    const sealed = this.#options.sealed === true ? ({ sealed: true } as const) : {}
    if (this.#target !== null && (await this.#target.finish())) {
      this.#releasePermit()
      const written = this.#tally === null ? {} : { written: this.#tally.written }
      return { kind: 'object', key: this.#key, ...sealed, ...written }
    }
    this.held.dropCredit()
    return { kind: 'memory', blocks: this.held.blocks }
  }

  /** Leaves nothing of the body anywhere. */
  async drop(): Promise<void> {
    try {
      await this.#target?.abort()
    } catch {
      // The store is away; if it holds an object all the same, this or the sweeper deletes it.
      this.#context.remove(this.#key)
    }
    this.held.release()
    this.#releasePermit()
  }

  /** The store to write to. */
  get #written(): Objects {
    const { objects } = this.#context
    return this.#options.sealed === true ? objects.sealing : objects
  }

  /** Hands the held bytes, and all that come, to one streamed upload. It has a permit for it. */
  #moveToStore(): void {
    const { budget, blocks, timing, clock } = this.#context
    const { workspace, contentLength } = this.#options
    this.#owner.moving()
    const queue = new ChunkQueue(budget, blocks, workspace)
    queue.adopt(this.held)
    const put = new StreamedPut({
      objects: this.#written,
      queue,
      clock,
      key: this.#key,
      tally: this.#tally,
      length: contentLength!,
      stallMs: timing.stallMs,
      onReady: () => this.#owner.ready(),
      onFailure: (error) => this.#owner.failed(error),
    })
    void put.settled.then(() => this.#releasePermit())
    this.#target = put
  }

  async #waitForPermit(turn?: AbortSignal): Promise<boolean> {
    const { permits, timing } = this.#context
    const { workspace } = this.#options
    const signal = this.#until(turn)
    const isGranted = await permits.reserve(1, { workspace, waitMs: timing.permitWaitMs, signal })
    if (isGranted) this.#holdPermit()
    if (isGranted && this.#owner.signal.aborted) this.#releasePermit()
    return isGranted
  }

  #holdPermit(): void {
    this.#permit = this.#holderOf(1)
    this.#context.permits.enrol(this.#permit)
  }

  #releasePermit(): void {
    if (this.#permit === null) return
    this.#context.permits.dismiss(this.#permit)
    this.#permit = null
    this.#context.permits.refund(1, this.#options.workspace)
  }

  /** The holder of `units` beside memory, which come free some time after it was ended. */
  #holderOf(units: number): MemoryHolder {
    return {
      workspace: this.#options.workspace,
      pace: () => this.#owner.pace(),
      end: () => {
        this.cancel(overloaded('too slow to be uploaded', SLOW_RETRY_MS))
        return units
      },
    }
  }

  /** Takes memory for the body if it is its turn; at once, because a chunk that has none takes its own. */
  #tryMemory(length: number): boolean {
    const missing = missingBytes(length, this.held)
    if (missing > 0 && !this.#context.budget.tryReserve(missing, this.#options.workspace)) return false
    this.held.addCredit(missing)
    return true
  }

  async #reserve(length: number, waitMs: number, turn: AbortSignal): Promise<boolean> {
    const { budget } = this.#context
    const { workspace } = this.#options
    const signal = this.#until(turn)
    const missing = missingBytes(length, this.held)
    const heldBytes = () => this.held.charged
    if (!(await budget.reserve(missing, { workspace, waitMs, signal, heldBytes }))) return false
    // Bytes written in the meantime have been charged already.
    const credit = this.#owner.signal.aborted ? 0 : missingBytes(length, this.held)
    this.held.addCredit(credit)
    budget.refund(missing - credit, workspace)
    return true
  }

  #until(turn: AbortSignal | undefined): AbortSignal {
    const { signal } = this.#owner
    return turn === undefined ? signal : AbortSignal.any([signal, turn])
  }
}
