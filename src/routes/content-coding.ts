import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { Exchange } from '../inbound/exchange.ts'
import { accepts } from './accept.ts'

/** RFC 7932; browsers take it over HTTPS and from their own machine. */
export type Coding = 'br' | 'gzip'

const NAMED: Readonly<Record<Coding, RegExp>> = {
  br: /^\s*br\s*(;|$)/i,
  gzip: /^\s*(gzip|\*)\s*(;|$)/i,
}

const zip = promisify(gzip)
const brotli = promisify(brotliCompress)

/** What is made at the time of asking. On a thread of its own, so that calls do not wait for it. */
export function gzipped(text: string): Promise<Uint8Array> {
  return zip(text)
}

/**
 * What is kept: as small as it gets in reasonable time. The last step of Brotli takes off another 2 %, in twice as
 * long: 2 s for the script of /docs. On a thread of its own.
 */
export function packed(bytes: Uint8Array, coding: Coding): Promise<Uint8Array> {
  if (coding === 'gzip') return zip(bytes, { level: constants.Z_BEST_COMPRESSION })
  const { BROTLI_PARAM_QUALITY: quality, BROTLI_PARAM_SIZE_HINT: hint } = constants
  return brotli(bytes, { params: { [quality]: 10, [hint]: bytes.length } })
}

/** Whether a client takes a body so coded. What depends on it says `vary: accept-encoding`. */
export function takes({ headers }: Pick<Exchange, 'headers'>, coding: Coding): boolean {
  return accepts(headers['accept-encoding'], NAMED[coding])
}
