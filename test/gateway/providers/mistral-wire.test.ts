import { createHash } from 'node:crypto'
import t from 'tap'
import type { TranscriptionOptions } from '../../../src/contracts/calls.ts'
import { hashKey, makeKey } from '../../../src/gateway/catalog/key.ts'
import { mistral } from '../../../src/gateway/providers/mistral.ts'
import { audio, options, speechCall } from '../../support/call.ts'
import { startGateway } from '../../support/gateway.ts'
import { memoryAudio, STANDINGS } from '../../support/memory-audio.ts'
import { secret } from '../../support/route-gateway.ts'
import { MISTRAL_KEY, mistralDialect } from '../../support/upstream/mistral.ts'
import { startUpstream } from '../../support/upstream/upstream.ts'
import { filledWav } from '../../support/wav.ts'
import { operationRunner } from './run-operation.ts'

// Over real sockets, against a server that refuses what Mistral refuses.

const BYTES = Buffer.alloc(700_001, 'some audio ')
const DIGEST = createHash('sha256').update(BYTES).digest('hex')
const HEARS = 'voxtral-mini-transcribe-3-0'
const SPEAKS = 'voxtral-mini-tts-3-0'

const { transcription, speech, embeddings, models } = mistral as Required<typeof mistral>
const identity = memoryAudio(BYTES, 'identity')
const runner = operationRunner(t, identity.reader)
const baseUrl = (await startUpstream(t, { dialect: mistralDialect() })).url

const target = (model: string, credential = MISTRAL_KEY) => ({ model, baseUrl, credential, options: {} })

t.test('audio is transcribed, whatever its body looks like', async (t) => {
  for (const standing of STANDINGS.filter((name) => name !== 'base64')) {
    const held = memoryAudio(BYTES, standing)
    const call = { audio: audio(held.audio), options: options({ language: 'en' }) }
    const result = await operationRunner(t, held.reader).run(transcription, call, target(HEARS))
    t.match(result, { text: `Heard ${DIGEST}.`, language: 'en', durationSeconds: 3 }, standing)
  }
})

t.test('every combination that is sent is one that the provider takes', async (t) => {
  const given: Partial<TranscriptionOptions>[] = [
    { language: 'de', keyterms: ['Larkway', 'Dr. Ünal, M. D.'], timestamps: 'segment' },
    { diarization: true, speaker_count_hint: 32, language: 'haw' },
    { language: 'fr', diarization: true, timestamps: 'segment' },
    { detect_language: true, language: 'en', response_format: 'srt' },
    { diarization: true, response_format: 'diarized_json', detect_language: true, keyterms: ['a', 'b'] },
    { smart_formatting: true, profanity_filter: true, prompt: 'A call.', seed: 3 },
  ]
  for (const overrides of given) {
    const call = { audio: audio(identity.audio), options: options(overrides) }
    const what = JSON.stringify(overrides)
    t.match(await runner.run(transcription, call, target(HEARS)), { text: /^Heard/ }, what)
    if (transcription.streamed?.applies?.(call, target(HEARS)) === false) continue
    const streamed = await runner.stream(transcription, call, target(HEARS))
    t.match(streamed, { deltas: [' Heard', ` ${DIGEST}.`], result: { text: `Heard ${DIGEST}.` } }, what)
  }
})

t.test('speech comes whole, or as it is made', async (t) => {
  const call = speechCall({ input: 'Hello ✓', response_format: 'opus' }).payload
  const whole = await runner.run(speech, call, target(SPEAKS))
  t.match(whole, { mediaType: 'audio/ogg' })
  t.equal('audio' in whole && Buffer.concat(whole.audio).toString(), 'opus voice_478 Hello ✓')
  const streamed = await runner.stream(speech, { ...call, voice: 'voice_592' }, target(SPEAKS))
  const bytes = 'deltas' in streamed ? streamed.deltas.map((delta) => delta.bytes) : []
  t.equal(Buffer.concat(bytes).toString(), 'opus voice_592 Hello ✓')
})

t.test('embeddings, in the order of the texts', async (t) => {
  const result = await runner.run(
    embeddings,
    { input: ['a', 'bcd'], dimensions: null },
    target('mistral-embed'),
  )
  t.same(result, {
    embeddings: [
      [1, 0.5],
      [3, 0.5],
    ],
    usage: { input_tokens: 5, output_tokens: 0 },
  })
})

t.test('refusals', async (t) => {
  const call = speechCall().payload
  const rows: readonly (readonly [model: string, key: string, kind: string])[] = [
    ['voxtral-mini-9', MISTRAL_KEY, 'model'],
    ['busy', MISTRAL_KEY, 'rate'],
    [SPEAKS, 'wrong', 'credential'],
  ]
  for (const [model, key, kind] of rows) {
    t.match(await runner.run(speech, call, target(model, key)), { kind })
    t.match(await runner.stream(speech, call, target(model, key)), { kind })
  }
  t.same(await runner.run(models, null, target('')), ['mistral-embed'])
  t.match(await runner.run(models, null, target('', 'wrong')), { kind: 'credential', status: 401 })
})

t.test('behind a gateway: the busy model is passed over, and the other is metered', async (t) => {
  const key = makeKey()
  const entries = ['busy', HEARS, SPEAKS].map((model) => ({
    provider: 'mistral',
    model,
    ...(model === 'busy' ? { capabilities: ['audio_input'], features: ['segment_timestamps'] } : {}),
  }))
  const workspaces = {
    acme: { apps: { web: { route: 'voice' } }, keys: [{ id: 'key_web', app: 'web', sha256: hashKey(key) }] },
  }
  const { url } = await startGateway(t, {
    key,
    env: { MISTRAL_KEY },
    config: {
      providers: {
        mistral: {
          kind: 'mistral',
          access: 'byok',
          workspace: 'acme',
          base_url: baseUrl,
          api_key: secret('MISTRAL_KEY'),
        },
      },
      routes: { voice: { workspace: 'acme', entries } },
      workspaces,
    },
  })
  const headers = { authorization: `Bearer ${key}` }
  const recording = filledWav(10 * 32_000)
  const digest = createHash('sha256').update(recording).digest('hex')
  const form = new FormData()
  form.append('file', new Blob([recording]), 'call.wav')
  form.append('response_format', 'srt')
  const heard = await fetch(`${url}/v1/transcription`, { method: 'POST', headers, body: form })
  t.equal(
    await heard.text(),
    `1\n00:00:00,000 --> 00:00:00,500\nHeard\n\n2\n00:00:01,000 --> 00:00:01,500\n${digest}.\n`,
  )
  t.equal(heard.headers.get('x-lk-model'), HEARS)
  t.equal(heard.headers.get('x-lk-cost-usd'), '0.000583', 'ten seconds of 0.21 an hour')
  const spoken = await fetch(`${url}/v1/speech`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json', accept: 'audio/mpeg' },
    body: JSON.stringify({ input: 'Hello' }),
  })
  t.match(await spoken.text(), 'mp3 voice_478 Hello')
  t.equal(spoken.headers.get('content-type'), 'audio/mpeg')
})
