import { FEATURES, HINTS } from '../../src/contracts/calls.ts'
import type { ConfiguredProvider, Entry, Principal, Route } from '../../src/contracts/catalog.ts'
import type { AccountTerms } from '../../src/contracts/ledger.ts'
import type { ModelFacts, Operation, Provider } from '../../src/contracts/provider.ts'

/** Facts of a model that can do everything, at a price. */
export function facts(overrides: Partial<ModelFacts> = {}): ModelFacts {
  return {
    capabilities: ['audio_input', 'audio_output'],
    features: FEATURES.filter((feature) => feature !== 'realtime'),
    hints: [...HINTS],
    limits: {},
    price: { per_hour_usd: 0.36, per_1k_characters_usd: 0.05 },
    translates: true,
    ...overrides,
  }
}

export function configuredProvider(overrides: Partial<ConfiguredProvider> = {}): ConfiguredProvider {
  return {
    name: 'first',
    kind: 'openai-compatible',
    baseUrl: 'http://127.0.0.1:1/v1',
    pool: null,
    credential: null,
    access: 'platform',
    workspace: null,
    concurrency: null,
    queueMs: 1_000,
    ...overrides,
  }
}

export function entry(overrides: Partial<Entry> = {}): Entry {
  return {
    provider: configuredProvider(),
    model: 'model',
    facts: facts(),
    weight: 1,
    profile: null,
    purposes: [],
    plans: [],
    pinned: false,
    voices: {},
    retryEmpty: false,
    accept: null,
    pull: false,
    cutThrough: false,
    options: {},
    ...overrides,
  }
}

export function route(entries: readonly Entry[], overrides: Partial<Route> = {}): Route {
  return {
    name: 'voice',
    workspace: 'acme',
    strategy: 'priority',
    published: true,
    liveFallback: 'none',
    shadow: null,
    version: 'pv_0123456789abcdef',
    entries,
    ...overrides,
  }
}

/** A workspace with more credits than any test spends. */
export const RICH: AccountTerms = {
  grant: { id: 'initial', micros: 1_000_000_000_000 },
  trial: null,
  budgetMicros: null,
}

export function principal(overrides: Partial<Principal> = {}): Principal {
  return {
    workspace: { id: 'acme', name: 'Acme', plan: null, includes: null, terms: RICH },
    app: { id: 'web' },
    key: {
      id: 'key_web',
      name: 'web',
      scopes: ['inference'],
      rateLimit: { requestsPerMinute: 600, burst: 100 },
      expiresAtMs: null,
      budgetMicros: null,
    },
    route: route([entry()]),
    capabilityRoutes: new Map(),
    purposes: [],
    ...overrides,
  }
}

/**
 * Protocols that selection only looks at: with every operation, the same with times of speech, and with none. They are
 * never called.
 */
export const PROTOCOLS: ReadonlyMap<string, Provider> = new Map(
  [protocol('able', true), protocol('telling', true), protocol('idle', false)].map((provider) => [
    provider.kind,
    provider,
  ]),
)

function protocol(kind: string, able: boolean): Provider {
  const never = (): never => {
    throw new Error('selection calls nobody')
  }
  const operation: Operation<unknown, never> = { start: never, next: never }
  const bare = { kind, baseUrl: null, needsCredential: false }
  if (!able) return bare
  return {
    ...bare,
    transcription: operation,
    translation: operation,
    speech: kind === 'telling' ? { ...operation, tellsTimes: true } : operation,
    chat: operation,
    complete: operation,
    embeddings: operation,
    image: operation,
    video: operation,
  }
}
