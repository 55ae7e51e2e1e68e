import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Exchange } from '../inbound/exchange.ts'
import { accepts } from './accept.ts'

const GZIP = /^\s*(gzip|\*)\s*(;|$)/i

/** On a thread of its own, so that calls do not wait for it. */
export const compress = promisify(gzip)

/** Whether a client takes a body that is compressed. What depends on it says `vary: accept-encoding`. */
export function takesGzip({ headers }: Pick<Exchange, 'headers'>): boolean {
  return accepts(headers['accept-encoding'], GZIP)
}
