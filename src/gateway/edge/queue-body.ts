import type { ByteBudget } from '../../contracts/budget.ts'
import { GatewayError } from '../../contracts/errors.ts'
import { JsonString } from '../../contracts/json-string.ts'
import type { Limits } from '../../contracts/limits.ts'
import { ByteBuilder } from './byte-builder.ts'
import type { Exchange } from './exchange.ts'
import { holdJson, isObject, parseJson } from './json-body.ts'
import { JsonStructure, readKey } from './json-structure.ts'
import { invalid, invalidField, MUST } from './refusals.ts'

interface ReadQueueBodyOptions {
  readonly budget: ByteBudget
  readonly limits: Limits
  /** Workspace whose share of the budget the body counts against. */
  readonly workspace: string
}

interface QueueBody {
  /** Every member but the payload, as parsed. */
  readonly fields: Readonly<Record<string, unknown>>
  /** JSON of the payload as it came: an object by its first and its last byte, not parsed yet. */
  readonly payload: Buffer
  /** Gives the memory of the payload, and of what is made of it, back. Idempotent. */
  release(): void
}

/** Put in the place of the payload. */
const PLACEHOLDER = Buffer.from('null')

/**
 * Reads the body of a queue request. The payload is left as it is: the endpoint, which may come after it, decides how
 * it has to be read. Its size is limited as it arrives, whatever was declared.
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
    return { ...bodyParts(held.bytes, scanner.finish()), release: held.release }
  } catch (error) {
    held.release()
    throw error
  }
}

function bodyParts(bytes: Buffer, payload: Span | null): Omit<QueueBody, 'release'> {
  const { start, end } = payload ?? { start: bytes.length, end: bytes.length }
  const around = [bytes.subarray(0, start), PLACEHOLDER, bytes.subarray(end)]
  const envelope = parseJson(payload === null ? bytes : Buffer.concat(around))
  if (!isObject(envelope)) throw invalid('the body is not a JSON object')
  if (payload === null) throw invalidField('payload', MUST.beGiven)
  const { payload: _, ...fields } = envelope
  return { fields, payload: bytes.subarray(start, end) }
}

/** Everything but the payload: names, values and white space. */
export const MAX_ENVELOPE_BYTES = 64 * 1024

/** Members of the envelope. Sent twice, one of them would hide from JSON.parse. */
const MEMBERS: ReadonlySet<string> = new Set(['endpoint', 'payload', 'mode', 'idempotency_key'])
/** The longest key looked for between its quotes, every character of it written as `\uXXXX`. */
const MAX_KEY_BYTES = 6 * 'idempotency_key'.length + 2

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACE = 0x7b
const WHITE_SPACE: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d])

/** Position of a value in its body: from `start` up to `end`. */
export interface Span {
  readonly start: number
  readonly end: number
}

/**
 * Finds the value of `payload` in the body of a queue request while it arrives, and counts its bytes. It tracks only
 * strings and nesting: in a body that is JSON it finds exactly the value that a parser finds, and where they could
 * disagree the body is not JSON. Then the text around the value is not JSON either, or the value is not.
 */
export class QueueBodyScanner {
  readonly #maxPayloadBytes: number
  readonly #structure = new JsonStructure()
  /** Bytes of the body before the current view. */
  #position = 0
  #depth = 0
  #inString = false
  readonly #string = new JsonString()
  /** The next string of the envelope is a key. */
  #keyNext = false
  /** The key that is being read, its quotes included. */
  readonly #key = new ByteBuilder()
  #inKey = false
  /** The key whose colon is still to come. */
  #member = ''
  /** The value that comes next is the payload. */
  #payloadNext = false
  #payload: { start: number; end: number | null } | null = null
  readonly #seen = new Set<string>()

  /** @param maxPayloadBytes raw bytes of the value of `payload` */
  constructor(maxPayloadBytes: number) {
    this.#maxPayloadBytes = maxPayloadBytes
  }

  /**
   * @throws GatewayError REQUEST_TOO_LARGE when the payload is over its limit; INVALID_REQUEST for a payload that is no
   *         object, a member that is sent twice, too much around the payload, and the bounds of `JsonStructure`
   */
  scan(view: Buffer): void {
    this.#structure.scan(view)
    let at = 0
    while (at < view.length) at = this.#inString ? this.#scanString(view, at) : this.#scanStructure(view, at)
    this.#position += view.length
    this.#checkBytes(this.#position)
  }

  /** The body has ended. Null: it has no payload. @throws GatewayError INVALID_REQUEST when it ends within one */
  finish(): Span | null {
    if (this.#payload === null) return null
    const { start, end } = this.#payload
    if (end === null) throw invalid('the body is not valid JSON')
    return { start, end }
  }

  /** Reads up to the next string. */
  #scanStructure(view: Buffer, from: number): number {
    for (let at = from; at < view.length; at++) {
      const byte = view[at]!
      if (this.#payloadNext && !WHITE_SPACE.has(byte)) this.#beginPayload(byte, this.#position + at)
      if (byte === QUOTE) {
        this.#inString = true
        this.#inKey = this.#keyNext
        if (this.#inKey) this.#key.append(view.subarray(at, at + 1))
        return at + 1
      }
      if (byte === COMMA) this.#keyNext = this.#depth === 1
      else if (byte === COLON) this.#endMember()
      // Both brackets that open, and both that close, differ in this bit alone.
      else if ((byte | 0x20) === 0x7b) this.#descend(byte)
      else if ((byte | 0x20) === 0x7d) this.#ascend(this.#position + at)
    }
    return view.length
  }

  #descend(byte: number): void {
    if (this.#depth === 0 && byte !== OPEN_BRACE) throw invalid('the body is not a JSON object')
    this.#depth += 1
    this.#keyNext = this.#depth === 1
  }

  #ascend(at: number): void {
    this.#depth -= 1
    this.#keyNext = false
    if (this.#depth !== 1 || this.#payload === null || this.#payload.end !== null) return
    this.#payload.end = at + 1
    this.#checkBytes(at + 1)
  }

  /** A colon: between a member of the envelope and its value, or somewhere deeper, where no member waits for it. */
  #endMember(): void {
    this.#payloadNext = this.#depth === 1 && this.#member === 'payload'
    this.#member = ''
  }

  #beginPayload(byte: number, start: number): void {
    if (byte !== OPEN_BRACE) throw invalidField('payload', 'must be an object')
    this.#payloadNext = false
    this.#payload = { start, end: null }
  }

  #scanString(view: Buffer, from: number): number {
    const quote = this.#string.endIn(view, from)
    const end = quote === -1 ? view.length : quote + 1
    if (this.#inKey) this.#keepKey(view.subarray(from, end))
    if (quote === -1) return end
    this.#inString = false
    if (this.#inKey) this.#endKey()
    return end
  }

  /** Keeps at most one byte more than the longest member name: enough to see that a key is too long. */
  #keepKey(bytes: Buffer): void {
    this.#key.append(bytes.subarray(0, MAX_KEY_BYTES + 1 - this.#key.length))
  }

  #endKey(): void {
    const key = this.#key.length > MAX_KEY_BYTES ? '' : readKey(this.#key.bytes())
    this.#key.clear()
    this.#inKey = false
    this.#keyNext = false
    this.#member = key
    if (!MEMBERS.has(key)) return
    if (this.#seen.has(key)) throw invalidField(key, 'must be sent once')
    this.#seen.add(key)
  }

  /** @param received bytes of the body so far */
  #checkBytes(received: number): void {
    const { start, end } = this.#payload ?? { start: received, end: received }
    const payloadBytes = (end ?? received) - start
    if (payloadBytes > this.#maxPayloadBytes) throw payloadTooLarge(this.#maxPayloadBytes, payloadBytes)
    if (received - payloadBytes > MAX_ENVELOPE_BYTES)
      throw invalid(`the body is over ${MAX_ENVELOPE_BYTES} bytes without its payload`)
  }
}

/** @param receivedBytes of the value of `payload`, counted when the limit was crossed */
function payloadTooLarge(limitBytes: number, receivedBytes: number): GatewayError {
  const limit = 'queue_max_payload_bytes'
  return new GatewayError('REQUEST_TOO_LARGE', `the payload is over ${limit} (${limitBytes} bytes)`, {
    param: 'payload',
    details: { limit, limit_bytes: limitBytes, received_bytes: receivedBytes },
  })
}
