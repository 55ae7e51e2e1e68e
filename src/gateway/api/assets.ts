import { hash } from 'node:crypto'
import { promisify } from 'node:util'
import { brotliCompress, brotliDecompress, constants, gzip } from 'node:zlib'
import type { Exchange, Reply } from '../edge/exchange.ts'
import { accepts } from './accept.ts'

/** Text or bytes that change with the version of the package only. */
export interface Asset {
  readonly type: string
  /** Reads or makes it; called once, at the first request. */
  readonly load: () => Promise<string | Uint8Array>
  /** The same as it was made before; then it is not loaded. */
  readonly packed?: PackedAsset | undefined
  readonly headers?: Readonly<Record<string, string>>
}

/** An asset as Brotli has it, and the tag of its bytes. */
export interface PackedAsset {
  readonly etag: string
  readonly br: Uint8Array
}

/** How browsers keep an asset whose address says nothing of its version: each use asks whether it is still the same. */
const REVALIDATED = 'no-cache'
/** How they keep one whose address has the hash of what it holds: for good, and no use asks again. */
export const IMMUTABLE = 'max-age=31536000, immutable'

/** @param caching the `cache-control` of the answer; default: it is asked for again at each use */
export type AssetAnswer = (exchange: Exchange, caching?: string) => Promise<Reply>

interface Loaded {
  readonly etag: string
  readonly bytes: () => Promise<Uint8Array>
  /** Each made when a client that takes it asks first. */
  readonly coded: Map<Coding, Promise<Uint8Array>>
}

/** The smaller one first. */
const CODINGS: readonly Coding[] = ['br', 'gzip']

/**
 * Answers an asset: nothing but its tag to a client that has it already, compressed to one that takes that. Until
 * it is asked for, it takes neither time nor memory.
 */
export function serveAsset(asset: Asset): AssetAnswer {
  let loading: Promise<Loaded> | null = null
  return async (exchange, caching = REVALIDATED) => {
    loading ??= loaded(asset)
    const one = await loading.catch((error: unknown) => {
      // The next one who asks may have more luck.
      loading = null
      throw error
    })
    const coding = codingFor(exchange)
    // Codings are different bytes, and a strong tag is of bytes.
    const tag = coding === undefined ? `"${one.etag}"` : `"${one.etag}-${coding}"`
    const headers = {
      'content-type': asset.type,
      'cache-control': caching,
      vary: 'accept-encoding',
      ...asset.headers,
      // Immutable assets are never revalidated.
      ...(caching === IMMUTABLE ? {} : { etag: tag }),
    }
    if (hasTag(exchange.headers['if-none-match'], tag)) return { status: 304, headers, body: '' }
    if (coding === undefined) return { status: 200, headers, body: await one.bytes() }
    const body = await codedAs(coding, one)
    return { status: 200, headers: { ...headers, 'content-encoding': coding }, body }
  }
}

function codedAs(coding: Coding, { bytes, coded }: Loaded): Promise<Uint8Array> {
  const known = coded.get(coding)
  if (known !== undefined) return known
  const making = bytes().then((all) => shrunk(all, coding))
  coded.set(coding, making)
  return making
}

async function loaded({ load, packed }: Asset): Promise<Loaded> {
  if (packed !== undefined) {
    const { etag, br } = packed
    // Browsers take it as it is; who does not, waits a millisecond.
    return { etag, bytes: () => unbrotli(br), coded: new Map([['br', Promise.resolve(br)]]) }
  }
  const bytes = bytesOf(await load())
  return { etag: tagOf(bytes), bytes: async () => bytes, coded: new Map() }
}

/** Makes an asset before anybody asks for it. */
export async function packAsset(content: string | Uint8Array): Promise<PackedAsset> {
  const bytes = bytesOf(content)
  return { etag: tagOf(bytes), br: await brotli(bytes, brotliOptions(BROTLI_QUALITY_BEST, bytes.length)) }
}

function bytesOf(content: string | Uint8Array): Uint8Array {
  return typeof content === 'string' ? Buffer.from(content) : content
}

function tagOf(bytes: Uint8Array): string {
  return hash('sha256', bytes).slice(0, 24)
}

/** RFC 9110, section 13.1.2: tags are compared weakly, and a proxy that compressed may have made one weak. */
function hasTag(ifNoneMatch: string | undefined, tag: string): boolean {
  if (ifNoneMatch === undefined) return false
  if (ifNoneMatch.trim() === '*') return true
  return ifNoneMatch.split(',').some((one) => one.trim().replace(/^W\//, '') === tag)
}

/** RFC 7932; browsers take it over HTTPS and from their own machine. */
type Coding = 'br' | 'gzip'

const NAMED: Readonly<Record<Coding, RegExp>> = { br: /^\s*br\s*(;|$)/i, gzip: /^\s*(gzip|\*)\s*(;|$)/i }

const zip = promisify(gzip)
const brotli = promisify(brotliCompress)
const unbrotli = promisify(brotliDecompress)

/** The best that a client takes; undefined: none. */
export function codingFor(exchange: Pick<Exchange, 'headers'>): Coding | undefined {
  return CODINGS.find((name) => takes(exchange, name))
}

/** Takes about as long as gzip does, for fewer bytes. */
const BROTLI_QUALITY_NOW = 5

/** Compression at the time of the request. On a thread of its own, so that calls do not wait for it. */
export function compressedNow(text: string, coding: Coding): Promise<Uint8Array> {
  return coding === 'gzip' ? zip(text) : brotli(text, brotliOptions(BROTLI_QUALITY_NOW, text.length))
}

function brotliOptions(quality: number, bytes: number) {
  const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_SIZE_HINT } = constants
  return { params: { [BROTLI_PARAM_QUALITY]: quality, [BROTLI_PARAM_SIZE_HINT]: bytes } }
}

/** The last step takes off another 2 %, in twice as long: 2 s for the script of /docs. */
const BROTLI_QUALITY_KEPT = 10
/** For compression that no request waits for. */
const BROTLI_QUALITY_BEST = 11

/** Compression of what is kept: as small as it gets in reasonable time. On a thread of its own, too. */
function shrunk(bytes: Uint8Array, coding: Coding): Promise<Uint8Array> {
  if (coding === 'gzip') return zip(bytes, { level: constants.Z_BEST_COMPRESSION })
  return brotli(bytes, brotliOptions(BROTLI_QUALITY_KEPT, bytes.length))
}

/** True where a client takes a body so coded. An answer that depends on it has `vary: accept-encoding`. */
function takes({ headers }: Pick<Exchange, 'headers'>, coding: Coding): boolean {
  return accepts(headers['accept-encoding'], NAMED[coding])
}
