import { createHash } from 'node:crypto'
import t from 'tap'
import type { TranscriptionOptions } from '../../../src/contracts/calls.ts'
import { elevenlabs } from '../../../src/gateway/providers/elevenlabs/provider.ts'
import { audio, options, speechCall } from '../../support/call.ts'
import { requestOf } from '../../support/form-of.ts'
import { memoryAudio, STANDINGS } from '../../support/memory-audio.ts'
import { fixture, reply } from '../../support/replies.ts'
import { ELEVENLABS_KEY, elevenlabsDialect } from '../../support/upstream/elevenlabs.ts'
import { startUpstream } from '../../support/upstream/upstream.ts'
import { operationRunner } from './run-operation.ts'

const BYTES = Buffer.alloc(700_001, 'some audio ')
const DIGEST = createHash('sha256').update(BYTES).digest('hex')

const { transcription, speech, models } = elevenlabs as Required<typeof elevenlabs>
const identity = memoryAudio(BYTES, 'identity')
const runner = operationRunner(t, identity.reader)
const origin = (await startUpstream(t, { dialect: elevenlabsDialect() })).url

const target = (model: string, credential = ELEVENLABS_KEY) => ({
  model,
  baseUrl: origin,
  credential,
  options: {},
})

t.test('audio is transcribed, whatever its body looks like', async (t) => {
  for (const standing of STANDINGS.filter((name) => name !== 'base64')) {
    const held = memoryAudio(BYTES, standing)
    const call = { audio: audio(held.audio), options: options({ timestamps: 'both', seed: 3 }) }
    const result = await operationRunner(t, held.reader).run(transcription, call, target('scribe_v2'))
    t.match(result, { text: `heard ${DIGEST}.`, language: 'en', durationSeconds: 2.5 }, standing)
    t.match(result, { words: [{ word: 'heard' }, { word: `${DIGEST}.` }], segments: [{ id: 0 }] })
  }
})

t.test('every combination that is sent is one that the provider takes', async (t) => {
  const given: Partial<TranscriptionOptions>[] = [
    { language: 'de', keyterms: ['Larkway', 'Dr. Ünal'] },
    { diarization: true, speaker_count_hint: 32 },
    { redaction: ['pii', 'phi', 'pci'], response_format: 'srt' },
    { multichannel: true, diarization: true, speaker_count_hint: 2, redaction: ['pci'] },
  ]
  for (const overrides of given) {
    const call = { audio: audio({ ...identity.audio, channels: 2 }), options: options(overrides) }
    t.match(
      await runner.run(transcription, call, target('scribe_v2')),
      { text: /^heard/ },
      JSON.stringify(overrides),
    )
  }
  const tooMany = { audio: audio(identity.audio), options: options({ keyterms: ['a<b'] }) }
  t.match(await runner.run(transcription, tooMany, target('scribe_v2')), { kind: 'caller', status: 422 })
})

t.test('speech comes whole, or as it is made', async (t) => {
  const call = speechCall({ input: 'Hello ✓', response_format: 'mp3_22050_32', speed: 1.1, seed: 1 }).payload
  const whole = await runner.run(speech, call, target('eleven_flash_v2_5'))
  t.match(whole, { mediaType: 'audio/mpeg' })
  t.equal('audio' in whole && Buffer.concat(whole.audio).toString(), 'whole JBFqnCBsd6RMkjVDRZzb Hello ✓')
  const streamed = await runner.stream(
    speech,
    { ...call, voice: '21m00Tcm4TlvDq8ikWAM' },
    target('eleven_flash_v2_5'),
  )
  const bytes = 'deltas' in streamed ? streamed.deltas.map((delta) => delta.bytes) : []
  t.equal(Buffer.concat(bytes).toString(), 'streamed 21m00Tcm4TlvDq8ikWAM Hello ✓')
})

t.test('refusals', async (t) => {
  const call = speechCall({ voice: 'nobody' }).payload
  const rows: [string, string, string | null, string][] = [
    ['eleven_flash_v2_5', ELEVENLABS_KEY, 'nobody', 'caller'],
    ['eleven_v9', ELEVENLABS_KEY, null, 'model'],
    ['eleven_flash_v2_5', 'wrong', null, 'credential'],
  ]
  for (const [model, key, voice, kind] of rows) {
    t.match(await runner.run(speech, { ...call, voice }, target(model, key)), { kind })
    t.match(await runner.stream(speech, { ...call, voice }, target(model, key)), { kind })
  }
})

t.test('the models that the key sees', async (t) => {
  t.same(await runner.run(models, null, target('')), ['eleven_flash_v2_5', 'scribe_v2'])
  t.match(await runner.run(models, null, target('', 'wrong')), { kind: 'credential', status: 401 })
  t.equal(requestOf(models.start(null, target(''))).method, 'GET')
  const list = await fixture('elevenlabs/models.json')
  t.match(models.next(null, reply(list), null, target('')), {
    kind: 'done',
    result: ['eleven_multilingual_v2', 'eleven_flash_v2_5'],
  })
  for (const body of [{ models: [] }, '<html>', 'null']) {
    t.match(models.next(null, reply(body), null, target('')), { kind: 'failed', failure: { kind: 'server' } })
  }
})
