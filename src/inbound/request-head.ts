import { newId } from '../ids.ts'
import type { HttpRequest } from './uws.ts'

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

/** A request's first line and headers, copied while uWS's request object was alive. */
export interface RequestHead {
  /** Upper case. */
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
}

/** To be called in the route callback: uWS's request is dead when that returns. */
export function readHead(request: HttpRequest, method: string): RequestHead {
  const headers: Record<string, string> = Object.create(null)
  const hosts: string[] = []
  const contentLengths: string[] = []
  const transferEncodings: string[] = []
  request.forEach((name, value) => {
    const known = headers[name]
    headers[name] = known === undefined ? value : `${known}, ${value}`
    if (name === 'host') hosts.push(value)
    else if (name === 'content-length') contentLengths.push(value)
    else if (name === 'transfer-encoding') transferEncodings.push(value)
  })
  const path = request.getUrl()
  const query = request.getQuery()
  return { method, path, query, headers, hosts, contentLengths, transferEncodings }
}

/** The caller's own id for the request where it is well-formed, else a new one. */
export function requestIdOf({ headers }: RequestHead): string {
  const given = headers['x-lk-request-id']
  return given !== undefined && REQUEST_ID.test(given) ? given : newId('req')
}
