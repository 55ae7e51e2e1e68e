import t from 'tap'
import type { SpeechCall } from '../../../src/contracts/calls.ts'
import { elevenlabs } from '../../../src/providers/elevenlabs/provider.ts'
import { factsOf } from '../../../src/providers/facts.ts'
import { speechCall } from '../../support/call.ts'
import { bytesOf, requestOf } from '../../support/form-of.ts'
import { reply } from '../../support/replies.ts'

type Given = Partial<SpeechCall>

const operation = elevenlabs.speech!
const streamed = operation.streamed!
const TARGET = {
  model: 'eleven_flash_v2_5',
  baseUrl: 'https://api.elevenlabs.io',
  credential: 'xi-secret',
  options: {},
}
const FACTS = factsOf('elevenlabs', 'eleven_flash_v2_5')!

const call = (given: Given) => speechCall(given).payload
const start = (given: Given) => operation.start(call(given), TARGET)
const json = (given: Given) => JSON.parse(bytesOf(requestOf(start(given))).toString())

t.test('the request', async (t) => {
  const request = requestOf(start({}))
  t.match(request, {
    method: 'POST',
    url: 'https://api.elevenlabs.io/v1/text-to-speech/JBFqnCBsd6RMkjVDRZzb?output_format=mp3_44100_128',
    headers: { 'xi-api-key': 'xi-secret', 'content-type': 'application/json' },
  })
  t.same(json({}), { text: 'hello', model_id: 'eleven_flash_v2_5' })
  t.same(json({ input: '"\r\né', speed: 0.7, seed: 4_294_967_295 }), {
    text: '"\r\né',
    model_id: 'eleven_flash_v2_5',
    voice_settings: { speed: 0.7 },
    seed: 4_294_967_295,
  })
  t.ok(operation.takesSeed)
  const voiced = requestOf(start({ voice: '21m00Tcm4TlvDq8ikWAM' })).url
  t.match(voiced, '/v1/text-to-speech/21m00Tcm4TlvDq8ikWAM?')
})

t.test('formats: two short names, the native tokens, and nothing else', async (t) => {
  const rows: [string | null, string, string][] = [
    [null, 'mp3_44100_128', 'audio/mpeg'],
    ['mp3', 'mp3_44100_128', 'audio/mpeg'],
    ['pcm', 'pcm_24000', 'audio/pcm;rate=24000'],
    ['mp3_22050_32', 'mp3_22050_32', 'audio/mpeg'],
    ['mp3_44100_192', 'mp3_44100_192', 'audio/mpeg'],
    ['opus_48000_64', 'opus_48000_64', 'audio/ogg'],
    ['pcm_8000', 'pcm_8000', 'audio/pcm;rate=8000'],
    ['pcm_48000', 'pcm_48000', 'audio/pcm;rate=48000'],
    ['wav_22050', 'wav_22050', 'audio/wav'],
    ['ulaw_8000', 'ulaw_8000', 'audio/basic'],
    ['alaw_8000', 'alaw_8000', 'audio/PCMA'],
  ]
  for (const [asked, token, mediaType] of rows) {
    const given = { response_format: asked }
    t.equal(new URL(requestOf(start(given)).url).searchParams.get('output_format'), token, String(asked))
    const answer = operation.next(
      null,
      reply('bytes', 200, { 'content-type': 'audio/x' }),
      call(given),
      TARGET,
    )
    t.match(answer, { kind: 'done', result: { mediaType } }, String(asked))
  }
  for (const asked of [
    'wav',
    'opus',
    'flac',
    'aac',
    'MP3',
    'mp3_44100',
    'mp3_44100_256',
    'pcm_11025',
    '',
    'mp3&x=1',
  ]) {
    const refusal = { kind: 'failed', failure: { kind: 'model', status: null, reason: /^response_format/ } }
    t.match(start({ response_format: asked }), refusal, JSON.stringify(asked))
  }
})

t.test('the table lists what is sent, and all of it', async (t) => {
  const formats = FACTS.limits.speech_formats ?? []
  t.equal(formats.length, 30)
  t.equal(new Set(formats).size, 30)
  for (const format of formats) t.equal(start({ response_format: format }).kind, 'send', format)
  t.same(FACTS.limits.speed, { min: 0.7, max: 1.2 })
  const pattern = new RegExp(FACTS.limits.voice_pattern ?? '')
  t.ok(pattern.test('JBFqnCBsd6RMkjVDRZzb'))
  for (const voice of ['alloy', 'thalia-en', 'Kore', '../voices']) t.notOk(pattern.test(voice), voice)
  const rows: [string, number, number | undefined][] = [
    ['eleven_flash_v2_5', 40_000, 0.05],
    ['eleven_turbo_v2_5', 40_000, 0.05],
    ['eleven_flash_v2', 30_000, 0.05],
    ['eleven_turbo_v2', 30_000, 0.05],
    ['eleven_multilingual_v2', 10_000, 0.1],
    ['eleven_v3', 3000, 0.1],
    ['eleven_v4', 10_000, undefined],
    ['eleven_v4_turbo', 10_000, undefined],
  ]
  for (const [model, characters, price] of rows) {
    const facts = factsOf('elevenlabs', model)
    t.equal(facts?.limits.max_input_characters, characters, model)
    t.equal(facts?.price?.per_1k_characters_usd, price, model)
  }
})

t.test('what the provider does not take is refused, never replaced', async (t) => {
  const rows: [Given, RegExp][] = [
    [{ voice: '../models' }, /^voice/],
    [{ voice: 'a/b' }, /^voice/],
    [{ voice: 'a?b' }, /^voice/],
    [{ voice: '' }, /^voice/],
    [{ voice: 'é' }, /^voice/],
    [{ voice: 'x'.repeat(65) }, /^voice/],
    [{ speed: 0.69 }, /^speed/],
    [{ speed: 1.21 }, /^speed/],
    [{ speed: Number.NaN }, /^speed/],
    [{ seed: -1 }, /^seed/],
    [{ seed: 4_294_967_296 }, /^seed/],
  ]
  for (const [given, reason] of rows) {
    const refusal = { kind: 'failed', failure: { kind: 'model', status: null, reason } }
    t.match(start(given), refusal, JSON.stringify(given))
    t.match(streamed.start(call(given), TARGET), refusal)
  }
  for (const speed of [0.7, 1, 1.2]) t.equal(start({ speed }).kind, 'send')
})

t.test('the answer is the audio, or a failure', async (t) => {
  const next = (body: string, contentType: string) =>
    operation.next(null, reply(body, 200, { 'content-type': contentType }), call({}), TARGET)
  const good = next('ID3 bytes', 'audio/mpeg')
  t.equal(good.kind === 'done' ? Buffer.concat(good.result.audio).toString() : '', 'ID3 bytes')
  for (const [body, contentType] of [
    ['', 'audio/mpeg'],
    ['{"detail":"x"}', 'application/json'],
    ['<html>', 'text/html; charset=utf-8'],
  ] as const) {
    t.match(
      next(body, contentType),
      { kind: 'failed', failure: { kind: 'server', status: 200 } },
      contentType,
    )
  }
  const missing = { detail: { status: 'missing_permissions', message: 'text_to_speech' } }
  const refusal = operation.next(null, reply(missing, 401), call({}), TARGET)
  t.match(refusal, { kind: 'failed', failure: { kind: 'credential' } })
})

t.test('the audio as it is made', async (t) => {
  const ordered = streamed.start(call({ response_format: 'pcm' }), TARGET)
  t.equal(
    requestOf(ordered).url,
    'https://api.elevenlabs.io/v1/text-to-speech/JBFqnCBsd6RMkjVDRZzb/stream?output_format=pcm_24000',
  )
  const head = { status: 200, headers: { 'content-type': 'audio/pcm' } }
  const reader = streamed.read(head, call({ response_format: 'pcm' }), TARGET)
  const mediaType = 'audio/pcm;rate=24000'
  t.same(reader.push(Buffer.from('ab')), [{ bytes: Buffer.from('ab'), mediaType }])
  t.same(reader.push(Buffer.alloc(0)), [])
  t.same(reader.push(Buffer.from('c')), [{ bytes: Buffer.from('c'), mediaType }])
  t.same(reader.end(), { result: { audio: [], mediaType } })

  t.match(streamed.read(head, call({}), TARGET).end(), { kind: 'server' }, 'no audio at all')
  const page = streamed.read({ status: 200, headers: { 'content-type': 'text/html' } }, call({}), TARGET)
  t.match(page.push(Buffer.from('<html>')), { kind: 'server', status: 200 })
  t.match(page.end(), { kind: 'server' })
  t.match(streamed.refused(reply({ detail: { status: 'system_busy' } }, 429)), { kind: 'rate' })
})
