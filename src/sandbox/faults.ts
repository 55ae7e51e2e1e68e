import type { IncomingHttpHeaders } from 'node:http'
import { Refusal } from './http.ts'

/** Faults that a call orders through its `x-sandbox-*` headers. */
export interface Faults {
  /** Waits before it answers, after the body. */
  readonly delayMs: number
  /** Fails with this status. */
  readonly status: number | null
  /** Error code that goes with `status`. */
  readonly code: string | null
  /** Value of Retry-After that goes with `status`: seconds or an HTTP date. */
  readonly retryAfter: string | null
  /** Reads the request and never answers. */
  readonly hang: boolean
  /** Breaks the connection in the middle of the answer. */
  readonly cut: boolean
  /** Hears nothing. */
  readonly empty: boolean
  /** Answers before it has read the body. */
  readonly early: boolean
  /** Waits this long behind each piece of a streamed answer. */
  readonly pieceDelayMs: number
  /** Reads the body no faster. */
  readonly readBytesPerSecond: number | null
}

const NONE: Faults = Object.freeze({
  delayMs: 0,
  status: null,
  code: null,
  retryAfter: null,
  hang: false,
  cut: false,
  empty: false,
  early: false,
  pieceDelayMs: 0,
  readBytesPerSecond: null,
})

/** Codes that OpenAI sends with a status. */
const CODES: Readonly<Record<number, string>> = {
  401: 'invalid_api_key',
  404: 'model_not_found',
  429: 'rate_limit_exceeded',
  503: 'server_is_overloaded',
}

/** Keys that are remembered; the oldest goes first. */
const KEYS_MAX = 10_000

/**
 * Reads the faults of calls and counts those that fail only a number of times: with `x-sandbox-fail-times:
 * N`, the first N calls that name the same `x-sandbox-key` meet the faults (status 500 when none is named),
 * later ones meet none.
 */
export class FaultRules {
  readonly #calls = new Map<string, number>()

  /** @throws Refusal 400 for a header that is not as documented */
  read(headers: IncomingHttpHeaders): Faults {
    const given = (name: string) => headers[`x-sandbox-${name}`]?.toString()
    const times = integer('fail-times', given('fail-times'), 0, 1_000_000)
    if (times !== null && this.#count(given('key') ?? '') > times) return NONE
    const status = integer('status', given('status'), 400, 599)
    const faults: Faults = {
      delayMs: integer('delay-ms', given('delay-ms'), 0, 600_000) ?? 0,
      status,
      code: given('code') ?? CODES[status ?? 500] ?? null,
      retryAfter: given('retry-after') ?? null,
      hang: flag('hang', given('hang')),
      cut: flag('cut', given('cut')),
      empty: flag('empty', given('empty')),
      early: flag('early', given('early')),
      pieceDelayMs: integer('piece-delay-ms', given('piece-delay-ms'), 0, 60_000) ?? 0,
      readBytesPerSecond: integer('read-bytes-per-second', given('read-bytes-per-second'), 1, 1_000_000_000),
    }
    const { hang, cut, empty, early, delayMs } = faults
    const idle = status === null && !hang && !cut && !empty && !early && delayMs === 0
    return times !== null && idle ? { ...faults, status: 500 } : faults
  }

  /** Calls of this key so far, this one included. */
  #count(key: string): number {
    const count = (this.#calls.get(key) ?? 0) + 1
    this.#calls.set(key, count)
    const [oldest] = this.#calls.keys()
    if (this.#calls.size > KEYS_MAX && oldest !== undefined) this.#calls.delete(oldest)
    return count
  }
}

function integer(name: string, text: string | undefined, least: number, most: number): number | null {
  if (text === undefined) return null
  const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN
  if (value >= least && value <= most) return value
  throw new Refusal(400, `x-sandbox-${name} takes ${least} to ${most}`, { param: `x-sandbox-${name}` })
}

function flag(name: string, text: string | undefined): boolean {
  if (text === undefined || text === 'false') return false
  if (text === 'true') return true
  throw new Refusal(400, `x-sandbox-${name} takes true or false`, { param: `x-sandbox-${name}` })
}
