import type { RequestSpec } from './load/request.ts'

/** The requests that peers take: OpenAI's own, under whatever path they are passed on from. */

/** Model of live sessions. */
export const OPENAI_MODEL = 'gpt-4o-transcribe'

const TRANSCRIPTIONS = '/v1/audio/transcriptions'

export function openaiMultipart(audioBytes: number, headers: Record<string, string> = {}): RequestSpec {
  const fields = { model: 'whisper-1', response_format: 'json' }
  return { method: 'POST', path: TRANSCRIPTIONS, headers, body: { kind: 'multipart', audioBytes, fields } }
}

export function openaiSpeech(
  input: string,
  path = '/v1/audio/speech',
  headers: Record<string, string> = {},
): RequestSpec {
  const value = { model: 'tts-1', input, voice: 'alloy', response_format: 'wav' }
  return { method: 'POST', path, headers, body: { kind: 'json', value } }
}

export function openaiChat(content: string, headers: Record<string, string>): RequestSpec {
  const value = { model: 'gpt-4o-mini', messages: [{ role: 'user', content }] }
  return { method: 'POST', path: '/v1/chat/completions', headers, body: { kind: 'json', value } }
}

/** How Portkey is told where to send a request. */
export function portkeyHeaders(upstreamPort: number): Record<string, string> {
  return {
    authorization: 'Bearer sk-bench',
    'x-portkey-provider': 'openai',
    'x-portkey-custom-host': `http://127.0.0.1:${upstreamPort}/v1`,
  }
}
