import type { Logger } from '../../contracts/log.ts'
import type { EventEnding, WebhookEvent } from '../../contracts/outbox.ts'
import type { State } from '../../contracts/state.ts'
import { sleep } from '../../contracts/time.ts'
import type { Posted } from '../../contracts/webhooks.ts'
import { attemptCallback, type CallbackDependencies, isForCallback } from './callbacks.ts'
import { deliveryReason, eventEnding, SCHEDULE, type Schedule } from './delivery-outcome.ts'
import { attemptWebhook, eventBody, type Sending } from './send.ts'

import { type WebhookTarget, webhookTarget } from './target.ts'

/** Most deliveries at a time; each has a connection. */
const PLACES = 256
/** Most deliveries of one workspace on all nodes together, so that its target is not flooded. */
const PER_WORKSPACE = 16
/** The same while its last attempt failed: deliveries that time out must not take the places of others. */
const PER_FAILING = 4
/** Longer than reading the webhook, delivering and storing the outcome take together. */
const LEASE_MS = 60_000

/** Poll interval for retries; the end of a job in this process is signalled. */
const POLL_MS = 1_000
/** Share of the interval by which nodes are spread. */
const JITTER = 0.4
/** Shortest pause between two claims. */
const GAP_MS = 20
/** First pause before storing an outcome is tried again; each further one doubles. */
const WRITE_PAUSE_MS = 500

export interface DeliveryTiming {
  readonly leaseMs: number
  readonly pollMs: number
  readonly schedule: Schedule
}

export interface DeliveryDependencies extends Sending {
  readonly state: Pick<State, 'outbox' | 'settings'>
  /** All keys that open secrets; see `readSecretKeys`. */
  readonly secretKeys: readonly Buffer[]
  /** Calls back when a job ends in this process; returns what takes the listener off again. */
  readonly signals: { onEnded(listener: () => void): () => void }
  readonly log: Logger
  /** How the ends of jobs are told to their own callbacks; absent: there are none. */
  readonly callbacks?: CallbackDependencies
  /** Where alerts go; absent, or null: nowhere any more. */
  readonly alertTarget?: () => WebhookTarget | null
  readonly onOutcome?: (outcome: EventEnding['state']) => void
  readonly timing?: Partial<DeliveryTiming>
  readonly places?: number
  /** From 0 to 1. */
  readonly random?: () => number
}

export interface Deliveries {
  readonly running: number
  /** Claims nothing more; resolves when the deliveries in progress have ended, which takes seconds at most. */
  stop(): Promise<void>
}

/**
 * Delivers the events of jobs that have ended to the webhooks of their workspaces, or to the callbacks that the jobs
 * came with, and alerts to theirs, each until it was taken or has failed for good. An event is handed out to one sender
 * at a time; when the sender dies, or cannot write down what became of it, it is delivered again: at least once.
 *
 * Targets do not wait for one another: each has its share of the places only, and a smaller one after a failure.
 */
export function startDeliveries(deps: DeliveryDependencies): Deliveries {
  return new Loop(deps)
}

type Lookups = Map<string, Promise<WebhookTarget | null>>

class Loop implements Deliveries {
  readonly #deps: DeliveryDependencies
  readonly #places: number
  readonly #timing: DeliveryTiming
  readonly #random: () => number
  readonly #underWay = new Set<Promise<void>>()
  /** Number of them per workspace. */
  readonly #shares = new Map<string, number>()
  readonly #stopping = new AbortController()
  readonly #loop: Promise<void>
  /** Ends the pause before the next claim; null while there is none. */
  #wake: (() => void) | null = null
  #woken = false
  /** The last claim was full, so there may be more. */
  #more = false
  #away = false

  constructor(deps: DeliveryDependencies) {
    const { signals, places = PLACES, random = Math.random, timing } = deps
    this.#deps = deps
    this.#places = places
    this.#random = random
    this.#timing = { leaseMs: LEASE_MS, pollMs: POLL_MS, schedule: SCHEDULE, ...timing }
    const unlisten = signals.onEnded(() => this.#wakeUp())
    this.#loop = this.#run().finally(unlisten)
  }

  get running(): number {
    return this.#underWay.size
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#wakeUp()
    await this.#loop
    await Promise.all(this.#underWay)
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const claimed = await this.#claim()
      const lookups: Lookups = new Map()
      for (const event of claimed) this.#begin(event, lookups)
      await sleep(this.#deps.clock, GAP_MS, { signal: this.#stopping.signal }).catch(() => {})
      await this.#pause()
    }
  }

  async #claim(): Promise<readonly WebhookEvent[]> {
    const limit = this.#places - this.#underWay.size
    if (limit === 0) return []
    const { outbox } = this.#deps.state
    const { leaseMs } = this.#timing
    this.#woken = false
    try {
      const claimed = await outbox.claim({
        limit,
        leaseMs,
        perWorkspace: PER_WORKSPACE,
        perAiling: PER_FAILING,
      })
      if (this.#away) this.#deps.log.info('webhook events can be claimed again')
      this.#away = false
      this.#more = claimed.length === limit
      return claimed
    } catch (error) {
      if (!this.#away) this.#deps.log.warn({ err: error }, 'webhook events cannot be claimed')
      this.#away = true
      this.#more = false
      return []
    }
  }

  /** Waits until there may be something to claim, and a place for it. */
  async #pause(): Promise<void> {
    if (this.#stopping.signal.aborted || (this.#isFree() && (this.#woken || this.#more))) return
    const spreadMs = this.#timing.pollMs * (1 + JITTER * (this.#random() - 0.5))
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = this.#deps.clock.after(spreadMs, resolve)
    this.#wake = resolve
    await promise
    this.#wake = null
    timer.close()
  }

  #isFree(): boolean {
    return this.#underWay.size < this.#places
  }

  #wakeUp(): void {
    this.#woken = true
    this.#wake?.()
  }

  #begin(event: WebhookEvent, lookups: Lookups): void {
    const { workspace } = event
    this.#shares.set(workspace, this.#shareOf(workspace) + 1)
    const delivery = this.#deliver(event, lookups).finally(() => {
      // An event that had no place, here or in its workspace, has one now.
      if (!this.#isFree() || this.#shareOf(workspace) >= PER_FAILING) this.#wakeUp()
      this.#underWay.delete(delivery)
      const share = this.#shareOf(workspace) - 1
      if (share > 0) this.#shares.set(workspace, share)
      else this.#shares.delete(workspace)
    })
    this.#underWay.add(delivery)
  }

  #shareOf(workspace: string): number {
    return this.#shares.get(workspace) ?? 0
  }

  /** Never rejects. */
  async #deliver(event: WebhookEvent, lookups: Lookups): Promise<void> {
    const { clock } = this.#deps
    const beganMs = clock.now()
    const { id, jobId, workspace, attempts: attempt } = event
    const line = { event_id: id, job_id: jobId, workspace, attempt }
    try {
      const posted = await this.#attempt(event, lookups)
      const ending: EventEnding =
        posted === null
          ? { state: 'dropped' }
          : eventEnding(posted, attempt, this.#random(), this.#timing.schedule)
      this.#deps.onOutcome?.(ending.state)
      if (posted !== null) {
        const milliseconds = Math.round(clock.now() - beganMs)
        this.#deps.log.info({ ...line, ...saidOf(posted), outcome: ending.state, milliseconds }, 'webhook')
      }
      await this.#write(event, ending, beganMs + this.#timing.leaseMs)
    } catch (error) {
      // Its lease ends by itself.
      this.#deps.log.warn({ ...line, err: error }, 'webhook event will be delivered again')
    }
  }

  /** Resolves to null when the workspace has no webhook. */
  async #attempt(event: WebhookEvent, lookups: Lookups): Promise<Posted | null> {
    const { callbacks, log } = this.#deps
    const { id, workspace } = event
    try {
      if (callbacks !== undefined && isForCallback(event)) {
        const target = () => this.#target(workspace, lookups)
        return await attemptCallback(event, { ...this.#deps, ...callbacks, target })
      }
      const target = isAlert(event)
        ? (this.#deps.alertTarget?.() ?? null)
        : await this.#target(workspace, lookups)
      return target && (await attemptWebhook(target, { id, body: eventBody(event) }, this.#deps))
    } catch (error) {
      log.warn({ event_id: id, workspace, err: error }, 'webhook could not be read or signed')
      return { kind: 'failed', reason: 'this node could not read the webhook' }
    }
  }

  /** One look-up serves all events of a claim; the next claim looks again, since a secret may have been replaced. */
  #target(workspace: string, lookups: Lookups): Promise<WebhookTarget | null> {
    const { state, secretKeys } = this.#deps
    const lookup = lookups.get(workspace) ?? webhookTarget(state.settings, secretKeys, workspace)
    lookups.set(workspace, lookup)
    return lookup
  }

  /** Stores the outcome of this attempt; repeated writes are harmless. */
  async #write(event: WebhookEvent, ending: EventEnding, untilMs: number): Promise<void> {
    const { clock } = this.#deps
    for (let pauseMs = WRITE_PAUSE_MS; ; pauseMs *= 2) {
      try {
        await this.#deps.state.outbox.end(event, ending)
        return
      } catch (error) {
        if (this.#stopping.signal.aborted || clock.now() + pauseMs >= untilMs) throw error
        await sleep(clock, pauseMs, { signal: this.#stopping.signal }).catch(() => {})
      }
    }
  }
}

function isAlert({ body }: WebhookEvent): boolean {
  return body !== undefined
}

function saidOf(posted: Posted): { readonly status: number } | { readonly reason: string } {
  return posted.kind === 'answered' ? { status: posted.status } : { reason: deliveryReason(posted) }
}
