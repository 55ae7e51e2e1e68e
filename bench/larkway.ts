import { hashKey, makeKey } from '../src/gateway/catalog/key.ts'
import type { RequestSpec } from './load/request.ts'
import { OPENAI_MODEL } from './openai.ts'

/** Keys enough that none meets its rate limit, whose highest setting is 10,000 requests a second. */
const KEYS = 64
const RATE_LIMIT = { requests_per_minute: 600_000, burst: 100_000 }

/** Keys of an app whose provider the customer pays, and of one that is charged for each call. */
const OWN_KEYS = Array.from({ length: KEYS }, makeKey)
const PLATFORM_KEYS = Array.from({ length: KEYS }, makeKey)
/** Keys of an app whose route keeps speech. */
const CACHED_KEYS = Array.from({ length: KEYS }, makeKey)
const OPERATOR_KEY = makeKey()

/** Two apps of one workspace, both routed to the upstream: over the customer's account, and over the platform's. */
export function larkwayConfiguration(upstreamPort: number) {
  const account = { kind: 'openai-compatible', base_url: `http://127.0.0.1:${upstreamPort}/v1` }
  const route = (provider: string) => ({
    workspace: 'bench',
    entries: [
      { provider, model: 'whisper-1', price: { per_hour_usd: 0.05 } },
      { provider, model: 'tts-1', price: { per_1k_characters_usd: 0.01 } },
      {
        provider,
        model: 'gpt-4o-mini',
        capabilities: ['text'],
        price: { per_1m_input_tokens_usd: 0.15, per_1m_output_tokens_usd: 0.6 },
      },
    ],
  })
  const keys = (app: string, values: readonly string[]) =>
    values.map((key, index) => ({
      id: `key_${app}${index}`,
      app,
      sha256: hashKey(key),
      rate_limit: RATE_LIMIT,
    }))
  return {
    providers: {
      own: { ...account, access: 'byok', workspace: 'bench' },
      platform: { ...account, access: 'platform' },
    },
    routes: { own: route('own'), platform: route('platform') },
    workspaces: {
      bench: {
        credits_usd: 1_000_000,
        grant_id: 'bench',
        apps: { own: { route: 'own' }, platform: { route: 'platform' } },
        keys: [...keys('own', OWN_KEYS), ...keys('platform', PLATFORM_KEYS)],
      },
    },
  }
}

/** The same, and an app whose route keeps what it speaks. */
export function larkwayCached(upstreamPort: number) {
  const { routes, workspaces, ...whole } = larkwayConfiguration(upstreamPort)
  const { bench } = workspaces
  const keys = CACHED_KEYS.map((key, index) => ({
    id: `key_cached${index}`,
    app: 'cached',
    sha256: hashKey(key),
    rate_limit: RATE_LIMIT,
  }))
  return {
    ...whole,
    routes: { ...routes, cached: { ...routes.own, cache: {} } },
    workspaces: {
      bench: {
        ...bench,
        apps: { ...bench.apps, cached: { route: 'cached' } },
        keys: [...bench.keys, ...keys],
      },
    },
  }
}

/** Speech that was made before, as audio. */
export function larkwayCachedSpeech(input: string): RequestSpec {
  return {
    method: 'POST',
    path: '/openai/v1/audio/speech',
    headers: {},
    body: { kind: 'json', value: { model: 'any', input, voice: 'alloy', response_format: 'wav' } },
    bearers: CACHED_KEYS,
  }
}

/** Facts of live audio without a limit of sessions: what a real account is allowed is less than what is measured. */
const UNLIMITED = { features: ['word_timestamps'], hints: [], limits: {} }

/** Two apps of a workspace, routed to the upstream for live audio: by Deepgram's protocol, and by OpenAI's. */
export function larkwayLive() {
  const bearers = (keys: readonly string[]) => keys.map((key) => `Bearer ${key}`)
  return {
    env: { BENCH_LIVE_KEY: 'bench', LARKWAY_LIVE_MEMORY_MIB: '1024' },
    request: {
      path: '/v1/transcription/stream?sample_rate=16000&timestamps=word',
      authorizations: bearers(OWN_KEYS),
    },
    openaiRequest: {
      path: '/openai/v1/realtime?intent=transcription',
      authorizations: bearers(PLATFORM_KEYS),
      protocol: 'openai' as const,
    },
    configuration(upstreamPort: number) {
      const { workspaces, ...whole } = larkwayConfiguration(upstreamPort)
      const account = { access: 'byok', workspace: 'bench', api_key: '${BENCH_LIVE_KEY}' }
      const origin = `http://127.0.0.1:${upstreamPort}`
      const route = (provider: string, model: string) => ({
        workspace: 'bench',
        entries: [{ provider, model, live: UNLIMITED }],
      })
      return {
        ...whole,
        providers: {
          ...whole.providers,
          deepgram: { ...account, kind: 'deepgram', base_url: origin },
          openai: { ...account, kind: 'openai', base_url: `${origin}/v1` },
        },
        routes: {
          own: route('deepgram', 'nova-3'),
          platform: route('openai', OPENAI_MODEL),
        },
        limits: { live_max_sessions_per_workspace: 20_000 },
        workspaces: { bench: workspaces.bench },
      }
    },
  }
}

/** An operator who may sign in to the console and look at the workspace of these apps. */
export function larkwayOperator() {
  const configured = { id: 'key_operator', app: 'own', sha256: hashKey(OPERATOR_KEY), scopes: ['operator'] }
  return { key: OPERATOR_KEY, workspace: 'bench', configured }
}

export function larkwayMe(): RequestSpec {
  return { method: 'GET', path: '/v1/me', headers: {}, body: null, bearers: OWN_KEYS }
}

export function larkwaySpeech(access: 'own' | 'platform', input: string): RequestSpec {
  return {
    method: 'POST',
    path: '/v1/speech',
    headers: {},
    body: { kind: 'json', value: { input, voice: 'alloy', response_format: 'wav' } },
    bearers: access === 'own' ? OWN_KEYS : PLATFORM_KEYS,
  }
}

export function larkwayMultipart(audioBytes: number): RequestSpec {
  return {
    method: 'POST',
    path: '/v1/transcription',
    headers: {},
    body: { kind: 'multipart', audioBytes, fields: { response_format: 'json' } },
    bearers: PLATFORM_KEYS,
  }
}

export function larkwayBase64(audioBytes: number): RequestSpec {
  return {
    method: 'POST',
    path: '/v1/transcription',
    headers: {},
    body: { kind: 'base64', audioBytes },
    bearers: PLATFORM_KEYS,
  }
}

export function larkwayChat(content: string, access: 'own' | 'platform' = 'platform'): RequestSpec {
  return {
    method: 'POST',
    path: '/v1/chat',
    headers: {},
    body: { kind: 'json', value: { messages: [{ role: 'user', content }] } },
    bearers: access === 'own' ? OWN_KEYS : PLATFORM_KEYS,
  }
}
