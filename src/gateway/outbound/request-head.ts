import type { UpstreamRequest } from '../../contracts/upstream.ts'

/**
 * The head of a request as text. Adapters hand over the same frozen object of headers for every call to an entry, so
 * that a head is checked and written once, and a call adds the length of its body.
 */
export interface RequestHead {
  /** Scheme, host and port. */
  readonly origin: string
  readonly method: UpstreamRequest['method']
  /** Everything up to the length of the body. */
  readonly text: string
  readonly bytes: Buffer
  readonly url: string
}

/** The request cannot be put into words of HTTP. */
class Unsendable extends Error {
  override readonly name = 'Unsendable'
}

/** Headers that only the connection itself may set. */
const OWN_NAMES: ReadonlySet<string> = new Set([
  ...['connection', 'content-length', 'expect', 'host', 'keep-alive', 'te', 'trailer', 'transfer-encoding'],
  'upgrade',
])
const NOT_A_NAME = /[^!#$%&'*+\-.^_`|~0-9A-Za-z]|^$/
const NOT_A_VALUE = /[^\t\x20-\x7e\x80-\xff]/
const NOT_A_PATH = /[^\x21-\xff]/

const heads = new WeakMap<UpstreamRequest['headers'], RequestHead>()
/** The last one, as headers of forms are new each time. */
let checked = { origin: '', host: '' }

/** @throws Unsendable for what would not be read as the one request that it is */
export function requestHead(request: UpstreamRequest): RequestHead {
  const { url, method, headers } = request
  const known = heads.get(headers)
  if (known !== undefined && known.url === url && known.method === method) return known
  const head = write(request)
  if (Object.isFrozen(headers)) heads.set(headers, head)
  return head
}

function write({ url, method, headers }: UpstreamRequest): RequestHead {
  const pathAt = url.indexOf('/', url.indexOf('://') + 3)
  const origin = url.slice(0, pathAt)
  const path = url.slice(pathAt)
  if (pathAt < 0 || NOT_A_PATH.test(path)) throw new Unsendable('its path')
  if (checked.origin !== origin) checked = { origin, host: URL.parse(origin)?.host ?? '' }
  if (checked.host === '') throw new Unsendable('its host')
  let text = `${method} ${path} HTTP/1.1\r\nhost: ${checked.host}\r\nconnection: keep-alive\r\n`
  for (const name in headers) {
    const value = headers[name]!
    if (NOT_A_NAME.test(name) || OWN_NAMES.has(name.toLowerCase()) || NOT_A_VALUE.test(value))
      throw new Unsendable(name)
    text += `${name}: ${value}\r\n`
  }
  return { origin, method, text, bytes: Buffer.from(text, 'latin1'), url }
}

/** The whole head of a request whose body has this length. */
export function headText({ text, method }: RequestHead, bodyBytes: number): string {
  return text + headEnd(method, bodyBytes)
}

/** The whole request, in one piece of memory. */
export function joinHead({ bytes, method }: RequestHead, body: Uint8Array): Buffer {
  const end = headEnd(method, body.length)
  const whole = Buffer.allocUnsafe(bytes.length + end.length + body.length)
  whole.set(bytes)
  whole.write(end, bytes.length, 'latin1')
  whole.set(body, bytes.length + end.length)
  return whole
}

function headEnd(method: UpstreamRequest['method'], bodyBytes: number): string {
  const hasBody = bodyBytes > 0 || method === 'POST' || method === 'PUT'
  return hasBody ? `content-length: ${bodyBytes}\r\n\r\n` : '\r\n'
}
