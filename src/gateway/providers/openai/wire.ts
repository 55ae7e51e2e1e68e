import { type ChatFacts, SERVICE_TIERS } from '../../../contracts/chat.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Operation, Target } from '../../../contracts/provider.ts'
import type { UpstreamRequest } from '../../../contracts/upstream.ts'
import { type TokenUsage, tokenDetails } from '../../../contracts/usage.ts'
import { asObject, idsIn, objectOf } from '../json.ts'
import { modelList } from '../model-list.ts'

/** Headers that a provider adds to each of its requests. */
export type ExtraHeaders = (target: Target) => Readonly<Record<string, string>>

/** Headers of every call. */
export function bearerHeaders(target: Target, extra: ExtraHeaders): Record<string, string> {
  const authorization = target.credential === null ? {} : { authorization: `Bearer ${target.credential}` }
  return { accept: '*/*', ...authorization, ...extra(target) }
}

type Headers = Readonly<Record<string, string>>

/** Headers of requests with JSON: they are the same for every attempt at an entry. */
const jsonHeaders = new WeakMap<ExtraHeaders, WeakMap<Target, Headers>>()

function jsonHeadersOf(target: Target, extra: ExtraHeaders): Headers {
  let known = jsonHeaders.get(extra)
  if (known === undefined) {
    known = new WeakMap()
    jsonHeaders.set(extra, known)
  }
  let headers = known.get(target)
  if (headers === undefined) {
    headers = Object.freeze({ ...bearerHeaders(target, extra), 'content-type': 'application/json' })
    known.set(target, headers)
  }
  return headers
}

/** A POST of JSON to a path below the target's base URL. */
export function jsonRequest(
  target: Target,
  path: string,
  body: JsonObject,
  extra: ExtraHeaders,
): UpstreamRequest {
  return {
    method: 'POST',
    url: `${target.baseUrl}${path}`,
    headers: jsonHeadersOf(target, extra),
    body: [Buffer.from(JSON.stringify(body))],
  }
}

/** `GET /models` */
export function modelsOperation(extra: ExtraHeaders): Operation<null, readonly string[]> {
  return modelList({
    path: '/models',
    headers: (target) => bearerHeaders(target, extra),
    names: (reply) => idsIn(objectOf(reply)?.data),
  })
}

/**
 * The tokens of an answer: `prompt_tokens` and `completion_tokens` of the older endpoints, `input_tokens` and
 * `output_tokens` of the newer ones. Groq streams them inside `x_groq`. Null when there are none.
 */
export function readUsage({ usage, x_groq: groq, service_tier }: JsonObject): TokenUsage | null {
  const counts = asObject(usage) ?? asObject(asObject(groq)?.usage)
  if (counts === null) return null
  const input_tokens = readCount(counts.prompt_tokens ?? counts.input_tokens)
  const output_tokens = readCount(counts.completion_tokens ?? counts.output_tokens)
  // `input_token_details` is the word of transcriptions alone.
  const details = counts.prompt_tokens_details ?? counts.input_tokens_details ?? counts.input_token_details
  const input = asObject(details)
  const output = asObject(counts.completion_tokens_details ?? counts.output_tokens_details)
  if (input === null && output === null && service_tier === undefined) return { input_tokens, output_tokens }
  const parts = tokenDetails({
    cached_input_tokens: input?.cached_tokens,
    cache_write_tokens: input?.cache_write_tokens,
    audio_input_tokens: input?.audio_tokens,
    audio_output_tokens: output?.audio_tokens,
    service_tier,
  })
  return { input_tokens, output_tokens, ...parts }
}

/**
 * The facts that the format tells beside tokens; null when there are none. Words that are not OpenAI's are left out.
 */
export function readFacts(body: JsonObject): ChatFacts | null {
  const { system_fingerprint: fingerprint, service_tier: tier } = body
  const known = SERVICE_TIERS.find((one) => one === tier)
  const counts = asObject(body.usage) ?? {}
  const facts = {
    ...(typeof fingerprint === 'string' && FINGERPRINT.test(fingerprint)
      ? { system_fingerprint: fingerprint }
      : {}),
    ...(known === undefined ? {} : { service_tier: known }),
    ...detailsIn(counts, 'prompt_tokens_details', PROMPT_DETAILS),
    ...detailsIn(counts, 'completion_tokens_details', COMPLETION_DETAILS),
  }
  for (const _ in facts) return facts
  return null
}

const FINGERPRINT = /^[\x21-\x7e]{1,128}$/
const PROMPT_DETAILS = ['cached_tokens', 'cache_write_tokens', 'audio_tokens'] as const
const COMPLETION_DETAILS = [
  ...['reasoning_tokens', 'audio_tokens'],
  ...['accepted_prediction_tokens', 'rejected_prediction_tokens'],
]

function detailsIn(
  counts: JsonObject,
  name: 'prompt_tokens_details' | 'completion_tokens_details',
  members: readonly string[],
): Pick<ChatFacts, typeof name> {
  const given = asObject(counts[name])
  if (given === null) return {}
  const memberCounts = members.flatMap((member) => {
    const tokens = readCount(given[member])
    return tokens === null ? [] : [[member, tokens] as const]
  })
  return memberCounts.length === 0 ? {} : { [name]: Object.fromEntries(memberCounts) }
}

function readCount(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null
}

/** Media type of each audio format that OpenAI makes; `pcm` is 24 kHz, 16 bit, little-endian, mono. */
export const AUDIO_MEDIA_TYPES: ReadonlyMap<string, string> = new Map([
  ['mp3', 'audio/mpeg'],
  ['opus', 'audio/ogg'],
  ['aac', 'audio/aac'],
  ['flac', 'audio/flac'],
  ['wav', 'audio/wav'],
  ['pcm', 'audio/pcm'],
])
