import { createWebhookPoster } from './outbound/post-webhook.ts'
import type { Parts } from './parts.ts'
import { startDeliveries } from './routes/jobs/deliveries.ts'
import { startPurge } from './routes/jobs/purge.ts'
import { startJobRunner } from './routes/jobs/runner.ts'

/** What a node does for nobody who waits: jobs, their webhooks, and forgetting those whose time is over. */
export interface JobWork {
  /** Jobs that run. */
  readonly running: number
  /**
   * Takes up nothing more. Resolves when nothing is under way any more: jobs that are not done within `graceMs` are
   * given back to whoever works on.
   */
  stop(graceMs: number): Promise<void>
}

/** Starts the work on jobs in this process, `LARKWAY_JOBS` of them at a time. */
export function startJobWork(parts: Parts): JobWork {
  const { environment, services, state, log, signals, jobObjects: objects, probe, remoteAudio } = parts
  const runner = startJobRunner({
    services,
    objects,
    probe,
    remoteAudio,
    signals,
    log,
    tracing: parts.tracing,
    recorder: parts.recorder,
    places: environment.LARKWAY_JOBS,
    perWorkspace: environment.LARKWAY_JOBS_PER_WORKSPACE,
  })
  const deliveries = startDeliveries({
    state,
    signals,
    log,
    secretKeys: parts.secretKeys,
    signer: parts.workers.signer,
    post: createWebhookPoster({ insecure: environment.LARKWAY_INSECURE_WEBHOOKS }),
    onOutcome: (outcome) => parts.metrics?.work.delivered(outcome),
  })
  const purge = startPurge({ state, objects, log })
  return {
    get running() {
      return runner.running
    },
    async stop(graceMs) {
      await runner.stop(graceMs)
      await Promise.all([deliveries.stop(), purge.stop()])
    },
  }
}
