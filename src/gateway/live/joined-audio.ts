import { readWavHead, type WavHead } from '../media/wav-head.ts'

/** Length that a writer gives a wav file that it does not know yet. */
const ENDLESS = 0xffff_ffff
const NOTHING = Buffer.alloc(0)

/** The next piece is in another format than those before it. */
export class OtherFormat extends Error {
  override readonly name = 'OtherFormat'
}

/**
 * Formats whose files make one stream of audio when they are put behind one another; a wav file does without its head.
 * The samples of `pcm` have the same rate at every provider.
 */
const JOINED: ReadonlySet<string> = new Set(['mp3', 'wav', 'pcm', 'aac', 'ulaw', 'alaw'])

/** Formats that a session may have when its caller names none, in the order in which they are tried. */
export const USUAL_FORMATS = ['mp3', 'wav', 'pcm'] as const

export const JOINED_NAMES = [...JOINED].join(', ')

/** @param format such as `mp3_44100_128`, a codec followed by what a provider writes */
export function canBeJoined(format: string): boolean {
  return JOINED.has(format.split('_')[0]!)
}

/**
 * Makes one stream of the pieces that it is spoken in, each of them a file of its own. Of wav files the first one with
 * samples gives the head, with an open length, and of all the samples go out.
 */
export class JoinedAudio {
  #mediaType: string | null = null
  #wav: WavHead['audio'] | null = null

  /** A piece begins. */
  begin(): PieceOfAudio {
    return new PieceOfAudio(this)
  }

  /** @throws OtherFormat */
  check(mediaType: string, wav: WavHead['audio'] | null): void {
    if (this.#mediaType !== null && essence(mediaType) !== this.#mediaType)
      throw new OtherFormat(`${essence(mediaType)} in place of ${this.#mediaType}`)
    const first = this.#wav
    if (wav === null || first === null) return
    const same =
      first.encoding === wav.encoding &&
      first.sampleRate === wav.sampleRate &&
      first.channels === wav.channels
    if (!same) throw new OtherFormat(`wav of ${wav.sampleRate} Hz in place of ${first.sampleRate} Hz`)
  }

  /** Audio of this format goes out. @returns whether it is the first */
  goesOut(mediaType: string, wav: WavHead['audio'] | null): boolean {
    const isFirst = this.#mediaType === null
    this.#mediaType ??= essence(mediaType)
    this.#wav ??= wav
    return isFirst
  }
}

function essence(mediaType: string): string {
  return mediaType.split(';')[0]!
}

/** One piece of the audio on its way into the stream. */
class PieceOfAudio {
  readonly #joined: JoinedAudio
  /** Beginning of a wav file, until its samples begin. */
  #begun = NOTHING
  #wav: WavHead | null = null
  #leftBytes = Number.POSITIVE_INFINITY

  constructor(joined: JoinedAudio) {
    this.#joined = joined
  }

  /**
   * @returns what goes out of it, in order
   * @throws  OtherFormat, when it is not audio of the format of the pieces before it; nothing of it goes out then
   */
  push(bytes: Uint8Array, mediaType: string): readonly Uint8Array[] {
    if (essence(mediaType) !== 'audio/wav') {
      this.#joined.check(mediaType, null)
      this.#joined.goesOut(mediaType, null)
      return [bytes]
    }
    if (this.#wav !== null) return this.#samples(bytes, this.#wav)
    const begun = Buffer.concat([this.#begun, bytes])
    this.#begun = begun
    const head = readWavHead(begun)
    if (head === 'incomplete') return []
    if (head === null) throw new OtherFormat('the wav file is not one of 16-bit samples, mu-law or A-law')
    this.#joined.check(mediaType, head.audio)
    this.#wav = head
    this.#leftBytes = head.bytes ?? Number.POSITIVE_INFINITY
    return this.#samples(begun.subarray(head.start), head)
  }

  /** Samples, without the chunks that may follow them. */
  #samples(bytes: Uint8Array, { audio, start }: WavHead): readonly Uint8Array[] {
    const taken = bytes.subarray(0, this.#leftBytes)
    this.#leftBytes -= taken.length
    if (taken.length === 0) return []
    if (!this.#joined.goesOut('audio/wav', audio)) return [taken]
    const head = Buffer.from(this.#begun.subarray(0, start))
    head.writeUInt32LE(ENDLESS, 4)
    head.writeUInt32LE(ENDLESS, start - 4)
    return [head, taken]
  }
}
