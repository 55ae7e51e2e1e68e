import type { Test } from 'tap'
import { hashKey, makeKey } from '../../src/catalog/key.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { startGateway } from './gateway.ts'

const SCOPES = ['inference', 'jobs', 'queue', 'admin']

const PRICE = {
  per_1m_input_tokens_usd: 1,
  per_1m_output_tokens_usd: 1,
  per_hour_usd: 1,
  per_1k_characters_usd: 1,
  per_image_usd: 1,
  per_video_second_usd: 1,
}

/** What the route of each app meets at the sandbox. */
const FATES = {
  ok: {},
  failing: { options: { status: 500 } },
  refusing: { options: { status: 400 } },
  hanging: { options: { hang: true } },
  breaking: { options: { piece_delay_ms: 1, cut: true } },
  writing: { capabilities: ['text'] },
  planned: { plans: ['pro'] },
  priced: { price: PRICE },
} as const

export type Fate = keyof typeof FATES
export type KeyName = Fate | 'scopeless' | 'limited' | 'poor' | 'tried' | 'capped'

export interface FatefulNode {
  readonly url: string
  readonly keys: Readonly<Record<KeyName, string>>
}

/** A gateway process with a key for each way in which a call may fail, in the workspaces `acme`, `poor` and `tried`. */
export async function startFatefulNode(t: Test): Promise<FatefulNode> {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const names = [
    ...(Object.keys(FATES) as Fate[]),
    'scopeless',
    'limited',
    'poor',
    'tried',
    'capped',
  ] as const
  const keys = Object.fromEntries(names.map((name) => [name, makeKey()])) as FatefulNode['keys']
  const { url } = await startGateway(t, { config: configuration(`${sandbox.url}`, keys) })
  return { url, keys }
}

function configuration(sandboxUrl: string, keys: FatefulNode['keys']): object {
  const base = `${new URL(sandboxUrl).origin}/v1`
  const key = (name: KeyName, app: string, more: object = {}) => {
    return { id: `key_${name}`, app, sha256: hashKey(keys[name]), scopes: SCOPES, ...more }
  }
  const dear = (workspace: string) => ({
    workspace,
    entries: [{ provider: 'dear', model: 'morse-1', price: PRICE }],
  })
  const fates = Object.entries(FATES).map(([name, more]) => [
    name,
    { workspace: 'acme', entries: [{ provider: 'own', model: 'morse-1', ...more }] },
  ])
  return {
    deadline_seconds: 2,
    video_deadline_seconds: 2,
    rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
    limits: {
      max_request_body_bytes: 1_000_000,
      max_audio_bytes: 500_000,
      max_audio_seconds: 2,
      queue_max_payload_bytes: 10_000,
    },
    plans: { pro: { includes: ['text', 'audio_input', 'audio_output'] } },
    providers: {
      own: { kind: 'sandbox', access: 'byok', workspace: 'acme', base_url: base },
      dear: { kind: 'sandbox', access: 'platform', base_url: base },
    },
    routes: { ...Object.fromEntries(fates), poor: dear('poor'), tried: dear('tried') },
    workspaces: {
      acme: {
        apps: Object.fromEntries(Object.keys(FATES).map((name) => [name, { route: name }])),
        keys: [
          ...(Object.keys(FATES) as Fate[]).map((name) => key(name, name)),
          key('scopeless', 'ok', { scopes: ['admin'] }),
          key('limited', 'ok', { rate_limit: { requests_per_minute: 1, burst: 1 } }),
          key('capped', 'priced', { budget_usd: { per_month: 0 } }),
        ],
      },
      poor: { apps: { web: { route: 'poor' } }, keys: [key('poor', 'web')] },
      tried: {
        trial: { allowance_usd: 0, expires_at: '2099-01-01T00:00:00Z' },
        apps: { web: { route: 'tried' } },
        keys: [key('tried', 'web')],
      },
    },
  }
}
