import t from 'tap'
import {
  choicesOf,
  dollars,
  factsOfEntry,
  matching,
  priceInWords,
  surchargesInWords,
} from '../../../src/console/page/views/routes/words.ts'

import type { ModelAnswer, ModelsAnswer } from '../../../src/console/server/answers/providers.ts'

const model = (name: string, more: Partial<ModelAnswer>): ModelAnswer => ({
  model: name,
  capabilities: [],
  features: [],
  hints: [],
  price: null,
  translates: false,
  ...more,
})

const MODELS: ModelsAnswer = {
  providers: [
    {
      name: 'openai',
      kind: 'openai',
      access: 'platform',
      open: true,
      models: [
        model('whisper-1', {
          capabilities: ['audio_input'],
          translates: true,
          price: { per_hour_usd: 0.36 },
        }),
        model('tts-1', { capabilities: ['audio_output'] }),
      ],
    },
    {
      name: 'acme.dg',
      kind: 'deepgram',
      access: 'byok',
      open: true,
      models: [model('nova-3', { capabilities: ['audio_input'] })],
    },
  ],
}

t.test('models are found by words of their names, and by what they can do', async (t) => {
  const all = choicesOf(MODELS)
  const found = (...args: [text: string, capability: Parameters<typeof matching>[2]]) =>
    matching(all, ...args).map(({ id }) => id)
  t.same(found('', ''), ['openai/whisper-1', 'openai/tts-1', 'acme.dg/nova-3'])
  t.same(found('OPENAI 1', ''), ['openai/whisper-1', 'openai/tts-1'])
  t.same(found('deepgram', ''), ['acme.dg/nova-3'], 'the kind counts as a name')
  t.same(found('', 'audio_input'), ['openai/whisper-1', 'acme.dg/nova-3'])
  t.same(found('whisper', 'audio_output'), [])
})

t.test('what an entry declares wins over what is known of its model', async (t) => {
  const entry = { provider: 'openai', model: 'whisper-1' }
  t.match(factsOfEntry(MODELS, entry), { isListed: true, translates: true, price: { per_hour_usd: 0.36 } })
  const declared = factsOfEntry(MODELS, { ...entry, price: { per_hour_usd: 1 }, translates: false })
  t.match(declared, { price: { per_hour_usd: 1 }, translates: false, capabilities: ['audio_input'] })
  t.match(factsOfEntry(MODELS, { provider: 'gone', model: 'x' }), {
    provider: null,
    isListed: false,
    capabilities: [],
  })
})

t.test('prices are said in short', async (t) => {
  t.equal(priceInWords(null), 'price not known')
  t.equal(priceInWords({}), 'free')
  t.equal(priceInWords({ per_hour_usd: 0, per_image_usd: 0.04 }), '$0.04 per image')
  t.equal(
    priceInWords({ per_1m_input_tokens_usd: 0.15, per_1m_output_tokens_usd: 0.6 }),
    '$0.15 per 1M tokens in · $0.60 per 1M tokens out',
  )
  t.same([0.36, 0.0043, 12, 1234.5].map(dollars), ['$0.36', '$0.0043', '$12.00', '$1,234.50'])
  t.equal(
    surchargesInWords({ surcharges: { diarization: 0.2 }, per_channel: true, minimum_seconds: 10 }),
    'diarization +20 %, each channel charged, at least 10 s',
  )
  t.equal(
    surchargesInWords({
      add_ons_per_hour_usd: { diarization: 0.12 },
      tiers: [{ over_input_tokens: 272_000, per_1m_input_tokens_usd: 4 }],
    }),
    'diarization +$0.12 per hour, another price over 272,000 tokens in',
  )
  t.equal(surchargesInWords(null), '')
})
