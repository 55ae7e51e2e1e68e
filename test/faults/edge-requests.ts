import { speak } from '../../src/sandbox/speak.ts'
import { multipart, type Part } from '../support/bodies.ts'
import { waysIn } from '../support/ways-in.ts'
import { EDGE_WORKSPACE } from './edge-product.ts'

/** A well-formed request as text of latin1, each character a byte. */
export interface EdgeRequest {
  readonly name: string
  /** Request line and header lines, without line ends. Content-Length is the last one where there is one. */
  readonly lines: readonly string[]
  readonly body: string
  /** It is a HEAD: its answer has no body. */
  readonly head: boolean
}

interface Draft {
  readonly type?: string
  readonly body?: string | Buffer
  readonly headers?: readonly string[]
  /** Extensions behind the size of each chunk; absent: not chunked. */
  readonly chunks?: string
}

const JSON_TYPE = 'application/json'
/** Morse at a speed at which a word is some kilobytes. */
const WAV = speak('e', 600, 12)
const MESSAGES = [{ role: 'user', content: 'sos' }]

/**
 * Requests to every route in every way that a body can come in, such as change nothing that another one of them sees.
 *
 * @param authorization value of the header
 */
export function edgeRequests(authorization: string): EdgeRequest[] {
  const base = ['Host: larkway.test', `Authorization: ${authorization}`]
  const request = (name: string, line: string, draft: Draft = {}): EdgeRequest => {
    const { type, body = '', headers = [], chunks } = draft
    const content = Buffer.from(body as string).toString('latin1')
    const typed = type === undefined ? [] : [`Content-Type: ${type}`]
    const carries = /^(?:POST|PUT) /.test(line)
    const framing = chunks !== undefined ? ['Transfer-Encoding: chunked'] : []
    const sized = carries && chunks === undefined ? [`Content-Length: ${content.length}`] : []
    return {
      name,
      lines: [`${line} HTTP/1.1`, ...base, ...headers, ...typed, ...framing, ...sized],
      body: chunks === undefined ? content : chunked(content, chunks),
      head: line.startsWith('HEAD '),
    }
  }
  const json = (name: string, path: string, fields: object, headers: readonly string[] = []) =>
    request(name, `POST ${path}`, { type: JSON_TYPE, body: JSON.stringify(fields), headers })
  const form = (name: string, path: string, parts: readonly Part[], draft: Draft = {}) => {
    const { contentType, body } = multipart(parts, { boundary: 'lark' })
    return request(name, `POST ${path}`, { type: contentType, body, ...draft })
  }
  const file: Part = { name: 'file', filename: 'a\\"b.wav', type: 'audio/wav', body: WAV }
  const longHeaders = ['X-Long: ', 'Traceparent: 00-'].map((name) => name + 'a'.repeat(400))
  const manyHeaders = Array.from({ length: 60 }, (_, index) => `x-h${index}: ${index}`)
  const handedIn = Object.entries(waysIn(WAV)).map(([name, { type, body, query = '' }]) =>
    request(name, `POST /v1/transcription${query}`, { type, body }),
  )

  return [
    request('health', 'GET /healthz'),
    request('readiness with a query', 'GET /readyz?a=b&c=%00%0d%0aX:1'),
    request('HEAD', 'HEAD /healthz'),
    request('HEAD of an endpoint', 'HEAD /v1/me'),
    request('me', 'GET /v1/me'),
    request('me with a body', 'GET /v1/me', { headers: ['Content-Length: 5'], body: 'hello' }),
    request('unknown path', 'GET /v1/%2e%2e/nothing?x=/../..'),
    request('method not allowed', 'DELETE /v1/chat'),
    request('OPTIONS', 'OPTIONS /v1/chat'),
    request('long headers', 'GET /v1/me', { headers: longHeaders }),
    request('many headers', 'GET /v1/me', { headers: manyHeaders }),
    request('own request id', 'GET /v1/me', { headers: ['X-LK-Request-ID: mine.1_2-3'] }),
    json('chat', '/v1/chat', { messages: MESSAGES, temperature: 0.5, max_tokens: 5 }),
    json('chat of odd words', '/v1/chat', { messages: [{ role: 'user', content: 'é\u{1f600}\r\n\0"\\' }] }),
    json('chat, streamed', '/v1/chat', { messages: MESSAGES, stream: true }),
    json('complete', '/v1/complete', { prompt: 'sos', purpose: 'x\r\ny' }),
    json('complete with a purpose in a header', '/v1/complete', { prompt: 'e' }, ['X-LK-Purpose: dictation']),
    json('vision', '/v1/vision', {
      messages: [{ role: 'user', content: [{ type: 'text', text: 'e' }, imagePart()] }],
    }),
    json('embeddings', '/v1/embeddings', { input: ['e', 't'], dimensions: 4 }),
    json('image', '/v1/image', { prompt: 'e', size: '16x16' }),
    json('speech', '/v1/speech', { input: 'e', voice: 'alloy', speed: 4, response_format: 'wav' }),
    json('speech as audio', '/v1/speech', { input: 'e', speed: 4 }, ['Accept: audio/wav']),
    json('audio, to speech', '/v1/audio', { task: 'speech', input: 'e', speed: 4 }),
    json('no JSON', '/v1/chat', []),
    json('wrong field', '/v1/speech', { input: 7 }),
    json('route control', '/v1/transcription', { audio: 'AAAA', model: 'x' }),
    json('audio by URL', '/v1/transcription', { audio: { url: 'https://elsewhere.example/a.wav' } }),
    json('queue, refused', '/v1/queue', { endpoint: 'none', payload: { messages: MESSAGES } }),
    request('unknown job', 'GET /v1/transcription/jobs/tj_01jz0000000000000000000000'),
    request('cancel an unknown job', 'DELETE /v1/transcription/jobs/tj_0?x'),
    request('put domains', `PUT /workspace/${EDGE_WORKSPACE}/audio-url-domains`, {
      type: JSON_TYPE,
      body: '{"domains":["audio.example","*.b.example"]}',
    }),
    request('domains', `GET /workspace/${EDGE_WORKSPACE}/audio-url-domains`),
    request('webhook', `GET /workspace/${EDGE_WORKSPACE}/stt-webhook`),
    ...handedIn,
    form('translation', '/v1/translation', [file, { name: 'prompt', body: 'ünïcode' }]),
    form('file streamed', '/v1/transcription', [{ name: 'stream', body: 'true' }, file]),
    form('text format', '/v1/transcription', [file, { name: 'response_format', body: 'text' }]),
    form('chunked form', '/v1/transcription', [file], { chunks: '' }),
    request('chunked audio', 'POST /v1/transcription', { type: 'audio/wav', body: WAV, chunks: '' }),
    request('chunked JSON', 'POST /v1/chat', {
      type: JSON_TYPE,
      body: JSON.stringify({ messages: MESSAGES }),
      chunks: '',
    }),
    request('expects 100', 'POST /v1/chat', {
      type: JSON_TYPE,
      body: JSON.stringify({ messages: MESSAGES }),
      headers: ['Expect: 100-continue'],
    }),
    request('closes', 'GET /v1/me', { headers: ['Connection: close'] }),
  ]
}

/** To the paths that speak OpenAI's language, to those that describe the gateway, and to the console, by nobody. */
export function openaiRequests(authorization: string): EdgeRequest[] {
  const known = new Map(edgeRequests(authorization).map((request) => [request.name, request]))
  const moved = (name: string, path: string, change = (body: string) => body): EdgeRequest => {
    const { lines = [], body = '', head = false } = known.get(name) ?? {}
    const content = change(body)
    const [, ...others] = lines
    return {
      name: `${name} at ${path}`,
      lines: [
        (lines[0] ?? '').replace(/ \S+ /, ` ${path} `),
        ...others.map((line) => line.replace(/^Content-Length: .*/, `Content-Length: ${content.length}`)),
      ],
      body: content,
      head,
    }
  }
  const named = (body: string) => body.replace('{', '{"model":"any",')
  return [
    moved('me', '/openai/v1/models'),
    moved('me', '/openapi.json'),
    moved('me', '/docs'),
    moved('me', '/metrics'),
    moved('chat', '/openai/v1/chat/completions', named),
    moved('chat, streamed', '/openai/v1/chat/completions', named),
    moved('chat', '/openai/v1/responses', () => '{"input":"hello"}'),
    moved('complete', '/openai/v1/completions', named),
    moved('embeddings', '/openai/v1/embeddings', named),
    moved('image', '/openai/v1/images/generations', named),
    moved('speech', '/openai/v1/audio/speech', named),
    moved('text format', '/openai/v1/audio/transcriptions'),
    moved('file streamed', '/openai/v1/audio/transcriptions'),
    moved('translation', '/openai/v1/audio/translations'),
    moved('me', '/console/acme/routes?a=b'),
    moved('me', '/console/assets/main.ts'),
    moved('me', '/console/assets/..%2fsession.ts'),
    moved('me', '/console/api/session'),
    moved('me with a body', '/console/api/workspaces'),
    moved('chat', '/console/api/session', () => '{}'),
    moved('file streamed', '/console/api/session'),
    moved('chunked JSON', '/console/api/workspaces/acme/explain'),
    moved('put domains', '/console/api/workspaces/acme/content'),
    moved('cancel an unknown job', '/console/api/session'),
    moved('cancel an unknown job', '/console/api/nothing'),
  ]
}

/** Chunks with extensions, which a parser must pass over. */
export function chunkExtensions(authorization: string): EdgeRequest[] {
  const plain = edgeRequests(authorization).filter(({ lines }) =>
    lines.includes('Transfer-Encoding: chunked'),
  )
  return [';a=b', ' ; q="x;y"', ';ffff'].flatMap((extension) =>
    plain.map((request) => ({
      ...request,
      name: `${request.name} with chunk extension ${extension}`,
      body: request.body.replace(/^[0-9a-f]+/, (size) => size + extension),
    })),
  )
}

/** What leaves something behind: jobs, and results that are kept for replay. */
export function lastingRequests(authorization: string): EdgeRequest[] {
  const [head = '', ...lines] =
    edgeRequests(authorization).find(({ name }) => name === 'raw body')?.lines ?? []
  const type = lines.filter((line) => !line.startsWith('Content-'))
  const body = WAV.toString('latin1')
  const make = (name: string, line: string, content: string, ...more: string[]): EdgeRequest => ({
    name,
    lines: [line, ...type, ...more, `Content-Length: ${content.length}`],
    body: content,
    head: false,
  })
  const queued = JSON.stringify({ endpoint: 'chat', payload: { messages: MESSAGES }, mode: 'priority' })
  return [
    make('keyed', head, body, 'Content-Type: audio/wav', 'Idempotency-Key: once'),
    make('job', 'POST /v1/transcription/jobs HTTP/1.1', body, 'Content-Type: audio/wav'),
    make('queued', 'POST /v1/queue HTTP/1.1', queued, 'Content-Type: application/json'),
  ]
}

export function textOf({ lines, body }: EdgeRequest): string {
  return `${lines.join('\r\n')}\r\n\r\n${body}`
}

function imagePart(): object {
  return { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }
}

/** In three chunks, of which the first is small. */
function chunked(content: string, extension: string): string {
  const cuts = [0, 3, Math.max(3, content.length >> 1), content.length]
  const pieces = cuts.slice(1).map((end, index) => content.slice(cuts[index], end))
  const chunks = pieces.filter((piece) => piece !== '')
  return `${chunks.map((chunk) => `${chunk.length.toString(16)}${extension}\r\n${chunk}\r\n`).join('')}0\r\n\r\n`
}
