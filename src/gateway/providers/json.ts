import type { JsonObject } from '../../contracts/json.ts'
import type { UpstreamReply } from '../../contracts/upstream.ts'
import { readUtf8 } from '../../contracts/utf8.ts'

/** The text of a reply's body. Bytes that are no UTF-8 become U+FFFD. */
export function replyText({ body }: UpstreamReply): string {
  return readUtf8(body.length === 1 ? body[0]! : Buffer.concat(body))
}

/** The body of a reply as JSON; null when it is none. */
export function replyJson(reply: UpstreamReply): unknown {
  return reply.json === undefined ? parseJson(replyText(reply)) : reply.json
}

/** The body of a reply as a JSON object; null when it is none. */
export function objectOf(reply: UpstreamReply): JsonObject | null {
  return asObject(replyJson(reply))
}

/** A text as a JSON object; null when it is none. */
export function parseObject(text: string): JsonObject | null {
  return asObject(parseJson(text))
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/**
 * Writes a parsed value as JSON again. Empty for values nested thousands of levels deep, which can be read but not
 * written.
 */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value) ?? ''
  } catch (error) {
    if (error instanceof RangeError) return ''
    throw error
  }
}

/** A value as an object; null when it is none (arrays are none). */
export function asObject(value: unknown): JsonObject | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : null
}

/** The objects of an array; none when it is no array. */
export function objectsIn(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.map(asObject).filter((item) => item !== null) : []
}

/** The `id` of each object of a list; null when it is no list. */
export function idsIn(value: unknown): unknown[] | null {
  return Array.isArray(value) ? objectsIn(value).map(({ id }) => id) : null
}
