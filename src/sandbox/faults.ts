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
  readonly live: LiveFaults
}

/** Faults of live sessions. Times are ms of audio received; null: never. */
export interface LiveFaults {
  /** Breaks the connection with a reset in place of an answer to the handshake. */
  readonly refuse: boolean
  /** Takes audio and says nothing any more. */
  readonly silentAfterMs: number | null
  /** Closes with `closeCode`. */
  readonly closeAfterMs: number | null
  readonly closeCode: number
  /** Breaks the connection with a reset. */
  readonly resetAfterMs: number | null
  /** Breaks it after a character of this word, counted from 1. */
  readonly resetInWord: number | null
  /** Stops reading from the socket. */
  readonly stallAfterMs: number | null
  /** Tells the transcripts of two items in the wrong order. */
  readonly disorder: boolean
  /** Does not close at the end of the audio. */
  readonly linger: boolean
  /** Ends a session that is open for longer. */
  readonly sessionMs: number | null
  /** Waits this long for audio. */
  readonly idleMs: number | null
  /** Ends a session whose audio comes faster than this part of real time, in percent. */
  readonly maxSpeedPercent: number | null
}

const SOUND: LiveFaults = Object.freeze({
  refuse: false,
  silentAfterMs: null,
  closeAfterMs: null,
  closeCode: 1011,
  resetAfterMs: null,
  resetInWord: null,
  stallAfterMs: null,
  disorder: false,
  linger: false,
  sessionMs: null,
  idleMs: null,
  maxSpeedPercent: null,
})

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
  live: SOUND,
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

/** Values that a call gives to faults, by their names without `x-sandbox-`. */
export type Orders = Readonly<Record<string, string>>

/** `/x-sandbox/status=503,key=a/v1/…`: faults in the base URL, for clients that can name nothing else. */
const IN_PATH = /^\/x-sandbox\/([^/]*)(\/.*)$/

/**
 * Faults that a call orders through `x-sandbox-*` headers, through query parameters of the same names, or through the
 * beginning of its path; the last of these counts.
 */
export function ordersOf(
  headers: IncomingHttpHeaders,
  target: string,
): { path: string; query: URLSearchParams; orders: Orders } {
  const [given = '', search = ''] = target.split(/\?(.*)/s)
  const [, listed = '', path = given] = IN_PATH.exec(given) ?? []
  const query = new URLSearchParams(search)
  const orders: Record<string, string> = {}
  const order = (name: string, value: string) => {
    if (name.startsWith(PREFIX)) orders[name.slice(PREFIX.length)] = value
  }
  for (const [name, value] of Object.entries(headers)) order(name, value?.toString() ?? '')
  for (const [name, value] of query) order(name, value)
  for (const [name, value] of new URLSearchParams(listed.replaceAll(',', '&'))) order(PREFIX + name, value)
  return { path, query, orders }
}

const PREFIX = 'x-sandbox-'
const MS_MAX = 86_400_000

/**
 * Reads the faults of calls and counts those that fail only a number of times: with `fail-times: N`, the first N calls
 * that name the same `key` meet the faults (status 500 when none is named), later ones meet none; `fail-after: N` lets
 * N calls pass before.
 */
export class FaultRules {
  readonly #calls = new Map<string, number>()

  /** @throws Refusal 400 for an order that is not as documented */
  read(orders: Orders): Faults {
    const times = integer(orders, 'fail-times', 0, 1_000_000)
    const after = integer(orders, 'fail-after', 0, 1_000_000)
    if (times !== null || after !== null) {
      const count = this.#count(orders.key ?? '') - (after ?? 0)
      if (count <= 0 || count > (times ?? Number.POSITIVE_INFINITY)) return NONE
    }
    const status = integer(orders, 'status', 400, 599)
    const faults: Faults = {
      delayMs: integer(orders, 'delay-ms', 0, 600_000) ?? 0,
      status,
      code: orders.code ?? CODES[status ?? 500] ?? null,
      retryAfter: orders['retry-after'] ?? null,
      hang: flag(orders, 'hang'),
      cut: flag(orders, 'cut'),
      empty: flag(orders, 'empty'),
      early: flag(orders, 'early'),
      pieceDelayMs: integer(orders, 'piece-delay-ms', 0, 60_000) ?? 0,
      readBytesPerSecond: integer(orders, 'read-bytes-per-second', 1, 1_000_000_000),
      live: liveFaults(orders),
    }
    return times !== null && isSound(faults) ? { ...faults, status: 500 } : faults
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

function liveFaults(orders: Orders): LiveFaults {
  return {
    refuse: flag(orders, 'refuse'),
    silentAfterMs: integer(orders, 'silent-after-ms', 0, MS_MAX),
    closeAfterMs: integer(orders, 'close-after-ms', 0, MS_MAX),
    closeCode: closeCode(orders) ?? SOUND.closeCode,
    resetAfterMs: integer(orders, 'reset-after-ms', 0, MS_MAX),
    resetInWord: integer(orders, 'reset-in-word', 1, 1_000_000),
    stallAfterMs: integer(orders, 'stall-after-ms', 0, MS_MAX),
    disorder: flag(orders, 'disorder'),
    linger: flag(orders, 'linger'),
    sessionMs: integer(orders, 'session-ms', 1, MS_MAX),
    idleMs: integer(orders, 'idle-ms', 1, MS_MAX),
    maxSpeedPercent: integer(orders, 'max-speed-percent', 100, 100_000),
  }
}

/** A code that a close frame may carry. */
function closeCode(orders: Orders): number | null {
  const code = integer(orders, 'close-code', 1000, 4999)
  if (code === null || code >= 3000 || (code <= 1014 && ![1004, 1005, 1006].includes(code))) return code
  throw new Refusal(400, `${PREFIX}close-code takes no ${code}`, { param: `${PREFIX}close-code` })
}

/** Nothing that is ordered is a fault. */
function isSound({ status, hang, cut, empty, early, live, ...slow }: Faults): boolean {
  const { closeCode: _, ...faults } = live
  const isLiveSound = Object.values(faults).every((value) => value === null || value === false)
  const isSlow = slow.delayMs > 0 || slow.pieceDelayMs > 0 || slow.readBytesPerSecond !== null
  return status === null && !hang && !cut && !empty && !early && !isSlow && isLiveSound
}

function integer(orders: Orders, name: string, least: number, most: number): number | null {
  const text = orders[name]
  if (text === undefined) return null
  const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN
  if (value >= least && value <= most) return value
  throw new Refusal(400, `${PREFIX}${name} takes ${least} to ${most}`, { param: PREFIX + name })
}

function flag(orders: Orders, name: string): boolean {
  const text = orders[name]
  if (text === undefined || text === 'false') return false
  if (text === 'true') return true
  throw new Refusal(400, `${PREFIX}${name} takes true or false`, { param: PREFIX + name })
}
