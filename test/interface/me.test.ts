import t from 'tap'
import { DEFAULT_LIMITS } from '../../src/contracts/limits.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { SHIPPED } from '../../src/gateway/providers/facts.ts'
import { startGateway } from '../support/gateway.ts'
import { waitUntil } from '../support/wait-until.ts'

const WORKSPACE = 'acme'
const entry = (capabilities: readonly string[], more: object = {}) => ({
  provider: 'models',
  model: 'm',
  capabilities,
  ...more,
})
const route = (entries: readonly object[], more: object = {}) => ({ workspace: WORKSPACE, entries, ...more })

const keys = { web: makeKey(), jobs: makeKey() }

const CONFIG = {
  limits: { max_audio_seconds: 3600 },
  plans: { free: { includes: ['text'] }, pro: { includes: ['text', 'audio_input'] } },
  providers: {
    models: {
      kind: 'openai-compatible',
      access: 'byok',
      workspace: WORKSPACE,
      base_url: 'http://127.0.0.1:1/v1',
    },
  },
  routes: {
    main: route([entry(['vision', 'text'], { pinned: true }), entry(['image'])]),
    voice: route([entry(['audio_input'])]),
    calls: route([entry(['audio_input', 'text'])]),
    notes: route([entry(['text'])]),
    forFree: route([entry(['text'], { plans: ['free'] })]),
    pictures: route([entry(['image'])]),
    draft: route([entry(['text', 'audio_input'])], { published: false }),
  },
  workspaces: {
    acme: {
      name: 'Acme',
      plan: 'pro',
      purposes: {
        calls: { description: 'Support calls' },
        notes: {},
        draft: {},
        off: { enabled: false },
        loose: {},
        'other-plan': {},
        'beyond-plan': {},
      },
      apps: {
        web: {
          route: 'main',
          capability_routes: { audio_input: 'voice' },
          purposes: {
            calls: 'calls',
            notes: 'notes',
            draft: 'draft',
            off: 'calls',
            'other-plan': 'forFree',
            'beyond-plan': 'pictures',
          },
        },
      },
      keys: [
        { id: 'key_web', name: 'Website', app: 'web', sha256: hashKey(keys.web) },
        { id: 'key_jobs', app: 'web', sha256: hashKey(keys.jobs), scopes: ['jobs'] },
      ],
    },
  },
}

t.test('what a key stands for, whole', async (t) => {
  const { url, log } = await startGateway(t, { config: CONFIG })
  const ask = (key: string) => fetch(`${url}/v1/me`, { headers: { authorization: `Bearer ${key}` } })
  const response = await ask(keys.web)
  t.equal(response.status, 200)
  const version = response.headers.get('x-lk-policy-version-id')
  const body = (await response.json()) as { routing_contexts: { policy_version_id: string }[] }
  const [, voice] = body.routing_contexts
  t.match(voice?.policy_version_id, /^pv_[0-9a-f]{16}$/)
  t.same(body, {
    models: { issued_at: SHIPPED.issuedAt },
    workspace: { id: WORKSPACE, name: 'Acme', plan: 'pro' },
    app: { id: 'web' },
    key: {
      id: 'key_web',
      name: 'Website',
      prefix: keys.web.slice(0, 12),
      scopes: ['inference', 'jobs', 'queue'],
    },
    // Its pinned entry is its only candidate.
    route: { name: 'main', policy_version_id: version, capabilities: ['text', 'vision'] },
    purposes: [
      { purpose: 'calls', description: 'Support calls', is_enabled: true },
      { purpose: 'notes', description: '', is_enabled: true },
      { purpose: 'draft', description: '', is_enabled: false },
      { purpose: 'off', description: '', is_enabled: false },
      { purpose: 'loose', description: '', is_enabled: false },
      { purpose: 'other-plan', description: '', is_enabled: false },
      { purpose: 'beyond-plan', description: '', is_enabled: false },
    ],
    routing_contexts: [
      { context: 'default', route: 'main', policy_version_id: version, purposes: ['calls', 'notes'] },
      {
        context: 'audio_input',
        route: 'voice',
        policy_version_id: voice?.policy_version_id,
        purposes: ['calls'],
      },
    ],
    limits: { ...DEFAULT_LIMITS, max_audio_seconds: 3600 },
    billing: { credits_usd: null, budget_usd: null, spent_usd: 0 },
  })

  const denied = await ask(keys.jobs)
  t.equal(denied.status, 403)
  t.equal(denied.headers.get('x-lk-policy-version-id'), version, 'on every answer to a key that is known')
  t.match(await denied.json(), { error: { code: 'PERMISSION_DENIED', details: { scope: 'inference' } } })
  const stranger = await ask(makeKey())
  t.equal(stranger.status, 401)
  t.equal(stranger.headers.get('x-lk-policy-version-id'), null)

  const line = () => log.find(({ status }) => status === 403)
  await waitUntil(() => line() !== undefined)
  t.match(line(), { key_id: 'key_jobs', error: 'PERMISSION_DENIED' }, 'the log tells whose key it was')
})

t.test('no cache on the way keeps what a key reads, whichever header brings it', async (t) => {
  const { url } = await startGateway(t, { config: CONFIG })
  const caching = async (path: string, headers: Record<string, string>, method = 'GET') => {
    const { status, headers: answered } = await fetch(url + path, { method, headers })
    return [status, answered.get('cache-control')]
  }
  const bearer = { authorization: `Bearer ${keys.web}` }
  t.same(await caching('/v1/me', bearer), [200, 'no-store'])
  t.same(await caching('/v1/me', bearer, 'HEAD'), [200, 'no-store'])
  t.same(await caching('/elevenlabs/v1/voices', { 'xi-api-key': keys.web }), [200, 'no-store'])
  t.same(await caching('/v1/transcription/jobs/tj_0', bearer), [404, 'no-store'], 'nor a refusal')
  t.same(await caching('/readyz', {}), [200, 'no-store'], 'nor that the node is ready')
  t.same(await caching('/v1/chat', bearer, 'POST'), [415, null], 'caches keep no answer to a change')
})
