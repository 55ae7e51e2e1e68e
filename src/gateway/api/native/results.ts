import { toAbortSignal } from '../../../contracts/cancellation.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import type { OpenedLink } from '../../../contracts/links.ts'
import type { Objects } from '../../../contracts/objects.ts'
import type { Exchange, Reply } from '../../edge/exchange.ts'
import { publicEndpoint, type Watchers } from '../endpoint.ts'
import type { Content } from '../openapi/operation.ts'

/** Opens tokens, and holds their objects. */
export interface ResultLinks {
  open(token: string): OpenedLink | null
  readonly objects: Objects
}

/** How long a caller's browser may keep a result. */
const CACHED_SECONDS = 3600
const RANGE = /^bytes=(\d{1,15})?-(\d{1,15})?$/

/** Handler of results needs the links, which a node with an S3 store has not. */
export interface ResultNeeds extends Watchers {
  readonly links: ResultLinks | null
}

const BYTES: Content = { type: '*/*', schema: { type: 'string', format: 'binary' } }

/**
 * Opens a stored result by its signed URL, without an API key. One byte range is answered with 206, which players need
 * to seek; any other `Range` with the whole. A token that is forged, expired or of a deleted result is 404, so that
 * nothing can be told from it.
 */
export const result = publicEndpoint({
  method: 'GET',
  path: '/results/:token',
  id: 'result',
  tag: 'Node',
  summary: 'Download a result by its signed URL',
  description: 'For results stored in a folder; an S3 store serves its URLs itself.',
  parameters: [
    { name: 'Range', in: 'header', description: 'a single byte range', schema: { type: 'string' } },
  ],
  answers: [
    { status: 200, description: 'the full result', contents: [BYTES], headers: ['Accept-Ranges'] },
    {
      status: 206,
      description: 'the requested range',
      contents: [BYTES],
      headers: ['Accept-Ranges', 'Content-Range'],
    },
  ],
  errors: ['NOT_FOUND', 'INTERNAL', 'DEPENDENCY_UNAVAILABLE'],
  async handle(exchange, { links }: ResultNeeds) {
    const [token = ''] = exchange.params
    const object = links?.open(token) ?? null
    if (links === null || object === null) throw new GatewayError('NOT_FOUND')
    return answerResult(exchange, object, links.objects)
  },
})

async function answerResult(
  exchange: Exchange,
  { key, bytes, mediaType, leftSeconds }: OpenedLink,
  objects: Objects,
): Promise<Reply> {
  const headers = {
    'content-type': mediaType,
    'accept-ranges': 'bytes',
    // Caches keep it for no longer than the URL opens it.
    'cache-control': `private, max-age=${Math.min(CACHED_SECONDS, Math.floor(leftSeconds))}`,
    'content-security-policy': "default-src 'none'; sandbox",
  }
  const range = rangeOf(exchange.headers.range, bytes)
  const { start, end } = range ?? { start: 0, end: bytes }
  const stream = await opened(objects, key, start, end, toAbortSignal(exchange.signal))
  if (range === null) return { status: 200, headers, body: { stream } }
  const contentRange = `bytes ${start}-${end - 1}/${bytes}`
  return { status: 206, headers: { ...headers, 'content-range': contentRange }, body: { stream } }
}

/**
 * The bytes of an object, the first of them read: what keeps it from being read is a status, and no answer that breaks
 * off. Left before its first step, as every HEAD leaves it, the store's own generator would keep its file open.
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
