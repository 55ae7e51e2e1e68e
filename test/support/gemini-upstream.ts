import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Test } from 'tap'
import { serveHttp } from './http-server.ts'

/** Answers to good requests: by `<method> <path>` below the base URL, in turn; the last one stays. */
export type Answers = Readonly<Record<string, readonly Answer[]>>

/** JSON, or a file, or the events of a stream. */
export type Answer =
  | { readonly json: unknown }
  | { readonly file: Buffer }
  | { readonly events: readonly unknown[] }

export interface GeminiUpstream {
  /** As a provider's `base_url`. */
  readonly url: string
  /** Bodies of the requests that were good, as `<method> <path>` and what it held. */
  readonly received: readonly { readonly path: string; readonly body: unknown }[]
}

/** What Google takes as one request with audio or pictures inside, bytes. */
const REQUEST_MAX_BYTES = 20 * 1024 * 1024

/** A member is a leaf (anything), an object of members, or a list of such. */
type Shape = 'any' | readonly [Shape] | { readonly [member: string]: Shape }

const BLOB: Shape = { mimeType: 'any', data: 'any' }
const PART: Shape = {
  text: 'any',
  inlineData: BLOB,
  fileData: { mimeType: 'any', fileUri: 'any' },
  functionCall: { id: 'any', name: 'any', args: 'any' },
  functionResponse: { id: 'any', name: 'any', response: 'any' },
  thoughtSignature: 'any',
}
const CONTENT: Shape = { role: 'any', parts: [PART] }

/** Members of each request, out of `@google/genai` 3.1.0 and https://ai.google.dev/api. */
const SHAPES: Readonly<Record<string, Shape>> = {
  generateContent: {
    contents: [CONTENT],
    systemInstruction: CONTENT,
    tools: [{ functionDeclarations: [{ name: 'any', description: 'any', parametersJsonSchema: 'any' }] }],
    toolConfig: { functionCallingConfig: { mode: 'any', allowedFunctionNames: 'any' } },
    generationConfig: {
      temperature: 'any',
      topP: 'any',
      maxOutputTokens: 'any',
      stopSequences: 'any',
      seed: 'any',
      responseMimeType: 'any',
      responseJsonSchema: 'any',
      responseModalities: 'any',
      speechConfig: { languageCode: 'any', voiceConfig: { prebuiltVoiceConfig: { voiceName: 'any' } } },
      imageConfig: { aspectRatio: 'any', imageSize: 'any' },
      audioTranscriptionConfig: {
        languageCodes: 'any',
        customVocabulary: 'any',
        wordTimestamp: 'any',
        diarization: 'any',
        mode: 'any',
      },
    },
  },
  batchEmbedContents: {
    requests: [
      { model: 'any', content: CONTENT, taskType: 'any', title: 'any', outputDimensionality: 'any' },
    ],
  },
  interactions: {
    model: 'any',
    input: 'any',
    background: 'any',
    store: 'any',
    response_format: {
      type: 'any',
      mime_type: 'any',
      delivery: 'any',
      sample_rate: 'any',
      bit_rate: 'any',
      aspect_ratio: 'any',
      resolution: 'any',
      duration: 'any',
    },
    generation_config: { speech_config: [{ voice: 'any', language: 'any', speaker: 'any' }] },
  },
}

interface Part {
  readonly inlineData?: { readonly mimeType?: unknown; readonly data?: unknown }
  readonly functionCall?: object
  readonly functionResponse?: object
  readonly thoughtSignature?: unknown
}

interface Content {
  readonly role?: unknown
  readonly parts?: readonly Part[]
}

/** Takes what Google documents, and refuses the rest as Google does. The good key is `AIza-good`. */
export async function startGeminiUpstream(
  t: Pick<Test, 'teardown'>,
  answers: Answers,
): Promise<GeminiUpstream> {
  const received: { path: string; body: unknown }[] = []
  const counts = new Map<string, number>()
  const origin = await serveHttp(t, (request, response) => {
    void answer(request, response).catch(() => response.destroy())
  })
  return { url: `${origin}/v1beta`, received }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const path = `${request.method} ${request.url?.replace(/^\/v1beta/, '')}`
    const { body, fault } = judge(request, path, Buffer.concat(chunks))
    if (fault !== null) return refuse(response, fault)
    received.push({ path, body })
    const list = answers[path] ?? []
    const count = counts.get(path) ?? 0
    counts.set(path, count + 1)
    const given = list[Math.min(count, list.length - 1)]
    if (given === undefined) return refuse(response, { code: 404, status: 'NOT_FOUND', message: 'not found' })
    if ('json' in given) response.setHeader('content-type', 'application/json; charset=UTF-8')
    if ('json' in given) return void response.end(JSON.stringify(given.json, null, 2))
    if ('file' in given) return void response.setHeader('content-type', 'video/mp4').end(given.file)
    response.setHeader('content-type', 'text/event-stream')
    for (const event of given.events) response.write(`data: ${JSON.stringify(event)}\r\n\r\n`)
    response.end()
  }
}

interface Fault {
  readonly code: number
  readonly status: string
  readonly message: string
  readonly reason?: string
}

const invalid = (message: string): Fault => ({ code: 400, status: 'INVALID_ARGUMENT', message })

function judge(
  request: IncomingMessage,
  path: string,
  bytes: Buffer,
): { body: unknown; fault: Fault | null } {
  const key = request.headers['x-goog-api-key']
  if (key === undefined) {
    const message = "Method doesn't allow unregistered callers"
    return { body: null, fault: { code: 403, status: 'PERMISSION_DENIED', message } }
  }
  if (key !== 'AIza-good') {
    return { body: null, fault: { ...invalid('API key not valid'), reason: 'API_KEY_INVALID' } }
  }
  if (request.headers['transfer-encoding'] !== undefined) {
    return { body: null, fault: { code: 411, status: 'INVALID_ARGUMENT', message: 'Length Required' } }
  }
  if (bytes.length > REQUEST_MAX_BYTES) {
    return { body: null, fault: invalid('Request payload size exceeds the limit: 20971520 bytes.') }
  }
  if (bytes.length === 0) return { body: null, fault: null }
  if (request.headers['content-type'] !== 'application/json') {
    return { body: null, fault: invalid('Invalid content type') }
  }
  const body: unknown = JSON.parse(bytes.toString())
  return { body, fault: faultIn(path, body) }
}

function faultIn(path: string, body: unknown): Fault | null {
  const method = /:(?:stream)?(generate|batchEmbed)Contents?/i.exec(path)?.[1]?.toLowerCase()
  const name =
    method === 'generate' ? 'generateContent' : method === undefined ? 'interactions' : 'batchEmbedContents'
  const unknown = unknownIn(body, SHAPES[name] ?? 'any', '')
  if (unknown !== null) {
    return invalid(`Invalid JSON payload received. Unknown name "${unknown}": Cannot find field.`)
  }
  return name === 'generateContent' ? faultInContents(body as GenerateBody) : null
}

/** The path of the first member that Google does not know. */
function unknownIn(value: unknown, shape: Shape, path: string): string | null {
  if (shape === 'any') return null
  if (Array.isArray(shape)) {
    if (!Array.isArray(value)) return path
    return value.map((item) => unknownIn(item, shape[0], path)).find((found) => found !== null) ?? null
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return path
  const members = shape as Readonly<Record<string, Shape>>
  for (const [name, inner] of Object.entries(value)) {
    const known = Object.hasOwn(members, name) ? members[name] : undefined
    if (known === undefined) return `${path}.${name}`
    const found = unknownIn(inner, known, `${path}.${name}`)
    if (found !== null) return found
  }
  return null
}

interface GenerateBody {
  readonly contents?: readonly Content[]
  readonly generationConfig?: {
    readonly stopSequences?: readonly string[]
    readonly audioTranscriptionConfig?: {
      readonly customVocabulary?: readonly string[]
      readonly wordTimestamp?: boolean
      readonly diarization?: boolean
      readonly mode?: string
    }
  }
}

/** Rules that no schema tells. */
function faultInContents({ contents = [], generationConfig = {} }: GenerateBody): Fault | null {
  if (contents.length === 0) return invalid('contents is not specified')
  const { stopSequences = [], audioTranscriptionConfig: config = {} } = generationConfig
  if (stopSequences.length > 5) return invalid('The number of stop sequences must be 5 or fewer')
  const timed = config.wordTimestamp === true || config.diarization === true
  if (timed && (config.mode === 'SMART' || config.customVocabulary !== undefined)) {
    return invalid('custom_vocabulary and SMART are not supported with timestamps or diarization')
  }
  for (const [index, { role, parts = [] }] of contents.entries()) {
    if (parts.length === 0) return invalid('contents.parts must not be empty')
    if (role !== 'user' && role !== 'model') return invalid('Please use a valid role: user, model.')
    const fault = faultInParts(parts, contents[index + 1]?.parts ?? [])
    if (fault !== null) return fault
  }
  return null
}

function faultInParts(parts: readonly Part[], next: readonly Part[]): Fault | null {
  for (const { inlineData } of parts) {
    const { mimeType, data } = inlineData ?? { mimeType: '', data: '' }
    const whole = typeof data === 'string' && Buffer.from(data, 'base64').toString('base64') === data
    if (typeof mimeType !== 'string' || !whole) return invalid('Base64 decoding failed')
  }
  const calls = parts.filter(({ functionCall }) => functionCall !== undefined)
  if (calls.length === 0) return null
  if (calls[0]?.thoughtSignature === undefined) {
    return invalid('Function call is missing a thought_signature in functionCall parts.')
  }
  const responses = next.filter(({ functionResponse }) => functionResponse !== undefined)
  return calls.length === responses.length
    ? null
    : invalid('the number of function response parts is not that of the function call parts')
}

function refuse(response: ServerResponse, { code, status, message, reason }: Fault): void {
  const info = { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'googleapis.com' }
  const error = { code, message, status, ...(reason === undefined ? {} : { details: [info] }) }
  response
    .writeHead(code, { 'content-type': 'application/json; charset=UTF-8' })
    .end(JSON.stringify({ error }))
}
