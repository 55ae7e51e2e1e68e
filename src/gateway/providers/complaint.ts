import type { JsonObject } from '../../contracts/json.ts'
import type { UpstreamReply } from '../../contracts/upstream.ts'
import { asObject, objectsIn, replyJson, replyText } from './json.ts'
import { durationMs } from './retry-after.ts'

/** A provider's description of a failure. */
export interface Complaint {
  /** Machine-readable words, the most telling first; never prose. */
  readonly codes: readonly string[]
  /** The request field at fault. */
  readonly param: string | null
  /** Prose, for the log. */
  readonly message: string | null
  /** How long the body asks for patience. */
  readonly retryAfterMs: number | null
}

const SILENCE: Complaint = { codes: [], param: null, message: null, retryAfterMs: null }

/** Longest complaint that is read and parsed, bytes. */
const COMPLAINT_MAX_BYTES = 64 * 1024

/**
 * Reads a complaint in whichever of the usual shapes it comes; a body that is no JSON object is its message.
 * - OpenAI and who speaks its language: `{error: {message, type, param, code}}`
 * - ElevenLabs: `{detail: {status, message}}`, newer `{detail: {type, code, message, param}}`; FastAPI's
 *   validation, also fal's: `{detail: [{loc, msg, type}]}`
 * - Deepgram: `{err_code, err_msg}` (its 503 says `error_code`) or `{category, message, details}`
 * - AssemblyAI: `{error: "…"}` or `{error_code, message}`
 * - Google: `{error: {code: 429, message, status, details: [{'@type', reason | retryDelay}]}}`, also within
 *   an array
 * - Anthropic: `{type: "error", error: {type, message, details: {error_code}}}`
 * - Mistral: `{object: "error", message, type, param, code}`, or with FastAPI's validation as its message:
 *   `{object: "error", message: {detail: [{loc, msg, type}]}, type}`
 */
export function readComplaint(reply: UpstreamReply): Complaint {
  if (reply.body.reduce((sum, chunk) => sum + chunk.byteLength, 0) > COMPLAINT_MAX_BYTES) return SILENCE
  const json = replyJson(reply)
  // Google's front end puts it into an array of one.
  const body = asObject(Array.isArray(json) ? json[0] : json)
  return body === null ? { ...SILENCE, message: replyText(reply).trim() || null } : complaintIn(body)
}

/** The same, of a complaint that is an object already: a part of an answer that began well. */
export function complaintIn(body: JsonObject): Complaint {
  const { error } = body
  const detail = body.detail ?? asObject(body.message)?.detail
  const inner = asObject(error) ?? asObject(detail) ?? body
  const items = [...objectsIn(inner.details), ...objectsIn(detail)]
  const said = [inner.message, error, detail, body.message, inner.err_msg, items[0]?.msg]
  return {
    codes: codesOf(inner, items),
    param: paramOf(inner, items),
    message: said.find((value) => typeof value === 'string') ?? null,
    retryAfterMs: items.map(({ retryDelay }) => durationMs(retryDelay)).find((ms) => ms !== null) ?? null,
  }
}

/** Reasons of single items come first: they tell a bad key from a bad field where the code is one for both. */
function codesOf(inner: JsonObject, items: readonly JsonObject[]): string[] {
  const { code, err_code, error_code, category, type, status, details, metadata } = inner
  // OpenRouter, with 403, https://openrouter.ai/docs/api/reference/errors-and-debugging
  const flagged = asObject(metadata)?.flagged_input === undefined ? [] : ['content_policy_violation']
  const particular = [asObject(details)?.error_code, ...items.flatMap((item) => [item.reason, item.type])]
  return [...flagged, ...particular, code, err_code, error_code, category, type, status].filter(isCode)
}

/** Prose in the place of a code would be logged where prose must not be: with a key that was refused. */
function isCode(value: unknown): value is string {
  return typeof value === 'string' && /^[\w.:/-]{1,128}$/.test(value)
}

/** `param`, or the end of the path of what did not validate: `["body", "model_id"]`. */
function paramOf(inner: JsonObject, items: readonly JsonObject[]): string | null {
  const path = items.map(({ loc }) => loc).find(Array.isArray)
  const name: unknown = typeof inner.param === 'string' ? inner.param : path?.at(-1)
  return typeof name === 'string' ? name : null
}
