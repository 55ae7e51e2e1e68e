import { multipart } from './bodies.ts'
import type { RawResponse } from './raw-client.ts'
import { RawClient } from './raw-client.ts'

/** A transcription request as the bytes that go over the wire. */
export interface AudioUpload {
  readonly head: Buffer
  readonly body: Buffer
}

/** The same audio in every form in which a body can come. */
export function uploadsOf(
  audio: Buffer,
  authorization: string,
): Readonly<Record<'multipart' | 'json' | 'raw' | 'chunked', AudioUpload>> {
  const { contentType, body: form } = multipart([
    { name: 'language', body: 'en' },
    { name: 'file', filename: 'a.wav', type: 'audio/wav', body: audio },
  ])
  const json = Buffer.from(JSON.stringify({ audio: { base64: audio.toString('base64') } }))
  const size = Buffer.from(`${audio.length.toString(16)}\r\n`)
  const upload = (type: string, body: Buffer, framing = `Content-Length: ${body.length}`) => ({
    head: Buffer.from(
      `POST /v1/transcription HTTP/1.1\r\nHost: a\r\nAuthorization: ${authorization}\r\n` +
        `Content-Type: ${type}\r\n${framing}\r\n\r\n`,
    ),
    body,
  })
  return {
    multipart: upload(contentType, form),
    json: upload('application/json', json),
    raw: upload('audio/wav', audio),
    chunked: upload(
      'audio/wav',
      Buffer.concat([size, audio, Buffer.from('\r\n0\r\n\r\n')]),
      'Transfer-Encoding: chunked',
    ),
  }
}

export interface Answered {
  readonly status: number | undefined
  readonly code: string | undefined
  /** When the answer was read, on the clock of `performance.now`. */
  readonly atMs: number
  /** What Retry-After says, in ms. */
  readonly retryAfterMs: number | undefined
}

/** Reads the answer of a connection; status undefined when it ends without one. */
export async function answerOf(client: RawClient, timeoutMs = 60_000): Promise<Answered> {
  const response: RawResponse | null = await client.response({ timeoutMs })
  const atMs = performance.now()
  const body = JSON.parse(response?.body.toString() ?? '{}') as { error?: { code?: string } }
  const wait = response?.headers['retry-after']
  return {
    status: response?.status,
    code: body.error?.code,
    atMs,
    retryAfterMs: wait === undefined ? undefined : Number(wait) * 1_000,
  }
}

/** How often each answer was given: `{'200': 3, '503 OVERLOADED': 1}`. */
export function tally(answers: readonly Answered[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status = 'no answer', code } of answers) {
    const name = code === undefined ? `${status}` : `${status} ${code}`
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

/** Sends an upload as fast as it is taken, on a connection of its own, and reads the answer while it sends. */
export async function send(port: number, { head, body }: AudioUpload): Promise<Answered> {
  const client = await RawClient.connect(port)
  const answer = answerOf(client)
  void client.send(head, body)
  const answered = await answer
  client.destroy()
  return answered
}
