import type { LiveAudio, LiveEncoding } from '../../contracts/calls.ts'
import { wavHeadOf } from '../../contracts/live-audio.ts'
import type { SpeechForm } from '../../contracts/speech-encoding.ts'
import { type Converter, converter } from './pcm.ts'

/** Encodes samples of one channel. What it returns is the caller's to keep. */
export interface SampleEncoder {
  encode(samples: Int16Array): Uint8Array
  /** The last of the file. */
  end(): Uint8Array
  /** Gives back what it holds. Idempotent. */
  free(): void
}

const NOTHING = new Uint8Array(0)
/** Length in the head of a wav file whose length is not known when it begins: the most that its fields can say. */
const ENDLESS_BYTES = 0xffff_ffff - 36
const ENCODINGS: Readonly<Partial<Record<SpeechForm['codec'], LiveEncoding>>> = {
  ulaw: 'mulaw',
  alaw: 'alaw',
}

/** Samples without a container. */
export class PlainEncoder implements SampleEncoder {
  readonly #convert: Converter | null

  constructor(codec: SpeechForm['codec'], sampleRate: number) {
    const samples: LiveAudio = { encoding: 'pcm_s16le', sampleRate, channels: 1 }
    this.#convert = converter(samples, { ...samples, encoding: ENCODINGS[codec] ?? 'pcm_s16le' })
  }

  encode(samples: Int16Array): Uint8Array {
    const bytes = new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength)
    return (this.#convert === null ? bytes : this.#convert(bytes)).slice()
  }

  end(): Uint8Array {
    return NOTHING
  }

  free(): void {}
}

/** A wav file whose head leaves its length open. */
export class WavEncoder extends PlainEncoder {
  #head: Uint8Array | null

  constructor(sampleRate: number) {
    super('wav', sampleRate)
    this.#head = wavHeadOf({ sampleRate, channels: 1 }, ENDLESS_BYTES)
  }

  override encode(samples: Int16Array): Uint8Array {
    const encoded = super.encode(samples)
    if (this.#head === null) return encoded
    const begun = Buffer.concat([this.#head, encoded])
    this.#head = null
    return begun
  }
}
