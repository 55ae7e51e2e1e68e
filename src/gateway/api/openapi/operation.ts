import type { TSchema } from 'typebox'
import type { Scope } from '../../../contracts/catalog.ts'
import type { ErrorCode, GatewayError } from '../../../contracts/errors.ts'
import type { HeaderName, ParameterName } from './headers.ts'
import type { Json } from './schema.ts'

export const TAGS = {
  Speech: 'Speech to text and text to speech.',
  Generation: 'Text, embeddings, images and video.',
  Jobs: 'Durable transcription jobs.',
  Uploads: 'Resumable uploads (tus 1.0) of audio for later calls.',
  Queue: 'Requests in the background.',
  OpenAI:
    "For OpenAI's client libraries, with `/openai/v1` here as base URL: OpenAI's schemas, Larkway's errors.",
  Deepgram:
    "For Deepgram's client libraries, with `/deepgram` here as base URL: Deepgram's schemas and errors.",
  ElevenLabs:
    "For ElevenLabs' client libraries, with `/elevenlabs` here as base URL: ElevenLabs' schemas and errors.",
  AssemblyAI:
    "For AssemblyAI's client libraries, with `/assemblyai` here as base URL: AssemblyAI's schemas and errors.",
  Account: 'The current key, and the settings of its workspace.',
  Management:
    'Workspaces, providers, routes, apps, keys and settings, for keys with the scope `admin` (of their own ' +
    'workspace) or `operator` (of all).',
  Node: 'Health, signed result URLs, and this reference.',
} as const

/** One body in one content type. */
export interface Content {
  readonly type: string
  readonly schema: TSchema | Json
  /** Data of each event, where the body is a stream of events. */
  readonly event?: TSchema
}

export interface Answer {
  readonly status: number
  readonly description: string
  readonly contents?: readonly Content[]
  readonly headers?: readonly HeaderName[]
}

/** Documentation of an endpoint. Answers with a key and errors get their common headers from `document.ts`. */
export interface Operation {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS'
  /** `/v1/jobs/:id` */
  readonly path: string
  /** Unique; the name of the method in generated clients, and of its examples. */
  readonly id: string
  readonly tag: keyof typeof TAGS
  readonly summary: string
  readonly description?: string
  /** Scope that the key needs; null: the endpoint takes no key. */
  readonly scope: Scope | null
  /** The scope `operator` is enough, too. */
  readonly operator?: true
  /** It takes a token of the key's bucket, and its answers tell the state of the bucket. */
  readonly limited: boolean
  /** It honours `Idempotency-Key`. */
  readonly idempotent: boolean
  readonly parameters: readonly (ParameterName | Json)[]
  readonly body?: readonly Content[]
  readonly answers: readonly Answer[]
  /** Headers of all answers, errors too, beside those that every endpoint of its kind has. */
  readonly headers?: readonly HeaderName[]
  /** Headers of its errors alone. */
  readonly errorHeaders?: readonly HeaderName[]
  readonly errors: readonly ErrorCode[]
  /** Absent: the envelope and nothing else. */
  readonly errorShape?: ErrorShape
}

/**
 * Members that a door has beside the envelope of an error, in the names in which its clients look for them. Where one
 * of them is `error`, it replaces the envelope.
 */
export interface ErrorShape {
  readonly schema: TSchema
  /** The code is a member of the body itself, named `code`; absent: it is in the envelope. */
  readonly isFlat?: true
  /** Pure. */
  readonly members: (error: GatewayError, requestId: string) => object
}

/** The body of a refusal as a door has it. */
export function shapedError(
  shape: ErrorShape | undefined,
  error: GatewayError,
  requestId: string,
  envelope: object,
): object {
  const members = shape?.members(error, requestId)
  return { ...members, ...envelope, ...members }
}

/** Errors of every endpoint with a key. */
export const KEY_ERRORS = [
  ...['INVALID_REQUEST', 'UNAUTHENTICATED', 'PERMISSION_DENIED', 'RATE_LIMITED', 'INTERNAL'],
  'DEPENDENCY_UNAVAILABLE',
] as const satisfies readonly ErrorCode[]

/** Errors of every endpoint with a body. */
export const BODY_ERRORS = [
  ...['REQUEST_TIMEOUT', 'LENGTH_REQUIRED', 'REQUEST_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE', 'OVERLOADED'],
] as const satisfies readonly ErrorCode[]

/** Errors of every call that a provider serves, beside those of its key and its body. */
export const CALL_ERRORS = [
  ...['INSUFFICIENT_CREDITS', 'TRIAL_EXHAUSTED', 'BUDGET_EXCEEDED', 'PLAN_NOT_ENTITLED'],
  ...['REQUIRED_FEATURE_UNAVAILABLE', 'UPSTREAM_REJECTED', 'UPSTREAM_ERROR', 'NO_HEALTHY_PROVIDER'],
  ...['PROVIDERS_COOLING_DOWN', 'UPSTREAM_TIMEOUT'],
] as const satisfies readonly ErrorCode[]

/** Errors of audio before any provider is asked. */
const AUDIO_ERRORS = [
  ...['ROUTE_CONTROL_NOT_ALLOWED', 'AUDIO_URL_REJECTED', 'AUDIO_TOO_LARGE', 'AUDIO_TOO_LONG'],
  'UNSUPPORTED_AUDIO_FORMAT',
] as const satisfies readonly ErrorCode[]

/** Errors of a call that brings audio. */
export const TRANSCRIPTION_ERRORS: readonly ErrorCode[] = [
  ...CALL_ERRORS,
  ...AUDIO_ERRORS,
  'AUDIO_URL_FETCH_FAILED',
]

/** Errors of a call with an idempotency key in the ledger of calls. */
export const LEDGER_ERRORS: readonly ErrorCode[] = [
  'IDEMPOTENCY_REPLAY_IN_PROGRESS',
  'IDEMPOTENCY_KEY_REUSED',
  'IDEMPOTENT_RESULT_UNAVAILABLE',
  'UPSTREAM_OUTCOME_UNKNOWN',
]

/** Errors of audio that becomes a job. */
export const JOB_ERRORS: readonly ErrorCode[] = [
  ...AUDIO_ERRORS,
  'PLAN_NOT_ENTITLED',
  'REQUIRED_FEATURE_UNAVAILABLE',
  'NO_HEALTHY_PROVIDER',
]

/** An answer of JSON. */
export function json(schema: TSchema | Json): Content {
  return { type: 'application/json', schema }
}

/** Audio as the body of a request, by the types that are documented for it. */
const audioBytes = (type: string): Content => ({
  type,
  schema: { type: 'string', format: 'binary', contentMediaType: 'application/octet-stream' },
})
export const RAW_AUDIO: readonly Content[] = ['application/octet-stream', 'audio/*'].map(audioBytes)
export const ANY_AUDIO: readonly Content[] = [...RAW_AUDIO, audioBytes('*/*')]

export const CSV: Content = { type: 'text/csv', schema: { type: 'string', description: '`format=csv`' } }

/** An answer of server-sent events. */
export function events(event: TSchema, description: string): Content {
  return { type: 'text/event-stream', schema: { type: 'string', description }, event }
}
