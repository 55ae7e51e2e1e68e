import { JsonString } from '../../contracts/json-string.ts'
import type { Limits } from '../../contracts/limits.ts'
import { decodeUtf8 } from '../../contracts/utf8.ts'
import { Base64Text } from './base64-text.ts'
import { ByteBuilder } from './byte-builder.ts'
import { declaredMediaType } from './header-value.ts'
import { isObject, readJsonSource } from './json-body.ts'
import { readKey } from './json-structure.ts'
import { audioTooLarge, invalid } from './refusals.ts'
import type { AudioTap, BodyScanner, ScannedBody } from './scanner.ts'

/** Everything but the audio string: names, values and white space. */
const MAX_SKELETON_BYTES = 256 * 1024
const MAX_DEPTH = 64
/** The longest key looked for, every character of it written as `\uXXXX`. */
const MAX_KEY_BYTES = 6 * 'audio_base64'.length

/** As long as `https:`. */
const URL_FRONT_LENGTH = 6
/** A byte order mark may stand before the body; the decoder drops it. */
const BOM_BYTES = 3
const QUOTE = 0x22
const COMMA = 0x2c
/** Put into the skeleton in the place of the audio string. */
const PLACEHOLDER = Buffer.from('null')

/** Top-level keys and keys of `audio` that may carry a source; each may occur once. */
const TOP_KEYS: ReadonlySet<string> = new Set(['audio', 'audio_base64'])
const AUDIO_KEYS: ReadonlySet<string> = new Set(['base64', 'data', 'url'])

/**
 * - outside: between the tokens of the skeleton
 * - text: within a string of the skeleton
 * - prefix: at the front of the audio string, which may be that of a `data:` URL
 * - audio: within the base64 text
 */
type State = 'outside' | 'text' | 'prefix' | 'audio'

/**
 * Finds the base64 audio of a JSON body in a stream: `audio.base64`, `audio.data`, `audio` or `audio_base64`, each as
 * base64 or as a `data:` URL. The audio string is counted and checked in place; the rest, the skeleton, is kept and
 * parsed at the end, with null in the place of the audio. The scanner tracks only strings and nesting. Where it could
 * disagree with a real parser the body is not JSON, and then the skeleton is not JSON either.
 */
export class JsonAudioScanner implements BodyScanner {
  readonly #maxAudioBytes: number
  readonly #tap: AudioTap | undefined
  #state: State = 'outside'
  /** Bytes of the body before the current view. */
  #position = 0
  readonly #skeleton = new ByteBuilder()
  /** The open containers; true for objects. */
  readonly #open: boolean[] = []
  /** True where the next string of an object is a key. */
  #keyNext = false
  /** Start of the key being read in the skeleton; -1 within other strings. */
  #keyStart = -1
  readonly #string = new JsonString()
  readonly #keys = new AudioKeys()
  readonly #prefix = new DataUrlPrefix()
  readonly #text = new Base64Text()
  /** First characters of what should be base64. */
  #front = ''
  /** Position of the base64 text, once its string has begun. */
  #audio: { offset: number; length: number } | null = null

  constructor(limits: Pick<Limits, 'max_audio_bytes'>, tap?: AudioTap) {
    this.#maxAudioBytes = limits.max_audio_bytes
    this.#tap = tap
  }

  scan(view: Buffer): void {
    let at = 0
    while (at < view.length) at = this.#step(view, at)
    this.#position += view.length
  }

  flag(name: string): boolean | null {
    // Where the audio begins, closing what is open makes the skeleton whole.
    const closed = this.#open.map((object) => (object ? '}' : ']')).reverse()
    const value = this.#parseSkeleton(closed.join(''))
    return Object.hasOwn(value, name) ? value[name] === true : null
  }

  finish(): ScannedBody {
    if (this.#state !== 'outside') throw invalid('the JSON body ends within a string')
    const value = this.#parseSkeleton()
    const { url, filename, ...declared } = readJsonSource(value)
    const fields = { kind: 'json', value } as const
    if (this.#audio === null) {
      return { fields, source: url === null ? { kind: 'none' } : { kind: 'url', url } }
    }

    if (url !== null) throw sentTwice()
    const { offset, length } = this.#audio
    const { decodedBytes, canonical } = this.#text
    if (decodedBytes === 0) throw invalid('the audio is empty', 'audio')
    const mediaType = declared.mediaType ?? this.#prefix.mediaType
    const audio = {
      offset,
      length,
      encoding: 'base64',
      decodedBytes,
      canonical,
      mediaType,
      filename,
    } as const
    return { fields, source: { kind: 'audio', audio } }
  }

  #step(view: Buffer, at: number): number {
    if (this.#state === 'outside') return this.#scanOutside(view, at)
    if (this.#state === 'text') return this.#scanText(view, at)
    if (this.#state === 'prefix') return this.#scanPrefix(view, at)
    return this.#scanAudio(view, at)
  }

  /** Reads up to the next string. */
  #scanOutside(view: Buffer, from: number): number {
    for (let at = from; at < view.length; at++) {
      const byte = view[at]!
      if (this.#open.length === 0 && byte > 0x20 && byte !== 0x7b && this.#position + at >= BOM_BYTES) {
        throw invalid('the JSON body must be one object')
      }
      if (byte === QUOTE) {
        this.#keep(view, from, at)
        this.#beginString(view, at)
        return at + 1
      }
      if (byte === 0x7b || byte === 0x5b) this.#descend(byte === 0x7b)
      else if (byte === 0x7d || byte === 0x5d) this.#ascend()
      else if (byte === 0x2c) this.#keyNext = this.#open.at(-1) === true
      else if (byte === 0x3a) this.#keyNext = false
    }
    this.#keep(view, from, view.length)
    return view.length
  }

  #descend(object: boolean): void {
    if (this.#open.length === MAX_DEPTH) {
      throw invalid(`the JSON body is nested over ${MAX_DEPTH} levels deep`)
    }
    this.#open.push(object)
    this.#keyNext = object
  }

  #ascend(): void {
    this.#open.pop()
    this.#keyNext = false
  }

  #beginString(view: Buffer, at: number): void {
    if (this.#keyNext || !this.#keys.leadToAudio(this.#open.length)) {
      this.#state = 'text'
      this.#keyStart = this.#keyNext ? this.#skeleton.length : -1
      this.#keep(view, at, at + 1)
      return
    }
    if (this.#audio !== null) throw sentTwice()
    this.#audio = { offset: this.#position + at + 1, length: 0 }
    this.#skeleton.append(PLACEHOLDER)
    this.#state = 'prefix'
  }

  #scanText(view: Buffer, from: number): number {
    const quote = this.#string.endIn(view, from)
    const end = quote === -1 ? view.length : quote + 1
    this.#keep(view, from, end)
    if (quote === -1) return end
    if (this.#keyStart !== -1)
      this.#keys.take(this.#open.length, this.#skeleton.bytes().subarray(this.#keyStart))
    this.#state = 'outside'
    return end
  }

  #scanPrefix(view: Buffer, from: number): number {
    const audio = this.#audio!
    for (let at = from; at < view.length; at++) {
      const outcome = this.#prefix.take(view[at]!)
      if (outcome === 'more') continue
      this.#state = 'audio'
      if (outcome === 'end') {
        audio.offset = this.#position + at + 1
        return at + 1
      }
      const { held } = this.#prefix
      this.#text.scan(held, 0, held.length)
      this.#tap?.take(held, 'base64')
      audio.length = held.length
      return at
    }
    return view.length
  }

  #scanAudio(view: Buffer, at: number): number {
    const quote = view.indexOf(QUOTE, at)
    const end = quote === -1 ? view.length : quote
    if (this.#front.length < URL_FRONT_LENGTH) this.#refuseUrl(view, at, end)
    this.#text.scan(view, at, end)
    this.#audio!.length += end - at
    const { decodedBytes } = this.#text
    if (decodedBytes > this.#maxAudioBytes) throw audioTooLarge(this.#maxAudioBytes, decodedBytes)
    this.#tap?.take(view.subarray(at, end), 'base64')
    if (quote === -1) return end
    this.#text.finish()
    this.#state = 'outside'
    return quote + 1
  }

  /** A URL where audio is expected is told from broken base64: it has a place of its own. */
  #refuseUrl(view: Buffer, at: number, end: number): void {
    this.#front += view.toString('latin1', at, Math.min(end, at + URL_FRONT_LENGTH - this.#front.length))
    if (!/^https?:/i.test(this.#front)) return
    const name = this.#keys.path(this.#open.length)
    throw invalid(`\`${name}\` must be base64; send a URL as \`audio.url\``, 'audio')
  }

  #keep(view: Buffer, start: number, end: number): void {
    if (this.#skeleton.length + end - start > MAX_SKELETON_BYTES) {
      throw invalid(`the JSON body is over ${MAX_SKELETON_BYTES} bytes without its audio`)
    }
    this.#skeleton.append(view.subarray(start, end))
  }

  /** @param missing what would make it whole */
  #parseSkeleton(missing = ''): Record<string, unknown> {
    const text = decodeUtf8(this.#skeleton.bytes())
    if (text === null) throw invalid('the body is not UTF-8')
    let value: unknown
    try {
      value = JSON.parse(text + missing)
    } catch {
      throw invalid('the body is not valid JSON')
    }
    if (!isObject(value)) throw invalid('the JSON body must be one object')
    return value
  }
}

/** The keys on the way to the value that is being read, as far as they may lead to the audio. */
class AudioKeys {
  #top = ''
  /** Within `audio`. */
  #member = ''
  readonly #seen = new Set<string>()

  /**
   * Remembers a key. Sent twice, it would hide a source from JSON.parse.
   *
   * @param depth  open containers
   * @param quoted the key with its quotes
   */
  take(depth: number, quoted: Buffer): void {
    const nested = depth === 2 && this.#top === 'audio'
    if (depth !== 1 && !nested) return
    const key = quoted.length > MAX_KEY_BYTES + 2 ? '' : readKey(quoted)
    if (nested) this.#member = key
    else this.#top = key
    if (!(nested ? AUDIO_KEYS : TOP_KEYS).has(key)) return
    const path = this.path(depth)
    if (this.#seen.has(path)) throw sentTwice()
    this.#seen.add(path)
  }

  /** A string that begins as a value at this depth is the audio. */
  leadToAudio(depth: number): boolean {
    if (depth === 1) return TOP_KEYS.has(this.#top)
    const isSource = this.#member === 'base64' || this.#member === 'data'
    return depth === 2 && this.#top === 'audio' && isSource
  }

  path(depth: number): string {
    return this.#top === 'audio' && depth > 1 ? `audio.${this.#member}` : this.#top
  }
}

function sentTwice() {
  return invalid('send the audio exactly once, as base64, data or url', 'audio')
}

const SCHEME = 'data:'
/** Bytes between the quote and the comma, JSON escapes included. */
const MAX_PREFIX = 1024

/**
 * Tells `data:audio/wav;base64,` (RFC 2397) at the front of a JSON string from plain base64, byte by byte.
 * The letters of `data` are base64 too, so up to four bytes are held back until the colon decides.
 */
class DataUrlPrefix {
  #text = ''
  #mediaType: string | null = null

  /** The media type that the prefix named; null without a prefix or when it named none. */
  get mediaType(): string | null {
    return this.#mediaType
  }

  /** Bytes that were held back and turned out to be base64. */
  get held(): Buffer {
    return Buffer.from(this.#text, 'latin1')
  }

  /**
   * @returns `more` when the byte was taken and another is needed, `end` when it was the comma before the
   *          base64 text, `none` when there is no prefix: the byte and what is `held` belong to the base64
   *          text
   * @throws GatewayError INVALID_REQUEST when a `data:` URL is malformed or not base64
   */
  take(byte: number): 'more' | 'end' | 'none' {
    const char = String.fromCharCode(byte)
    const length = this.#text.length
    if (length < SCHEME.length) {
      if (char.toLowerCase() !== SCHEME[length]) return 'none'
    } else if (byte === QUOTE || length >= MAX_PREFIX) {
      throw malformed()
    } else if (byte === COMMA) {
      this.#mediaType = readMediaType(this.#text)
      return 'end'
    }
    this.#text += char
    return 'more'
  }
}

/** @param prefix the URL up to its comma, with JSON's escapes */
function readMediaType(prefix: string): string | null {
  let text: string
  try {
    text = JSON.parse(`"${prefix}"`)
  } catch {
    throw malformed()
  }
  const marker = text.lastIndexOf(';')
  if (
    text
      .slice(marker + 1)
      .trim()
      .toLowerCase() !== 'base64' ||
    marker === -1
  )
    throw malformed()
  return declaredMediaType(text.slice(SCHEME.length, marker))
}

function malformed() {
  return invalid('a data: URL of audio is written data:<media type>;base64,<base64>', 'audio')
}
