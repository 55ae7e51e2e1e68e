import { makeAudio, sha256 } from './load/request.ts'

/** Answer of the stand-in for a provider, in OpenAI's wire format. */
export interface UpstreamReply {
  readonly type: string
  readonly body: string | Buffer
}

/** The audio that every synthesis returns: a tenth of a second. */
export const SPEECH = makeAudio(3_244)

const OK: UpstreamReply = { type: 'application/json', body: '{"text":"ok"}' }

/** Answer to a chat; for the peer whose speech does not work. */
const CHAT: UpstreamReply = {
  type: 'application/json',
  body: JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1_760_000_000,
    model: 'gpt-4o-mini',
    choices: [{ index: 0, message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 8, completion_tokens: 1, total_tokens: 9 },
  }),
}

/** The answer to a request whose body was only counted. */
export function plainReply(path: string): UpstreamReply {
  if (path.endsWith('/chat/completions')) return CHAT
  return path.endsWith('/audio/speech') ? { type: 'audio/wav', body: SPEECH } : OK
}

/**
 * The answer to a request whose body was kept: the transcript is the digest of the audio that arrived, so that it
 * comes back to the client through whatever stands between, and proves that all of it was carried.
 */
export function verifyingReply(path: string, contentType: string, body: Buffer): UpstreamReply {
  if (path.endsWith('/chat/completions')) return CHAT
  if (path.endsWith('/audio/speech')) {
    const { input } = JSON.parse(body.toString()) as { input?: unknown }
    return typeof input === 'string' && input.length > 0 ? plainReply(path) : badRequest('no input')
  }
  const audio = filePart(contentType, body)
  if (!audio) return badRequest('no file part')
  return { type: 'application/json', body: JSON.stringify({ text: `sha256:${sha256(audio)}` }) }
}

/** A text that no check takes for right. */
function badRequest(reason: string): UpstreamReply {
  return { type: 'application/json', body: JSON.stringify({ text: `upstream: ${reason}` }) }
}

/** The bytes of the part named `file`. */
function filePart(contentType: string, body: Buffer): Buffer | null {
  const boundary = /boundary="?([^";]+)/.exec(contentType)?.[1]
  if (!boundary) return null
  const marker = Buffer.from(`--${boundary}`)
  let start = body.indexOf(marker)
  while (start >= 0) {
    const headEnd = body.indexOf('\r\n\r\n', start)
    const next = body.indexOf(marker, start + marker.length)
    if (headEnd < 0 || next < 0) return null
    if (/name="?file"?(;|\r|$)/i.test(body.toString('latin1', start, headEnd)))
      return body.subarray(headEnd + 4, next - 2)
    start = next
  }
  return null
}
