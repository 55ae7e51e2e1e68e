/**
 * `secret`: opens something. `content`: what callers and providers say, which may be kept as a value and be in the
 * answer that it belongs to. `foreign`: what nobody has any use for, and nobody may keep.
 */
export type CanaryKind = 'secret' | 'content' | 'foreign'

/** In every canary every few characters, so that a piece that was cut out of one sings too. */
const MARK = 'cAnArY'
const NAME = /cAnArY([A-Za-z0-9]{4})/g
const TIMES = 6

/** Names a mark without a tag: nobody knows which canary it was cut out of. */
export const PIECE = 'a piece of one'

interface Canary {
  readonly name: string
  readonly kind: CanaryKind
}

/** A text that was not made here, such as an API key, as it would stand in an output. */
interface Literal extends Canary {
  readonly patterns: readonly Buffer[]
}

export interface Finding extends Canary {
  /** What stands around it. */
  readonly around: string
}

/**
 * Texts that are in one place of the world each, and the search for them: as they are, in base64 at every alignment, in
 * hex, and as they come out of percent-encoding, which leaves them alone.
 */
export class Canaries {
  readonly #named = new Map<string, Canary>()
  readonly #literals: Literal[] = []

  /** @returns 60 letters and digits */
  make(name: string, kind: CanaryKind): string {
    const tag = String(this.#named.size).padStart(4, 'Q')
    this.#named.set(tag, { name, kind })
    return `${MARK}${tag}`.repeat(TIMES)
  }

  /** Watches a text that others have made; of a long one, what stands in its middle. */
  watch(name: string, kind: CanaryKind, text: string): string {
    const core = text.length <= 32 ? text : text.slice(14, 46)
    if (core.length < 16) throw new Error(`${name} is too short to be told from chance`)
    this.#literals.push({ name, kind, patterns: encodingsOf(core) })
    return text
  }

  /** What sings in a piece of output. */
  find(output: Uint8Array | string): Finding[] {
    const bytes = Buffer.from(output as string)
    return [...this.#findMade(bytes), ...this.#findWatched(bytes)]
  }

  #findMade(bytes: Buffer): Finding[] {
    const found = new Map<string, Finding>()
    for (const { pattern, decode } of MARKS) {
      const looked = new Set<string>()
      for (let at = bytes.indexOf(pattern); at !== -1; at = bytes.indexOf(pattern, at + 1)) {
        // A sound says the same hundreds of thousands of times.
        const window = bytes.toString('latin1', at, at + DECODED_MAX)
        if (looked.has(window)) continue
        looked.add(window)
        const names = [...decode(bytes, at).matchAll(NAME)].map(([, tag = '']) => tag)
        const canary = names.map((tag) => this.#named.get(tag)).find((known) => known !== undefined)
        const { name, kind } = canary ?? { name: PIECE, kind: 'secret' as const }
        if (!found.has(name)) found.set(name, { name, kind, around: aroundOf(bytes, at) })
      }
    }
    return [...found.values()]
  }

  #findWatched(bytes: Buffer): Finding[] {
    return this.#literals.flatMap(({ name, kind, patterns }) => {
      const at = Math.max(...patterns.map((pattern) => bytes.indexOf(pattern)))
      return at === -1 ? [] : [{ name, kind, around: aroundOf(bytes, at) }]
    })
  }
}

/** Sound that says a canary over and over: a wav with it in its samples. */
export function singingWav(canary: string, seconds = 1): Buffer {
  const data = Buffer.alloc(32_000 * seconds, canary)
  const head = Buffer.alloc(44)
  head.write('RIFF', 0, 'latin1')
  head.writeUInt32LE(data.length + 36, 4)
  head.write('WAVEfmt ', 8, 'latin1')
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(1, 20)
  head.writeUInt16LE(1, 22)
  head.writeUInt32LE(16_000, 24)
  head.writeUInt32LE(32_000, 28)
  head.writeUInt16LE(2, 32)
  head.writeUInt16LE(16, 34)
  head.write('data', 36, 'latin1')
  head.writeUInt32LE(data.length, 40)
  return Buffer.concat([head, data])
}

interface Mark {
  readonly pattern: Buffer
  /** The text around a place where the pattern stands. */
  readonly decode: (bytes: Buffer, at: number) => string
}

/** No more is decoded behind a place where a pattern stands. */
const DECODED_MAX = 160
const plain = (bytes: Buffer, at: number) => bytes.toString('latin1', at, at + 80)
const MARKS: readonly Mark[] = [
  { pattern: Buffer.from(MARK), decode: plain },
  ...base64Of(MARK).map((text) => ({ pattern: Buffer.from(text), decode: decodeBase64 })),
  ...hexOf(MARK).map((text) => ({ pattern: Buffer.from(text), decode: decodeHex })),
]

function encodingsOf(text: string): Buffer[] {
  return [text, ...base64Of(text), ...hexOf(text)].map((encoded) => Buffer.from(encoded))
}

function hexOf(text: string): string[] {
  const hex = Buffer.from(text).toString('hex')
  return [hex, hex.toUpperCase()]
}

/** What of base64 does not depend on what stands before and behind; in both alphabets. */
function base64Of(text: string): string[] {
  const texts = [0, 1, 2].map((before) => {
    const whole = Buffer.concat([Buffer.alloc(before), Buffer.from(text)])
    const from = Math.ceil((before * 8) / 6)
    return whole.toString('base64').slice(from, Math.floor((whole.length * 8) / 6))
  })
  const other = texts.map((base64) => base64.replaceAll('+', '-').replaceAll('/', '_'))
  return [...new Set([...texts, ...other])]
}

/** Nobody knows where it begins: one of the four ways to cut it is right. */
function decodeBase64(bytes: Buffer, at: number): string {
  const text = bytes.toString('latin1', at, at + 120).replace(/[^A-Za-z0-9+/_-].*$/s, '')
  return [0, 1, 2, 3].map((skip) => Buffer.from(text.slice(skip), 'base64').toString('latin1')).join('\n')
}

function decodeHex(bytes: Buffer, at: number): string {
  return Buffer.from(bytes.toString('latin1', at, at + DECODED_MAX), 'hex').toString('latin1')
}

function aroundOf(bytes: Buffer, at: number): string {
  return bytes.toString('latin1', Math.max(0, at - 160), at + 100)
}
