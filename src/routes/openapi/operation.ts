import type { TSchema } from 'typebox'
import type { ErrorCode } from '../../errors.ts'
import type { Scope } from '../../schema/catalog.ts'
import type { HeaderName, ParameterName } from './headers.ts'
import type { Json } from './plain-schema.ts'

export const TAGS = {
  Speech: 'Speech to text and text to speech.',
  Generation: 'Text, embeddings, images and video.',
  Jobs: 'Durable transcription jobs.',
  Queue: 'Requests in the background.',
  OpenAI:
    "For OpenAI's client libraries, with `/openai/v1` here as base URL: OpenAI's schemas, Larkway's errors.",
  Account: 'The current key, and the settings of its workspace.',
  Node: 'Health, signed result URLs, and this reference.',
} as const

/** One body in one content type. */
export interface Content {
  readonly type: string
  readonly schema: TSchema | Json
  /** Of an answer that comes in events: the data of each. */
  readonly event?: TSchema
}

export interface Answer {
  readonly status: number
  readonly description: string
  readonly contents?: readonly Content[]
  readonly headers?: readonly HeaderName[]
}

/** What is documented of a route. The rest is derived: parameters of the path, headers that all answers have. */
export interface Operation {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** As in `createRoutes`. */
  readonly path: string
  /** Unique; the name of the method in generated clients, and of its examples. */
  readonly id: string
  readonly tag: keyof typeof TAGS
  readonly summary: string
  readonly description?: string
  /** What the key must be allowed; null: no key is asked for. */
  readonly scope: Scope | null
  /** Answers tell the state of the key's bucket. */
  readonly limited?: boolean
  /** Answers name the version of a route. */
  readonly routed?: boolean
  readonly parameters?: readonly (ParameterName | Json)[]
  readonly body?: readonly Content[]
  readonly answers: readonly Answer[]
  readonly errors: readonly ErrorCode[]
}

/** What every operation with a key may refuse. */
export const KEY_ERRORS: readonly ErrorCode[] = [
  'UNAUTHENTICATED',
  'PERMISSION_DENIED',
  'RATE_LIMITED',
  'INTERNAL',
  'DEPENDENCY_UNAVAILABLE',
]

/** What every operation with a body may refuse. */
export const BODY_ERRORS: readonly ErrorCode[] = [
  'INVALID_REQUEST',
  'REQUEST_TIMEOUT',
  'LENGTH_REQUIRED',
  'REQUEST_TOO_LARGE',
  'UNSUPPORTED_MEDIA_TYPE',
  'OVERLOADED',
]

/** What every call of a provider may end in. */
export const CALL_ERRORS: readonly ErrorCode[] = [
  ...KEY_ERRORS,
  ...BODY_ERRORS,
  'INSUFFICIENT_CREDITS',
  'TRIAL_EXHAUSTED',
  'BUDGET_EXCEEDED',
  'PLAN_NOT_ENTITLED',
  'UPSTREAM_REJECTED',
  'UPSTREAM_ERROR',
  'NO_HEALTHY_PROVIDER',
  'PROVIDERS_COOLING_DOWN',
  'UPSTREAM_TIMEOUT',
]

/** An answer of JSON. */
export function json(schema: TSchema | Json): Content {
  return { type: 'application/json', schema }
}

/** An answer of server-sent events. */
export function events(event: TSchema, description: string): Content {
  return { type: 'text/event-stream', schema: { type: 'string', description }, event }
}
