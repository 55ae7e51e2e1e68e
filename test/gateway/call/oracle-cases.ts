import {
  CAPABILITIES,
  FEATURES,
  HINTS,
  REDACTIONS,
  TRANSCRIPT_FORMATS,
} from '../../../src/contracts/calls.ts'
import type { Entry, Principal, Route, Selectors } from '../../../src/contracts/catalog.ts'
import { PROFILES, STRATEGIES } from '../../../src/contracts/catalog.ts'
import type { ModelLimits } from '../../../src/contracts/facts.ts'
import { type Calls, OPERATION_NAMES, type OperationName } from '../../../src/contracts/operations.ts'
import type { ModelFacts } from '../../../src/contracts/provider.ts'
import type { Call } from '../../../src/gateway/call/facts/call.ts'
import type { EntryHealth } from '../../../src/gateway/call/select/health.ts'
import { audio, callOf, options } from '../../support/call.ts'
import { configuredProvider, entry, principal, RICH, route } from '../../support/catalog.ts'
import type { Dice } from '../../support/dice.ts'
import { chatOf, PICTURE, plainCall } from './selection.ts'

/** A configuration, the state of a node, and a request. */
export interface Case {
  readonly operation: OperationName
  readonly principal: Principal
  readonly call: Call<OperationName>
  readonly health: ReadonlyMap<Entry, EntryHealth>
  readonly mediansMs: ReadonlyMap<Entry, number>
  readonly nowMs: number
}

const NOW_MS = 100_000

export function drawCase(dice: Dice): Case {
  const operation = dice.chance(0.45)
    ? dice.one<OperationName>(['transcription', 'translation'])
    : dice.one(OPERATION_NAMES)
  const pool = Array.from({ length: 2 + dice.below(7) }, (_, index) => drawEntry(dice, `model-${index}`))
  const routes = ['own', 'override', 'calls', 'notes'].map((name) => drawRoute(dice, name, pool))
  const [own, override, ...bound] = routes as [Route, Route, ...Route[]]
  const plan = dice.one([null, null, 'free', 'pro'])
  const who = principal({
    workspace: {
      id: 'acme',
      name: 'Acme',
      plan,
      includes: plan === null || dice.chance(0.3) ? null : new Set(dice.some(CAPABILITIES, 0.9)),
      terms: RICH,
    },
    route: own,
    capabilityRoutes: new Map(
      dice.some(CAPABILITIES, 0.15).map((capability) => [capability, dice.one([own, override, ...bound])]),
    ),
    purposes: ['calls', 'notes'].map((purpose, index) => ({
      purpose,
      description: '',
      enabled: dice.chance(0.85),
      route: dice.chance(0.1) ? null : dice.chance(0.15) ? own : (bound[index] ?? own),
    })),
  })
  return {
    operation,
    principal: who,
    call: { ...callOf(operation, drawPayload(dice, operation)), selectors: drawSelectors(dice) } as Call,
    health: new Map(pool.map((one) => [one, drawHealth(dice)])),
    mediansMs: new Map(pool.map((one) => [one, dice.below(4) * 100])),
    nowMs: NOW_MS,
  }
}

function drawSelectors(dice: Dice): Selectors {
  const source = dice.one(['body', 'header'] as const)
  return {
    purpose:
      dice.maybe(0.6, () => ({ label: dice.one(['calls', 'calls', 'notes', 'cals']), source })) ?? null,
    responseProfile: dice.maybe(0.35, () => dice.one(PROFILES)) ?? null,
  }
}

function drawHealth(dice: Dice): EntryHealth {
  const openedAtMs = NOW_MS - dice.below(20) * 1000
  const waitMs = 1 + dice.below(30_000) + dice.roll()
  return dice.one<EntryHealth>([
    { state: 'closed', untilMs: null, openedAtMs: null },
    { state: 'closed', untilMs: null, openedAtMs: null },
    { state: 'closed', untilMs: null, openedAtMs: null },
    { state: 'closed', untilMs: null, openedAtMs: null },
    { state: 'open', untilMs: NOW_MS + waitMs, openedAtMs },
    { state: 'half_open', untilMs: NOW_MS - dice.below(5), openedAtMs },
    { state: 'half_open', untilMs: NOW_MS + waitMs, openedAtMs },
    { state: 'cooling', untilMs: NOW_MS + waitMs, openedAtMs: dice.one([null, openedAtMs]) },
  ])
}

function drawRoute(dice: Dice, name: string, pool: readonly Entry[]): Route {
  return route(dice.some(pool, 0.5), {
    name,
    version: `pv_${name}`,
    strategy: dice.one(STRATEGIES),
    published: dice.chance(0.9),
    workspace: dice.chance(0.98) ? 'acme' : 'umbrella',
  })
}

function drawEntry(dice: Dice, model: string): Entry {
  return entry({
    model,
    provider: configuredProvider({
      name: `provider of ${model}`,
      kind: dice.chance(0.95) ? dice.one(['able', 'telling']) : dice.one(['idle', 'unheard-of']),
      ...dice.one([
        { access: 'platform', workspace: null },
        { access: 'byok', workspace: dice.chance(0.9) ? 'acme' : 'umbrella' },
      ] as const),
    }),
    weight: 1 + dice.below(5),
    profile: dice.one([null, ...PROFILES]),
    purposes: dice.some(['calls', 'notes'], 0.3),
    plans: dice.chance(0.85) ? [] : dice.some(['free', 'pro'], 0.5),
    pinned: dice.chance(0.08),
    voices: dice.chance(0.5) ? {} : { house: 'alloy' },
    facts: drawFacts(dice),
  })
}

function drawFacts(dice: Dice): ModelFacts {
  const operations = dice.maybe(0.15, () => dice.some(OPERATION_NAMES, 0.7))
  const translation = dice.maybe(0.3, () => dice.some(FEATURES, 0.8))
  const members = [...FEATURES, ...HINTS]
  const conflicts = dice.maybe(0.5, () =>
    Array.from({ length: 1 + dice.below(3) }, () => dice.some(members, 0.17)).filter((set) => set.length > 1),
  )
  const languages = dice.maybe(0.4, () =>
    Object.fromEntries(
      dice.some(members, 0.2).map((member) => [member, dice.one([['en'], ['en', 'de'], ['fr']])]),
    ),
  )
  return {
    capabilities: dice.some(CAPABILITIES, 0.92),
    ...(operations === undefined ? {} : { operations }),
    features: dice.some(FEATURES, 0.85),
    ...(translation === undefined ? {} : { translation_features: translation }),
    hints: dice.some(HINTS, 0.6),
    ...(conflicts === undefined ? {} : { conflicts }),
    ...(languages === undefined ? {} : { languages }),
    limits: dice.chance(0.5) ? {} : drawLimits(dice),
    price: dice.one([null, {}, ...[0.5, 1, 2].map((usd) => ({ per_hour_usd: usd, per_image_usd: usd }))]),
    translates: dice.chance(0.85),
  }
}

function drawLimits(dice: Dice): ModelLimits {
  const all: { readonly [Name in keyof ModelLimits]-?: ModelLimits[Name] } = {
    max_audio_bytes: dice.one([100, 1000, 5000]),
    max_audio_seconds: dice.one([5, 10, 60]),
    max_audio_seconds_with: { diarization: dice.one([1, 20]), keyterms: 15 },
    audio_formats: dice.one([['wav'], ['mp3', 'wav']]),
    redactions: dice.some(REDACTIONS, 0.8),
    max_channels: dice.one([1, 2, 8]),
    keyterms: dice.one([
      { max_items: 1 },
      { max_item_characters: 5, forbidden: '<' },
      { max_item_words: 1 },
      { max_words: 2 },
    ]),
    max_input_characters: dice.one([3, 5, 10]),
    speech_formats: dice.one([['wav'], ['mp3', 'wav']]),
    speed: dice.one([
      { min: 0.5, max: 2 },
      { min: 1.2, max: 2 },
    ]),
    voices: ['alloy', 'echo'],
    voice_pattern: '^no',
    json_schema: dice.chance(0.5),
    max_inputs: dice.one([1, 2]),
    max_dimensions: dice.one([0, 256]),
    max_images: dice.one([1, 2]),
    image_sizes: ['1024x1024'],
    image_formats: ['png'],
    video_sizes: ['1280x720'],
    video_seconds: [4, 8],
  }
  return Object.fromEntries(Object.entries(all).filter(() => dice.chance(0.25)))
}

function drawPayload(dice: Dice, operation: OperationName): Calls[OperationName] {
  const plain = plainCall(operation).payload
  const own = { ...plain }
  switch (operation) {
    case 'transcription':
    case 'translation':
      return { audio: drawAudio(dice), options: drawOptions(dice) }
    case 'speech':
      return {
        input: dice.one(['hi', 'hello', '👋👋👋', 'hello world']),
        voice: dice.one([null, 'alloy', 'echo', 'house', 'nobody']),
        response_format: dice.one([null, 'wav', 'mp3', 'opus']),
        speed: dice.one([null, 1, 1.5, 3]),
        seed: null,
        ...(dice.chance(0.3) ? { times: true as const } : {}),
      }
    case 'chat':
    case 'vision':
      return {
        ...chatOf(operation === 'vision' || dice.chance(0.3) ? [PICTURE] : [{ type: 'text', text: 'hi' }]),
        tools: dice.chance(0.3) ? [{ name: 'look_up', description: null, parameters: null }] : [],
        modalities: dice.chance(0.3) ? ['text', 'audio'] : ['text'],
        response_schema: dice.one([null, null, { type: 'object' }, { type: 'object', title: 'a' }]),
      }
    case 'embeddings':
      return { input: dice.one([['a'], ['a', 'b'], ['a', 'b', 'c']]), dimensions: dice.one([null, 256, 512]) }
    case 'image':
      return {
        ...(own as Calls['image']),
        n: 1 + dice.below(3),
        size: dice.one([null, '1024x1024', '512x512']),
        output_format: dice.one([null, 'png', 'webp']),
      }
    case 'video':
      return {
        ...(own as Calls['video']),
        size: dice.one([null, '1280x720', '720x1280']),
        duration_seconds: dice.one([null, 4, 6]),
      }
    case 'complete':
      return plain
  }
}

function drawAudio(dice: Dice) {
  return audio({
    decodedBytes: dice.one([50, 1000, 4000]),
    durationSeconds: dice.one([null, 3, 10, 30]),
    channels: dice.one([null, 1, 2, 6]),
    format: dice.one(['wav', 'mp3', 'ogg']),
  })
}

function drawOptions(dice: Dice) {
  return options({
    language: dice.one([null, 'en', 'fr', 'de-AT', 'english', '?']),
    prompt: dice.one([null, 'a call']),
    response_format: dice.chance(0.6) ? 'json' : dice.one(TRANSCRIPT_FORMATS),
    mode: dice.chance(0.95) ? 'batch' : 'realtime',
    diarization: dice.chance(0.3),
    speaker_count_hint: dice.one([null, 2]),
    timestamps: dice.one([null, null, 'word', 'segment', 'both']),
    keyterms: dice.one([[], [], ['lark'], ['a lark', 'lark'], ['<lark>']]),
    smart_formatting: dice.chance(0.4),
    detect_language: dice.chance(0.3),
    profanity_filter: dice.chance(0.3),
    multichannel: dice.chance(0.2),
    redaction: dice.chance(0.8) ? [] : dice.some(REDACTIONS, 0.5),
    ...(dice.chance(0.1) ? { audio_events: true } : {}),
  })
}
