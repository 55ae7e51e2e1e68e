import type { Limits } from '../../contracts/limits.ts'
import type { LiveEntry, LiveEvent } from '../../contracts/live.ts'
import type { Clock } from '../../contracts/time.ts'
import type { LiveText, LiveWatch } from '../../contracts/watch.ts'
import { headOf } from '../call/attempt/outcome.ts'
import { transcriptEnvelope } from '../call/attempt/transcript.ts'
import { adapt } from '../call/select/eligibility.ts'
import type { Candidate, Selection } from '../call/select/selection.ts'
import type { LiveConnection } from './connection.ts'
import type { LiveDependencies, LiveRequest } from './dependencies.ts'
import type { Finalized, LiveFeed } from './feed.ts'
import { type Spent, sliceOf } from './money.ts'
import { liveLimits } from './session-life.ts'
import { seconds, Transcript } from './transcript.ts'

/** Whoever heard some audio: a connection, or a file. */
export type Heard = Pick<LiveConnection, 'candidate' | 'base'>

/**
 * Tells a session's caller what was heard, and by whom: providers count seconds from the beginning of their connection,
 * the caller from the first byte of the session.
 */
export class SessionMessages {
  readonly #request: LiveRequest
  readonly #feed: LiveFeed
  readonly #transcript: Transcript
  readonly #watch: LiveWatch | undefined
  readonly #clock: Clock
  #seq = 0

  constructor(request: LiveRequest, feed: LiveFeed, { services, watch }: LiveDependencies) {
    const { live, options } = request.call.payload
    this.#request = request
    this.#feed = feed
    this.#transcript = new Transcript(live.audio, options.multichannel)
    this.#watch = watch
    this.#clock = services.clock
  }

  ready(selection: Selection, limits: Limits): void {
    const first = selection.candidates[0]!
    this.#request.sink.send({
      type: 'ready',
      ...headOf(this.#request.context, selection, first),
      warnings: this.#warningsOf(first, selection),
      limits: liveLimits(limits),
    })
  }

  /** Speakers and words are another's from now on. */
  connectionChanged(): void {
    this.#transcript.connectionChanged()
  }

  partial(event: Extract<LiveEvent, { kind: 'partial' }>, connection: Heard): void {
    const { kind: _, speaker, end, ...partial } = event
    if (!this.#request.call.payload.live.interim) return
    if (end !== undefined) this.#countLatency('partial', end, connection)
    this.#request.sink.send({
      type: 'partial',
      seq: this.#nextSeq(),
      ...partial,
      start: seconds(event.start + this.#offset(connection)),
      ...(speaker === undefined ? {} : { speaker: this.#transcript.speaker(speaker) }),
    })
  }

  final(event: Extract<LiveEvent, { kind: 'final' }>, connection: Heard): void {
    const kept = this.#transcript.take(event, this.#offset(connection), this.#feed.seconds)
    if (kept === null) return
    this.#countLatency('final', event.segment.end, connection)
    const { segment, words } = kept
    this.#request.sink.send({
      type: 'final',
      seq: this.#nextSeq(),
      channel: event.channel,
      segment,
      ...(words.length === 0 ? {} : { words }),
      ...(event.language === null ? {} : { language: event.language }),
      settled_seconds: seconds(this.#feed.settledSeconds),
    })
  }

  moment(event: Extract<LiveEvent, { kind: 'speech_started' | 'utterance_end' }>, connection: Heard): void {
    const { kind: type, channel } = event
    const at_seconds = seconds(event.seconds + this.#offset(connection))
    this.#request.sink.send({ type, channel, at_seconds })
  }

  /** @param finalized null: the caller did not ask for it */
  readonly finalized = (finalized: Finalized | null): void => {
    if (finalized === null) return
    const settled_seconds = seconds(this.#feed.settledSeconds)
    this.#request.sink.send({ type: 'finalized', id: finalized.id, settled_seconds })
  }

  switched(
    from: Candidate,
    { candidate, base, warnings }: Pick<LiveConnection, 'candidate' | 'base' | 'warnings'>,
    { replayed, lost }: { readonly replayed: number; readonly lost: number },
  ): void {
    const allWarnings = this.#transcript.hasSpeakers
      ? [...warnings, 'speakers: those of another provider cannot be matched; they are numbered on']
      : warnings
    this.#request.sink.send({
      type: 'switched',
      from: entryOf(from),
      to: entryOf(candidate),
      at_seconds: seconds(base / this.#feed.bytesPerSecond),
      replayed_seconds: seconds(replayed),
      lost_seconds: seconds(lost),
      warnings: allWarnings,
    })
  }

  usage({ billableSeconds, costUsd }: Spent): void {
    this.#request.sink.send({
      type: 'usage',
      audio_seconds: seconds(this.#feed.seconds),
      billable_audio_seconds: seconds(billableSeconds),
      cost_usd: costUsd,
    })
  }

  /** Makes the envelope of the whole. @param candidate the entry that audio was last sent to */
  done(candidate: Candidate, selection: Selection): object {
    const { context, call } = this.#request
    const result = this.#transcript.result()
    const cut = this.#transcript.isCut ? ['content: the transcript is too long to be repeated whole'] : []
    const { usage, costUsd } = context.money
    return transcriptEnvelope({
      envelope: {
        ...headOf(context, selection, candidate),
        content: '',
        content_blocks: [],
        usage: usage ?? {},
        cost_usd: costUsd,
        determinism: { seed_honored: false },
        warnings: [...this.#warningsOf(candidate, selection), ...cut],
      },
      payload: sliceOf(call, seconds(this.#feed.seconds)).payload,
      result,
      release: () => {},
    })
  }

  /** Options left out of the request, with hints that the entry lacks. */
  #warningsOf({ entry }: Candidate, selection: Selection): readonly string[] {
    const { call } = this.#request
    return [...call.warnings, ...selection.warnings, ...adapt(call, entry).warnings]
  }

  #offset({ base }: Heard): number {
    return base / this.#feed.bytesPerSecond
  }

  /** Audio that was uploaded may have come faster than it was spoken: its age would say nothing. */
  #countLatency(text: LiveText, end: number, connection: Heard): void {
    const watch = this.#watch
    if (watch === undefined || this.#request.held !== undefined) return
    const behind = this.#feed.seconds - this.#offset(connection) - end
    const age = behind + (this.#clock.now() - this.#feed.pushedMs) / 1000
    watch.heard(connection.candidate.entry, text, Math.max(0, age))
  }

  #nextSeq(): number {
    this.#seq += 1
    return this.#seq
  }
}

/** An entry as callers and the console are told of it. */
export function entryOf({ entry }: Candidate): LiveEntry {
  return { provider: entry.provider.name, model: entry.model }
}
