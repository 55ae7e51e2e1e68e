import { CALLBACK_FORMS } from '../api/table.ts'
import { openResult } from '../jobs/results.ts'
import { startPurge } from '../jobs/retention.ts'
import { type JobRunner, startJobRunner } from '../jobs/runner.ts'
import { startAlertWatch } from '../observe/alerts/watch.ts'
import { createWebhookPoster } from '../outbound/post-webhook.ts'
import { startDeliveries } from '../webhooks/deliveries.ts'
import type { WebhookTarget } from '../webhooks/target.ts'
import type { Node } from './node.ts'

/** Background work of a node: runs jobs, delivers their webhooks and alerts, purges expired jobs. */
export type JobWork = JobRunner

/** Starts the work on jobs in this process, `LARKWAY_JOBS` of them at a time. */
export function startJobWork(node: Node): JobWork {
  const { environment, services, state, log, timing, signals, jobObjects: objects, probe, remoteAudio } = node
  const runner = startJobRunner({
    services,
    objects,
    probe,
    remoteAudio,
    readAhead: node.readAhead,
    signals,
    log,
    tracing: node.tracing,
    recorder: {
      ran(job, call, milliseconds) {
        node.recorder.ran(job, call, milliseconds)
        node.metrics?.tenants.ran(job, call.money)
      },
    },
    places: environment.LARKWAY_JOBS,
    perWorkspace: environment.LARKWAY_JOBS_PER_WORKSPACE,
    timing: timing.jobs ?? {},
  })
  const deliveries = startDeliveries({
    state,
    signals,
    log,
    secretKeys: node.secretKeys,
    clock: node.clock,
    signer: node.workers.signer,
    callbacks: {
      state,
      forms: CALLBACK_FORMS,
      openResult: (job, result, reader) =>
        openResult(job, result, reader, { budget: node.budget, state, objects }),
    },
    post: createWebhookPoster({
      insecure: environment.LARKWAY_INSECURE_WEBHOOKS,
      egress: node.egress,
      clock: node.clock,
    }),
    alertTarget: () => alertTarget(node),
    timing: timing.deliveries ?? {},
    onOutcome: (outcome) => node.metrics?.work.delivered(outcome),
  })
  const alerts = startAlertWatch({
    state,
    snapshot: services.snapshot,
    routes: () => node.catalog.service.good().routes,
    models: () => node.catalog.service.models(),
    log,
    onEvent: () => signals.ended(),
    clock: node.clock,
    timing: timing.alerts ?? {},
  })
  const purge = startPurge({ state, objects, log, clock: node.clock, timing: timing.purge ?? {} })
  return {
    get running() {
      return runner.running
    },
    async stop(graceMs) {
      await runner.stop(graceMs)
      await Promise.all([alerts.stop(), deliveries.stop(), purge.stop()])
    },
  }
}

/** Where alerts go by the configuration in force. */
function alertTarget({ services }: Pick<Node, 'services'>): WebhookTarget | null {
  const { alerts } = services.snapshot()
  return alerts === undefined ? null : { url: alerts.url, secrets: [alerts.secret] }
}
