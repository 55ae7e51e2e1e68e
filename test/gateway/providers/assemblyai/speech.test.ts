import t from 'tap'
import type { SpeechCall } from '../../../../src/contracts/calls.ts'
import { assemblyai } from '../../../../src/gateway/providers/assemblyai/provider.ts'
import { factsOf } from '../../../../src/gateway/providers/facts.ts'
import { speechCall } from '../../../support/call.ts'
import { bytesOf, requestOf } from '../../../support/form-of.ts'
import { reply } from '../../../support/replies.ts'

type Given = Partial<SpeechCall>

const operation = assemblyai.speech!
const streamed = operation.streamed!
const target = (baseUrl = 'https://api.assemblyai.com') => ({
  model: 'assemblyai-tts-1',
  baseUrl,
  credential: 'aai-secret',
  options: {},
})

const call = (given: Given) => speechCall({ voice: null, response_format: null, ...given }).payload
const start = (given: Given, baseUrl?: string) => operation.start(call(given), target(baseUrl))
const bodyOf = (given: Given) => JSON.parse(bytesOf(requestOf(start(given))).toString())

t.test('the request, whole and streamed', async (t) => {
  const request = requestOf(start({ input: '"\r\né' }))
  t.match(request, {
    method: 'POST',
    url: 'https://tts.us.assemblyai.com/v1/speech',
    headers: { authorization: 'aai-secret', 'content-type': 'application/json' },
  })
  const text = '"\r\né'
  t.same(bodyOf({ input: text }), { model_id: 'assemblyai-tts-1', text, encoding: 'mp3', stream: false })
  const live = requestOf(streamed.start(call({ input: text, voice: 'aai-jane' }), target()))
  t.same(JSON.parse(bytesOf(live).toString()), {
    ...{ model_id: 'assemblyai-tts-1', text, voice_id: 'aai-jane', encoding: 'mp3' },
  })
})

t.test('each zone has its own host, and another address is taken as it is', async (t) => {
  const url = (baseUrl: string) => requestOf(start({}, baseUrl)).url
  t.equal(url('https://api.eu.assemblyai.com'), 'https://tts.eu.assemblyai.com/v1/speech')
  t.equal(url('http://127.0.0.1:8080'), 'http://127.0.0.1:8080/v1/speech')
  t.equal(url('https://api.assemblyai.com.evil.test'), 'https://api.assemblyai.com.evil.test/v1/speech')
})

t.test('formats', async (t) => {
  const pcm = { encoding: 'pcm_s16le' }
  const rows: [string, object, string][] = [
    ['mp3', { encoding: 'mp3' }, 'audio/mpeg'],
    ['mp3_44100_128', { encoding: 'mp3', sample_rate: 44_100, bit_rate: 128_000 }, 'audio/mpeg'],
    ['pcm', { ...pcm, sample_rate: 24_000 }, 'audio/pcm;rate=24000'],
    ['pcm_8000', { ...pcm, sample_rate: 8000 }, 'audio/pcm;rate=8000'],
    ['wav', { ...pcm, container: 'wav', sample_rate: 24_000 }, 'audio/wav'],
    ['wav_48000', { ...pcm, container: 'wav', sample_rate: 48_000 }, 'audio/wav'],
    ['ulaw_8000', { encoding: 'pcm_mulaw', sample_rate: 8000 }, 'audio/basic'],
    ['alaw_8000', { encoding: 'pcm_alaw', sample_rate: 8000 }, 'audio/PCMA'],
  ]
  for (const [response_format, fields, mediaType] of rows) {
    const { model_id: _model, text: _text, stream: _stream, ...sent } = bodyOf({ response_format })
    t.same(sent, fields, response_format)
    const answer = operation.next(
      null,
      reply('x', 200, { 'content-type': mediaType }),
      call({ response_format }),
      target(),
    )
    t.match(answer, { kind: 'done', result: { mediaType } }, response_format)
  }
  const unmade = [
    ...['opus', 'flac', 'aac', 'pcm_32000', 'mp3_44100_192', 'mp3_8000_96', 'MP3', '', 'constructor'],
  ]
  for (const response_format of unmade) {
    const refusal = { kind: 'failed', failure: { kind: 'model', status: null, reason: /^response_format/ } }
    t.match(start({ response_format }), refusal, JSON.stringify(response_format))
  }
})

t.test('voices and speeds that it does not take are refused before anything is sent', async (t) => {
  for (const voice of ['', 'a b', '../x', 'ä', 'a'.repeat(65)])
    t.match(start({ voice }), { kind: 'failed', failure: { reason: /^voice/ } }, voice)
  t.match(start({ speed: 1.1 }), { kind: 'failed', failure: { reason: /^speed/ } })
  t.match(start({ speed: 1 }), { kind: 'send' })
  t.same(factsOf('assemblyai', 'assemblyai-tts-1')?.limits.speed, { min: 1, max: 1 })
})

t.test('what it refuses has its kind', async (t) => {
  const rows = [
    [400, 'invalid_parameter', 'caller'],
    [404, 'voice_not_found', 'caller'],
    [400, 'model_not_found', 'model'],
    [403, 'biometric_terms_not_accepted', 'credential'],
    [401, 'unauthorized', 'credential'],
    [429, 'rate_limited', 'rate'],
    [503, 'at_capacity', 'rate'],
    [503, 'auth_unavailable', 'rate'],
    [500, 'internal_error', 'server'],
  ] as const
  for (const [status, code, kind] of rows) {
    const body = { code, message: 'no', param: null, retryable: false }
    const answer = operation.next(null, reply(body, status, { 'retry-after': '7' }), call({}), target())
    t.match(answer, { kind: 'failed', failure: { kind, status } }, code)
  }
  for (const headers of [{ 'content-type': 'application/json' }, { 'content-type': 'text/html' }])
    t.match(operation.next(null, reply('{}', 200, headers), call({}), target()), { kind: 'failed' })
})
