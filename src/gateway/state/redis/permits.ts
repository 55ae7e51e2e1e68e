import { errorMessage, type Logger } from '../../../contracts/log.ts'
import type { PermitLease, PermitLimit, Permits, PermitsTaken, Waiter } from '../../../contracts/permits.ts'
import { type Clock, LONGEST_TIMER_MS, systemClock, type Timer, within } from '../../../contracts/time.ts'
import { EmbeddedPermits } from '../embedded/permits.ts'
import type { RedisConnection } from './connect.ts'
import { KeptPermits } from './kept-permits.ts'
import type { RedisTiming } from './outage-log.ts'
import { PermitCommands, type PermitTimes, partsOf } from './permit-commands.ts'
import { PermitOutage, type TellRedis } from './permit-outage.ts'
import { type PermitQueue, PermitQueues, type Waiting } from './permit-queue.ts'

export type RedisPermitsOptions = PermitTimes & Partial<RedisTiming>

/**
 * Permits that all nodes share. Redis has a token for each permit that is taken, with the moment at which its lease
 * ends, and for each call that waits its place in the order in which all nodes are served. Redis does not notify: a
 * node asks whether one of its calls is served, and is told so too when it gives a permit back.
 *
 * While Redis is away, or refuses, this node counts alone, and tries again and again to tell it what is held at that
 * time; everything else that Redis has of this node is freed with that. At no time does a node hold more than there
 * are.
 */
export class RedisPermits implements Permits {
  readonly #log: Logger
  readonly #outage: PermitOutage
  readonly #commands: PermitCommands
  /** Counts what this node holds, whoever gave it. */
  readonly #own: EmbeddedPermits
  readonly #clock: Clock
  readonly #kept: KeptPermits
  /** The tokens that are renewed, also those of permits that are kept. */
  readonly #held = new Map<string, readonly PermitLimit[]>()
  /** Tokens that Redis is being asked to give permits to, at once or not at all. */
  readonly #asked = new Set<string>()
  readonly #queues: PermitQueues
  readonly #returning = new Set<Promise<void>>()
  #renewing: Timer | null = null

  /** @param redis a connection that never sends a command twice, and sends those of one server in order */
  constructor(
    redis: RedisConnection,
    log: Logger,
    { calmMs, clock = systemClock, ...times }: RedisPermitsOptions = {},
  ) {
    this.#log = log
    this.#clock = clock
    this.#own = new EmbeddedPermits(clock)
    this.#queues = new PermitQueues(clock)
    this.#commands = new PermitCommands(redis, { ...times, clock })
    this.#kept = new KeptPermits((limit, tokens) => {
      for (const some of partsOf(tokens)) this.#return(some, [limit], true)
    }, clock)
    this.#outage = new PermitOutage(redis, log, this.#tell, { calmMs, clock })
  }

  async take(limits: readonly PermitLimit[]): Promise<PermitsTaken> {
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

  async wait(limit: PermitLimit, { workspace, waitMs, signal }: Waiter): Promise<PermitLease | null> {
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

  #takeAlone(token: string, limits: readonly PermitLimit[]): PermitsTaken {
    const full = this.#fullHere(limits)
    return full === undefined ? { lease: this.#hold(token, limits) } : { full }
  }

  /** The first name of which this node holds as many as there are. */
  #fullHere(limits: readonly PermitLimit[]): PermitLimit | undefined {
    return limits.find(({ name, most }) => this.#own.held(name) >= most)
  }

  /** @param mayKeep the permit, of one name, may stay here when it is given back */
  #hold(token: string, limits: readonly PermitLimit[], mayKeep = false): PermitLease {
    this.#held.set(token, limits)
    this.#renewing ??= this.#clock.every(this.#commands.leaseMs / 3, this.#renew).unref()
    return this.#own.hold(limits, () => {
      const [limit] = limits
      if (limit === undefined || limits.length > 1 || !this.#passOn(limit, token, mayKeep))
        this.#return([token], limits, mayKeep)
    })
  }

  /** Whether a permit that is given back stays here: for whoever waits here, or for the next call. */
  #passOn(limit: PermitLimit, token: string, mayKeep: boolean): boolean {
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

  /** Whether a permit may go from one call of this node to the next: not ahead of a call that is known to wait. */
  #mayUseKept({ name, most }: PermitLimit): boolean {
    // A call that has only just asked Redis does not wait yet.
    const isKnownToWait = this.#queues.get(name)?.isLooking === true
    return !this.#outage.isAlone && !isKnownToWait && this.#own.held(name) < most
  }

  #return(tokens: readonly string[], limits: readonly PermitLimit[], mayKeep = false): void {
    for (const token of tokens) this.#held.delete(token)
    const returned = this.#giveBack(tokens, limits, mayKeep).finally(() => this.#returning.delete(returned))
    this.#returning.add(returned)
  }

  async #giveBack(tokens: readonly string[], limits: readonly PermitLimit[], mayKeep: boolean) {
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
      this.#log.debug({ reason: errorMessage(error) }, 'permits were not renewed')
      this.#outage.went(error, [])
    })
  }

  /** Has some queued, or all that Redis may not know, and asks who is served. */
  readonly #look = async (
    queue: PermitQueue,
    some: PermitQueue['places'] = [],
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

  /** Gives a permit that Redis has given to the call that waits for it; one without a place here goes back. */
  #grant(limits: readonly PermitLimit[], token: string): void {
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
