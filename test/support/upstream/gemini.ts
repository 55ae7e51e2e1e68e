import { type Answer, type Dialect, eventsAnswer, jsonAnswer, type ReceivedRequest } from './dialect.ts'

export const GEMINI_KEY = 'AIza-good'

const BASE_PATH = '/v1beta'
const JSON_HEADERS = { 'content-type': 'application/json; charset=UTF-8' }

/** Answers to good requests: by `<method> <path>` below the base URL, in turn; the last one stays. */
export type GeminiAnswers = Readonly<Record<string, readonly GeminiAnswer[]>>

/** JSON, or a file, or the events of a stream. */
type GeminiAnswer =
  | { readonly json: unknown }
  | { readonly file: Buffer }
  | { readonly events: readonly unknown[] }

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

/** Google's contract: what it documents has the answer that was given for it, the rest is refused as Google does. */
export function geminiDialect(answers: GeminiAnswers): Dialect {
  const counts = new Map<string, number>()
  return {
    basePath: BASE_PATH,
    refuse: (code) => refuse({ code, status: 'INTERNAL', message: 'refused' }),
    answer({ request, bytes }) {
      const line = `${request.method} ${request.path.replace(BASE_PATH, '')}`
      const fault = faultOf(request, line, bytes.length)
      if (fault !== null) return refuse(fault)
      const list = answers[line] ?? []
      const count = counts.get(line) ?? 0
      counts.set(line, count + 1)
      const given = list[Math.min(count, list.length - 1)]
      if (given === undefined) return refuse({ code: 404, status: 'NOT_FOUND', message: 'not found' })
      if ('json' in given)
        return { headers: JSON_HEADERS, bytes: Buffer.from(JSON.stringify(given.json, null, 2)) }
      if ('file' in given) return { headers: { 'content-type': 'video/mp4' }, bytes: given.file }
      return eventsAnswer(given.events.map((event) => `data: ${JSON.stringify(event)}\r\n\r\n`))
    },
  }
}

interface Fault {
  readonly code: number
  readonly status: string
  readonly message: string
  readonly reason?: string
}

const invalid = (message: string): Fault => ({ code: 400, status: 'INVALID_ARGUMENT', message })

function faultOf({ headers, body }: ReceivedRequest, line: string, length: number): Fault | null {
  const key = headers['x-goog-api-key']
  if (key === undefined) {
    return { code: 403, status: 'PERMISSION_DENIED', message: "Method doesn't allow unregistered callers" }
  }
  if (key !== GEMINI_KEY) return { ...invalid('API key not valid'), reason: 'API_KEY_INVALID' }
  if (headers['transfer-encoding'] !== undefined) {
    return { code: 411, status: 'INVALID_ARGUMENT', message: 'Length Required' }
  }
  if (length > REQUEST_MAX_BYTES) return invalid('Request payload size exceeds the limit: 20971520 bytes.')
  if (length === 0) return null
  return headers['content-type'] === 'application/json'
    ? faultIn(line, body)
    : invalid('Invalid content type')
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

function refuse({ code, status, message, reason }: Fault): Answer {
  const info = { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'googleapis.com' }
  const error = { code, message, status, ...(reason === undefined ? {} : { details: [info] }) }
  return jsonAnswer({ error }, code, JSON_HEADERS)
}
