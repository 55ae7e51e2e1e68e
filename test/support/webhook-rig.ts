import { randomBytes } from 'node:crypto'
import { Writable } from 'node:stream'
import { pino } from 'pino'
import type { Test } from 'tap'
import { newId } from '../../src/contracts/ids.ts'
import type { JobSpec } from '../../src/contracts/jobs.ts'
import type { WebhookEvent } from '../../src/contracts/outbox.ts'
import { seal } from '../../src/contracts/sealing.ts'
import type { State } from '../../src/contracts/state.ts'
import { type Clock, systemClock } from '../../src/contracts/time.ts'
import { CALLBACK_FORMS } from '../../src/gateway/api/table.ts'
import { createJobSignals, type JobSignals } from '../../src/gateway/jobs/watch.ts'
import { createWebhookPoster, type PosterDependencies } from '../../src/gateway/outbound/post-webhook.ts'
import type { CallbackDependencies, CallbackTerms } from '../../src/gateway/webhooks/callbacks.ts'
import { sealCallback } from '../../src/gateway/webhooks/callbacks.ts'
import {
  type Deliveries,
  type DeliveryDependencies,
  type DeliveryTiming,
  startDeliveries,
} from '../../src/gateway/webhooks/deliveries.ts'
import { webhookSecretContext } from '../../src/gateway/webhooks/target.ts'
import { createWorkers } from '../../src/gateway/workers/pool.ts'
import { claimingOf, FAILURE, KEEP, SUCCESS, specOf } from './jobs-under-test.ts'
import { memoryState } from './own-state.ts'
import { dialInto, type Internet } from './tls-host.ts'
import { waitUntil } from './wait-until.ts'
import { HOOKS_AUTHORITY } from './webhook-receiver.ts'

const DAY_MS = 86_400_000

/** Eight attempts within a second. */
export const FAST: DeliveryTiming = {
  leaseMs: 60_000,
  pollMs: 25,
  schedule: { pausesMs: [10, 10, 10, 10, 10, 10, 10], retryAfterMaxMs: 3_600_000 },
}

export interface WebhookRigOptions {
  /** Absent: the machine's. */
  readonly clock?: Clock
  /** Where the addresses of hosts lie; every host is at the address that `addresses` gives it, else at 8.8.8.8. */
  readonly internet: Internet
  readonly addresses?: Readonly<Record<string, string>>
  readonly post?: Partial<PosterDependencies>
  readonly timing?: Partial<DeliveryTiming>
  readonly places?: number
  readonly alertTarget?: DeliveryDependencies['alertTarget']
  /** How callbacks are told; absent: with results that stand in the record. */
  readonly callbacks?: Partial<CallbackDependencies>
  /** Closed by whoever opened it; an embedded one in memory when absent. */
  readonly state?: State
  /** The state as the deliveries see it. */
  readonly seen?: (state: State) => DeliveryDependencies['state']
}

export interface WebhookRig {
  readonly state: State
  readonly signals: JobSignals
  readonly secretKeys: Buffer[]
  /** Lines of the log, parsed. */
  readonly log: Record<string, unknown>[]
  /** Starts to deliver, until the test ends. */
  start(): Deliveries
  /** Sets the webhook of a workspace, with a new secret, which is returned. */
  setWebhook(workspace: string, url: string, keepMs?: number): Promise<string>
  /** Ends a job of the workspace. @returns its id, which deliveries carry */
  announce(workspace: string, status?: WebhookEvent['status']): Promise<string>
  /** The same of a job that came with a callback of its own, in AssemblyAI's form. */
  announceTo(terms: Pick<CallbackTerms, 'url' | 'headers'>, workspace: string): Promise<string>
  /** Waits until none of the newest 1,000 events is waiting: all were delivered, dropped or given up. */
  settled(timeoutMs?: number): Promise<boolean>
}

/** The real loop, poster and signer; only where names and addresses lead to is the test's. */
export function startWebhookRig(t: Pick<Test, 'teardown'>, options: WebhookRigOptions): WebhookRig {
  const lines: Record<string, unknown>[] = []
  const log = pino(
    { base: null },
    new Writable({
      write(chunk, _, done) {
        lines.push(JSON.parse(String(chunk)))
        done()
      },
    }),
  )
  const state = options.state ?? memoryState()
  const workers = createWorkers()
  const signals = createJobSignals()
  const secretKeys = [randomBytes(32)]
  const started: Deliveries[] = []
  t.teardown(async () => {
    await Promise.all(started.map((deliveries) => deliveries.stop()))
    await workers.close()
    if (options.state === undefined) await state.close()
  })
  const post = createWebhookPoster({
    insecure: false,
    resolve: async (host) => [options.addresses?.[host] ?? '8.8.8.8'],
    dial: dialInto(options.internet).dial,
    ca: HOOKS_AUTHORITY.cert,
    timing: { totalMs: 8_000, bodyMs: 500 },
    ...options.post,
  })
  return {
    state,
    signals,
    secretKeys,
    log: lines,
    start() {
      const deliveries = startDeliveries({
        state: options.seen?.(state) ?? state,
        secretKeys,
        post,
        signer: workers.signer,
        clock: options.clock ?? systemClock,
        signals,
        log,
        callbacks: {
          state,
          forms: CALLBACK_FORMS,
          openResult: async (_, result) => ('text' in result ? result.text : ''),
          ...options.callbacks,
        },
        timing: { ...FAST, ...options.timing },
        ...(options.alertTarget === undefined ? {} : { alertTarget: options.alertTarget }),
        ...(options.places === undefined ? {} : { places: options.places }),
      })
      started.push(deliveries)
      return deliveries
    },
    async setWebhook(workspace, url, keepMs = DAY_MS) {
      const shown = `whsec_${randomBytes(32).toString('base64')}`
      const secret = seal(secretKeys, shown, webhookSecretContext(workspace))
      await state.settings.putWebhook(workspace, { url, secret, createdAtMs: Date.now() }, keepMs)
      return shown
    },
    announce: (workspace, status = 'cancelled') => endJob(state, workspace, status),
    announceTo(terms, workspace) {
      const all = { method: 'POST', view: null, ...terms } as const
      const callback = sealCallback('assemblyai', all, workspace, secretKeys)
      return endJob(state, workspace, 'succeeded', { callback, eventId: newId('cbk') })
    },
    settled: (timeoutMs = 20_000) =>
      waitUntil(async () => {
        const events = await state.outbox.list(null, 1_000)
        return events.every(({ nextAttemptAtMs }) => nextAttemptAtMs === null)
      }, timeoutMs),
  }
}

/** One at a time, but for `cancelled`, which needs no claim. */
async function endJob(
  { jobs }: State,
  workspace: string,
  status: WebhookEvent['status'],
  over: Partial<JobSpec> = {},
): Promise<string> {
  const spec = specOf(workspace, { kind: 'transcription', ...over })
  await jobs.submit({ spec, slot: null })
  if (status === 'cancelled') {
    await jobs.cancel(spec.id, spec, KEEP)
  } else {
    const [claimed] = await jobs.claim(claimingOf())
    if (claimed?.job.id !== spec.id) throw new Error('another job was waiting')
    await jobs.end(spec.id, claimed.job.fence, status === 'succeeded' ? SUCCESS : FAILURE, KEEP)
  }
  return spec.id
}
