import { errorMessage, type Logger } from '../../../contracts/log.ts'
import type { SlotLease, SlotLimit, Slots, SlotsTaken, SlotWaiter } from '../../../contracts/slots.ts'
import { type Clock, LONGEST_TIMER_MS, systemClock, type Timer, within } from '../../../contracts/time.ts'
import { EmbeddedSlots } from '../embedded/slots.ts'
import type { RedisConnection } from './connect.ts'
import { KeptSlots } from './kept-slots.ts'
import type { RedisTiming } from './outage-log.ts'
import { partsOf, SlotCommands, type SlotTimes } from './slot-commands.ts'
import { SlotOutage, type TellRedis } from './slot-outage.ts'
import { type SlotQueue, SlotQueues, type Waiting } from './slot-queue.ts'

export type RedisSlotsOptions = SlotTimes & Partial<RedisTiming>

/**
 * Slots that all nodes share. Redis has a token for each slot that is taken, with the moment at which its lease ends,
 * and for each call that waits its place in the order in which all nodes are served. Redis does not notify: a node asks
 * whether one of its calls is served, and is told so too when it gives a slot back.
 *
 * While Redis is away, or refuses, this node counts alone, and tries again and again to tell it what is held at that
 * time; everything else that Redis has of this node is freed with that. At no time does a node hold more than there
 * are.
 */
export class RedisSlots implements Slots {
  readonly #log: Logger
  readonly #outage: SlotOutage
  readonly #commands: SlotCommands
  /** Counts what this node holds, whoever gave it. */
  readonly #own: EmbeddedSlots
  readonly #clock: Clock
  readonly #kept: KeptSlots
  /** The tokens that are renewed, also those of slots that are kept. */
  readonly #held = new Map<string, readonly SlotLimit[]>()
  /** Tokens that Redis is being asked to give slots to, at once or not at all. */
  readonly #asked = new Set<string>()
  readonly #queues: SlotQueues
  readonly #returning = new Set<Promise<void>>()
  #renewing: Timer | null = null

  /** @param redis a connection that never sends a command twice, and sends those of one server in order */
  constructor(
    redis: RedisConnection,
    log: Logger,
    { calmMs, clock = systemClock, ...times }: RedisSlotsOptions = {},
  ) {
    this.#log = log
    this.#clock = clock
    this.#own = new EmbeddedSlots(clock)
    this.#queues = new SlotQueues(clock)
    this.#commands = new SlotCommands(redis, { ...times, clock })
    this.#kept = new KeptSlots((limit, tokens) => {
      for (const some of partsOf(tokens)) this.#return(some, [limit], true)
    }, clock)
    this.#outage = new SlotOutage(redis, log, this.#tell, { calmMs, clock })
  }

  async take(limits: readonly SlotLimit[]): Promise<SlotsTaken> {
    const token = this.#commands.newToken()
    if (this.#outage.isAlone) return this.#takeAlone(token, limits)
    this.#asked.add(token)
    try {
      const full = await this.#commands.take(token, limits)
      if (full !== undefined) return { full }
      const taken = this.#takeAlone(token, limits)
      // It does not know yet what this node took by itself.
      if ('full' in taken) this.#return([token], limits)
      return taken
    } catch (error) {
      // Redis may have given them, and its answer be lost.
      this.#outage.went(error, limits)
      return this.#takeAlone(token, limits)
    } finally {
      this.#asked.delete(token)
    }
  }

  async wait(limit: SlotLimit, { workspace, waitMs, signal }: SlotWaiter): Promise<SlotLease | null> {
    if (signal.aborted) return null
    const mayKeep = this.#kept.mayServe(limit, waitMs)
    const kept = this.#mayUseKept(limit) ? this.#kept.take(limit) : undefined
    if (kept !== undefined) return this.#hold(kept, [limit], mayKeep)
    if (waitMs <= 0) {
      const taken = await this.take([limit])
      return 'lease' in taken ? taken.lease : null
    }
    return new Promise((resolve) => {
      const queue = this.#queues.of(limit)
      const place = this.#commands.newToken()
      const leave = () => {
        const last = queue.leave(waiting)
        waiting.end(null)
        this.#return([last], [limit])
      }
      const timer = this.#clock.after(Math.min(waitMs, LONGEST_TIMER_MS), leave)
      const waiting: Waiting = {
        workspace,
        mayKeep,
        end: (lease) => {
          timer.close()
          signal.removeEventListener('abort', leave)
          if (queue.size === 0) this.#queues.close(limit.name, queue)
          resolve(lease)
        },
      }
      signal.addEventListener('abort', leave)
      queue.add(waiting, place)
      void this.#look(queue, [[place, workspace]], mayKeep)
    })
  }

  held(name: string): number {
    return this.#own.held(name)
  }

  waiting(name: string): number {
    return this.#queues.get(name)?.size ?? 0
  }

  /** Stops renewing, and lets Redis know what was given back. Never rejects, and takes no longer than an answer may. */
  async close(): Promise<void> {
    this.#renewing?.close()
    this.#outage.close()
    this.#queues.closeAll()
    this.#kept.close()
    await within(this.#commands.timeoutMs, Promise.all(this.#returning), this.#clock).catch(() => {})
  }

  readonly #tell: TellRedis = async (limits, isFirst) => {
    const places = limits.flatMap(({ name }) => this.#queues.get(name)?.places.map(([place]) => place) ?? [])
    const known = [...this.#held.keys(), ...this.#asked, ...places]
    const renewed = isFirst ? this.#commands.renew(this.#heldNames()) : null
    const [granted] = await Promise.all([this.#commands.reclaim(known, limits), renewed])
    for (const token of granted) this.#grant(limits, token)
  }

  #heldNames(): (readonly [name: string, token: string])[] {
    return [...this.#held].flatMap(([token, limits]) => limits.map(({ name }) => [name, token] as const))
  }

  #takeAlone(token: string, limits: readonly SlotLimit[]): SlotsTaken {
    const full = this.#fullHere(limits)
    return full === undefined ? { lease: this.#hold(token, limits) } : { full }
  }

  /** The first name of which this node holds as many as there are. */
  #fullHere(limits: readonly SlotLimit[]): SlotLimit | undefined {
    return limits.find(({ name, most }) => this.#own.held(name) >= most)
  }

  /** @param mayKeep the slot, of one name, may stay here when it is given back */
  #hold(token: string, limits: readonly SlotLimit[], mayKeep = false): SlotLease {
    this.#held.set(token, limits)
    this.#renewing ??= this.#clock.every(this.#commands.leaseMs / 3, this.#renew).unref()
    return this.#own.hold(limits, () => {
      const [limit] = limits
      if (limit === undefined || limits.length > 1 || !this.#passOn(limit, token, mayKeep))
        this.#return([token], limits, mayKeep)
    })
  }

  /** Whether a slot that is given back stays here: for whoever waits here, or for the next call. */
  #passOn(limit: SlotLimit, token: string, mayKeep: boolean): boolean {
    if (this.#outage.isAlone) return false
    const queue = this.#queues.get(limit.name)
    if (queue === undefined || queue.size === 0 || !this.#kept.mayHandOn(limit))
      return mayKeep && this.#mayUseKept(limit) && this.#kept.keep(limit, token)
    const next = queue.next()
    if (next === null) return false
    next.waiting.end(this.#hold(token, [queue.limit], next.waiting.mayKeep))
    this.#return([next.place], [limit])
    return true
  }

  /** Whether a slot may go from one call of this node to the next: not ahead of a call that is known to wait. */
  #mayUseKept({ name, most }: SlotLimit): boolean {
    // A call that has only just asked Redis does not wait yet.
    const isKnownToWait = this.#queues.get(name)?.isLooking === true
    return !this.#outage.isAlone && !isKnownToWait && this.#own.held(name) < most
  }

  #return(tokens: readonly string[], limits: readonly SlotLimit[], mayKeep = false): void {
    for (const token of tokens) this.#held.delete(token)
    const returned = this.#giveBack(tokens, limits, mayKeep).finally(() => this.#returning.delete(returned))
    this.#returning.add(returned)
  }

  async #giveBack(tokens: readonly string[], limits: readonly SlotLimit[], mayKeep: boolean): Promise<void> {
    try {
      if (this.#outage.isAlone) throw new Error('Redis is away')
      // The calls that wait go by the present limit.
      const now = limits.map((limit) => this.#queues.get(limit.name)?.limit ?? limit)
      const { contention, granted } = await this.#commands.giveBack(tokens, now)
      for (const token of granted) this.#grant(now, token)
      for (const [at, limit] of now.entries())
        this.#kept.learn(limit, contention[at] ?? 'others', this.#commands.tripMs, mayKeep)
    } catch (error) {
      this.#outage.went(error, limits)
      for (const { name } of limits) this.#serveAlone(name)
    }
  }

  readonly #renew = (): void => {
    if (this.#outage.isAlone) return
    this.#commands.renew(this.#heldNames()).catch((error: unknown) => {
      this.#log.debug({ reason: errorMessage(error) }, 'slots were not renewed')
      this.#outage.went(error, [])
    })
  }

  /** Has some queued, or all that Redis may not know, and asks who is served. */
  readonly #look = async (
    queue: SlotQueue,
    some: SlotQueue['places'] = [],
    mayKeep = false,
  ): Promise<void> => {
    const { limit } = queue
    if (this.#outage.isAlone) {
      queue.isAstray = true
      this.#serveAlone(limit.name)
      return queue.lookAgain(this.#look)
    }
    const sent = queue.isAstray ? queue.places : some
    queue.isAstray = false
    try {
      const { isKnown, contention, granted } = await this.#commands.wait(limit, sent)
      this.#kept.learn(limit, contention, this.#commands.tripMs, mayKeep)
      for (const token of granted) this.#grant([limit], token)
      if (!isKnown && queue.size > sent.length - granted.length) queue.isAstray = true
    } catch (error) {
      queue.isAstray = true
      this.#outage.went(error, [limit])
      this.#serveAlone(limit.name)
    }
    queue.lookAgain(this.#look)
  }

  /** Gives a slot that Redis has given to the call that waits for it; one without a place here goes back. */
  #grant(limits: readonly SlotLimit[], token: string): void {
    if (this.#held.has(token)) return
    for (const { name } of limits) {
      const queue = this.#queues.get(name)
      if (queue === undefined) continue
      if (this.#fullHere([queue.limit]) !== undefined) {
        queue.isAstray = true
        continue
      }
      const waiting = queue.serve(token)
      if (waiting === null) continue
      waiting.end(this.#hold(token, [queue.limit], waiting.mayKeep))
      return
    }
    this.#return([token], limits)
  }

  /** Hands out by this node's own count. */
  #serveAlone(name: string): void {
    const queue = this.#queues.get(name)
    while (queue !== undefined && this.#own.held(name) < queue.limit.most) {
      const next = queue.next()
      if (next === null) return
      next.waiting.end(this.#hold(next.place, [queue.limit]))
    }
  }
}
