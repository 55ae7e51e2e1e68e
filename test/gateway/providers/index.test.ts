import t, { type Test } from 'tap'
import type { Feature, LiveCall } from '../../../src/contracts/calls.ts'
import type { LiveFacts, Price } from '../../../src/contracts/facts.ts'
import type { Calls, OperationName } from '../../../src/contracts/operations.ts'
import { CAPABILITY_OF, OPERATION_NAMES } from '../../../src/contracts/operations.ts'
import type { ModelFacts, Operation, Provider } from '../../../src/contracts/provider.ts'
import type { Sample } from '../../../src/contracts/sample.ts'
import { PLAIN_SAMPLE, sampleCall } from '../../../src/gateway/call/select/sample.ts'
import { Issues } from '../../../src/gateway/catalog/issues.ts'
import { checkTerms } from '../../../src/gateway/catalog/prices.ts'
import { factsOf, SHIPPED } from '../../../src/gateway/providers/facts.ts'
import { PROVIDERS } from '../../../src/gateway/providers/index.ts'

const KINDS = [...new Set(SHIPPED.all().map(({ kind }) => kind))]

t.test('each protocol is listed under its own kind, and each table is of a protocol', async (t) => {
  for (const [kind, provider] of PROVIDERS) t.equal(provider.kind, kind)
  for (const kind of KINDS) t.ok(PROVIDERS.has(kind), kind)
  for (const [kind, provider] of PROVIDERS)
    t.type(provider.models, 'object', `${kind} can be asked whether it answers`)
})

t.test('facts are found by model, by dated snapshot, and nowhere else', async (t) => {
  t.match(factsOf('openai', 'whisper-1'), { capabilities: ['audio_input'], price: { per_hour_usd: 0.36 } })
  t.equal(factsOf('openai', 'gpt-4o-mini-tts-2025-12-15'), factsOf('openai', 'gpt-4o-mini-tts'))
  t.equal(
    factsOf('mistral', 'voxtral-mini-transcribe-latest'),
    factsOf('mistral', 'voxtral-mini-transcribe-3-0'),
  )
  t.equal(factsOf('openai', 'whisper-1-turbo'), undefined)
  t.equal(factsOf('openai', 'constructor'), undefined)
  t.equal(factsOf('openai-compatible', 'whisper-1'), undefined, 'what another server does is not known')
  t.equal(factsOf('elsewhere', 'whisper-1'), undefined)
  for (const name of ['as_of', 'source', 'aliases', 'note'])
    t.notOk(name in factsOf('openai', 'whisper-1')!, `${name} stays in the table`)
  t.match(SHIPPED.dated('openai', 'gpt-4o-2024-11-20'), { model: 'gpt-4o', endsOn: '2027-01-14' })
  t.match(SHIPPED.dated('groq', 'llama-3.1-8b-instant'), { endsOn: null, note: /2026-08-16/ })
  t.equal(SHIPPED.dated('openai', 'gpt-4o-mine'), undefined)
})

function serves(facts: ModelFacts, provider: Provider, name: OperationName): boolean {
  const meant = facts.capabilities.includes(CAPABILITY_OF[name]) && facts.operations?.includes(name) !== false
  return meant && (name !== 'translation' || facts.translates) && operationOf(provider, name) !== undefined
}

function operationOf(
  provider: Provider,
  name: OperationName,
): Operation<Calls[OperationName], unknown> | undefined {
  return provider[name === 'vision' ? 'chat' : name] as Operation<Calls[OperationName], unknown> | undefined
}

/** Requests that a model's facts say it takes. */
function* samplesOf(facts: ModelFacts, name: OperationName): Generator<[what: string, sample: Sample]> {
  const { limits } = facts
  const plain: Sample = {
    ...PLAIN_SAMPLE,
    language: 'en',
    characters: Math.min(100, limits.max_input_characters ?? 100),
    size: (name === 'video' ? limits.video_sizes?.[0] : limits.image_sizes?.[0]) ?? null,
    durationSeconds: limits.video_seconds?.[0] ?? null,
  }
  yield ['plain', plain]
  if (name === 'transcription' || name === 'translation') {
    const kept = name === 'translation' ? (facts.translation_features ?? facts.features) : facts.features
    for (const feature of kept) yield [feature, { ...plain, features: [feature] satisfies Feature[] }]
    for (const hint of facts.hints) yield [hint, { ...plain, hints: [hint] }]
  }
  if (name === 'speech') {
    for (const responseFormat of limits.speech_formats ?? [])
      yield [responseFormat, { ...plain, responseFormat }]
    for (const speed of Object.values(limits.speed ?? {})) yield [`speed ${speed}`, { ...plain, speed }]
    for (const voice of limits.voices ?? []) yield [voice, { ...plain, voice }]
  }
  if (name === 'chat') {
    if (facts.capabilities.includes('function_calling')) yield ['tools', { ...plain, tools: true }]
    if (facts.capabilities.includes('vision')) yield ['images', { ...plain, images: true }]
    if (facts.capabilities.includes('audio_output')) yield ['spoken', { ...plain, spoken: true }]
  }
  if (name === 'embeddings' && (limits.max_dimensions ?? 0) > 0)
    yield ['dimensions', { ...plain, dimensions: 8 }]
  if (name === 'image')
    for (const responseFormat of limits.image_formats ?? [])
      yield [responseFormat, { ...plain, responseFormat }]
  if (name === 'video') {
    for (const size of limits.video_sizes ?? []) yield [size, { ...plain, size }]
    for (const durationSeconds of limits.video_seconds ?? [])
      yield [`${durationSeconds} s`, { ...plain, durationSeconds }]
  }
}

const TOKENS: readonly (keyof Price)[] = ['per_1m_input_tokens_usd', 'per_1m_output_tokens_usd']
/** What a price of an operation is made of. */
const PRICED: Readonly<Record<OperationName, readonly (keyof Price)[]>> = {
  transcription: ['per_hour_usd', ...TOKENS],
  translation: ['per_hour_usd', ...TOKENS],
  speech: ['per_1k_characters_usd', ...TOKENS],
  chat: TOKENS,
  complete: TOKENS,
  vision: TOKENS,
  embeddings: TOKENS,
  image: ['per_image_usd', ...TOKENS],
  video: ['per_video_second_usd', 'per_credit_usd'],
}

t.test('the prices of the tables are in order', async (t) => {
  for (const { kind, model } of SHIPPED.all()) {
    const faults = new Issues()
    checkTerms(factsOf(kind, model)?.price ?? {}, [kind, model], faults)
    t.same(faults.found, [], `${kind} ${model}`)
  }
})

/** What a model keeps of live audio can be asked for there, and has a price. */
function promisesLive(
  t: Test,
  model: string,
  { features, hints, limits, price }: LiveFacts,
  { live }: Provider,
): void {
  t.type(price?.per_hour_usd, 'number', `${model} is priced for live audio`)
  const target = { model, baseUrl: 'https://p/v1', credential: 'key', options: {} }
  for (const more of [[], ...features.map((one) => [one]), ...hints.map((one) => [one])]) {
    const sample = {
      ...PLAIN_SAMPLE,
      language: 'en',
      features: ['realtime' as const, ...features.filter((one) => more.some((name) => name === one))],
      hints: hints.filter((one) => more.some((name) => name === one)),
    }
    const made = sampleCall('transcription', sample).payload as LiveCall
    const redaction = made.options.redaction.length === 0 ? [] : (limits.redactions ?? made.options.redaction)
    const call = { ...made, options: { ...made.options, redaction } }
    t.equal(live?.unsupported?.(call, target) ?? null, null, `${model} live ${more}`)
    t.match(live?.handshake(call, target).url, /^wss:/)
  }
}

for (const kind of KINDS) {
  t.test(`the table of ${kind} promises nothing that the protocol cannot send`, async (t) => {
    const provider = PROVIDERS.get(kind) as Provider
    for (const { model, note } of SHIPPED.all().filter((one) => one.kind === kind)) {
      const facts = factsOf(kind, model)!
      const target = { model, baseUrl: 'https://p/v1', credential: 'key', options: {} }
      const served = OPERATION_NAMES.filter((name) => serves(facts, provider, name))
      const isForSomething = served.length > 0 || facts.live !== undefined
      t.ok(isForSomething || /^not served here: /.test(note ?? ''), `${model} is for something`)
      if (facts.live !== undefined) promisesLive(t, model, facts.live, provider)
      for (const name of served) {
        for (const [what, sample] of samplesOf(facts, name)) {
          const step = operationOf(provider, name)!.start(sampleCall(name, sample).payload, target)
          t.equal(
            step.kind,
            'send',
            `${model} ${name} ${what}${step.kind === 'failed' ? `: ${step.failure.reason}` : ''}`,
          )
        }
        const { price } = facts
        const parts = PRICED[name].filter((part) => price?.[part] !== undefined)
        if (price !== null) t.ok(parts.length > 0, `${model} is priced for ${name}`)
      }
    }
  })
}
