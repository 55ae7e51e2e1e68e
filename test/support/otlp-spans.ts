/** A span as it came over the wire. */
export interface ReceivedSpan {
  /** Hex, and so are the other ids. */
  readonly traceId: string
  readonly spanId: string
  /** Empty for the first one of its trace. */
  readonly parentSpanId: string
  readonly traceState: string
  readonly name: string
  readonly kind: string
  readonly startNs: bigint
  readonly endNs: bigint
  readonly attributes: Attributes
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[]
  readonly status: string
  readonly statusMessage: string
  readonly events: number
  readonly resource: Attributes
  readonly scope: string
}

type Attributes = Readonly<Record<string, string | number | boolean>>

const KINDS = ['UNSPECIFIED', 'INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER']
const STATUSES = ['UNSET', 'OK', 'ERROR']

/**
 * The spans of an ExportTraceServiceRequest in protobuf. Field numbers as in opentelemetry-proto 1.3,
 * `trace/v1/trace.proto` and `common/v1/common.proto`.
 *
 * @throws Error for what is not of that form
 */
export function readSpans(message: Uint8Array): ReceivedSpan[] {
  return messagesOf(fieldsOf(message), 1).flatMap((resourceSpans) => {
    const resource = attributesOf(messagesOf(resourceSpans, 1)[0] ?? [], 1)
    return messagesOf(resourceSpans, 2).flatMap((scopeSpans) => {
      const scope = textOf(messagesOf(scopeSpans, 1)[0] ?? [], 1)
      return messagesOf(scopeSpans, 2).map((span) => spanOf(span, resource, scope))
    })
  })
}

function spanOf(span: Fields, resource: Attributes, scope: string): ReceivedSpan {
  const status = messagesOf(span, 15)[0] ?? []
  return {
    traceId: hexOf(span, 1),
    spanId: hexOf(span, 2),
    traceState: textOf(span, 3),
    parentSpanId: hexOf(span, 4),
    name: textOf(span, 5),
    kind: KINDS[Number(numberOf(span, 6))] ?? 'unknown',
    startNs: numberOf(span, 7),
    endNs: numberOf(span, 8),
    attributes: attributesOf(span, 9),
    events: messagesOf(span, 11).length,
    links: messagesOf(span, 13).map((link) => ({ traceId: hexOf(link, 1), spanId: hexOf(link, 2) })),
    status: STATUSES[Number(numberOf(status, 3))] ?? 'unknown',
    statusMessage: textOf(status, 2),
    resource,
    scope,
  }
}

interface Field {
  readonly number: number
  readonly value: bigint | Uint8Array
}

type Fields = readonly Field[]

function fieldsOf(message: Uint8Array): Fields {
  const bytes = Buffer.from(message.buffer, message.byteOffset, message.byteLength)
  const fields: Field[] = []
  let at = 0
  function varint(): bigint {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes.readUInt8(at)
      at += 1
      value |= BigInt(byte & 127) << shift
      if (byte < 128) return value
    }
  }
  function take(length: number): Buffer {
    if (at + length > bytes.length) throw new Error('the message is cut short')
    at += length
    return bytes.subarray(at - length, at)
  }
  while (at < bytes.length) {
    const tag = Number(varint())
    const number = tag >>> 3
    const type = tag & 7
    if (type === 0) fields.push({ number, value: varint() })
    else if (type === 1) fields.push({ number, value: take(8).readBigUInt64LE() })
    else if (type === 2) fields.push({ number, value: take(Number(varint())) })
    else if (type === 5) fields.push({ number, value: BigInt(take(4).readUInt32LE()) })
    else throw new Error(`there is no wire type ${type}`)
  }
  return fields
}

function bytesOf(fields: Fields, wanted: number): Uint8Array[] {
  return fields.flatMap(({ number, value }) =>
    number === wanted && typeof value !== 'bigint' ? [value] : [],
  )
}

function messagesOf(fields: Fields, wanted: number): Fields[] {
  return bytesOf(fields, wanted).map(fieldsOf)
}

function hexOf(fields: Fields, wanted: number): string {
  return Buffer.from(bytesOf(fields, wanted)[0] ?? []).toString('hex')
}

function textOf(fields: Fields, wanted: number): string {
  return Buffer.from(bytesOf(fields, wanted)[0] ?? []).toString()
}

function numberOf(fields: Fields, wanted: number): bigint {
  const found = fields.find(({ number, value }) => number === wanted && typeof value === 'bigint')
  return (found?.value as bigint | undefined) ?? 0n
}

function attributesOf(fields: Fields, wanted: number): Attributes {
  const pairs = messagesOf(fields, wanted)
  return Object.fromEntries(pairs.map((pair) => [textOf(pair, 1), anyValueOf(messagesOf(pair, 2)[0] ?? [])]))
}

/** An AnyValue. A double has the same wire type as the moments of a span, which are whole numbers. */
function anyValueOf(fields: Fields): string | number | boolean {
  const [{ number, value } = { number: 0, value: 0n }] = fields
  if (typeof value !== 'bigint') return Buffer.from(value).toString()
  if (number === 2) return value === 1n
  if (number !== 4) return Number(BigInt.asIntN(64, value))
  const double = Buffer.alloc(8)
  double.writeBigUInt64LE(value)
  return double.readDoubleLE()
}
