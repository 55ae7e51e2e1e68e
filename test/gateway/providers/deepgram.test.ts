import { createHash } from 'node:crypto'
import t from 'tap'
import { AUDIO_FORMATS } from '../../../src/contracts/audio.ts'
import type { TranscriptionOptions } from '../../../src/contracts/calls.ts'
import { deepgram } from '../../../src/gateway/providers/deepgram/provider.ts'
import { audio, options, speechCall } from '../../support/call.ts'
import { memoryAudio } from '../../support/memory-audio.ts'
import { fixture, reply } from '../../support/replies.ts'
import { DEEPGRAM_KEY, deepgramDialect } from '../../support/upstream/deepgram.ts'
import { startUpstream } from '../../support/upstream/upstream.ts'
import { operationRunner } from './run-operation.ts'

const BYTES = Buffer.alloc(700_001, 'some audio ')
const DIGEST = createHash('sha256').update(BYTES).digest('hex')

const { transcription, speech, models } = deepgram as Required<typeof deepgram>
const identity = memoryAudio(BYTES, 'identity')
const runner = operationRunner(t, identity.reader)
const origin = (await startUpstream(t, { dialect: deepgramDialect() })).url

const target = (model: string, credential = DEEPGRAM_KEY) => ({
  model,
  baseUrl: origin,
  credential,
  options: {},
})

t.test('audio is transcribed, with its own type, whatever its body looks like', async (t) => {
  const held = memoryAudio(BYTES, 'loose base64')
  const loose = { audio: audio(held.audio), options: options({ timestamps: 'both' }) }
  t.match(await operationRunner(t, held.reader).run(transcription, loose, target('nova-3')), {
    text: `Heard ${DIGEST} as audio/wav.`,
    language: 'en',
    languageConfidence: 0.99,
    durationSeconds: 2.5,
    words: [{ word: 'Heard' }, { word: DIGEST }, { word: 'as' }, { word: 'audio/wav.' }],
    segments: [{ id: 0, text: `Heard ${DIGEST} as audio/wav.` }],
  })
  // Its pages name no program streams, and it is sent none.
  for (const format of AUDIO_FORMATS.filter((one) => one !== 'mpeg')) {
    const call = { audio: audio({ ...identity.audio, format }), options: options({ language: 'en' }) }
    t.match(await runner.run(transcription, call, target('nova-2')), {
      text: new RegExp(`^Heard ${DIGEST} as audio/`),
    })
  }
})

t.test('every combination that is sent is one that the provider takes', async (t) => {
  const given: Partial<TranscriptionOptions>[] = [
    { language: 'pt-BR', profanity_filter: true, smart_formatting: true },
    { keyterms: ['Larkway', 'Dr. Ünal & Co'], diarization: true },
    { redaction: ['pii', 'phi', 'pci', 'numbers'], response_format: 'srt' },
    { multichannel: true, diarization: true, timestamps: 'both' },
  ]
  for (const overrides of given) {
    for (const model of ['nova-3', 'nova-2']) {
      const call = { audio: audio(identity.audio), options: options(overrides) }
      t.match(
        await runner.run(transcription, call, target(model)),
        { text: /^Heard/ },
        JSON.stringify(overrides),
      )
    }
  }
})

t.test('speech comes whole, or as it is made, in every format', async (t) => {
  for (const format of [null, 'mp3', 'wav', 'opus', 'flac', 'aac', 'pcm']) {
    const call = speechCall({
      input: 'Hello ✓',
      voice: 'orion-en',
      response_format: format,
      speed: 0.7,
    }).payload
    const whole = await runner.run(speech, call, target('aura-2'))
    t.equal(
      'audio' in whole && Buffer.concat(whole.audio).toString(),
      'spoken aura-2-orion-en Hello ✓',
      String(format),
    )
    const streamed = await runner.stream(speech, call, target('aura-2'))
    const bytes = 'deltas' in streamed ? streamed.deltas.map((delta) => delta.bytes) : []
    t.equal(Buffer.concat(bytes).toString(), 'spoken aura-2-orion-en Hello ✓', String(format))
  }
})

t.test('refusals', async (t) => {
  const call = speechCall().payload
  const rows: [string, string, string, string][] = [
    ['aura-2', DEEPGRAM_KEY, 'x'.repeat(2001), 'limit'],
    ['aura-2-nobody-en', DEEPGRAM_KEY, 'x', 'caller'],
    ['aura-2', 'wrong', 'x', 'credential'],
  ]
  for (const [model, key, input, kind] of rows) {
    t.match(await runner.run(speech, { ...call, input }, target(model, key)), { kind })
    t.match(await runner.stream(speech, { ...call, input }, target(model, key)), { kind })
  }
  const elsewhere = { ...target('nova-3'), baseUrl: `${origin}/elsewhere` }
  const listening = { audio: audio(identity.audio), options: options() }
  t.match(await runner.run(transcription, listening, elsewhere), { kind: 'model', status: 404 })
})

t.test('the models that the key sees', async (t) => {
  t.same(await runner.run(models, null, target('')), ['nova-3-general', 'aura-2-thalia-en'])
  t.match(await runner.run(models, null, target('', 'wrong')), { kind: 'credential', status: 401 })
  const list = await fixture('deepgram/models.json')
  t.match(models.next(null, reply(list), null, target('')), {
    kind: 'done',
    result: ['nova-3-general', 'aura-2-thalia-en'],
  })
  for (const body of [{ models: [] }, '<html>', '[]']) {
    t.match(models.next(null, reply(body), null, target('')), { kind: 'failed', failure: { kind: 'server' } })
  }
})
