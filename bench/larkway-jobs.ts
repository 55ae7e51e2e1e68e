import { hashKey, makeKey } from '../src/gateway/catalog/key.ts'
import type { RequestSpec } from './load/request.ts'

/** The jobs of one workspace that run at a time are limited, so there are several. */
const WORKSPACES = 16
const KEYS_EACH = 4
const RATE_LIMIT = { requests_per_minute: 600_000, burst: 100_000 }

interface Tenant {
  readonly name: string
  readonly keys: readonly string[]
  readonly admin: string
}

const TENANTS = Array.from({ length: WORKSPACES }, (_, index): Tenant => {
  const keys = Array.from({ length: KEYS_EACH }, makeKey)
  return { name: `bench${index}`, keys, admin: makeKey() }
})

/** A key of another workspace on each connection. */
const BEARERS = Array.from({ length: KEYS_EACH }, (_, i) => TENANTS.map(({ keys }) => keys[i]!)).flat()

/** Workspaces with an app each, whose calls go to the upstream and are charged. */
export function larkwayJobsConfiguration(upstreamPort: number): object {
  const entry = { provider: 'platform', model: 'whisper-1', price: { per_hour_usd: 0.05 } }
  const workspace = ({ name, keys, admin }: Tenant) => {
    const key = (value: string, id: string) => ({
      id: `key_${name}${id}`,
      app: 'app',
      sha256: hashKey(value),
      rate_limit: RATE_LIMIT,
    })
    return {
      credits_usd: 1_000_000,
      grant_id: 'bench',
      apps: { app: { route: name } },
      keys: [...keys.map((value, i) => key(value, `k${i}`)), { ...key(admin, 'admin'), scopes: ['admin'] }],
    }
  }
  const base_url = `http://127.0.0.1:${upstreamPort}/v1`
  return {
    providers: { platform: { kind: 'openai-compatible', base_url, access: 'platform' } },
    routes: Object.fromEntries(TENANTS.map(({ name }) => [name, { workspace: name, entries: [entry] }])),
    workspaces: Object.fromEntries(TENANTS.map((tenant) => [tenant.name, workspace(tenant)])),
  }
}

/** Environment of a node that delivers to this machine. */
export const JOBS_ENVIRONMENT = { LARKWAY_INSECURE_WEBHOOKS: 'true' }

export function larkwayJob(audioBytes: number): RequestSpec {
  return {
    method: 'POST',
    path: '/v1/transcription/jobs',
    headers: {},
    body: { kind: 'multipart', audioBytes, fields: {} },
    bearers: BEARERS,
  }
}

/** Sets the webhook of each workspace. */
export function larkwayWebhooks(receiverPort: number): RequestSpec[] {
  return TENANTS.map(({ name, admin }) => ({
    method: 'PUT',
    path: `/workspace/${name}/stt-webhook`,
    headers: {},
    body: { kind: 'json', value: { url: `http://127.0.0.1:${receiverPort}/jobs` } },
    bearers: [admin],
  }))
}
