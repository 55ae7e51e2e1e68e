import { multipart } from './bodies.ts'
import { RawClient } from './raw-client.ts'

/** Forms in which a job's audio can come. */
export const FORMS = ['multipart', 'raw', 'base64', 'chunked'] as const
export type Form = (typeof FORMS)[number]

/** The submission of a job as the bytes that go over the wire. */
export function submissionOf(form: Form, wav: Buffer, authorization: string): Buffer {
  const { type, body, framing } = FRAMED[form](wav)
  const head =
    `POST /v1/transcription/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: ${authorization}\r\n` +
    `Content-Type: ${type}\r\n${framing ?? `Content-Length: ${body.length}`}\r\n\r\n`
  return Buffer.concat([Buffer.from(head), body])
}

interface Framed {
  readonly type: string
  readonly body: Buffer
  /** Absent: the length is told. */
  readonly framing?: string
}

const FRAMED: Readonly<Record<Form, (wav: Buffer) => Framed>> = {
  multipart(wav) {
    const { contentType: type, body } = multipart([
      { name: 'language', body: 'en' },
      { name: 'file', filename: 'a.wav', type: 'audio/wav', body: wav },
    ])
    return { type, body }
  },
  raw: (wav) => ({ type: 'audio/wav', body: wav }),
  base64: (wav) => ({
    type: 'application/json',
    body: Buffer.from(`{"audio":{"base64":"${wav.toString('base64')}"}}`),
  }),
  chunked(wav) {
    const size = Buffer.from(`${wav.length.toString(16)}\r\n`)
    const body = Buffer.concat([size, wav, Buffer.from('\r\n0\r\n\r\n')])
    return { type: 'audio/wav', body, framing: 'Transfer-Encoding: chunked' }
  },
}

/** Hands a job in on a connection of its own. @returns its id; or what was said instead, with when to come again */
export async function upload(
  port: number,
  bytes: Buffer,
): Promise<{ readonly id: string } | { readonly refusal: string; readonly againMs: number }> {
  const client = await RawClient.connect(port)
  try {
    const answering = client.response({ timeoutMs: 120_000 })
    void client.send(bytes)
    const response = await answering
    const body = JSON.parse(response?.body.toString() ?? '{}') as {
      readonly job_id?: string
      readonly error?: { readonly code: string }
    }
    if (body.job_id !== undefined) return { id: body.job_id }
    const againMs = 1_000 * Number(response?.headers['retry-after'] ?? 1)
    return { refusal: `${response?.status} ${body.error?.code}`, againMs }
  } finally {
    client.destroy()
  }
}
