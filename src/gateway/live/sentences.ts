/**
 * A sentence that is longer is cut between two words: models take no input of any length, and no word of it is heard
 * before it is whole. Units of UTF-16.
 */
const SENTENCE_MAX = 1_000
/** How much of such a sentence has to stand before the cut. */
const CUT_FROM = SENTENCE_MAX / 2

const STOPS = new Set('.!?…')
/** Ends of a sentence after which no space has to follow. */
const WIDE_STOPS = new Set('。！？｡')
const CLOSERS = new Set('"\'”’»)]}」』）》')
const SPACE = /\s/u
const LOWER = /\p{Ll}/u
/** A full stop behind these ends no sentence: titles, and initials. */
const ABBREVIATION = /(?:^|[\s("'“‘«])(?:Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|vs|\p{Lu})\.$/u

/**
 * Cuts text that comes in parts into sentences. The same text gives the same sentences, however it was cut on its way:
 * where one ends is known as soon as the next begins, or when it is flushed. Every letter is looked at once.
 */
export class SentenceCutter {
  #text = ''
  /** Letters of the text that were looked at. */
  #seen = 0
  /** The characters before the next letter: a stop, perhaps with closing quotes; the same and a space; neither. */
  #behind: 'stop' | 'wide stop' | 'space' | 'line' | null = null
  /** Where the last stop is. */
  #stop = 0

  /** Letters that are in no sentence yet. */
  get length(): number {
    return this.#text.length
  }

  /** @returns the sentences that are whole now, without spaces around them */
  push(text: string): string[] {
    this.#text += text
    const sentences: string[] = []
    while (this.#seen < this.#text.length) {
      const at = this.#seen
      const letter = this.#text[at]!
      if (this.#begins(letter)) this.#cut(at, sentences)
      else {
        this.#look(letter, at)
        this.#seen = at + 1
        if (this.#seen >= SENTENCE_MAX) this.#cut(this.#lastGap(), sentences)
      }
    }
    return sentences
  }

  /** The rest, as it stands; null: there is none. */
  flush(): string | null {
    const rest: string[] = []
    this.#cut(this.#text.length, rest)
    return rest[0] ?? null
  }

  /** Whether a letter is the first of the next sentence. */
  #begins(letter: string): boolean {
    switch (this.#behind) {
      case 'wide stop':
        return !WIDE_STOPS.has(letter) && !STOPS.has(letter) && !CLOSERS.has(letter) && !SPACE.test(letter)
      case 'space':
        return !SPACE.test(letter) && !LOWER.test(letter) && !this.#isAbbreviated()
      case 'line':
        return !SPACE.test(letter)
      default:
        return false
    }
  }

  #isAbbreviated(): boolean {
    return ABBREVIATION.test(this.#text.slice(Math.max(0, this.#stop - 8), this.#stop + 1))
  }

  #look(letter: string, at: number): void {
    if (STOPS.has(letter) || WIDE_STOPS.has(letter)) {
      this.#behind = WIDE_STOPS.has(letter) ? 'wide stop' : 'stop'
      this.#stop = at
    } else if (letter === '\n') this.#behind = 'line'
    else if (SPACE.test(letter)) {
      if (this.#behind === 'stop' || this.#behind === 'wide stop') this.#behind = 'space'
    } else if (!(CLOSERS.has(letter) && this.#isBehindStop)) this.#behind = null
  }

  get #isBehindStop(): boolean {
    return this.#behind === 'stop' || this.#behind === 'wide stop'
  }

  /** Where an overlong sentence is cut: behind its last space, or anywhere but in the middle of a letter. */
  #lastGap(): number {
    for (let at = this.#seen; at > CUT_FROM; at -= 1) if (SPACE.test(this.#text[at - 1]!)) return at
    const last = this.#text.charCodeAt(this.#seen - 1)
    return last >= 0xd800 && last < 0xdc00 ? this.#seen - 1 : this.#seen
  }

  #cut(at: number, sentences: string[]): void {
    const sentence = this.#text.slice(0, at).trim()
    if (sentence !== '') sentences.push(sentence)
    this.#text = this.#text.slice(at)
    this.#seen = 0
    this.#behind = null
  }
}
