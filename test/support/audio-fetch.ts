import type { TLSSocket } from 'node:tls'
import type { Test } from 'tap'
import { GatewayError } from '../../src/contracts/errors.ts'
import type { FetchAudio, FetchOptions } from '../../src/contracts/remote-audio.ts'
import { createAudioFetcher, type FetchDependencies } from '../../src/gateway/outbound/fetch-audio.ts'
import { createAuthority } from './certificates.ts'
import { type Answering, dialInto, serveTls } from './tls-host.ts'

export const AUTHORITY = createAuthority()
export const URL_OF_AUDIO = 'https://good.example/a.mp3'
const CERTIFICATE = AUTHORITY.issue(['good.example', 'other.example', 'www.good.example'])

export const fetchOptions = (options: Partial<FetchOptions> = {}): FetchOptions => ({
  domains: ['good.example', 'other.example'],
  maxBytes: 25 * 1024 * 1024,
  signal: new AbortController().signal,
  ...options,
})

/** A host at 8.8.8.8, and a fetcher for which this is the address of every name. */
export async function fetchFrom(t: Pick<Test, 'teardown'>, answer: Answering, parts: FetchDependencies = {}) {
  const host = await serveTls(t, CERTIFICATE, answer)
  const { dial, dialled } = dialInto({ '8.8.8.8': host })
  const fetchAudio = createAudioFetcher({
    resolve: async () => ['8.8.8.8'],
    dial,
    ca: AUTHORITY.cert,
    ...parts,
  })
  return { fetchAudio, host, dialled }
}

/** A good head for so many bytes. */
export const headOf = (length: number, ...lines: string[]) =>
  ['HTTP/1.1 200 OK', 'Content-Type: audio/mpeg', `Content-Length: ${length}`, ...lines, '', ''].join('\r\n')

/** Answers every request with the same bytes. */
export const answerWith = (text: string) => (socket: TLSSocket) => socket.end(text, 'latin1')

export async function readAll(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const read: Uint8Array[] = []
  for await (const chunk of chunks) read.push(chunk)
  return Buffer.concat(read)
}

/** An error in a word: `CODE reason status`, or its message when it is none for callers. */
export function inAWord(error: unknown): string {
  if (!(error instanceof GatewayError)) return String(error)
  const { reason, status } = error.extra.details ?? {}
  return [error.code, reason, status].filter((part) => part !== undefined).join(' ')
}

/** Fetches to the end. @returns the audio as text, or what was thrown in a word */
export async function fetched(
  fetchAudio: FetchAudio,
  url = URL_OF_AUDIO,
  options: Partial<FetchOptions> = {},
) {
  try {
    const { chunks } = await fetchAudio(url, fetchOptions(options))
    return (await readAll(chunks)).toString('latin1')
  } catch (error) {
    return inAWord(error)
  }
}

/** The error that a fetch ends with, at its head or in its body. */
export async function failureOf(
  fetchAudio: FetchAudio,
  options: Partial<FetchOptions> = {},
): Promise<GatewayError> {
  try {
    const { chunks } = await fetchAudio(URL_OF_AUDIO, fetchOptions(options))
    await readAll(chunks)
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error('the audio came')
}
