import { GatewayError } from '../../contracts/errors.ts'
import type { SpanFacts } from '../../contracts/tracing.ts'
import type { LiveWatch, SwitchReason } from '../../contracts/watch.ts'
import type { Candidate } from '../call/select/selection.ts'
import type { LiveConnection } from './connection.ts'
import type { LiveRequest } from './dependencies.ts'
import type { LiveFeed } from './feed.ts'
import type { Heard, SessionMessages } from './session-messages.ts'
import { seconds } from './transcript.ts'

/** Changes of the provider within a session; more of them would lead nowhere. */
const SWITCHES_MAX = 100

/** Seconds of audio that a change of provider sends again, and that no one can send any more. */
interface Moved {
  readonly replayed: number
  readonly lost: number
}

/** The entries that a session's audio went to, one after the other, and what each change of them cost. */
export class Handovers {
  readonly #request: LiveRequest
  readonly #feed: LiveFeed
  readonly #messages: SessionMessages
  readonly #watch: LiveWatch | undefined
  /** The entry that audio was last sent to; null: none yet. */
  last: Candidate | null = null
  /** The same of entries for live audio. */
  lastLive: Candidate | null = null
  switches = 0
  replayedSeconds = 0
  #countedLost = 0
  /** Seconds that pieces will repeat of what a connection was sent; null: the caller was told. */
  #untoldReplay: number | null = null

  constructor(request: LiveRequest, feed: LiveFeed, messages: SessionMessages, watch: LiveWatch | undefined) {
    this.#request = request
    this.#feed = feed
    this.#messages = messages
    this.#watch = watch
  }

  /** A connection is left. @throws GatewayError when the session has changed its provider too often */
  leave({ candidate }: LiveConnection, reason: SwitchReason): void {
    this.switches += 1
    this.#watch?.switched(candidate.entry, reason)
    if (this.switches > SWITCHES_MAX) throw new GatewayError('UPSTREAM_ERROR')
  }

  /** A connection takes audio: from the first byte that is not settled and still here. */
  toConnection(connection: LiveConnection): void {
    const { candidate } = connection
    this.#request.context.trace?.event('live.connected', spanEntry(candidate))
    this.#watch?.connected(candidate.entry, connection.connectSeconds)
    const moved = this.#feed.begin(connection)
    this.countLost(connection)
    const announced = this.#announced
    if (this.last !== null || announced.entry !== candidate.entry) this.#tell(announced, connection, moved)
    this.last = candidate
    this.lastLive = candidate
  }

  /** The next pieces repeat what is not settled. */
  toPieces(): void {
    this.#untoldReplay = this.#feed.unsettledSeconds
  }

  /** An entry has heard a piece. */
  toPiece(from: Pick<LiveConnection, 'candidate' | 'base' | 'warnings'>): void {
    const { candidate } = from
    const announced = this.#announced
    if (announced.entry !== candidate.entry || this.#untoldReplay !== null) {
      const lost = this.#feed.lostSeconds - this.#countedLost
      this.#tell(announced, from, { replayed: this.#untoldReplay ?? 0, lost })
    }
    this.#untoldReplay = null
    this.countLost(from)
    this.last = candidate
  }

  countLost({ candidate }: Pick<Heard, 'candidate'>): void {
    const lost = this.#feed.lostSeconds - this.#countedLost
    if (lost <= 0) return
    this.#countedLost += lost
    this.#watch?.lost(candidate.entry, lost)
  }

  /** The entry that the caller takes for the one that transcribes: `ready` names the first of the selection. */
  get #announced(): Candidate {
    return this.last ?? this.#request.selection.candidates[0]!
  }

  #tell(
    from: Candidate,
    to: Pick<LiveConnection, 'candidate' | 'base' | 'warnings'>,
    { replayed, lost }: Moved,
  ): void {
    const { candidate } = to
    this.replayedSeconds += replayed
    this.#watch?.replayed(candidate.entry, replayed)
    const moved = {
      'larkway.live.replayed_seconds': seconds(replayed),
      'larkway.live.lost_seconds': seconds(lost),
    }
    this.#request.context.trace?.event('live.switched', { ...spanEntry(candidate), ...moved })
    this.#messages.switched(from, to, { replayed, lost })
  }
}

function spanEntry({ entry }: Candidate): SpanFacts {
  return { 'larkway.provider': entry.provider.name, 'gen_ai.request.model': entry.model }
}
