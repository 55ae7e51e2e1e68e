import { createHash } from 'node:crypto'

/** A request that every load generator can render to the very same bytes. */
export interface RequestSpec {
  readonly method: 'GET' | 'POST' | 'PUT'
  readonly path: string
  /** Host, Content-Length and a body's Content-Type are added. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: BodySpec | null
  /** API keys, one per connection in turn: a single one would run into its rate limit. */
  readonly bearers?: readonly string[]
}

export type BodySpec =
  | { readonly kind: 'json'; readonly value: unknown }
  /** The audio as a file part, the fields before it. */
  | {
      readonly kind: 'multipart'
      readonly audioBytes: number
      readonly fields: Readonly<Record<string, string>>
    }
  /** The audio as base64 in `{"audio":{"base64":…}}`. */
  | { readonly kind: 'base64'; readonly audioBytes: number }

export interface RenderedRequest {
  /** Head and body, as they go on the wire. */
  readonly bytes: Buffer
  readonly bodyBytes: number
}

const BOUNDARY = 'larkway-bench-5f0c1e7a9d2b4c68'
const WAV_HEADER_BYTES = 44

/** @param connection chooses among the API keys */
export function renderRequest(spec: RequestSpec, port: number, connection = 0): RenderedRequest {
  const { type, body } = renderBody(spec.body)
  const headers: Record<string, string> = { host: `127.0.0.1:${port}`, ...requestHeaders(spec, connection) }
  if (body) Object.assign(headers, { 'content-type': type, 'content-length': String(body.length) })
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const head = Buffer.from(`${spec.method} ${spec.path} HTTP/1.1\r\n${lines.join('')}\r\n`, 'latin1')
  return { bytes: body ? Buffer.concat([head, body]) : head, bodyBytes: body?.length ?? 0 }
}

/** Without those that the body and the connection bring along. */
export function requestHeaders(spec: RequestSpec, connection: number): Record<string, string> {
  const bearer = spec.bearers?.[connection % spec.bearers.length]
  return bearer === undefined ? { ...spec.headers } : { ...spec.headers, authorization: `Bearer ${bearer}` }
}

export function renderBody(spec: BodySpec | null): { type: string; body: Buffer | null } {
  if (!spec) return { type: '', body: null }
  if (spec.kind === 'json') return { type: 'application/json', body: Buffer.from(JSON.stringify(spec.value)) }
  const audio = makeAudio(spec.audioBytes)
  if (spec.kind === 'base64') {
    const value = { audio: { base64: audio.toString('base64'), media_type: 'audio/wav' } }
    return { type: 'application/json', body: Buffer.from(JSON.stringify(value)) }
  }
  const fields = Object.entries(spec.fields).map(
    ([name, value]) => `--${BOUNDARY}\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  )
  const file =
    `--${BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="speech.wav"\r\n` +
    'content-type: audio/wav\r\n\r\n'
  const body = Buffer.concat([
    Buffer.from(fields.join('') + file),
    audio,
    Buffer.from(`\r\n--${BOUNDARY}--\r\n`),
  ])
  return { type: `multipart/form-data; boundary=${BOUNDARY}`, body }
}

/** A mono WAV file, 16 kHz and 16 bit, of exactly that many bytes; its samples are noise, the same in each process. */
export function makeAudio(bytes: number): Buffer {
  const sampleBytes = bytes - WAV_HEADER_BYTES
  const file = Buffer.allocUnsafeSlow(bytes)
  file.write('RIFF', 0, 'latin1')
  file.writeUInt32LE(bytes - 8, 4)
  file.write('WAVEfmt ', 8, 'latin1')
  file.writeUInt32LE(16, 16)
  file.writeUInt16LE(1, 20) // PCM
  file.writeUInt16LE(1, 22) // channels
  file.writeUInt32LE(16_000, 24)
  file.writeUInt32LE(32_000, 28)
  file.writeUInt16LE(2, 32)
  file.writeUInt16LE(16, 34)
  file.write('data', 36, 'latin1')
  file.writeUInt32LE(sampleBytes, 40)

  let word = 0x9e3779b9
  for (let offset = WAV_HEADER_BYTES; offset < bytes; offset += 1) {
    word ^= word << 13
    word ^= word >>> 17
    word ^= word << 5
    file[offset] = word & 0xff
  }
  return file
}

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
