import { isIPv6 } from 'node:net'
import { GatewayError } from '../../errors.ts'
import type { Exchange } from '../../inbound/exchange.ts'

const WINDOW_MS = 60_000
/** Wrong keys that one address may send in that time. */
const LIMIT = 10
/** Of a peer that speaks for others: a proxy, or somebody who pretends to be one. */
const PROXY_LIMIT = 100
/** Addresses that are remembered; beyond that the oldest is forgotten. */
const MAX_ADDRESSES = 10_000
/** What is no address is remembered by its beginning. */
const LONGEST_ADDRESS = 45

type Caller = Pick<Exchange, 'headers' | 'peer'>

interface Window {
  count: number
  readonly untilMs: number
}

/**
 * Slows down whoever signs in with wrong keys. A key cannot be guessed; this keeps what tries from filling the log and
 * taking the node's time. Counted by the address that the proxy next to this node has put at the end of
 * `x-forwarded-for`, and besides by the peer itself, since that header may be made up.
 */
export class WrongKeys {
  readonly #windows = new Map<string, Window>()
  readonly #nowMs: () => number

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /** @throws GatewayError RATE_LIMITED when there were too many from where the caller is */
  refuseTooMany(caller: Caller): void {
    for (const { name, limit } of placesOf(caller)) {
      const window = this.#open(name)
      if (window === null || window.count < limit) continue
      throw new GatewayError('RATE_LIMITED', 'too many wrong keys from this address', {
        retryAfterMs: window.untilMs - this.#nowMs(),
      })
    }
  }

  note(caller: Caller): void {
    for (const { name } of placesOf(caller)) {
      const window = this.#open(name)
      if (window !== null) window.count += 1
      else {
        this.#windows.delete(name)
        this.#windows.set(name, { count: 1, untilMs: this.#nowMs() + WINDOW_MS })
      }
    }
    this.#forget()
  }

  /** Addresses that are remembered. */
  get size(): number {
    return this.#windows.size
  }

  #open(name: string): Window | null {
    const window = this.#windows.get(name)
    return window !== undefined && window.untilMs > this.#nowMs() ? window : null
  }

  /** In order of the first wrong key: what is over stands before what is not. */
  #forget(): void {
    for (const [name, { untilMs }] of this.#windows) {
      if (untilMs > this.#nowMs() && this.#windows.size <= MAX_ADDRESSES) return
      this.#windows.delete(name)
    }
  }
}

function placesOf({ headers, peer }: Caller): { readonly name: string; readonly limit: number }[] {
  const forwarded = headers['x-forwarded-for']?.split(',').at(-1)?.trim()
  if (forwarded === undefined || forwarded === '') return [{ name: networkOf(peer), limit: LIMIT }]
  return [
    { name: `for ${networkOf(forwarded)}`, limit: LIMIT },
    { name: `by ${networkOf(peer)}`, limit: PROXY_LIMIT },
  ]
}

/** One household has as many IPv6 addresses as it likes, all with the same first half. */
function networkOf(address: string): string {
  if (!isIPv6(address)) return address.slice(0, LONGEST_ADDRESS)
  const [head = ''] = address.split('::')
  const groups = [...head.split(':'), '0', '0', '0', '0']
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16) || 0)
  // Of IPv4, and of the machine itself, the first half says nothing.
  return groups.every((group) => group === 0) ? address : groups.map((group) => group.toString(16)).join(':')
}
