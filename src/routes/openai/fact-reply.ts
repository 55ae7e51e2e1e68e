import type { Envelope } from '../../gateway/settle.ts'
import type { WholeReply } from '../../inbound/exchange.ts'
import { factHeaders } from '../fact-headers.ts'
import { jsonReply } from '../json-reply.ts'

/** An answer of OpenAI's, whose shape has no place for the envelope: its facts are in headers. */
export async function factReply(envelope: Envelope, value: object): Promise<WholeReply> {
  const { headers, ...reply } = await jsonReply(value)
  return { ...reply, headers: { ...headers, ...factHeaders(envelope) } }
}

/** What `created` says of an answer, Unix seconds. */
export function secondsNow(): number {
  return Math.floor(Date.now() / 1000)
}
