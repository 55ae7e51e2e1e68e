import { createHash } from 'node:crypto'

/** A whole answer; in pieces when it is one that OpenAI streams. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** Where the body is cut when it is streamed: one write each. Absent: it is not streamed. */
  readonly pieces?: readonly Buffer[]
}

/** A body in pieces of `size` bytes. */
export function piecesOf(body: Buffer, size: number): Buffer[] {
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
  const pieces = data.map((item) => Buffer.from(`data: ${item === DONE ? DONE : JSON.stringify(item)}\n\n`))
  const headers = { 'content-type': 'text/event-stream; charset=utf-8' }
  return { status: 200, headers, body: Buffer.concat(pieces), pieces }
}

/** What OpenAI ends its streams with. */
export const DONE = '[DONE]'

/** Lower-case hex. */
export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
