import type { AudioUpload } from './audio-upload.ts'
import { RawClient, type RawResponse } from './raw-client.ts'
import { markOf } from './upstream/upstream.ts'
import { filledWav } from './wav.ts'

export const AUDIO_SECONDS = 0.05
/** At 16,000 samples of two bytes a second, behind a head of 44 bytes. */
const AUDIO_BYTES = 44 + AUDIO_SECONDS * 32_000

/** What came of a request with an idempotency key. */
export interface KeyedAnswer {
  /** Undefined: the connection ended without an answer. */
  readonly status: number | undefined
  readonly code: string | undefined
  readonly replayed: boolean
  readonly shouldRetry: string | undefined
  readonly text: string
  readonly milliseconds: number
}

/** A transcription whose audio is marked by its idempotency key, as the bytes that go over the wire. */
export function keyedUpload(key: string, authorization: string): AudioUpload {
  const body = filledWav(AUDIO_BYTES)
  body.write(markOf(key), 100, 'latin1')
  const head =
    `POST /v1/transcription HTTP/1.1\r\nHost: a\r\nAuthorization: ${authorization}\r\n` +
    `Idempotency-Key: ${key}\r\nContent-Type: audio/wav\r\nContent-Length: ${body.length}\r\n\r\n`
  return { head: Buffer.from(head), body }
}

/** Sends it on a connection of its own and reads the answer. */
export async function ask(
  port: number,
  { head, body }: AudioUpload,
  timeoutMs = 20_000,
): Promise<KeyedAnswer> {
  const startedMs = performance.now()
  const client = await RawClient.connect(port)
  await client.send(Buffer.concat([head, body]))
  const response = await client.response({ timeoutMs })
  client.destroy()
  return answerOf(response, performance.now() - startedMs)
}

export function answerOf(response: RawResponse | null, milliseconds: number): KeyedAnswer {
  const text = response?.body.toString() ?? ''
  const parsed = JSON.parse(text === '' ? '{}' : text) as { error?: { code?: string }; content?: string }
  return {
    status: response?.status,
    code: parsed.error?.code,
    replayed: response?.headers['x-lk-idempotent-replay'] === 'true',
    shouldRetry: response?.headers['x-should-retry'],
    text: parsed.content ?? '',
    milliseconds,
  }
}

/** How an answer is counted: `200`, `200 replayed`, `409 IDEMPOTENT_RESULT_UNAVAILABLE`. */
export function nameOf({ status, code, replayed }: KeyedAnswer): string {
  return [status ?? 'no answer', code, replayed ? 'replayed' : undefined]
    .filter((part) => part !== undefined)
    .join(' ')
}

/** How often each of them is there. */
export function countsOf(names: readonly (string | number)[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}
