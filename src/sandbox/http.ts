import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type Clock, sleep } from '../contracts/time.ts'

/** A whole answer; in chunks when it is one that OpenAI streams. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** Chunks of a body that is streamed, one write each. Absent: it is not streamed. */
  readonly chunks?: readonly Buffer[]
}

/** A body in chunks of `size` bytes. */
export function chunksOf(body: Buffer, size: number): Buffer[] {
  const count = Math.ceil(body.length / size)
  return Array.from({ length: count }, (_, at) => body.subarray(at * size, (at + 1) * size))
}

/** An answer in JSON. */
export function json(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Answer {
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    body: Buffer.from(JSON.stringify(body)),
  }
}

/** An answer of server-sent events, each some JSON or `[DONE]`. */
export function events(data: readonly unknown[]): Answer {
  const chunks = data.map((item) => Buffer.from(`data: ${item === DONE ? DONE : JSON.stringify(item)}\n\n`))
  const headers = { 'content-type': 'text/event-stream; charset=utf-8' }
  return { status: 200, headers, body: Buffer.concat(chunks), chunks: chunks }
}

/** Last event of OpenAI's streams. */
export const DONE = '[DONE]'

/** Lower-case hex. */
export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** A refusal in OpenAI's form: `{"error": {message, type, param, code}}`. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly status: number
  readonly param: string | null
  readonly code: string | null

  constructor(
    status: number,
    message: string,
    { param = null, code = null }: { param?: string | null; code?: string | null } = {},
  ) {
    super(message)
    this.status = status
    this.param = param
    this.code = code
  }

  /** The answer's body. */
  get body() {
    const { message, param, code } = this
    return { error: { message, type: typeOf(this), param, code } }
  }
}

function typeOf({ status, code }: Refusal): string {
  if (code === 'insufficient_quota') return 'insufficient_quota'
  if (status === 429) return 'requests'
  return status >= 500 ? 'server_error' : 'invalid_request_error'
}

/** Largest file that OpenAI's audio endpoints take, bytes. */
export const FILE_MAX_BYTES = 26_214_400
/** Room for the rest of a form. */
const BODY_MAX_BYTES = FILE_MAX_BYTES + 1024 * 1024

/** A form or JSON body, in the terms of both. */
export interface CallBody {
  /** Values by name; JSON scalars as text. */
  readonly fields: ReadonlyMap<string, readonly string[]>
  readonly file: { readonly bytes: Buffer; readonly name: string; readonly type: string } | null
  /** The whole of a JSON body; null for a form. */
  readonly json: Readonly<Record<string, unknown>> | null
  /** The whole body. */
  readonly raw: Buffer
}

/** The first value of a field. */
export function first(body: CallBody, name: string): string | undefined {
  return body.fields.get(name)?.[0]
}

/**
 * Reads a whole body.
 *
 * @param bytesPerSecond reads no faster than this by the clock; null: as fast as it comes
 * @throws Refusal 413 over the largest body; the stream's error when the caller leaves
 */
export async function readBody(
  request: IncomingMessage,
  bytesPerSecond: number | null,
  clock: Clock,
): Promise<Buffer> {
  const startedMs = clock.now()
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > BODY_MAX_BYTES) {
      throw new Refusal(413, `Maximum content size limit (${FILE_MAX_BYTES}) exceeded`)
    }
    chunks.push(chunk)
    if (bytesPerSecond === null) continue
    const dueMs = (bytes / bytesPerSecond) * 1000
    await sleep(clock, Math.max(0, startedMs + dueMs - clock.now()))
  }
  return Buffer.concat(chunks)
}

/**
 * Takes a multipart form apart. The parser is the platform's, so that it shares nothing with what writes the
 * forms.
 *
 * @throws Refusal 400 when the body is not a form
 */
export async function readForm(raw: Buffer, contentType: string): Promise<CallBody> {
  const form = await new Response(Uint8Array.from(raw), { headers: { 'content-type': contentType } })
    .formData()
    .catch(() => {
      throw new Refusal(400, 'Could not parse multipart form')
    })
  const fields = new Map<string, string[]>()
  let file: CallBody['file'] = null
  for (const [name, value] of form) {
    if (typeof value === 'string') fields.set(name, [...(fields.get(name) ?? []), value])
    else if (name === 'file') {
      file = { bytes: Buffer.from(await value.arrayBuffer()), name: value.name, type: value.type }
    }
  }
  return { fields, file, json: null, raw }
}

/** @throws Refusal 400 when the body is not a JSON object */
export function readJson(raw: Buffer): CallBody {
  let parsed: unknown
  try {
    parsed = JSON.parse(raw.toString())
  } catch {
    parsed = null
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw new Refusal(400, 'We could not parse the JSON body of your request.')
  }
  const scalars = Object.entries(parsed).filter(([, value]) =>
    ['string', 'number', 'boolean'].includes(typeof value),
  )
  const fields = new Map(scalars.map(([name, value]) => [name, [String(value)]]))
  return { fields, file: null, json: { ...parsed }, raw }
}

/** A member of a value that may be no object at all. */
export function memberOf(value: unknown, name: string): unknown {
  const holds = typeof value === 'object' && value !== null && Object.hasOwn(value, name)
  return holds ? (value as Readonly<Record<string, unknown>>)[name] : undefined
}

/** A member that is a list; empty when it is none. */
export function listIn(value: unknown, name: string): readonly unknown[] {
  const list = memberOf(value, name)
  return Array.isArray(list) ? list : []
}

export function stringIn(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}
