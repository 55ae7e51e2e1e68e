import { newId } from '../ids.ts'
import type { HeadWindow } from './header-bytes.ts'
import type { HttpRequest } from './uws.ts'

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

/** A request's first line and headers, copied while uWS's request object was alive. */
export interface RequestHead {
  /** In upper case; `_OTHER` for one that the edge does not know, empty for what is none. */
  readonly method: string
  readonly path: string
  /** Without `?`. */
  readonly query: string
  /**
   * Lower-case names; repeated headers joined with `, `. Without a prototype, so that any name is only a
   * name.
   */
  readonly headers: Readonly<Record<string, string>>
  /** Every value of the headers that frame a request, not joined. */
  readonly hosts: readonly string[]
  readonly contentLengths: readonly string[]
  readonly transferEncodings: readonly string[]
  /** Names of headers whose values lack bytes over 0x7f that they had at an end. */
  readonly cut: readonly string[]
  /** It is known that all bytes are ASCII, and none is DEL. */
  readonly plain: boolean
}

const NOTHING_CUT: readonly string[] = Object.freeze([])
/** Blanks and version of a request line, and the line ends around the headers. */
const LINE_BYTES = ' '.length + ' HTTP/1.1\r\n'.length + '\r\n'.length

/**
 * To be called in the route callback: uWS's request is dead when that returns.
 *
 * @param window null: what the parser has cut off stays unseen
 */
export function readHead(request: HttpRequest, method: string, window: HeadWindow | null): RequestHead {
  const headers: Record<string, string> = Object.create(null)
  const hosts: string[] = []
  const contentLengths: string[] = []
  const transferEncodings: string[] = []
  const path = request.getUrl()
  // Undefined when there is none, whatever its type says.
  const query = (request.getQuery() as string | undefined) ?? ''
  let length = LINE_BYTES + method.length + path.length + (query === '' ? 0 : query.length + 1)
  request.forEach((name, value) => {
    length += name.length + value.length + 4
    const known = headers[name]
    headers[name] = known === undefined ? value : `${known}, ${value}`
    if (name === 'host') hosts.push(value)
    else if (name === 'content-length') contentLengths.push(value)
    else if (name === 'transfer-encoding') transferEncodings.push(value)
  })
  const plain = window?.isPlain(method, length) === true
  const cut = plain || window === null ? NOTHING_CUT : window.cutNames(`${method} ${path}`, headers)
  return { method, path, query, headers, hosts, contentLengths, transferEncodings, cut, plain }
}

/** RFC 9110, section 5.6.2. */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

/** The method of a request whose own the edge does not know: what the caller wrote gets no further. */
export function otherMethod(request: HttpRequest): string {
  return TOKEN.test(request.getCaseSensitiveMethod()) ? '_OTHER' : ''
}

/** The caller's own id for the request where it is well-formed, else a new one. */
export function requestIdOf({ headers, cut }: RequestHead): string {
  const given = cut.includes('x-lk-request-id') ? undefined : headers['x-lk-request-id']
  return given !== undefined && REQUEST_ID.test(given) ? given : newId('req')
}
