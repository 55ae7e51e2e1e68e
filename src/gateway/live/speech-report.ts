import { GatewayError, toGatewayError } from '../../contracts/errors.ts'
import type { Limits } from '../../contracts/limits.ts'
import type { LiveWatch } from '../../contracts/watch.ts'
import { type Envelope, headOf } from '../call/attempt/outcome.ts'
import type { SpeechRequest } from './dependencies.ts'
import { liveLimits } from './session-life.ts'
import type { SpeechSpent } from './speech-calls.ts'
import type { Sentence } from './speech-text.ts'

/** Warnings of a session that are kept for its end. */
const WARNINGS_MAX = 100

/** Tells a session's caller what was spoken, and by which entry; counts how often that changed. */
export class SpeechReport {
  readonly #request: SpeechRequest
  readonly #watch: LiveWatch | undefined
  readonly #warnings = new Set<string>()
  /** The answer of the sentence that was spoken last; null: none was yet. */
  last: Envelope | null = null
  /** How often another entry spoke than before. */
  switches = 0
  #characters = 0

  constructor(request: SpeechRequest, watch: LiveWatch | undefined) {
    this.#request = request
    this.#watch = watch
    this.#warn(request.call.warnings)
    this.#warn(request.selection.warnings)
  }

  ready(limits: Limits): void {
    const { context, call, selection, sink } = this.#request
    sink.send({
      type: 'ready',
      ...headOf(context, selection, selection.candidates[0]!),
      response_format: call.payload.response_format,
      warnings: [...this.#warnings],
      limits: liveLimits(limits),
    })
  }

  /** @param seconds that its first audio took */
  spoken({ seq, text, characters, audioBytes }: Sentence, envelope: Envelope, seconds: number): void {
    const before = this.last
    const { provider, model, cost_usd } = envelope
    this.last = envelope
    this.#watch?.spoke(envelope, characters, seconds)
    if (before !== null && (before.provider !== provider || before.model !== model))
      this.#switched(before, envelope)
    this.#warn(envelope.warnings)
    this.#characters += characters
    this.#request.sink.send({
      type: 'spoken',
      ...{ seq, text, characters, audio_bytes: audioBytes, provider, model, cost_usd },
    })
  }

  flushed(id: string | null): void {
    this.#request.sink.send({ type: 'flushed', id })
  }

  usage(spent: SpeechSpent): void {
    this.#request.sink.send({ type: 'usage', ...spent })
  }

  /** The envelope of the whole; its provider is the one that spoke last. */
  done(): void {
    const { context, selection, sink } = this.#request
    const { usage, costUsd } = context.money
    const said = this.last ?? {
      ...headOf(context, selection, selection.candidates[0]!),
      ...{ content: '', content_blocks: [], determinism: { seed_honored: false } },
    }
    const envelope: object = { ...said, usage, cost_usd: costUsd, warnings: [...this.#warnings] }
    sink.send({ type: 'done', ...envelope })
  }

  /** An error with what the caller has heard by then. */
  brokenOff(thrown: unknown, { seq, characters, audioBytes }: Sentence): GatewayError {
    const { code, message, extra } = toGatewayError(thrown)
    const details = {
      ...extra.details,
      spoken_characters: this.#characters,
      broken_off: { seq, characters, audio_bytes: audioBytes },
    }
    return new GatewayError(code, message, { ...extra, details })
  }

  #switched(from: Envelope, { provider, model }: Envelope): void {
    this.switches += 1
    this.#watch?.revoiced(from)
    const to = { 'larkway.provider': provider, 'gen_ai.request.model': model }
    this.#request.context.trace?.event('live.switched', to)
  }

  #warn(lines: readonly string[]): void {
    for (const line of lines) if (this.#warnings.size < WARNINGS_MAX) this.#warnings.add(line)
  }
}
