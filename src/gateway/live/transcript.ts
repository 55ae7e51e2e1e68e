import type { LiveAudio, Segment, TranscriptionResult, Word } from '../../contracts/calls.ts'
import type { LiveEvent } from '../../contracts/live.ts'

type Final = Extract<LiveEvent, { readonly kind: 'final' }>

/** A final as the caller gets it: in the session's time, without what was there before. */
export interface KeptFinal {
  readonly segment: Segment
  readonly words: readonly Word[]
}

/** Most that is kept of a transcript for its end, characters of text and of words: some hours of speech. */
const CHARACTERS_MAX = 4 * 1024 * 1024

/**
 * All final words of a session. A connection that replays audio repeats words that were final before; each channel
 * takes a word once.
 */
export class Transcript {
  readonly #multichannel: boolean
  /** Seconds up to which each channel has its words. */
  readonly #ends: number[]
  readonly #segments: Segment[] = []
  readonly #words: Word[] = []
  #characters = 0
  #next = 0
  /** Numbers of the speakers of this connection; those of another are others. */
  #speakers = new Map<string, string>()
  #speakerCount = 0
  #language: string | null = null
  #languageConfidence: number | null = null

  constructor({ channels }: LiveAudio, multichannel: boolean) {
    this.#multichannel = multichannel
    this.#ends = Array.from({ length: multichannel ? channels : 1 }, () => 0)
  }

  /** Parts at the end were left out because there were too many. */
  get isCut(): boolean {
    return this.#characters > CHARACTERS_MAX
  }

  /** Whether speakers have been told apart. */
  get hasSpeakers(): boolean {
    return this.#speakerCount > 0
  }

  /** Speakers of the next connection cannot be matched with those of the last one. */
  connectionChanged(): void {
    this.#speakers = new Map()
  }

  /**
   * Takes a final.
   *
   * @param offset seconds at which the audio of its connection begins
   * @param most seconds of audio that came: no word is later than them
   * @returns null when all of it was there before
   */
  take(final: Final, offset: number, most: number): KeptFinal | null {
    const { channel, segment, words, language, languageConfidence } = final
    const span = { offset, most }
    const at = Math.min(Math.max(0, channel), this.#ends.length - 1)
    const known = this.#ends[at]!
    const moved = words.map((word) => this.#placed(word, at, span))
    const fresh = moved.filter(({ start, end }) => (start + end) / 2 >= known)
    const end = seconds(segment.end + offset)
    if (moved.length > 0 ? fresh.length === 0 : end <= known && segment.text.trim() !== '') return null
    const repeated = fresh.length < moved.length
    const first = fresh[0]
    const kept = this.#placed(
      { ...segment, id: this.#next, text: repeated ? fresh.map(({ word }) => word).join(' ') : segment.text },
      at,
      span,
    )
    const whole = repeated && first !== undefined ? { ...kept, start: first.start } : kept
    this.#next += 1
    this.#ends[at] = Math.max(known, fresh.at(-1)?.end ?? end)
    this.#language = language ?? this.#language
    this.#languageConfidence = languageConfidence ?? this.#languageConfidence
    this.#keep(whole, fresh)
    return { segment: whole, words: fresh }
  }

  /** Name of a speaker in the session. */
  speaker(name: string): string {
    const known = this.#speakers.get(name)
    if (known !== undefined) return known
    const speaker = `speaker_${this.#speakerCount}`
    this.#speakerCount += 1
    this.#speakers.set(name, speaker)
    return speaker
  }

  /** All of it. */
  result(): TranscriptionResult {
    const segments = this.#segments.toSorted((a, b) => a.start - b.start)
    return {
      text: segments
        .map(({ text }) => text.trim())
        .filter((text) => text !== '')
        .join(' '),
      language: this.#language,
      languageConfidence: this.#languageConfidence,
      durationSeconds: null,
      segments: segments.map((segment, id) => ({ ...segment, id })),
      words: this.#words.toSorted((a, b) => a.start - b.start),
      warnings: [],
    }
  }

  #keep(segment: Segment, words: readonly Word[]): void {
    this.#characters += segment.text.length + words.reduce((sum, { word }) => sum + word.length, 0)
    if (this.isCut) return
    this.#segments.push(segment)
    // One by one: a provider may hear more of them than a call may have arguments.
    for (const word of words) this.#words.push(word)
  }

  #placed<Part extends { readonly start: number; readonly end: number; readonly speaker?: string }>(
    part: Part,
    channel: number,
    { offset, most }: { readonly offset: number; readonly most: number },
  ): Part & { readonly channel?: number } {
    return {
      ...part,
      start: seconds(Math.min(most, part.start + offset)),
      end: seconds(Math.min(most, part.end + offset)),
      ...(part.speaker === undefined ? {} : { speaker: this.speaker(part.speaker) }),
      ...(this.#multichannel ? { channel } : {}),
    }
  }
}

/** Milliseconds are enough for anybody. */
export function seconds(value: number): number {
  return Math.round(value * 1000) / 1000
}
