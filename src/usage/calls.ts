import type { EndedCall, EndedExchange } from '../contracts/recorder.ts'

/** Endpoints that ask no model for anything. A test compares them with the table of endpoints. */
export const NO_CALLS: ReadonlySet<string> = new Set([
  '/v1/transcription/references',
  '/openai/v1/realtime/client_secrets',
  '/assemblyai/v2/upload',
])

/** Endpoints of live sessions, which are called by `GET`. */
export const SESSIONS: ReadonlySet<string> = new Set([
  '/v1/transcription/stream',
  '/v1/speech/stream',
  '/deepgram/v1/listen',
  '/deepgram/v1/speak',
  '/openai/v1/realtime',
])

/** Whether a request with a key has a record: it was a call or a live session, and is not recorded as a job. */
export function isCall({ method, pattern }: EndedExchange, call: EndedCall): boolean {
  if (call.principal === null || call.jobId !== null || pattern === null) return false
  return method === 'POST' ? !NO_CALLS.has(pattern) : method === 'GET' && SESSIONS.has(pattern)
}
