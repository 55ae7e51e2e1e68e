import type { CancelSignal } from '../../contracts/cancellation.ts'
import { GatewayError, toGatewayError } from '../../contracts/errors.ts'
import type { LiveEntry, LiveEvent } from '../../contracts/live.ts'
import type { Failure } from '../../contracts/upstream.ts'
import type { SwitchReason } from '../../contracts/watch.ts'
import { isUpstream } from '../call/context/upstream-errors.ts'
import { type Candidate, type Selection, without } from '../call/select/selection.ts'
import { BatchPieces, type HeardPiece, type PieceListener } from './batch-pieces.ts'
import { type ConnectionListener, ENDED_EARLY, type LiveConnection } from './connection.ts'
import type { LiveDependencies, LiveRequest } from './dependencies.ts'
import type { Finalized, LiveFeed } from './feed.ts'
import { Handovers } from './handovers.ts'
import { connectToOne, LiveStage, selectionAfter } from './live-stage.ts'
import { addSpent, type SessionMoney, type Spent } from './money.ts'
import { entryOf, type SessionMessages } from './session-messages.ts'

/** Pause until live entries are tried again while files are transcribed; each one is twice as long, up to a limit. */
const LIVE_AGAIN_MS = 10_000
const LIVE_AGAIN_MAX_MS = 600_000
const IN_PIECES = 'live: no entry for live audio is left; text comes in pieces, without partials'

type Stage = LiveStage | { readonly name: Exclude<StageName, 'live'> }

/**
 * How a session has its audio transcribed, and where it may go from there; from everywhere it may be `over`. A caller
 * that has sent all causes no stage of its own: the present one continues until its provider has said the rest.
 */
const NEXT = {
  /** Its money is being reserved. */
  starting: ['connecting'],
  /** Entries are asked for a connection, one after the other. None takes it: `pausing`, if its route allows pieces. */
  connecting: ['live', 'pausing'],
  /** A connection takes audio. It fails, or is to be changed for another before its provider ends it: `switching`. */
  live: ['switching'],
  /** Another entry has to be paid. None is left: `pausing`. */
  switching: ['connecting', 'pausing'],
  /** The money of connections is settled: pieces have their own. */
  pausing: ['pieces'],
  /** Entries for files are given pieces of the audio. After a while live ones are asked again: `switching`. */
  pieces: ['switching'],
  over: [],
} as const
const BETWEEN: ReadonlySet<string> = new Set(['connecting', 'switching', 'pausing'])

type StageName = keyof typeof NEXT

export interface StageHost {
  /** No stage can go on, or all is transcribed: the session ends. @param error null: all is transcribed */
  finish(error: GatewayError | null): void
  /** More is to be sent in a moment. */
  hurry(): void
}

interface StagesDependencies {
  readonly deps: LiveDependencies
  readonly request: LiveRequest
  readonly money: SessionMoney
  readonly feed: LiveFeed
  readonly messages: SessionMessages
  /** Aborts what is under way when the session ends. */
  readonly signal: CancelSignal
  readonly host: StageHost
}

/**
 * The stages of a live transcription. Audio that is not settled is kept, so that another entry continues where one that
 * dies has ended: the session loses no word as long as the ring reaches that far.
 */
export class LiveStages implements ConnectionListener, PieceListener {
  readonly handovers: Handovers
  readonly #of: StagesDependencies
  readonly #retry = new LiveRetry()
  #selection: Selection
  #stage: Stage = { name: 'starting' }
  /** Null: no live entry was missing yet. */
  #pieces: BatchPieces | null = null

  constructor(deps: StagesDependencies) {
    const { request, feed, messages } = deps
    this.#of = deps
    this.#selection = request.selection
    this.handovers = new Handovers(request, feed, messages, deps.deps.watch)
  }

  get isOver(): boolean {
    return this.#stage.name === 'over'
  }

  /** No provider takes audio: what comes waits, and that is no haste of the caller's. */
  get isBetween(): boolean {
    return BETWEEN.has(this.#stage.name)
  }

  /** The entries that may transcribe, as far as they are paid. */
  get selection(): Selection {
    return this.#selection
  }

  /** Entries for files have stood in, or do so now. */
  get pieces(): BatchPieces | null {
    return this.#pieces
  }

  /** Seconds of audio that came and were sent to no provider yet. */
  get unsentSeconds(): number {
    const unsent = this.#of.feed.unsentSeconds(this.#live?.connection ?? null)
    // A piece waits until it is whole.
    return this.#stage.name === 'pieces' ? Math.max(0, unsent - (this.#pieces?.pieceSeconds ?? 0)) : unsent
  }

  /** The entry that transcribes now; null: none does. */
  get entry(): LiveEntry | null {
    const pieces = this.#stage.name === 'pieces' ? this.handovers.last : null
    const candidate = pieces ?? this.#live?.connection.candidate ?? null
    return candidate === null ? null : entryOf(candidate)
  }

  /** Cost of the connections and of the pieces. */
  get spent(): Spent {
    const spent = this.#of.money.spent()
    return this.#pieces === null ? spent : addSpent(spent, this.#pieces.spent)
  }

  get #live(): LiveStage | null {
    return this.#stage.name === 'live' ? this.#stage : null
  }

  #enter(stage: Stage): void {
    const { name } = this.#stage
    if (!(NEXT[name] as readonly StageName[]).includes(stage.name))
      throw new Error(`a live session cannot go from ${name} to ${stage.name}`)
    this.#stage = stage
  }

  /** Reserves its first money. @throws GatewayError as `reserve` */
  async reserve(): Promise<void> {
    this.#selection = await this.#of.money.begin(this.#selection)
  }

  async start(): Promise<void> {
    await this.#connect().catch((thrown) => this.#withoutLive(thrown))
  }

  /** Leaves the connection, for good. @param why the caller is told an error; null: all is transcribed */
  close(why: 'the session ended' | 'the caller left' | null): void {
    const live = this.#live
    this.#stage = { name: 'over' }
    if (live === null) return
    this.#countTime(live)
    live.close(why)
  }

  /** Sends what may be sent now. */
  pump(nowMs: number): void {
    if (this.isOver) return
    const live = this.#live
    if (live === null) return void this.#pumpPieces(nowMs)
    const { connection } = live
    const { feed, money, messages, request, host } = this.#of
    const dead = connection.deathOf(nowMs, feed.soundSentMs)
    if (dead !== null) return void connection.fail(dead)
    const isMore = feed.send(connection, money, nowMs, messages.finalized)
    this.handovers.countLost(connection)
    if (isMore) host.hurry()
    request.held?.()
  }

  /** @returns whether the connection that took audio still does */
  tick(nowMs: number): boolean {
    const live = this.#live
    if (live === null) {
      this.#pumpPieces(nowMs)
      return false
    }
    this.#countTime(live, nowMs)
    live.connection.keepAlive(nowMs)
    this.pump(nowMs)
    if (this.#stage !== live) return false
    if (live.mustRotate(nowMs)) this.#rotate(live)
    return true
  }

  onEvent(event: LiveEvent, connection: LiveConnection): void {
    const live = this.#live
    if (live?.connection !== connection) return
    passOn(event, connection, this.#of)
    if (event.kind === 'utterance_end' && live.isRotating) this.#rotate(live)
    else if (event.kind === 'leaving') live.rotateSoon(this.#nowMs())
    else if (event.kind === 'ended') this.#ended(connection)
  }

  onFailed(failure: Failure, connection: LiveConnection): void {
    const live = this.#live
    if (live?.connection !== connection) return
    live.failed(failure)
    this.#countTime(live)
    void this.#switch(connection, failure.kind)
  }

  /** The provider has said all. */
  #ended(connection: LiveConnection): void {
    const { feed, messages, host } = this.#of
    // A close without a failure before the audio is over, or before it was asked for, is one.
    if (!connection.isEnding || feed.endedMs === null) return void connection.fail(ENDED_EARLY)
    for (const finalized of feed.ended(connection)) messages.finalized(finalized)
    host.finish(null)
  }

  #countTime(live: LiveStage, nowMs = this.#nowMs()): void {
    live.countTime(nowMs, this.#of.money, this.#of.deps.watch)
  }

  /** Changes the connection for another before its provider ends it; what is not settled is sent again. */
  #rotate(live: LiveStage): void {
    if (this.#of.feed.endedMs !== null) return
    this.#countTime(live)
    live.close(null)
    void this.#switch(live.connection, 'rotation')
  }

  /** Continues at another entry, or at the same one if it had worked; in a rotation at the same one first. */
  async #switch(from: LiveConnection, reason: SwitchReason): Promise<void> {
    try {
      this.#enter({ name: 'switching' })
      if (from.hasWorked) this.#retry.reset()
      this.handovers.leave(from, reason)
      this.#of.messages.connectionChanged()
      const selection = selectionAfter(from, reason === 'rotation', this.#of)
      if (selection === null) throw new GatewayError('UPSTREAM_ERROR', 'every eligible entry failed')
      await this.#goLive(selection)
    } catch (thrown) {
      this.#withoutLive(thrown)
    }
  }

  async #goLive(selection: Selection): Promise<void> {
    this.#selection = await this.#of.money.change(selection)
    await this.#connect()
  }

  async #connect(): Promise<void> {
    this.#of.signal.throwIfAborted()
    this.#enter({ name: 'connecting' })
    const opened = await connectToOne(this.#of, this.#selection, this)
    this.#of.request.context.money.estimate = null
    const live = new LiveStage(opened, this.#nowMs())
    if (this.isOver) return live.close('the session ended')
    opened.recorder.answered()
    this.#enter(live)
    this.#of.money.payTo(live.connection.candidate.entry)
    this.handovers.toConnection(live.connection)
    live.connection.listen()
    this.pump(this.#nowMs())
  }

  /** No live entry is left: where its route allows it, entries for files continue the session in pieces. */
  #withoutLive(thrown: unknown): void {
    if (this.isOver) return
    const { deps, request, feed, host } = this.#of
    const error = toGatewayError(thrown)
    // One provider's refusal of the request would be another's, too.
    const isCurable = isUpstream(error) && error.code !== 'UPSTREAM_REJECTED'
    if (isCurable) this.#pieces ??= BatchPieces.begin(deps.services, request, feed, this)
    if (!isCurable || this.#pieces === null) return void host.finish(error)
    this.handovers.toPieces()
    this.#goInPieces()
  }

  #goInPieces(): void {
    if (this.isOver) return
    this.#enter({ name: 'pausing' })
    void this.#of.money.pause().then(() => {
      if (this.isOver) return
      const nowMs = this.#nowMs()
      this.#retry.begin(nowMs)
      this.#enter({ name: 'pieces' })
      this.#pumpPieces(nowMs)
    })
  }

  #pumpPieces(nowMs: number): void {
    const pieces = this.#pieces
    if (this.#stage.name !== 'pieces' || pieces === null || pieces.isBusy) return
    if (this.#of.feed.isDone) return void this.#of.host.finish(null)
    if (this.#tryLive(nowMs)) return
    pieces.pump(nowMs)
    this.#of.request.held?.()
  }

  /** Connects to a live entry again, when it is time to and the health of one allows it. */
  #tryLive(nowMs: number): boolean {
    if (this.#of.feed.endedMs !== null || !this.#retry.isDue(nowMs)) return false
    const selection = healthyOf(this.#of, nowMs)
    if (selection === null) return false
    this.#enter({ name: 'switching' })
    this.#of.messages.connectionChanged()
    void this.#goLive(selection).catch(() => this.#goInPieces())
    return true
  }

  onPiece(piece: HeardPiece): void {
    tellPiece(piece, this.#of.messages, this.handovers)
    this.onFinalized(piece.finalized)
  }

  onFinalized(finalized: readonly Finalized[]): void {
    for (const one of finalized) this.#of.messages.finalized(one)
    this.#pumpPieces(this.#nowMs())
  }

  onPieceFailed(error: GatewayError): void {
    this.#of.host.finish(error)
  }

  #nowMs(): number {
    return this.#of.deps.services.clock.now()
  }
}

/** Tells the caller of an event, and notes how far the audio is settled. */
function passOn(
  event: LiveEvent,
  connection: LiveConnection,
  { feed, messages }: Pick<StagesDependencies, 'feed' | 'messages'>,
): void {
  switch (event.kind) {
    case 'partial':
      return void messages.partial(event, connection)
    case 'final':
      return void messages.final(event, connection)
    case 'settled':
      return void feed.settle(connection, event.seconds)
    case 'finalized':
      return void messages.finalized(feed.finalized(connection))
    case 'speech_started':
    case 'utterance_end':
      return void messages.moment(event, connection)
    default:
    // A provider's warning is for our log alone, where it has been.
  }
}

/** Tells the caller of a piece, but for the ends that it settles. */
function tellPiece(
  { candidate, base, finals, warnings }: HeardPiece,
  messages: SessionMessages,
  handovers: Handovers,
): void {
  const from = { candidate, base, warnings: [IN_PIECES, ...warnings] }
  messages.connectionChanged()
  handovers.toPiece(from)
  for (const final of finals) messages.final(final, from)
}

/** The live entries that are not known to be ill; null: all are. */
function healthyOf({ deps, request }: StagesDependencies, nowMs: number): Selection | null {
  const { health } = deps.services
  const isIll = ({ entry }: Candidate) => (health.view(entry, nowMs).untilMs ?? 0) > nowMs
  return without(request.selection, isIll)
}

/** When live entries are asked again while files are transcribed. */
class LiveRetry {
  #atMs = 0
  #pauseMs = LIVE_AGAIN_MS

  /** A connection has worked: the next pause is short again. */
  reset(): void {
    this.#pauseMs = LIVE_AGAIN_MS
  }

  begin(nowMs: number): void {
    this.#atMs = nowMs + this.#pauseMs
    this.#pauseMs = Math.min(LIVE_AGAIN_MAX_MS, 2 * this.#pauseMs)
  }

  /** It is time to; true once in a pause. */
  isDue(nowMs: number): boolean {
    if (nowMs < this.#atMs) return false
    this.#atMs = nowMs + this.#pauseMs
    return true
  }
}
