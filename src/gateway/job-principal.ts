import type { Principal, Snapshot } from '../schema/catalog.ts'
import type { JobSpec } from '../schema/jobs.ts'

/**
 * Whom a job runs for, by the configuration of now: its app's routes and its workspace's terms, and of its key what was
 * written down when it was accepted, since a revoked key stops no accepted job.
 *
 * @returns null when the configuration has the app no more
 */
export function jobPrincipal(job: JobSpec, { apps, rateLimit }: Snapshot): Principal | null {
  const app = apps.get(job.workspace)?.get(job.app)
  if (app === undefined) return null
  const { keyId: id, keyBudgetMicros: budgetMicros } = job
  return { ...app, key: { id, name: '', scopes: [], rateLimit, expiresAtMs: null, budgetMicros } }
}
