import { ERRORS, type ErrorCode } from '../../src/contracts/errors.ts'
import { toDots } from '../../src/sandbox/morse.ts'
import { speak } from '../../src/sandbox/speak.ts'
import { multipart } from '../support/bodies.ts'
import type { RawResponse } from '../support/raw-client.ts'
import { filledWav } from '../support/wav.ts'

/** A request to the gateway, and what must come of it where the sandbox is sound. */
export interface MixedCall {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** Says what is wrong with a 200; null: nothing. A stream that says that it broke is not judged here. */
  readonly faultOf: (answer: RawResponse) => string | null | Promise<string | null>
}

export const KINDS = [
  ...['chat', 'chat stream', 'embeddings', 'image', 'speech', 'speech audio', 'transcription'],
  ...['transcription 3 MB', 'transcription stream', 'video'],
] as const
export type MixedKind = (typeof KINDS)[number]

const JSON_TYPE = { 'content-type': 'application/json' }
const PNG = 'iVBORw0KGgo'
/** The last is 1 MB of sound, which a slow reader cannot leave to the kernel alone. */
const SPOKEN = ['sos', 'hello lark', 'one two three', 'paris '.repeat(24).trim()]
const SOUND = new Map(SPOKEN.map((text) => [text, speak(text, 600, 1)]))
const LONG_AUDIO = filledWav(3_000_000)

/**
 * @param index makes the call one of its own, so that another call's answer would be told from its own
 * @param fetchResult opens a signed URL of the gateway's, and says what is wrong with what is there
 */
export function mixedCall(
  kind: MixedKind,
  index: number,
  fetchResult: (url: string) => Promise<string | null>,
): MixedCall {
  const text = `call ${index} of many words that are one piece each`
  const spoken = SPOKEN[index % SPOKEN.length] ?? ''
  const messages = [{ role: 'user', content: text }]
  switch (kind) {
    case 'chat':
      return json('/v1/chat', { messages }, ({ content }) => content === toDots(text))
    case 'chat stream':
      return {
        ...json('/v1/chat', { messages, stream: true }, () => true),
        faultOf: (answer) => eventFaultOf(answer, 'delta', 'content', toDots(text), true),
      }
    case 'embeddings':
      return json('/v1/embeddings', { input: [text, 'x', text], dimensions: 64 }, ({ embeddings }) => {
        const [first, , third] = embeddings as number[][]
        return first?.length === 64 && String(first) === String(third)
      })
    case 'image':
      return json('/v1/image', { prompt: 'sos', size: '128x128' }, (answer) =>
        blockOf(answer).base64.startsWith(PNG),
      )
    case 'speech':
      return json('/v1/speech', { input: spoken, voice: 'alloy' }, (answer) =>
        Buffer.from(blockOf(answer).base64, 'base64').equals(soundOf(spoken)),
      )
    case 'speech audio': {
      const asked = json('/v1/speech', { input: spoken, voice: 'alloy' }, () => true)
      const faultOf = ({ body }: RawResponse) => (body.equals(soundOf(spoken)) ? null : 'other audio')
      return { ...asked, headers: { ...asked.headers, accept: 'audio/wav' }, faultOf }
    }
    case 'transcription':
      return upload(soundOf(spoken), {}, (answer) => wrong(parsed(answer).content === spoken))
    case 'transcription 3 MB':
      return upload(LONG_AUDIO, {}, (answer) => wrong(/silence/.test(String(parsed(answer).content))))
    case 'transcription stream':
      return upload(soundOf(spoken), { stream: 'true' }, (answer) =>
        eventFaultOf(answer, 'transcript.text.delta', 'delta', spoken, false),
      )
    case 'video':
      return {
        ...json('/v1/video', { prompt: 'sos', duration_seconds: 4, size: '32x18' }, () => true),
        faultOf: (answer) => fetchResult(blockOf(parsed(answer)).url),
      }
  }
}

/** The error that an answer is or ends with; null for a whole one. Throws when it is none that is documented. */
export function errorOf({ status, headers, body }: RawResponse, requestId: string): ErrorCode | null {
  if (status === 200 && headers['content-type'] !== 'text/event-stream') return null
  const last = status === 200 ? eventsOf(body).findLast((event) => event !== '[DONE]') : parse(body)
  const told = last as { type?: string; error?: Record<string, unknown> } | undefined
  if (status === 200 && told?.type !== 'error') return null
  const error = told?.error ?? {}
  const code = String(error.code) as ErrorCode
  const known = Object.hasOwn(ERRORS, code) ? ERRORS[code] : undefined
  const due = { category: known?.category, retryable: known?.retryable, request_id: requestId }
  const fits = Object.entries(due).every(([name, value]) => error[name] === value)
  const retried = status === 200 || headers['x-should-retry'] === String(known?.retryable)
  if (known !== undefined && fits && retried && (status === 200 || status === known.status)) return code
  throw new Error(`not a documented error: ${status} ${body.toString().slice(-400)}`)
}

function json(
  path: string,
  fields: object,
  isRight: (answer: Readonly<Record<string, unknown>>) => boolean,
): MixedCall {
  return {
    path,
    headers: JSON_TYPE,
    body: Buffer.from(JSON.stringify(fields)),
    faultOf: (answer) => wrong(isRight(parsed(answer))),
  }
}

function upload(
  audio: Buffer,
  fields: Readonly<Record<string, string>>,
  faultOf: MixedCall['faultOf'],
): MixedCall {
  const parts = Object.entries(fields).map(([name, body]) => ({ name, body }))
  const { contentType, body } = multipart([...parts, { name: 'file', filename: 'a.wav', body: audio }])
  return { path: '/v1/transcription', headers: { 'content-type': contentType }, body, faultOf }
}

function soundOf(text: string): Buffer {
  return SOUND.get(text) ?? Buffer.alloc(0)
}

function wrong(isRight: boolean): string | null {
  return isRight ? null : 'not the answer to this call'
}

/** The whole of an envelope. */
function parsed({ body }: RawResponse): Record<string, unknown> {
  const envelope = parse(body) as Record<string, unknown>
  const lacking = [
    ...['id', 'provider', 'model', 'policy_version_id', 'usage', 'warnings', 'content_blocks'],
  ].filter((name) => !Object.hasOwn(envelope, name))
  if (lacking.length > 0) throw new Error(`the envelope lacks ${lacking.join(', ')}`)
  return envelope
}

function blockOf(envelope: Readonly<Record<string, unknown>>): { base64: string; url: string } {
  const [block = {}] = envelope.content_blocks as Record<string, string>[]
  return { base64: block.base64 ?? '', url: block.url ?? '' }
}

/** What is wrong with a stream that does not say that it broke. */
function eventFaultOf(
  { body }: RawResponse,
  type: string,
  member: string,
  expected: string,
  terminated: boolean,
): string | null {
  const events = eventsOf(body)
  const closing = terminated ? events.pop() : '[DONE]'
  const done = events.pop() as Record<string, unknown> | undefined
  if (closing !== '[DONE]' || !String(done?.type).endsWith('done')) return 'it does not end as documented'
  const deltas = events as Record<string, unknown>[]
  if (deltas.some((event) => event.type !== type)) return 'an event of another type'
  const text = deltas.map((event) => event[member]).join('')
  return wrong(text === expected && done?.content === expected)
}

function eventsOf(body: Buffer): unknown[] {
  const text = body.toString()
  if (!text.endsWith('\n\n')) throw new Error('the last event is not whole')
  const events = text.slice(0, -2).split('\n\n')
  return events.map((event) => {
    if (!event.startsWith('data: ')) throw new Error(`no event: ${event}`)
    return event === 'data: [DONE]' ? '[DONE]' : JSON.parse(event.slice('data: '.length))
  })
}

function parse(body: Buffer): unknown {
  return JSON.parse(body.toString())
}
