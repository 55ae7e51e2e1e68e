import { randomFillSync } from 'node:crypto'

/**
 * Prefixes of identifiers: request, transcription job, queue job, webhook event, key, kept video, call of the gateway,
 * grant of credits.
 */
export type IdPrefix = 'req' | 'tj' | 'qj' | 'evt' | 'key' | 'vid' | 'call' | 'grant'

/** Crockford's base 32 in lower case, as ULIDs are written (https://github.com/ulid/spec). */
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'
const TIME_CHARACTERS = 10
const RANDOM_CHARACTERS = 16

/** Random bytes in stock: asked for one by one they take half of the CPU time of a small request. */
const stock = Buffer.alloc(4096)
let used = stock.length

let timeMs = 0
let timeText = ''

/** A time-ordered, lower-case identifier such as `req_01kaf2…`: the prefix and a ULID of 48 bits of time, 80 random. */
export function newId(prefix: IdPrefix): string {
  const nowMs = Date.now()
  if (nowMs !== timeMs) {
    timeText = encodeTime(nowMs)
    timeMs = nowMs
  }
  if (used + RANDOM_CHARACTERS > stock.length) {
    randomFillSync(stock)
    used = 0
  }
  let text = `${prefix}_${timeText}`
  for (const end = used + RANDOM_CHARACTERS; used < end; used += 1) text += ALPHABET[stock[used]! & 31]
  return text
}

function encodeTime(ms: number): string {
  let text = ''
  for (let rest = ms; text.length < TIME_CHARACTERS; rest = Math.floor(rest / 32))
    text = ALPHABET[rest % 32] + text
  return text
}
