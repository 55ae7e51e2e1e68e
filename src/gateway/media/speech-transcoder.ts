import type { LiveAudio, LiveEncoding } from '../../contracts/calls.ts'
import { frameBytes } from '../../contracts/live-audio.ts'
import { type SpeechForm, UnreadableSpeech } from '../../contracts/speech-encoding.ts'
import { createMp3Encoder } from './mp3-encoder.ts'
import { createOpusEncoder, opusRate } from './opus-encoder.ts'
import { type Converter, converter, samplesOf, WholeFrames } from './pcm.ts'
import { PlainEncoder, type SampleEncoder, WavEncoder } from './sample-encoder.ts'
import { isSampleRate } from './speech-form.ts'
import { readWavHead } from './wav-head.ts'

const NOTHING = new Uint8Array(0)
/** Samples of no sound, by their encoding. */
const SILENCE: Readonly<Record<LiveEncoding, number>> = { pcm_s16le: 0, mulaw: 0xff, alaw: 0xd5 }

/**
 * Turns one file of speech into another format, piece by piece, mixed down to one channel. Its length stays the same to
 * the sample: what the filter of another rate holds back comes at the end.
 */
export class SpeechTranscoder {
  readonly #form: SpeechForm
  #source: Source | null
  #begun = Buffer.alloc(0)
  #encoder: SampleEncoder | null = null

  /** @param source samples that come; null: a wav file, whose head says */
  constructor(source: LiveAudio | null, form: SpeechForm) {
    this.#form = form
    this.#source = source === null ? null : new Source(source, form, null)
  }

  /** @throws UnreadableSpeech */
  async push(bytes: Uint8Array): Promise<Uint8Array> {
    if (this.#source !== null) return this.#encode(this.#source.take(bytes))
    this.#begun = Buffer.concat([this.#begun, bytes])
    const head = readWavHead(this.#begun)
    if (head === 'incomplete') return NOTHING
    if (head === null) throw new UnreadableSpeech('it is not a wav file of 16-bit samples, mu-law or A-law')
    this.#source = new Source(head.audio, this.#form, head.bytes)
    const samples = this.#begun.subarray(head.start)
    this.#begun = Buffer.alloc(0)
    return this.#encode(this.#source.take(samples))
  }

  /** @throws UnreadableSpeech */
  async end(): Promise<Uint8Array> {
    if (this.#source === null || this.#source.isEmpty) throw new UnreadableSpeech('it has no samples')
    const last = await this.#encode(this.#source.end())
    return Buffer.concat([last, this.#encoder?.end() ?? NOTHING])
  }

  free(): void {
    this.#encoder?.free()
  }

  async #encode(bytes: Uint8Array): Promise<Uint8Array> {
    if (bytes.length === 0) return NOTHING
    this.#encoder ??= await createEncoder(this.#form, this.#source!.made.sampleRate)
    return this.#encoder.encode(samplesOf(bytes))
  }
}

/** Samples of the source on their way to the rate of the form. */
class Source {
  /** The output: one channel of 16 bits. */
  readonly made: LiveAudio
  readonly #audio: LiveAudio
  readonly #frames: WholeFrames
  readonly #convert: Converter | null
  /** Bytes of the file that have not come; infinite where it does not say. */
  #leftBytes: number
  /** Samples that came, and that were made of them. */
  #taken = 0
  #given = 0

  /** @throws UnreadableSpeech */
  constructor(audio: LiveAudio, { codec, sampleRate }: SpeechForm, bytes: number | null) {
    if (!isSampleRate(audio.sampleRate)) throw new UnreadableSpeech(`it has a rate of ${audio.sampleRate} Hz`)
    const rate = sampleRate ?? (codec === 'opus' ? opusRate(audio.sampleRate) : audio.sampleRate)
    this.made = { encoding: 'pcm_s16le', sampleRate: rate, channels: 1 }
    this.#audio = audio
    this.#frames = new WholeFrames(audio)
    this.#convert = converter(audio, this.made)
    this.#leftBytes = bytes ?? Number.POSITIVE_INFINITY
  }

  get isEmpty(): boolean {
    return this.#taken === 0
  }

  take(bytes: Uint8Array): Uint8Array {
    const own = bytes.subarray(0, this.#leftBytes)
    this.#leftBytes -= own.length
    const whole = this.#frames.take(own)
    this.#taken += whole.length / frameBytes(this.#audio)
    return this.#counted(this.#convert === null ? whole : this.#convert(whole))
  }

  /** The samples that the filter of another rate still has. */
  end(): Uint8Array {
    const { sampleRate, encoding } = this.#audio
    const samples = Math.round((this.#taken * this.made.sampleRate) / sampleRate)
    if (this.#convert === null || samples <= this.#given) return NOTHING
    const frames = FILTER_FRAMES * Math.ceil(sampleRate / this.made.sampleRate)
    const silence = new Uint8Array(frames * frameBytes(this.#audio)).fill(SILENCE[encoding])
    return this.#convert(silence).subarray(0, 2 * (samples - this.#given))
  }

  #counted(made: Uint8Array): Uint8Array {
    this.#given += made.length / 2
    return made
  }
}

/** More than a filter to a rate no lower reaches ahead. */
const FILTER_FRAMES = 32

async function createEncoder({ codec, bitrate }: SpeechForm, sampleRate: number): Promise<SampleEncoder> {
  switch (codec) {
    case 'mp3':
      return createMp3Encoder(sampleRate, bitrate)
    case 'opus':
      return createOpusEncoder(sampleRate, bitrate)
    case 'wav':
      return new WavEncoder(sampleRate)
    default:
      return new PlainEncoder(codec, sampleRate)
  }
}
