import { randomFillSync } from 'node:crypto'
import { ulid } from 'ulid'

/** Prefixes of identifiers: request, transcription job, queue job, webhook event, key. */
export type IdPrefix = 'req' | 'tj' | 'qj' | 'evt' | 'key'

/** A time-ordered, lower-case identifier such as `req_01kaf2…`: the prefix and a ULID. */
export function newId(prefix: IdPrefix): string {
  return `${prefix}_${ulid(undefined, nextRandom).toLowerCase()}`
}

/** Random bytes in stock: asking for them one by one took half of the CPU time of a small request. */
const stock = Buffer.alloc(4096)
let used = stock.length

/** Uniform in [0, 1), in steps of 1/256; an identifier takes five bits of each. */
function nextRandom(): number {
  if (used === stock.length) {
    randomFillSync(stock)
    used = 0
  }
  const byte = stock[used] as number
  used += 1
  return byte / 256
}
