import type { JobStatus } from '../../../contracts/jobs.ts'

// Answers about domains and webhooks, in wire names; times are RFC 3339. The page is typed by the same.

/** GET /workspaces/:workspace/audio-url-domains */
export interface DomainsAnswer {
  readonly domains: readonly string[]
  readonly max_domains: number
  /** Domains of the configuration, which every workspace may use. */
  readonly platform_domains: readonly string[]
}

/** GET /workspaces/:workspace/webhook; PUT answers `signing_secret` with it, once. */
export interface WebhookAnswer {
  readonly webhook: { readonly url: string; readonly created_at: string } | null
  readonly signing_secret?: string
}

/** GET …/webhook/deliveries → {deliveries}: those that wait or were given up, newest first */
export interface DeliveryAnswer {
  readonly id: string
  readonly job_id: string
  readonly status: JobStatus
  readonly occurred_at: string
  readonly attempts: number
  /** Null: it was given up. */
  readonly next_attempt_at: string | null
  readonly reason: string | null
}

/** POST …/webhook/test */
export interface WebhookTestAnswer {
  readonly ok: boolean
  readonly status: number | null
  readonly milliseconds: number
  /** In our words; null when it was taken. */
  readonly reason: string | null
}
