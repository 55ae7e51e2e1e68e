import type { Exchange, WholeReply } from '../../inbound/exchange.ts'
import { gzipped, takes } from '../content-coding.ts'

/** What is shorter goes out in a few packets anyway. UTF-16 units. */
const WORTH_LENGTH = 8 * 1024

/** An answer, compressed where it is long and its client takes that: an hour of the overview is a tenth of it then. */
export async function compressed(
  reply: WholeReply,
  exchange: Pick<Exchange, 'headers'>,
): Promise<WholeReply> {
  const { body, headers } = reply
  if (typeof body !== 'string' || body.length < WORTH_LENGTH) return reply
  const varying = { ...headers, vary: 'accept-encoding' }
  if (!takes(exchange, 'gzip')) return { ...reply, headers: varying }
  return { ...reply, headers: { ...varying, 'content-encoding': 'gzip' }, body: await gzipped(body) }
}
