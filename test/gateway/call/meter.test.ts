import t from 'tap'
import type { Audio } from '../../../src/contracts/audio.ts'
import type { TranscriptionOptions } from '../../../src/contracts/calls.ts'
import { countCharacters } from '../../../src/contracts/characters.ts'
import type { ChatCall, ChatPart } from '../../../src/contracts/chat.ts'
import type { Price } from '../../../src/contracts/facts.ts'
import type { Results } from '../../../src/contracts/operations.ts'
import {
  estimateOf,
  expectedCost,
  highestCost,
  type Metered,
  meter,
  NOTHING_REPORTED,
  type ReportedUsage,
  reportedBy,
} from '../../../src/gateway/call/facts/meter.ts'

import { callOf, speechCall, transcriptionCall } from '../../support/call.ts'
import { entry, facts } from '../../support/catalog.ts'
import { chatCall } from '../../support/gateway-rig.ts'

function speak(characters: number, price: Price | null): Metered {
  return meter(speechCall({ input: 'a'.repeat(characters) }), NOTHING_REPORTED, price)
}

function hear(
  audio: Partial<Audio>,
  price: Price | null,
  {
    options = {},
    reported = null,
  }: { options?: Partial<TranscriptionOptions>; reported?: number | null } = {},
): Metered {
  const { payload } = transcriptionCall({ audio, options })
  return meter(callOf('transcription', payload), { ...NOTHING_REPORTED, seconds: reported }, price)
}

const tokens = (input: number | null, output: number | null): ReportedUsage => ({
  ...NOTHING_REPORTED,
  usage: { input_tokens: input, output_tokens: output },
})

t.test('tokens of a price for several operations are those of its chats', async (t) => {
  const chats = { per_1m_input_tokens_usd: 10, per_1m_output_tokens_usd: 20 }
  const counted = { ...NOTHING_REPORTED, usage: { input_tokens: 100, output_tokens: 50 } }
  const spoken = speechCall({ input: 'hello' })
  const heard = transcriptionCall({ audio: { durationSeconds: 36 } })
  for (const reported of [NOTHING_REPORTED, counted]) {
    t.equal(meter(spoken, reported, { ...chats, per_1k_characters_usd: 1 }).costUsd, 0.005)
    t.equal(meter(heard, reported, { ...chats, per_hour_usd: 1 }).costUsd, 0.01)
  }
  t.equal(meter(spoken, NOTHING_REPORTED, chats).costUsd, null)
  t.equal(meter(spoken, counted, chats).costUsd, 0.002)
})

t.test('speech is priced by the character, a character being a code point', async (t) => {
  const rows = [
    [1000, 0.05, 0.05],
    [1000, 0.1, 0.1],
    [1, 0.05, 0.00005],
    [0, 0.05, 0],
    [123_457, 0.015, 1.851855],
    [7, 0, 0],
  ] as const
  for (const [characters, perThousand, usd] of rows) {
    const metered = speak(characters, { per_1k_characters_usd: perThousand })
    t.equal(metered.costUsd, usd)
    t.same(metered.usage, { audio_output_characters: characters, total_tokens: 0 })
    t.same(metered.warnings, [])
  }
  t.equal(countCharacters('héllo 👋🏽'), 8)
  const units = ['a', 'é', '\u2028', '\ud83d', '\udc4b', '\ud800', '\udfff', '\uffff']
  for (let number = 0; number < units.length ** 4; number += 1) {
    const text = [0, 1, 2, 3]
      .map((at) => units[Math.floor(number / units.length ** at) % units.length])
      .join('')
    if (countCharacters(text) !== [...text].length) t.fail(JSON.stringify(text))
  }
  for (const price of [null, {}, { per_hour_usd: 1 }]) {
    const { costUsd, warnings } = speak(5, price)
    t.equal(costUsd, null)
    t.match(warnings, [/^cost_usd: the price/])
  }
})

t.test('no cost drifts away from its decimals', async (t) => {
  for (let characters = 0; characters <= 20_000; characters += 1) {
    const { costUsd } = speak(characters, { per_1k_characters_usd: 0.05 })
    if (costUsd !== (characters * 50) / 1_000_000) t.fail(`${characters} characters: ${costUsd}`)
  }
  // 0.22 USD per hour of every length in milliseconds, by whole numbers: 55 / 900,000 micro-USD each; at least one.
  for (let milliseconds = 1; milliseconds < 4_000_000; milliseconds += 997) {
    const nearest = Number((BigInt(milliseconds) * 2n * 220_000n + 3_600_000n) / 7_200_000n)
    const micros = Math.max(1, nearest)
    const { costUsd } = hear({ durationSeconds: milliseconds / 1000 }, { per_hour_usd: 0.22 })
    if (costUsd !== micros / 1_000_000) t.fail(`${milliseconds} ms: ${costUsd}, not ${micros}`)
  }
  t.match(`${hear({ durationSeconds: 1e-9 }, { per_hour_usd: 1e9 }).costUsd}`, /^0\.000278$/)
})

t.test('a transcription is metered in seconds of the file, whatever the provider says', async (t) => {
  const rows = [
    // file, reported, price, audio_seconds, billable_audio_seconds, cost_usd, warnings
    [3600, 1, { per_hour_usd: 0.22 }, 3600, 3600, 0.22, 0],
    [3600, null, { per_hour_usd: 0.22, minimum_seconds: 10 }, 3600, 3600, 0.22, 0],
    [2.5, null, { per_hour_usd: 0.36, minimum_seconds: 10 }, 2.5, 10, 0.001, 0],
    [0.12345, null, { per_hour_usd: 3600 }, 0.123, 0.123, 0.12345, 0],
    [null, 30, { per_hour_usd: 0.12 }, 30, 30, 0.001, 1],
    [null, null, { per_hour_usd: 0.12 }, null, null, null, 2],
    [null, null, { per_hour_usd: 0 }, null, null, 0, 1],
    [60, null, null, 60, 60, null, 1],
  ] as const
  for (const [file, reported, price, seconds, billable, usd, warnings] of rows) {
    const metered = hear({ durationSeconds: file }, price, { reported })
    t.same(metered.usage, { audio_seconds: seconds, billable_audio_seconds: billable, total_tokens: 0 })
    t.equal(metered.costUsd, usd)
    t.equal(metered.warnings.length, warnings)
  }
})

t.test('what the provider charges of a transcription', async (t) => {
  const price: Price = {
    per_hour_usd: 0.36,
    minimum_seconds: 10,
    keyterms_minimum: { over: 2, seconds: 20 },
    per_channel: true,
    surcharges: { diarization: 0.5, keyterms: 0.2, redaction: 0.3 },
  }
  const rows: [string, Partial<Audio>, Partial<TranscriptionOptions>, number | null][] = [
    ['the minimum', { durationSeconds: 4 }, {}, 10],
    ['its length', { durationSeconds: 40 }, {}, 40],
    ['a surcharge', { durationSeconds: 40 }, { keyterms: ['a'] }, 48],
    ['a surcharge on the minimum', { durationSeconds: 4 }, { diarization: true }, 15],
    ['what the format is made of', { durationSeconds: 40 }, { response_format: 'diarized_json' }, 60],
    ['some keyterms', { durationSeconds: 4 }, { keyterms: ['a', 'b'] }, 12],
    ['many keyterms', { durationSeconds: 4 }, { keyterms: ['a', 'b', 'c'] }, 24],
    [
      'all surcharges',
      { durationSeconds: 40 },
      { diarization: true, keyterms: ['a'], redaction: ['pii'] },
      80,
    ],
    ['two channels as one', { durationSeconds: 40, channels: 2 }, {}, 40],
    ['each channel', { durationSeconds: 40, channels: 2 }, { multichannel: true }, 80],
    [
      'each channel, no less than the minimum',
      { durationSeconds: 1, channels: 3 },
      { multichannel: true },
      30,
    ],
    ['channels that the file does not tell', { channels: null }, { multichannel: true }, null],
  ]
  for (const [name, audio, options, billable] of rows) {
    const metered = hear(audio, price, { options })
    t.equal(metered.usage.billable_audio_seconds, billable, name)
    t.equal(metered.costUsd, billable === null ? null : (billable * 100) / 1_000_000, name)
    t.equal(metered.warnings.length, billable === null ? 2 : 0, name)
  }
  const { per_channel: _, ...together } = price
  const twoChannels = { durationSeconds: 40, channels: 2 }
  t.equal(hear(twoChannels, together, { options: { multichannel: true } }).usage.billable_audio_seconds, 40)
})

t.test('a feature that costs so much an hour, and audio that is charged by the second', async (t) => {
  const rows: [
    string,
    Price,
    Partial<Audio>,
    Partial<TranscriptionOptions>,
    billable: number,
    usd: number,
  ][] = [
    ['no feature', { add_ons_per_hour_usd: { diarization: 0.12 } }, {}, {}, 36, 0.00462],
    [
      'speakers',
      { add_ons_per_hour_usd: { diarization: 0.12 } },
      {},
      { diarization: true },
      36,
      // 0.0077 and 0.002 a minute
      (36 / 60) * 0.0097,
    ],
    [
      'speakers of each channel',
      { add_ons_per_hour_usd: { diarization: 0.12 }, per_channel: true },
      { channels: 2 },
      { diarization: true, multichannel: true },
      72,
      (72 / 60) * 0.0097,
    ],
    [
      'beside a share',
      { add_ons_per_hour_usd: { diarization: 0.12 }, surcharges: { keyterms: 0.5 } },
      {},
      { diarization: true, keyterms: ['a'] },
      54,
      (54 / 60) * 0.0077 + (36 / 60) * 0.002,
    ],
    ['a second begun', { billing_increment_seconds: 1 }, { durationSeconds: 1.2 }, {}, 2, 0.000257],
    ['a whole one', { billing_increment_seconds: 1 }, { durationSeconds: 60 }, {}, 60, 0.0077],
    [
      'steps of a minute behind a minimum',
      { billing_increment_seconds: 60, minimum_seconds: 90 },
      { durationSeconds: 5 },
      {},
      120,
      0.0154,
    ],
    ['a tenth', { billing_increment_seconds: 0.1 }, { durationSeconds: 0.3 }, {}, 0.3, 0.000039],
  ]
  for (const [name, parts, audio, options, billable, usd] of rows) {
    const price = { per_hour_usd: 0.462, ...parts }
    const metered = hear({ durationSeconds: 36, ...audio }, name === 'no feature' ? { ...price } : price, {
      options,
    })
    t.equal(metered.usage.billable_audio_seconds, billable, name)
    t.equal(metered.costUsd, Math.round(usd * 1e6) / 1e6, name)
  }
  t.equal(
    hear({ durationSeconds: 36 }, { add_ons_per_hour_usd: { diarization: 1 } }).costUsd,
    null,
    'no price',
  )
})

t.test('a price that changes, by the day of the call in UTC', async (t) => {
  const price: Price = {
    per_1m_input_tokens_usd: 0.75,
    per_1m_output_tokens_usd: 3.75,
    periods: [
      { from: '2027-01-01', per_1m_input_tokens_usd: 1.5, per_1m_output_tokens_usd: 7.5 },
      { from: '2026-11-27', until: '2026-11-30', per_1m_input_tokens_usd: 0 },
      { until: '2026-01-31', per_1m_output_tokens_usd: 1 },
    ],
  }
  const rows = [
    ['2026-01-31T23:59:59.999Z', 1.75],
    ['2026-02-01T00:00:00Z', 4.5],
    ['2026-11-26T23:59:59.999Z', 4.5],
    ['2026-11-27T00:00:00Z', 3.75],
    ['2026-11-30T23:59:59Z', 3.75],
    ['2026-12-31T23:59:59.999Z', 4.5],
    ['2027-01-01T00:00:00Z', 9],
    ['2100-01-01T00:00:00Z', 9],
  ] as const
  for (const [at, usd] of rows) {
    const told = tokens(1_000_000, 1_000_000)
    t.equal(meter(callOf('chat', chatCall()), told, price, Date.parse(at)).costUsd, usd, at)
  }
  t.equal(meter(callOf('chat', chatCall()), tokens(1_000_000, 0), price).costUsd !== null, true, 'and now')
})

const TIERED: Price = {
  per_1m_input_tokens_usd: 2,
  per_1m_output_tokens_usd: 10,
  tiers: [
    { over_input_tokens: 272_000, per_1m_input_tokens_usd: 4, per_1m_output_tokens_usd: 15 },
    { over_input_tokens: 500_000, per_1m_input_tokens_usd: 8 },
  ],
}

t.test('a price by size is that of the whole call', async (t) => {
  const rows = [
    [272_000, 0.544 + 0.01],
    [272_001, 1.088004 + 0.015],
    [500_000, 2 + 0.015],
    [500_001, 4.000008 + 0.01],
  ] as const
  const costFor = (input: number | null) =>
    meter(callOf('chat', chatCall()), tokens(input, 1000), TIERED).costUsd
  for (const [input, usd] of rows) t.equal(costFor(input), Math.round(usd * 1e6) / 1e6)
  t.equal(costFor(null), null, 'a size that nobody knows')
  const later: Price = { ...TIERED, periods: [{ from: '2027-01-01', tiers: [] }] }
  const at = (day: string) =>
    meter(callOf('chat', chatCall()), tokens(600_000, 0), later, Date.parse(day)).costUsd
  t.same([at('2026-12-31'), at('2027-01-01')], [4.8, 1.2], 'tiers change with their period')
})

t.test('what is reserved covers every price that the size may fall under', async (t) => {
  const chat = (text: string, more: Partial<ChatCall> = {}) =>
    chatCall({ messages: [{ role: 'user', parts: [{ type: 'text', text }] }], max_tokens: 1000, ...more })
  const reserved = (price: Price, call: ChatCall) =>
    highestCost(entry({ facts: facts({ price }) }), callOf('chat', call))
  const short = chat('a'.repeat(4000))
  t.equal(reserved(TIERED, short), 0.012, 'a short text is never dear')
  // 300,000 characters of Chinese are more than 272,000 tokens.
  const long = chat('鳥'.repeat(300_000))
  t.equal(estimateOf(entry({ facts: facts({ price: TIERED }) }), callOf('chat', long)).costUsd, 0.16)
  t.equal(reserved(TIERED, long), 0.315)
  t.equal(reserved(TIERED, chat('a'.repeat(4 * 272_004))), 2.186032, 'the supposed tier and those above it')
  const source = { kind: 'url', url: 'https://a.example/1.png' } as const
  const image: ChatPart = { type: 'image', source, detail: null }
  t.equal(reserved(TIERED, chatCall({ messages: [{ role: 'user', parts: [image] }], max_tokens: 0 })), 0)
  const seen = chat('a'.repeat(4000), {
    messages: [{ role: 'user', parts: [image, { type: 'text', text: 'aaaa' }] }],
  })
  t.equal(reserved(TIERED, seen), 0.015004, 'a picture may be of any size')
  const cheaper: Price = { ...TIERED, tiers: [{ over_input_tokens: 10, per_1m_input_tokens_usd: 1 }] }
  t.equal(reserved(cheaper, chat('a'.repeat(20))), 0.01001, 'a cheaper tier takes nothing away')
  t.equal(reserved({ tiers: [{ over_input_tokens: 1 }] }, short), null, 'a price that is not known')
  const toJSON = () => t.fail('audio is no text')
  const audio = { source: { kind: 'memory', blocks: [{ toJSON } as never] } } as const
  const { payload } = transcriptionCall({ audio })
  const heard: Price = { ...TIERED, audio_tokens_per_second: 10 }
  const [plain, sized] = [{ ...heard, tiers: [] }, heard].map((price) =>
    highestCost(entry({ facts: facts({ price }) }), callOf('transcription', payload)),
  )
  t.ok(sized! > plain!, 'audio may be of any size')
})

t.test('a price by size is that of the tier of service, as by that of the whole call', async (t) => {
  const price: Price = {
    ...TIERED,
    per_1m_cached_input_tokens_usd: 0.3,
    by_service_tier: {
      flex: { per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 3, per_1m_cached_input_tokens_usd: 0.1 },
      fast: { per_1m_output_tokens_usd: 20 },
      listed: { per_1m_input_tokens_usd: 1, tiers: [{ over_input_tokens: 10, per_1m_input_tokens_usd: 7 }] },
    },
  }
  const costs = (service_tier: string, sized: Price = price) =>
    [272_000, 300_000, 600_000].map((input_tokens) => {
      const usage = { input_tokens, output_tokens: 100_000, service_tier }
      return meter(callOf('chat', chatCall()), { ...NOTHING_REPORTED, usage }, sized).costUsd
    })
  t.same(costs('default'), [1.544, 2.7, 5.8], 'without a price of its own')
  t.same(costs('flex'), [0.572, 1.05, 2.7], 'half going in, and three tenths coming out')
  t.same(costs('fast'), [2.544, 4.2, 6.8], 'twice as much coming out')
  t.same(costs('listed'), [2.904, 3.1, 5.2], 'its own sizes')
  const free = { ...price, per_1m_input_tokens_usd: 0 }
  t.same(costs('flex', free), [0.572, 1.65, 5.1], 'there is no part of nothing')
})

t.test('what is reserved covers every tier of service that may answer', async (t) => {
  const price: Price = {
    ...{ per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 10 },
    by_service_tier: {
      flex: { per_1m_input_tokens_usd: 0.5, per_1m_output_tokens_usd: 5 },
      priority: {
        per_1m_input_tokens_usd: 2,
        per_1m_output_tokens_usd: 20,
        tiers: [{ over_input_tokens: 3000, per_1m_output_tokens_usd: 40 }],
      },
    },
  }
  const reserved = (service_tier: unknown, text = 'a'.repeat(400)) => {
    const extras =
      service_tier === null ? [] : [{ name: 'service_tier', value: service_tier, required: false } as const]
    const messages = [{ role: 'user', parts: [{ type: 'text', text }] }] as const
    const call = callOf('chat', chatCall({ messages, max_tokens: 1000, extras }))
    return highestCost(entry({ facts: facts({ price }) }), call)
  }
  t.equal(reserved('default'), 0.0101)
  t.equal(reserved('flex'), 0.0101, 'the default tier may answer')
  t.equal(reserved('priority'), 0.0202)
  for (const tier of [null, 'auto', 7]) t.equal(reserved(tier), 0.0202, `${tier}: that of the account`)
  t.equal(reserved('priority', 'a'.repeat(4000)), 0.042, 'and its own prices of size hold')
})

t.test('a cost is never nothing, however small, and small ones compare', async (t) => {
  const embed = (usd: number, count: number) =>
    meter(callOf('embeddings', { input: ['a'], dimensions: null }), tokens(count, null), {
      per_1m_input_tokens_usd: usd,
    }).costUsd
  t.equal(embed(0.02, 1), 0.000001)
  t.equal(embed(0.02, 0), 0)
  t.equal(embed(0, 5), 0)
  const of = (usd: number) =>
    expectedCost(
      entry({ facts: facts({ price: { per_1m_input_tokens_usd: usd } }) }),
      callOf('embeddings', { input: ['four'], dimensions: null }),
    )
  t.ok(of(0.02) < of(0.13), 'though both come to one micro-USD')
  t.equal(
    expectedCost(entry({ facts: facts({ price: null }) }), callOf('chat', chatCall())),
    Number.POSITIVE_INFINITY,
  )
})

t.test('tokens', async (t) => {
  const price = { per_1m_input_tokens_usd: 2.5, per_1m_output_tokens_usd: 10 }
  const rows = [
    [tokens(1000, 100), price, 1100, 0.0035, 0],
    [tokens(1, 0), price, 1, 0.000003, 0],
    [tokens(null, 100), price, null, null, 2],
    [NOTHING_REPORTED, price, null, null, 2],
    [NOTHING_REPORTED, { per_1m_input_tokens_usd: 0, per_1m_output_tokens_usd: 0 }, null, 0, 1],
    [tokens(1000, 100), { per_1m_output_tokens_usd: 10 }, 1100, 0.001, 0],
    [tokens(1000, 100), null, 1100, null, 1],
  ] as const
  for (const [told, given, total, usd, warnings] of rows) {
    for (const operation of ['chat', 'vision'] as const) {
      const metered = meter(callOf(operation, chatCall()), told, given)
      const { input_tokens = null, output_tokens = null } = told.usage ?? {}
      t.same(metered.usage, { input_tokens, output_tokens, total_tokens: total })
      t.equal(metered.costUsd, usd)
      t.equal(metered.warnings.length, warnings)
    }
  }
  const embedded = meter(callOf('embeddings', { input: ['a'], dimensions: null }), tokens(500, null), {
    per_1m_input_tokens_usd: 0.02,
  })
  t.same(embedded, { usage: { input_tokens: 500, total_tokens: 500 }, costUsd: 0.00001, warnings: [] })
})

t.test('pictures and videos', async (t) => {
  const image = { prompt: 'a', n: 2, size: null, quality: null, output_format: null, seed: null }
  const pictures = (told: Partial<ReportedUsage>, price: Price | null) =>
    meter(callOf('image', image), { ...NOTHING_REPORTED, images: 2, ...told }, price)
  t.same(pictures({}, { per_image_usd: 0.067 }), {
    usage: { images: 2, total_tokens: 0 },
    costUsd: 0.134,
    warnings: [],
  })
  const { usage } = tokens(50, 4000)
  t.same(pictures({ usage }, { per_1m_output_tokens_usd: 30 }), {
    usage: { images: 2, input_tokens: 50, output_tokens: 4000, total_tokens: 4050 },
    costUsd: 0.12,
    warnings: [],
  })
  t.match(pictures({}, { per_1m_output_tokens_usd: 30 }), {
    costUsd: null,
    warnings: [/^cost_usd: the quantity/],
  })
  t.match(pictures({}, null), { costUsd: null, warnings: [/^cost_usd: the price/] })

  const video = { prompt: 'a', duration_seconds: 8, size: null, seed: null }
  const film = (told: Partial<ReportedUsage>, price: Price | null) =>
    meter(callOf('video', video), { ...NOTHING_REPORTED, ...told }, price)
  t.same(film({ seconds: 8 }, { per_video_second_usd: 0.1 }), {
    usage: { video_seconds: 8, total_tokens: 0 },
    costUsd: 0.8,
    warnings: [],
  })
  t.match(film({ seconds: null, credits: 25 }, { per_credit_usd: 0.01 }), {
    usage: { video_seconds: null, credits: 25 },
    costUsd: 0.25,
    warnings: [/^usage.video_seconds/],
  })
  const both = { per_video_second_usd: 0.1, per_credit_usd: 0.01 }
  t.equal(film({ seconds: 8, credits: 25 }, both).costUsd, 0.25, 'what the provider says that it charged')
  t.equal(film({ seconds: 8 }, both).costUsd, 0.8)
  t.equal(film({ seconds: 8 }, { per_credit_usd: 0.01 }).costUsd, null)
  t.equal(film({}, { per_video_second_usd: 0.1 }).costUsd, null)
})

t.test('what a provider tells, as far as it can be so', async (t) => {
  const transcript = {
    text: '',
    language: null,
    languageConfidence: null,
    segments: [],
    words: [],
    warnings: [],
  }
  const chat = { content: '', tool_calls: [], finish_reason: null, audio: null, warnings: [] }
  const usage = { input_tokens: -1, output_tokens: Number.POSITIVE_INFINITY }
  const rows: [Results['transcription' | 'chat' | 'video' | 'speech' | 'image'], Partial<ReportedUsage>][] = [
    [{ ...transcript, durationSeconds: 3 }, { seconds: 3 }],
    [{ ...transcript, durationSeconds: -3 }, {}],
    [{ ...transcript, durationSeconds: Number.NaN }, {}],
    [{ ...transcript, durationSeconds: 1e9 }, { seconds: 1e9 }],
    [{ ...transcript, durationSeconds: 1e10 }, {}],
    [{ ...chat, usage }, { usage: { input_tokens: null, output_tokens: null } }],
    [
      { ...chat, usage: { input_tokens: Number.MAX_SAFE_INTEGER, output_tokens: 7 } },
      { usage: { input_tokens: null, output_tokens: 7 } },
    ],
    [{ ...chat, usage: null }, {}],
    [{ videos: [], seconds: 4, credits: Number.POSITIVE_INFINITY, warnings: [] }, { seconds: 4 }],
    [{ images: [], usage: null, warnings: [] }, { images: 0 }],
    [{ audio: [], mediaType: 'audio/wav' }, {}],
  ]
  for (const [result, told] of rows) t.same(reportedBy(result), { ...NOTHING_REPORTED, ...told })
})

t.test('estimates for the cheapest entry', async (t) => {
  const at = (price: Price | null) => entry({ facts: facts({ price }) })
  const perToken = at({ per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 10 })
  const message = { role: 'user', parts: [{ type: 'text', text: 'a'.repeat(4000) }] } as const
  t.equal(
    estimateOf(perToken, callOf('chat', chatCall({ messages: [message], max_tokens: 200 }))).costUsd,
    0.003,
  )
  t.equal(estimateOf(perToken, callOf('chat', chatCall({ messages: [message] }))).costUsd, 0.011)
  t.equal(
    estimateOf(perToken, callOf('embeddings', { input: ['a'.repeat(4000)], dimensions: null })).costUsd,
    0.001,
  )
  const prompt = { ...chatCall(), prompt: 'a'.repeat(400), max_tokens: 10 }
  t.equal(estimateOf(perToken, callOf('complete', prompt)).costUsd, 0.0002)

  const spoken = speechCall({ input: 'a'.repeat(500) }).payload
  t.equal(estimateOf(at({ per_1k_characters_usd: 0.05 }), callOf('speech', spoken)).costUsd, 0.025)
  const unknownLength = transcriptionCall({ audio: { durationSeconds: null } }).payload
  t.equal(estimateOf(at({ per_hour_usd: 0.36 }), callOf('transcription', unknownLength)).costUsd, 0.006)
  const unknownChannels = transcriptionCall({
    audio: { channels: null },
    options: { multichannel: true },
  }).payload
  t.equal(
    estimateOf(at({ per_hour_usd: 36, per_channel: true }), callOf('transcription', unknownChannels)).costUsd,
    0.2,
  )
  const image = { prompt: 'a', n: 3, size: null, quality: null, output_format: null, seed: null }
  t.equal(estimateOf(at({ per_image_usd: 0.04 }), callOf('image', image)).costUsd, 0.12)
  const video = { prompt: 'a', duration_seconds: 4, size: null, seed: null }
  t.equal(estimateOf(at({ per_video_second_usd: 0.1 }), callOf('video', video)).costUsd, 0.4)

  for (const price of [null, {}]) {
    t.equal(estimateOf(at(price), callOf('chat', chatCall())).costUsd, null)
  }
  t.equal(estimateOf(at({ per_credit_usd: 0.01 }), callOf('video', video)).costUsd, null)
  t.equal(estimateOf(at({ per_1m_output_tokens_usd: 30 }), callOf('image', image)).costUsd, null)
  t.equal(estimateOf(at({ per_hour_usd: 0 }), callOf('transcription', unknownLength)).costUsd, 0)
})
