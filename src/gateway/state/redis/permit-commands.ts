import { randomUUID } from 'node:crypto'
import type { PermitLimit } from '../../../contracts/permits.ts'
import { type Clock, systemClock, within } from '../../../contracts/time.ts'
import type { RedisConnection } from './connect.ts'
import type { Contention } from './kept-permits.ts'
import { keys } from './key-names.ts'
import { type Command, replyText, replyTexts, script } from './script.ts'

/** How long a permit outlasts its node. */
const LEASE_MS = 15_000
/** Longest that Redis may take to answer before the node decides alone. */
const TIMEOUT_MS = 1_000
/** A node that has not asked for so long does not wait any more: its calls are passed over. */
const SEEN_MS = 3_000
/** Tokens that are renewed, or given back, by one command. */
const TOKENS_AT_ONCE = 500

const inputs = { keys: ['permits'], steps: 'permits/permit_steps' } as const
const textsOf = (reply: unknown) => replyTexts(reply).map(replyText)

const takePermits = script('permits/take_permits', {
  ...inputs,
  args: ['token', 'lease_ms', 'limits'],
  reply: Number,
})

const waitForPermits = script('permits/wait_for_permits', {
  ...inputs,
  args: ['name', 'most', 'node', 'waiters', 'lease_ms', 'seen_ms'],
  reply: (reply) => {
    const [known, contention, ...granted] = textsOf(reply)
    return { isKnown: known === '1', contention: contention as Contention, granted }
  },
})

const returnPermits = script('permits/return_permits', {
  ...inputs,
  args: ['tokens', 'node', 'lease_ms', 'limits'],
  reply: textsOf,
})

const reclaimPermits = script('permits/reclaim_permits', {
  ...inputs,
  args: ['node', 'newest', 'known', 'lease_ms', 'limits'],
  reply: textsOf,
})

const renewPermits = script('permits/renew_permits', {
  ...inputs,
  args: ['lease_ms', 'held'],
  // After the command that gives a permit back it would take it again, for no call, until the lease ends.
  isOrdered: true,
})

export interface PermitTimes {
  /** How long a permit outlasts its node; it is renewed three times as often. */
  readonly leaseMs?: number
  readonly timeoutMs?: number
  /** How long a node that has asked for permits is taken to be waiting. */
  readonly seenMs?: number
  readonly clock?: Clock
}

/** A node's questions to Redis about permits. Every method rejects when there is no answer in time, or a refusal. */
export class PermitCommands {
  readonly leaseMs: number
  readonly timeoutMs: number
  /** How long the last question took. */
  tripMs = 0
  readonly #redis: RedisConnection
  readonly #seenMs: number
  readonly #clock: Clock
  readonly #node = randomUUID()
  #tokens = 0

  constructor(
    redis: RedisConnection,
    { leaseMs = LEASE_MS, timeoutMs = TIMEOUT_MS, seenMs = SEEN_MS, clock = systemClock }: PermitTimes,
  ) {
    this.#redis = redis
    this.leaseMs = leaseMs
    this.timeoutMs = timeoutMs
    this.#seenMs = seenMs
    this.#clock = clock
  }

  newToken(): string {
    this.#tokens += 1
    return `${this.#node}.${this.#tokens}`
  }

  /** Takes a permit of each name, or none. @returns the name that has none left */
  async take(token: string, limits: readonly PermitLimit[]): Promise<PermitLimit | undefined> {
    const place = await this.#ask(takePermits, { token, limits: limitsJson(limits) })
    return limits[place - 1]
  }

  /** Has places queued, and asks which were served. */
  wait({ name, most }: PermitLimit, places: readonly (readonly [place: string, workspace: string])[]) {
    const waiters = JSON.stringify(places)
    return this.#ask(waitForPermits, { name, most, node: this.#node, waiters, seen_ms: this.#seenMs })
  }

  /** Gives permits back, or places up. @returns for each name who waits, and which of our places were served */
  async giveBack(tokens: readonly string[], limits: readonly PermitLimit[]) {
    const given = { tokens: JSON.stringify(tokens), node: this.#node, limits: limitsJson(limits) }
    const reply = await this.#ask(returnPermits, given)
    return { contention: reply.slice(0, limits.length) as Contention[], granted: reply.slice(limits.length) }
  }

  /** Frees everything of these names that this node has and `known` has not. @returns our places that were served */
  reclaim(known: readonly string[], limits: readonly PermitLimit[]): Promise<string[]> {
    const all = { known: JSON.stringify(known), newest: this.#tokens, node: this.#node }
    return this.#ask(reclaimPermits, { ...all, limits: limitsJson(limits) })
  }

  async renew(held: readonly (readonly [name: string, token: string])[]): Promise<void> {
    await Promise.all(partsOf(held).map((some) => this.#ask(renewPermits, { held: JSON.stringify(some) })))
  }

  async #ask<Inputs, Reply>(
    commandOf: (inputs: Inputs & { permits: string; lease_ms: number }) => Command<Reply>,
    own: Inputs,
  ): Promise<Reply> {
    const askedMs = this.#clock.now()
    const all = { ...own, permits: keys.permits, lease_ms: this.leaseMs }
    const reply = await within(this.timeoutMs, commandOf(all)(this.#redis), this.#clock)
    this.tripMs = this.#clock.now() - askedMs
    return reply
  }
}

/** Tokens in parts that one command may have. */
export function partsOf<Token>(tokens: readonly Token[]): Token[][] {
  const parts: Token[][] = []
  for (let from = 0; from < tokens.length; from += TOKENS_AT_ONCE)
    parts.push(tokens.slice(from, from + TOKENS_AT_ONCE))
  return parts
}

function limitsJson(limits: readonly PermitLimit[]): string {
  return JSON.stringify(limits.map(({ name, most }) => [name, most]))
}
