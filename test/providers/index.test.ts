import t from 'tap'
import { factsOf, PROVIDERS } from '../../src/providers/index.ts'
import models from '../../src/providers/models.json' with { type: 'json' }
import type { Provider } from '../../src/schema/provider.ts'
import { audio, options, speechCall } from '../support/call.ts'

t.test('each protocol is listed under its own kind', async (t) => {
  t.same([...PROVIDERS.keys()], ['openai', 'openai-compatible', 'sandbox'])
  for (const [kind, provider] of PROVIDERS) t.equal(provider.kind, kind)
})

t.test('facts are found by model, by dated snapshot, and nowhere else', async (t) => {
  t.match(factsOf('openai', 'whisper-1'), { capabilities: ['audio_input'], price: { per_hour_usd: 0.36 } })
  t.equal(factsOf('openai', 'gpt-4o-mini-tts-2025-12-15'), factsOf('openai', 'gpt-4o-mini-tts'))
  t.equal(factsOf('openai', 'whisper-1-turbo'), undefined)
  t.equal(factsOf('openai', 'constructor'), undefined)
  t.equal(factsOf('openai-compatible', 'whisper-1'), undefined, 'what another server does is not known')
  t.equal(factsOf('elsewhere', 'whisper-1'), undefined)
  t.notOk('as_of' in factsOf('openai', 'whisper-1')!, 'the provenance stays in the table')
})

t.test('the table promises nothing that the protocol cannot send', async (t) => {
  for (const [kind, byModel] of Object.entries<Record<string, unknown>>(models)) {
    const provider = PROVIDERS.get(kind) as Provider
    for (const model of Object.keys(byModel)) {
      const facts = factsOf(kind, model)!
      const target = { model, baseUrl: 'http://p/v1', credential: null, options: {} }
      const call = (feature: string) => ({
        audio: audio(),
        options: options({
          diarization: feature === 'diarization',
          timestamps:
            feature === 'word_timestamps' ? 'word' : feature === 'segment_timestamps' ? 'segment' : null,
          keyterms: feature === 'keyterms' ? ['Larkway'] : [],
        }),
      })
      if (facts.capabilities.includes('audio_input')) {
        for (const feature of ['none', ...facts.features]) {
          t.equal(
            provider.transcription!.start(call(feature), target).kind,
            'send',
            `${kind} ${model} ${feature}`,
          )
        }
      }
      if (facts.translates) {
        for (const feature of ['none', ...(facts.translation_features ?? facts.features)]) {
          t.equal(
            provider.translation!.start(call(feature), target).kind,
            'send',
            `${kind} ${model} ${feature}`,
          )
        }
      }
      for (const format of facts.limits.speech_formats ?? []) {
        const speech = speechCall({ response_format: format }).payload
        t.equal(provider.speech!.start(speech, target).kind, 'send', `${kind} ${model} ${format}`)
      }
      const priced = facts.capabilities.includes('audio_input') ? 'per_hour_usd' : 'per_1k_characters_usd'
      if (facts.price !== null)
        t.type(facts.price[priced], 'number', `${kind} ${model} is priced for what it does`)
    }
  }
})
