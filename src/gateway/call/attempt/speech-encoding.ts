import type { LiveAudio, SpeechResult } from '../../../contracts/calls.ts'
import type { CancelSignal } from '../../../contracts/cancellation.ts'
import type { Deltas } from '../../../contracts/operations.ts'
import type { SpeechEncoder, SpeechEncoders, SpeechForm } from '../../../contracts/speech-encoding.ts'
import { ENCODER_BYTES, UnreadableSpeech } from '../../../contracts/speech-encoding.ts'
import { unlessAborted } from '../../../contracts/time.ts'
import { type Failure, UpstreamFailure } from '../../../contracts/upstream.ts'
import type { Encoding } from '../select/speech-format.ts'
import type { MemoryLease } from './operation.ts'

/** Bytes that an encoder is given at once: some 10 ms of its thread, which others share. */
const SLICE_BYTES = 64 * 1024
const NOTHING = new Uint8Array(0)

/** Everything besides the speech itself that encoding a call's speech needs. */
export interface EncodingRoom {
  readonly encoders: SpeechEncoders
  readonly memory: MemoryLease
  readonly signal: CancelSignal
}

type Delta = Deltas['speech']

/**
 * Encodes speech while it comes. Nothing is read ahead: the provider is as slow as whoever reads this. Times are those
 * of the provider, and go with the first of what their piece became.
 *
 * @throws UpstreamFailure as `source`, and when it is no speech that can be encoded; the signal's reason
 */
export async function* encodedDeltas(
  source: AsyncIterator<Delta, SpeechResult>,
  { form, mediaType }: Encoding,
  { encoders, memory, signal }: EncodingRoom,
): AsyncGenerator<Delta, SpeechResult, void> {
  const run = new EncodingRun(encoders, form, signal)
  memory.charge(ENCODER_BYTES)
  try {
    let next = await source.next()
    for (; next.done !== true; next = await source.next()) {
      const { bytes, mediaType: said, times } = next.value
      if (times !== undefined) yield { bytes: NOTHING, mediaType, times }
      for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
        const made = await run.push(bytes.subarray(at, at + SLICE_BYTES), said)
        if (made.length > 0) yield { bytes: made, mediaType }
      }
    }
    const last = await run.end()
    if (last.length > 0) yield { bytes: last, mediaType }
    return { ...next.value, audio: [], mediaType }
  } finally {
    run.close()
    memory.release()
    await source.return?.()
  }
}

/** Encodes speech that is here. @throws as `encodedDeltas` */
export async function encodedResult(
  result: SpeechResult,
  { form, mediaType }: Encoding,
  { encoders, memory, signal }: EncodingRoom,
): Promise<SpeechResult> {
  const run = new EncodingRun(encoders, form, signal)
  const audio: Uint8Array[] = []
  memory.charge(ENCODER_BYTES)
  try {
    for (const bytes of result.audio)
      for (let at = 0; at < bytes.length; at += SLICE_BYTES)
        audio.push(await run.push(bytes.subarray(at, at + SLICE_BYTES), result.mediaType))
    audio.push(await run.end())
  } finally {
    run.close()
    memory.release()
  }
  const made = audio.filter(({ length }) => length > 0)
  memory.charge(made.reduce((sum, { length }) => sum + length, 0))
  return { ...result, audio: made, mediaType }
}

/** One file on its way through an encoder, which is opened with its first bytes. */
class EncodingRun {
  readonly #encoders: SpeechEncoders
  readonly #form: SpeechForm
  readonly #signal: CancelSignal
  #encoder: SpeechEncoder | null = null

  constructor(encoders: SpeechEncoders, form: SpeechForm, signal: CancelSignal) {
    this.#encoders = encoders
    this.#form = form
    this.#signal = signal
  }

  push(bytes: Uint8Array, mediaType: string): Promise<Uint8Array> {
    this.#encoder ??= this.#encoders.begin(samplesOf(mediaType), this.#form)
    return this.#awaited(this.#encoder.push(bytes))
  }

  async end(): Promise<Uint8Array> {
    return this.#encoder === null ? NOTHING : this.#awaited(this.#encoder.end())
  }

  close(): void {
    this.#encoder?.close()
  }

  async #awaited(made: Promise<Uint8Array>): Promise<Uint8Array> {
    try {
      return await unlessAborted(this.#signal, made)
    } catch (error) {
      throw error instanceof UnreadableSpeech ? new UpstreamFailure(unreadable(error)) : error
    }
  }
}

function unreadable({ message }: UnreadableSpeech): Failure {
  return {
    kind: 'server',
    status: null,
    reason: `the speech of the provider cannot be encoded: ${message}`,
    retryAfterMs: null,
    providerMessage: null,
  }
}

/** Samples that a provider sends without a head; null: a wav file. `audio/pcm` has 24 kHz at every provider. */
function samplesOf(mediaType: string): LiveAudio | null {
  if (!mediaType.startsWith('audio/pcm')) return null
  const sampleRate = Number(/;rate=(\d+)/.exec(mediaType)?.[1] ?? 24_000)
  return { encoding: 'pcm_s16le', sampleRate, channels: 1 }
}
