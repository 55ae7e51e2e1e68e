import type { Limits } from '../limits.ts'
import type { ByteBudget } from '../schema/budget.ts'
import type { Exchange } from './exchange.ts'
import { holdJson, parseJson } from './json-body.ts'
import { isObject } from './json-source.ts'
import { MAX_ENVELOPE_BYTES, QueueBodyScanner, type Span } from './queue-body-scanner.ts'
import { invalid, invalidField, MUST } from './refusals.ts'

export interface ReadQueueBodyOptions {
  readonly budget: ByteBudget
  readonly limits: Limits
  /** Whose share of the budget the body counts against. */
  readonly workspace: string
}

/** The body of a queue request. */
export interface QueueBody {
  /** Every member but the payload, as parsed. */
  readonly fields: Readonly<Record<string, unknown>>
  /** JSON of the payload as it came: an object by its first and its last byte, not parsed yet. */
  readonly payload: Buffer
  /** Gives the memory of the payload, and of what is made of it, back. Idempotent. */
  release(): void
}

/** Stands where the payload stood. */
const PLACEHOLDER = Buffer.from('null')

/**
 * Reads the body of a queue request. The payload is left as it is: only with the endpoint, which may stand behind it,
 * is it known how it has to be read. Its size is limited as it arrives, whatever was declared.
 *
 * @throws GatewayError as `holdJson` and `QueueBodyScanner`; INVALID_REQUEST naming `payload` when there is none
 */
export async function readQueueBody(
  exchange: Exchange,
  { budget, limits, workspace }: ReadQueueBodyOptions,
): Promise<QueueBody> {
  const maxPayloadBytes = limits.queue_max_payload_bytes
  const scanner = new QueueBodyScanner(maxPayloadBytes)
  const held = await holdJson(
    exchange,
    {
      budget,
      workspace,
      maxBytes: limits.max_request_body_bytes,
      heldBytesMax: maxPayloadBytes + MAX_ENVELOPE_BYTES,
    },
    scanner,
  )
  try {
    return { ...partsOf(held.bytes, scanner.finish()), release: held.release }
  } catch (error) {
    held.release()
    throw error
  }
}

function partsOf(bytes: Buffer, payload: Span | null): Omit<QueueBody, 'release'> {
  const { start, end } = payload ?? { start: bytes.length, end: bytes.length }
  const around = [bytes.subarray(0, start), PLACEHOLDER, bytes.subarray(end)]
  const envelope = parseJson(payload === null ? bytes : Buffer.concat(around))
  if (!isObject(envelope)) throw invalid('the body is not a JSON object')
  if (payload === null) throw invalidField('payload', MUST.beGiven)
  const { payload: _, ...fields } = envelope
  return { fields, payload: bytes.subarray(start, end) }
}
