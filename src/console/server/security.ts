import { timingSafeEqual } from 'node:crypto'
import { isIP, isIPv6 } from 'node:net'
import type { ConsoleSession } from '../../contracts/console.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { Clock } from '../../contracts/time.ts'
import type { Exchange } from '../../gateway/edge/exchange.ts'
import { contentTypeOf } from '../../gateway/edge/read-body.ts'

// The cookie of the session, protection against requests of other origins, and against guessing keys.

const COOKIE = 'lk_console'
/** For the console alone: no other path of this host ever sees it. */
const COOKIE_SCOPE = 'Path=/console; HttpOnly; SameSite=Strict'

const THROTTLE_WINDOW_MS = 60_000
/** Wrong keys that one address may send in that time. */
const ADDRESS_LIMIT = 10
/** Limit for a peer that speaks for others: a proxy, or a client that pretends to be one. */
const PROXY_LIMIT = 100
/** Addresses that are remembered; beyond that the oldest is forgotten. */
const ADDRESSES_MAX = 10_000
/** Characters that are remembered of a text that is not an address. */
const ADDRESS_LENGTH_MAX = 45

/**
 * The session token that a browser sends; null when it sends none, or two: another host of the same domain may have set
 * one of them.
 */
export function sessionToken(exchange: Pick<Exchange, 'headers'>): string | null {
  return cookieOf(exchange, COOKIE)
}

/** The value of a cookie; null when there is none, or there are two. */
export function cookieOf(exchange: Pick<Exchange, 'headers'>, name: string): string | null {
  const values = cookiesOf(exchange)
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1))
  const [value] = values
  return values.length === 1 && value !== undefined && value !== '' ? value : null
}

/** Names of the cookies that a browser sends, each once and in their order. */
export function cookieNames(exchange: Pick<Exchange, 'headers'>): string[] {
  return [...new Set(cookiesOf(exchange).map((pair) => pair.split('=', 1)[0] ?? ''))]
}

function cookiesOf({ headers }: Pick<Exchange, 'headers'>): string[] {
  return (headers.cookie ?? '').split(/[;,]/).map((pair) => pair.trim())
}

/** Value of `set-cookie`. @param seconds how long the browser keeps it; 0 removes it */
export function sessionCookie(
  token: string,
  seconds: number,
  { headers, encrypted }: Pick<Exchange, 'headers' | 'encrypted'>,
): string {
  // A cookie that is set over a plain connection must come back over one.
  const secure = encrypted || /^\s*https\b/i.test(headers['x-forwarded-proto'] ?? '') ? '; Secure' : ''
  return `${COOKIE}=${token}; ${COOKIE_SCOPE}; Max-Age=${seconds}${secure}`
}

/**
 * Refuses what a page of another origin can make a browser send with the cookie of the session: a form or a script
 * cannot send JSON without leave, and the origin that browsers report has to be this very host.
 *
 * @throws GatewayError PERMISSION_DENIED
 */
export function requireSameOrigin(exchange: Exchange): void {
  const { origin, host = '', 'x-forwarded-host': forwarded, 'sec-fetch-site': site } = exchange.headers
  if (contentTypeOf(exchange)?.value !== 'application/json')
    throw denied('the content type must be application/json')
  if (site !== undefined && site !== 'same-origin') throw denied('the request comes from another site')
  if (origin === undefined) return
  // A proxy may have left the port out of `host`; no page of another origin can add a header of its own.
  const own = (forwarded ?? host).split(',').map((one) => one.trim().toLowerCase())
  const from = URL.parse(origin)?.host
  if (from === undefined || from === '' || !own.includes(from))
    throw denied('the request comes from another origin')
}

/**
 * Requires a token that only a page of this origin could read.
 *
 * @throws GatewayError PERMISSION_DENIED
 */
export function requireCsrfToken({ headers }: Exchange, { csrfToken }: ConsoleSession): void {
  const given = Buffer.from(headers['x-lk-csrf'] ?? '')
  const expected = Buffer.from(csrfToken)
  if (given.length === expected.length && timingSafeEqual(given, expected)) return
  // The field tells the page that nothing but its token is wrong: another tab may have begun a session since.
  throw denied('the header x-lk-csrf must be the csrf_token of the session', 'x-lk-csrf')
}

function denied(message: string, param?: string): GatewayError {
  return new GatewayError('PERMISSION_DENIED', message, param === undefined ? {} : { param })
}

type Caller = Pick<Exchange, 'headers' | 'peer'>

interface Window {
  count: number
  readonly untilMs: number
}

/**
 * Slows down sign-ins with wrong keys, or with wrong codes. Neither can be guessed; this keeps attempts from filling
 * the log and taking the node's time. Counts by the address that the proxy next to this node has put at the end of
 * `x-forwarded-for`, and besides by the peer itself, since that header may be made up.
 */
export class SignInThrottle {
  readonly #windows = new Map<string, Window>()
  readonly #clock: Clock
  readonly #sumsPeers: boolean

  /** @param sumsPeers false: whoever comes through a proxy has to do with their own address alone */
  constructor(clock: Clock, { sumsPeers = true }: { readonly sumsPeers?: boolean } = {}) {
    this.#clock = clock
    this.#sumsPeers = sumsPeers
  }

  /** How long the caller's address has to wait; null: not at all. */
  waitMs(caller: Caller): number | null {
    for (const { name, limit } of this.#addresses(caller)) {
      const window = this.#open(name)
      if (window !== null && window.count >= limit) return window.untilMs - this.#clock.wallNow()
    }
    return null
  }

  note(caller: Caller): void {
    for (const { name } of this.#addresses(caller)) {
      const window = this.#open(name)
      if (window !== null) window.count += 1
      else {
        this.#windows.delete(name)
        this.#windows.set(name, { count: 1, untilMs: this.#clock.wallNow() + THROTTLE_WINDOW_MS })
      }
    }
    this.#forget()
  }

  /** Addresses that are remembered. */
  get size(): number {
    return this.#windows.size
  }

  #addresses(caller: Caller): readonly ThrottledAddress[] {
    const all = throttledAddresses(caller)
    return this.#sumsPeers ? all : all.slice(0, 1)
  }

  #open(name: string): Window | null {
    const window = this.#windows.get(name)
    return window !== undefined && window.untilMs > this.#clock.wallNow() ? window : null
  }

  /** Windows are in the order of their first wrong key, so those that are over come first. */
  #forget(): void {
    for (const [name, { untilMs }] of this.#windows) {
      if (untilMs > this.#clock.wallNow() && this.#windows.size <= ADDRESSES_MAX) return
      this.#windows.delete(name)
    }
  }
}

interface ThrottledAddress {
  readonly name: string
  readonly limit: number
}

/** The address that the proxy next to this node has put at the end; null: there is no such header. */
function forwardedFor({ headers }: Caller): string | null {
  return headers['x-forwarded-for']?.split(',').at(-1)?.trim() || null
}

/** Where a caller is, as the proxy next to this node sees it, or the node itself; null: that is no address. */
export function callerAddress(caller: Caller): string | null {
  const address = forwardedFor(caller) ?? caller.peer
  return isIP(address) === 0 || address.length > ADDRESS_LENGTH_MAX ? null : address
}

/** The caller's own address first, then that of the proxy that speaks for it. */
function throttledAddresses(caller: Caller): ThrottledAddress[] {
  const { peer } = caller
  const forwarded = forwardedFor(caller)
  if (forwarded === null) return [{ name: networkOf(peer), limit: ADDRESS_LIMIT }]
  return [
    { name: `for ${networkOf(forwarded)}`, limit: ADDRESS_LIMIT },
    { name: `by ${networkOf(peer)}`, limit: PROXY_LIMIT },
  ]
}

/** One household has as many IPv6 addresses as it likes, all with the same first half. */
function networkOf(address: string): string {
  if (!isIPv6(address)) return address.slice(0, ADDRESS_LENGTH_MAX)
  const [head = ''] = address.split('::')
  const groups = [...head.split(':'), '0', '0', '0', '0']
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16) || 0)
  // The first half of an IPv4 address in IPv6 form, and of a loopback address, is all zeros.
  return groups.every((group) => group === 0) ? address : groups.map((group) => group.toString(16)).join(':')
}
