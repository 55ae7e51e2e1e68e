import { GatewayError } from '../errors.ts'
import type { ByteBudget } from '../schema/budget.ts'
import type { Exchange } from './exchange.ts'
import { Gather } from './gather.ts'
import { contentTypeOf, readBody, refuseDeclared } from './intake.ts'
import { invalid } from './refusals.ts'
import { decodeUtf8 } from './utf8.ts'

/** Held whatever the budget says, so that a call of a few KiB is served while large bodies use it up. */
const FORCED_BYTES = 256 * 1024

export interface ReadJsonOptions {
  readonly budget: ByteBudget
  /** Raw bytes of the body. */
  readonly maxBytes: number
}

/**
 * Reads a whole JSON body and parses it on the event loop: for endpoints whose bodies are small, though any
 * size up to `maxBytes` is accepted. The raw bytes count against the budget until they are parsed.
 *
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, REQUEST_TOO_LARGE, INVALID_REQUEST when the body is not JSON
 *         in UTF-8, OVERLOADED when a large one does not fit into the budget, REQUEST_TIMEOUT, CLIENT_CLOSED
 */
export async function readJson(exchange: Exchange, { budget, maxBytes }: ReadJsonOptions): Promise<unknown> {
  refuseDeclared(exchange, maxBytes)
  if (contentTypeOf(exchange)?.value !== 'application/json') {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'send application/json, uncompressed')
  }
  exchange.signal.throwIfAborted()
  const gather = new Gather()
  let charged = 0
  try {
    await readBody(exchange, maxBytes, exchange.signal, (view) => {
      gather.append(view)
      charged += hold(budget, gather.capacity - charged, gather.capacity)
    })
    return parse(gather.bytes())
  } finally {
    budget.refund(charged)
  }
}

function hold(budget: ByteBudget, grownBytes: number, heldBytes: number): number {
  if (heldBytes <= FORCED_BYTES) budget.charge(grownBytes)
  else if (!budget.tryReserve(grownBytes)) {
    throw new GatewayError('OVERLOADED', 'this node has no memory left for a body of this size now')
  }
  return grownBytes
}

function parse(bytes: Buffer): unknown {
  const text = decodeUtf8(bytes)
  if (text === null) throw invalid('the body is not UTF-8')
  try {
    return JSON.parse(text)
  } catch {
    throw invalid('the body is not valid JSON')
  }
}
