import { GatewayError } from '../errors.ts'
import type { Exchange, Reply } from '../inbound/exchange.ts'
import type { EdgeRoute } from '../inbound/server.ts'
import type { OpenedLink } from '../schema/links.ts'
import type { Objects } from '../schema/objects.ts'

/** What `/results` needs: tokens to be opened, and where the objects are. */
export interface ResultLinks {
  open(token: string): OpenedLink | null
  readonly objects: Objects
}

/** How long a caller's browser may keep a result. */
const CACHED_SECONDS = 3600
const RANGE = /^bytes=(\d{1,15})?-(\d{1,15})?$/

/**
 * GET /results/:token opens a stored result by its signed URL, without an API key. One byte range is answered with 206,
 * which players need to wind; any other `Range` with the whole. A token that is forged, over or of a deleted result is
 * 404, so that nothing can be told from it.
 */
export function results({ open, objects }: ResultLinks): EdgeRoute {
  return {
    method: 'GET',
    path: '/results/:token',
    async handle(exchange) {
      const [token = ''] = exchange.params
      const object = open(token)
      if (object === null) throw new GatewayError('NOT_FOUND')
      exchange.reply(await answer(exchange, object, objects))
    },
  }
}

async function answer(
  exchange: Exchange,
  { key, bytes, mediaType, leftSeconds }: OpenedLink,
  objects: Objects,
): Promise<Reply> {
  const headers = {
    'content-type': mediaType,
    'accept-ranges': 'bytes',
    // Nobody keeps it for longer than the URL opens it.
    'cache-control': `private, max-age=${Math.min(CACHED_SECONDS, Math.floor(leftSeconds))}`,
    'content-security-policy': "default-src 'none'; sandbox",
  }
  const range = rangeOf(exchange.headers.range, bytes)
  const { start, end } = range ?? { start: 0, end: bytes }
  const stream = await opened(objects, key, start, end, exchange.signal)
  if (range === null) return { status: 200, headers, body: { stream } }
  const contentRange = `bytes ${start}-${end - 1}/${bytes}`
  return { status: 206, headers: { ...headers, 'content-range': contentRange }, body: { stream } }
}

/**
 * The bytes of an object, the first of them read: what keeps it from being read is a status, and no answer
 * that breaks off. Left before its first step, as every HEAD leaves it, the store's own generator would keep
 * its file open.
 */
async function opened(
  objects: Objects,
  key: string,
  start: number,
  end: number,
  signal: AbortSignal,
): Promise<AsyncIterable<Uint8Array>> {
  try {
    const chunks = (await objects.get(key, start, end, signal))[Symbol.asyncIterator]()
    return new Begun(await chunks.next(), chunks)
  } catch (error) {
    if (error instanceof GatewayError && isAbsent(error.cause)) throw new GatewayError('NOT_FOUND')
    throw error
  }
}

/** An iteration whose first step has been made. */
class Begun implements AsyncIterableIterator<Uint8Array, undefined> {
  #first: IteratorResult<Uint8Array> | null
  readonly #rest: AsyncIterator<Uint8Array>

  constructor(first: IteratorResult<Uint8Array>, rest: AsyncIterator<Uint8Array>) {
    this.#first = first
    this.#rest = rest
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    const step = this.#first ?? (await this.#rest.next())
    this.#first = null
    return step
  }

  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    await this.#rest.return?.()
    return { value: undefined, done: true }
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}

function isAbsent(cause: unknown): boolean {
  return cause instanceof Error && 'code' in cause && cause.code === 'ENOENT'
}

/** A satisfiable single range, end exclusive; null otherwise, which means the whole (RFC 9110, section 14.2). */
function rangeOf(header: string | undefined, bytes: number): { start: number; end: number } | null {
  const [, from, to] = RANGE.exec(header ?? '') ?? []
  if (from === undefined && to === undefined) return null
  const start = from === undefined ? Math.max(0, bytes - Number(to)) : Number(from)
  const end = from === undefined || to === undefined ? bytes : Math.min(bytes, Number(to) + 1)
  return start < end ? { start, end } : null
}
