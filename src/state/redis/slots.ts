import { randomUUID } from 'node:crypto'
import type { SlotLease, SlotLimit, Slots, SlotsTaken, SlotWaiter } from '../../contracts/slots.ts'
import { type Logger, messageOf } from '../../log.ts'
import { LONGEST_TIMER_MS, within } from '../../timeouts.ts'
import { EmbeddedSlots } from '../embedded/slots.ts'
import type { RedisConnection } from './connect.ts'
import { Fallback } from './fallback.ts'
import { KeptSlots } from './kept-slots.ts'
import { keys } from './key-names.ts'
import { replyText, replyTexts, script } from './script.ts'

/** How long a slot outlasts its node. */
const LEASE_MS = 15_000
/** Longest that Redis may take to answer before the node decides alone. */
const TIMEOUT_MS = 1_000
/** A node that has not asked for so long does not wait any more: its calls are passed over. */
const SEEN_MS = 3_000
/** How often a node looks whether one of its calls has got a slot, while calls come and after they stopped coming. */
const LOOK_MS = { least: 20, most: 250 }
/** Tokens that are renewed, or given back, by one command. */
const TOKENS_AT_ONCE = 500

const inputs = { keys: ['slots'], steps: 'slots/slot_steps' } as const

const takeSlots = script('slots/take_slots', {
  ...inputs,
  args: ['token', 'lease_ms', 'limits'],
  reply: Number,
})

const waitForSlots = script('slots/wait_for_slots', {
  ...inputs,
  args: ['name', 'most', 'node', 'waiters', 'lease_ms', 'seen_ms'],
  reply: (reply) => {
    const [known, calm, ...granted] = replyTexts(reply).map(replyText)
    return { isKnown: known === '1', isCalm: calm === '1', granted }
  },
})

const returnSlots = script('slots/return_slots', {
  ...inputs,
  args: ['tokens', 'node', 'lease_ms', 'limits'],
  reply: (reply) => {
    const [calm, ...granted] = replyTexts(reply).map(replyText)
    return { isCalm: calm === '1', granted }
  },
})

const renewSlots = script('slots/renew_slots', {
  ...inputs,
  args: ['lease_ms', 'held'],
  reply: () => null,
})

export interface RedisSlotsOptions {
  /** How long a slot outlasts its node; it is renewed three times as often. */
  readonly leaseMs?: number
  readonly timeoutMs?: number
  /** How long a node that has asked for slots is taken to be waiting. */
  readonly seenMs?: number
}

/** Somebody who waits on this node. */
interface Waiting {
  readonly token: string
  readonly workspace: string
  /** Its slot may be kept for another call afterwards. */
  readonly mayKeep: boolean
  /** Called once, when it waits no more. */
  readonly end: (lease: SlotLease | null) => void
}

/** Those who wait on this node for a slot of one name, by their tokens. */
interface Queue {
  limit: SlotLimit
  readonly waiting: Map<string, Waiting>
  /** When the last one came. */
  newestMs: number
  timer: NodeJS.Timeout | null
  /** Redis may not know all of them. */
  isAstray: boolean
}

/**
 * Slots that all nodes share. Redis has a token for each slot that is taken, with the moment at which its lease ends,
 * and for each call that waits its place in the order in which all nodes are served. Redis tells nobody: a node asks
 * whether one of its calls is served, and is told so too when it gives a slot back.
 */
export class RedisSlots implements Slots {
  readonly #redis: RedisConnection
  readonly #log: Logger
  readonly #fallback: Fallback
  readonly #leaseMs: number
  readonly #timeoutMs: number
  readonly #seenMs: number
  readonly #node = randomUUID()
  /** Counts what this node holds, whoever gave it. */
  readonly #own = new EmbeddedSlots()
  readonly #kept: KeptSlots
  /** The tokens that are renewed, also those of slots that are kept. */
  readonly #held = new Map<string, readonly SlotLimit[]>()
  readonly #queues = new Map<string, Queue>()
  readonly #returning = new Set<Promise<void>>()
  #renewing: NodeJS.Timeout | null = null
  #tokens = 0

  /** @param redis a connection that never sends a command twice, and sends those of one server in order */
  constructor(
    redis: RedisConnection,
    log: Logger,
    { leaseMs = LEASE_MS, timeoutMs = TIMEOUT_MS, seenMs = SEEN_MS }: RedisSlotsOptions = {},
  ) {
    this.#redis = redis
    this.#log = log
    this.#leaseMs = leaseMs
    this.#timeoutMs = timeoutMs
    this.#seenMs = seenMs
    this.#kept = new KeptSlots((limit, tokens) => {
      for (let from = 0; from < tokens.length; from += TOKENS_AT_ONCE)
        this.#return(tokens.slice(from, from + TOKENS_AT_ONCE), [limit], true)
    })
    this.#fallback = new Fallback(redis, log, {
      away: 'Redis does not answer: this node counts slots alone',
      back: 'Redis answers again: the nodes share their slots',
    })
  }

  async take(limits: readonly SlotLimit[]): Promise<SlotsTaken> {
    const token = this.#newToken()
    if (!this.#fallback.mayAsk()) return this.#takeAlone(token, limits)
    try {
      const place = await this.#ask(takeSlots, { token, limits: jsonOf(limits) })
      const full = limits[place - 1]
      return full === undefined ? { lease: this.#hold(token, limits) } : { full }
    } catch {
      const taken = this.#takeAlone(token, limits)
      // Redis may have given them, and its answer be lost.
      if ('full' in taken) this.#return([token], limits)
      return taken
    }
  }

  async wait(limit: SlotLimit, { workspace, waitMs, signal }: SlotWaiter): Promise<SlotLease | null> {
    if (signal.aborted) return null
    if (waitMs <= 0) {
      const taken = await this.take([limit])
      return 'lease' in taken ? taken.lease : null
    }
    const kept = this.#mayHandOver(limit.name) ? this.#kept.take(limit) : undefined
    const mayKeep = KeptSlots.mayServe(limit, waitMs)
    if (kept !== undefined) return this.#hold(kept, [limit], mayKeep)
    return new Promise((resolve) => {
      const queue = this.#queueOf(limit)
      const token = this.#newToken()
      const leave = () => {
        waiting.end(null)
        this.#return([token], [limit])
      }
      const timer = setTimeout(leave, Math.min(waitMs, LONGEST_TIMER_MS))
      const waiting: Waiting = {
        token,
        workspace,
        mayKeep,
        end: (lease) => {
          clearTimeout(timer)
          signal.removeEventListener('abort', leave)
          queue.waiting.delete(token)
          if (queue.waiting.size === 0) this.#close(limit.name, queue)
          resolve(lease)
        },
      }
      signal.addEventListener('abort', leave)
      queue.waiting.set(token, waiting)
      void this.#look(queue, [waiting])
    })
  }

  held(name: string): number {
    return this.#own.held(name)
  }

  waiting(name: string): number {
    return this.#queues.get(name)?.waiting.size ?? 0
  }

  /** Stops renewing, and lets Redis know what was given back. Never rejects, and takes no longer than an answer may. */
  async close(): Promise<void> {
    if (this.#renewing !== null) clearInterval(this.#renewing)
    for (const [name, queue] of this.#queues) this.#close(name, queue)
    this.#kept.close()
    await within(this.#timeoutMs, Promise.all(this.#returning)).catch(() => {})
  }

  #newToken(): string {
    this.#tokens += 1
    return `${this.#node}.${this.#tokens}`
  }

  /** @throws Error when Redis does not answer, which is noted */
  async #ask<Inputs, Reply>(
    run: (redis: RedisConnection, inputs: Inputs & { slots: string; lease_ms: number }) => Promise<Reply>,
    inputs: Inputs,
  ): Promise<Reply> {
    try {
      const all = { ...inputs, slots: keys.slots, lease_ms: this.#leaseMs }
      const reply = await within(this.#timeoutMs, run(this.#redis, all))
      this.#fallback.came()
      return reply
    } catch (error) {
      this.#fallback.went(error)
      throw error
    }
  }

  #takeAlone(token: string, limits: readonly SlotLimit[]): SlotsTaken {
    const full = limits.find(({ name, most }) => this.#own.held(name) >= most)
    return full === undefined ? { lease: this.#hold(token, limits) } : { full }
  }

  /** @param mayKeep the slot, of one name, may stay here when it is given back */
  #hold(token: string, limits: readonly SlotLimit[], mayKeep = false): SlotLease {
    const own = this.#own.hold(limits)
    this.#held.set(token, limits)
    this.#renewing ??= setInterval(this.#renew, this.#leaseMs / 3).unref()
    let isHeld = true
    return {
      release: () => {
        if (!isHeld) return
        isHeld = false
        own.release()
        const [limit] = limits
        if (mayKeep && limit && this.#mayHandOver(limit.name) && this.#kept.keep(limit, token)) return
        this.#return([token], limits, mayKeep)
      },
    }
  }

  /** Whether a slot may go from one call of this node to the next: not in front of somebody who is known to wait. */
  #mayHandOver(name: string): boolean {
    // Who has only just asked Redis does not wait yet.
    return !this.#fallback.isAway && (this.#queues.get(name)?.timer ?? null) === null
  }

  /** What is lost on its way is free when its lease ends. */
  #return(tokens: readonly string[], limits: readonly SlotLimit[], mayKeep = false): void {
    for (const token of tokens) this.#held.delete(token)
    const returned = this.#giveBack(tokens, limits, mayKeep).finally(() => this.#returning.delete(returned))
    this.#returning.add(returned)
  }

  async #giveBack(tokens: readonly string[], limits: readonly SlotLimit[], mayKeep: boolean): Promise<void> {
    if (this.#redis.status === 'ready')
      try {
        // Those that wait go by what the limit is now.
        const now = limits.map((limit) => this.#queues.get(limit.name)?.limit ?? limit)
        const inputs = { tokens: JSON.stringify(tokens), node: this.#node, limits: jsonOf(now) }
        const { isCalm, granted } = await this.#ask(returnSlots, inputs)
        for (const one of granted) for (const { name } of limits) this.#grant(name, one)
        if (mayKeep) for (const limit of now) this.#kept.learn(limit, isCalm)
      } catch {
        // Noted where it was asked.
      }
    if (this.#fallback.isAway) for (const { name } of limits) this.#serveAlone(name)
  }

  readonly #renew = (): void => {
    if (this.#redis.status !== 'ready') return
    const held = [...this.#held].flatMap(([token, limits]) => limits.map(({ name }) => [name, token]))
    for (let from = 0; from < held.length; from += TOKENS_AT_ONCE) {
      const some = held.slice(from, from + TOKENS_AT_ONCE)
      this.#ask(renewSlots, { held: JSON.stringify(some) }).catch((error: unknown) => {
        this.#log.debug({ reason: messageOf(error) }, 'slots were not renewed')
      })
    }
  }

  #queueOf(limit: SlotLimit): Queue {
    let queue = this.#queues.get(limit.name)
    if (queue === undefined) {
      queue = { limit, waiting: new Map(), newestMs: 0, timer: null, isAstray: false }
      this.#queues.set(limit.name, queue)
    }
    queue.limit = limit
    queue.newestMs = performance.now()
    return queue
  }

  #close(name: string, queue: Queue): void {
    if (queue.timer !== null) clearTimeout(queue.timer)
    if (this.#queues.get(name) === queue) this.#queues.delete(name)
  }

  /** Has some queued, or all that Redis may not know, and asks who is served. */
  async #look(queue: Queue, some: readonly Waiting[] = []): Promise<void> {
    const { name, most } = queue.limit
    if (!this.#fallback.mayAsk()) {
      queue.isAstray = true
      this.#serveAlone(name)
      return this.#lookAgain(queue)
    }
    const sent = queue.isAstray ? [...queue.waiting.values()] : some
    queue.isAstray = false
    try {
      const waiters = JSON.stringify(sent.map(({ token, workspace }) => [token, workspace]))
      const inputs = { name, most, node: this.#node, waiters, seen_ms: this.#seenMs }
      const { isKnown, isCalm, granted } = await this.#ask(waitForSlots, inputs)
      if (some.some(({ mayKeep }) => mayKeep) || !isCalm) this.#kept.learn(queue.limit, isCalm)
      for (const token of granted) this.#grant(name, token)
      if (!isKnown && queue.waiting.size > sent.length - granted.length) queue.isAstray = true
    } catch {
      queue.isAstray = true
      this.#serveAlone(name)
    }
    this.#lookAgain(queue)
  }

  #lookAgain(queue: Queue): void {
    if (queue.waiting.size === 0 || queue.timer !== null) return
    const ageMs = performance.now() - queue.newestMs
    const afterMs = Math.min(Math.max(ageMs / 10, LOOK_MS.least), LOOK_MS.most)
    queue.timer = setTimeout(() => {
      queue.timer = null
      void this.#look(queue)
    }, afterMs)
  }

  /** Gives a slot that Redis has given to whoever waits for it; somebody who has left gives it back. */
  #grant(name: string, token: string): void {
    const queue = this.#queues.get(name)
    const waiting = queue?.waiting.get(token)
    if (queue === undefined || waiting === undefined) return
    waiting.end(this.#hold(token, [queue.limit], waiting.mayKeep))
  }

  /** Hands out by this node's own count. */
  #serveAlone(name: string): void {
    const queue = this.#queues.get(name)
    if (queue === undefined) return
    for (const { token, end } of queue.waiting.values()) {
      if (this.#own.held(name) >= queue.limit.most) return
      end(this.#hold(token, [queue.limit]))
    }
  }
}

function jsonOf(limits: readonly SlotLimit[]): string {
  return JSON.stringify(limits.map(({ name, most }) => [name, most]))
}
