import t from 'tap'
import type { SpeechCall } from '../../../../src/contracts/calls.ts'
import { deepgram } from '../../../../src/gateway/providers/deepgram/provider.ts'
import { factsOf } from '../../../../src/gateway/providers/facts.ts'
import { speechCall } from '../../../support/call.ts'
import { bytesOf, requestOf } from '../../../support/form-of.ts'
import { reply } from '../../../support/replies.ts'

type Given = Partial<SpeechCall>

const operation = deepgram.speech!
const streamed = operation.streamed!
const target = (model = 'aura-2') => ({
  model,
  baseUrl: 'https://api.deepgram.com',
  credential: 'dg-secret',
  options: {},
})
const FACTS = factsOf('deepgram', 'aura-2')!

const call = (given: Given) => speechCall(given).payload
const start = (given: Given, model?: string) => operation.start(call(given), target(model))
const queryOf = (given: Given, model?: string) =>
  Object.fromEntries(new URL(requestOf(start(given, model)).url).searchParams)

t.test('the request', async (t) => {
  const request = requestOf(start({ input: '"\r\né' }))
  t.match(request, {
    method: 'POST',
    url: 'https://api.deepgram.com/v1/speak?model=aura-2-thalia-en&encoding=mp3',
    headers: { authorization: 'Token dg-secret', 'content-type': 'application/json' },
  })
  t.same(JSON.parse(bytesOf(request).toString()), { text: '"\r\né' })
  t.same(requestOf(streamed.start(call({ input: '"\r\né' }), target())), request, 'streamed it is the same')
  t.notOk(operation.takesSeed)
})

t.test('formats', async (t) => {
  const linear = { encoding: 'linear16', sample_rate: '24000' }
  const rows: [string | null, Record<string, string>, string][] = [
    [null, { encoding: 'mp3' }, 'audio/mpeg'],
    ['mp3', { encoding: 'mp3' }, 'audio/mpeg'],
    ['wav', { ...linear, container: 'wav' }, 'audio/wav'],
    ['opus', { encoding: 'opus', container: 'ogg' }, 'audio/ogg'],
    ['flac', { encoding: 'flac' }, 'audio/flac'],
    ['aac', { encoding: 'aac' }, 'audio/aac'],
    ['pcm', { ...linear, container: 'none' }, 'audio/pcm;rate=24000'],
  ]
  for (const [format, query, mediaType] of rows) {
    const given = { response_format: format }
    t.same(queryOf(given), { model: 'aura-2-thalia-en', ...query }, String(format))
    const answer = operation.next(null, reply('x', 200, { 'content-type': 'audio/x' }), call(given), target())
    t.match(answer, { kind: 'done', result: { mediaType } }, String(format))
  }
  for (const format of ['linear16', 'mulaw', 'ogg', 'MP3', 'pcm_24000', 'mp3_44100_128', '', 'constructor']) {
    const refusal = { kind: 'failed', failure: { kind: 'model', status: null, reason: /^response_format/ } }
    t.match(start({ response_format: format }), refusal, JSON.stringify(format))
  }
})

t.test('the voice is part of the model', async (t) => {
  const rows: [string, string | null, string | null][] = [
    ['aura-2', null, 'aura-2-thalia-en'],
    ['aura-2', 'thalia-en', 'aura-2-thalia-en'],
    ['aura-2', 'celeste-es', 'aura-2-celeste-es'],
    ['aura-2', 'aura-2-celeste-es', 'aura-2-celeste-es'],
    ['aura-2', 'aura-asteria-en', null],
    ['aura-2', 'alloy', null],
    ['aura-2', 'Thalia-en', null],
    ['aura-2', 'thalia-en&x=1', null],
    ['aura-2', '', null],
    ['aura-2-orion-en', null, 'aura-2-orion-en'],
    ['aura-2-orion-en', 'orion-en', 'aura-2-orion-en'],
    ['aura-2-orion-en', 'aura-2-orion-en', 'aura-2-orion-en'],
    ['aura-2-orion-en', 'thalia-en', null],
    ['aura', 'asteria-en', 'aura-asteria-en'],
    ['of-our-own', null, 'of-our-own'],
    ['of-our-own', 'thalia-en', null],
  ]
  for (const [model, voice, expected] of rows) {
    const label = `${model} ${voice}`
    if (expected !== null) t.equal(queryOf({ voice }, model).model, expected, label)
    else
      t.match(
        start({ voice }, model),
        { kind: 'failed', failure: { kind: 'model', reason: /^voice/ } },
        label,
      )
  }
})

t.test('speed is sent as it is, or refused', async (t) => {
  for (const speed of [0.7, 1, 1.5]) t.equal(queryOf({ speed }).speed, String(speed))
  for (const speed of [0.69, 1.51, Number.NaN]) {
    t.match(start({ speed }), { kind: 'failed', failure: { kind: 'model', reason: /^speed/ } })
  }
})

t.test('the table', async (t) => {
  t.match(FACTS, {
    limits: { max_input_characters: 2000, speed: { min: 0.7, max: 1.5 } },
    price: { per_1k_characters_usd: 0.03 },
  })
  t.same(FACTS.limits.speech_formats, ['mp3', 'wav', 'opus', 'flac', 'aac', 'pcm'])
  const pattern = new RegExp(FACTS.limits.voice_pattern ?? '')
  for (const voice of ['thalia-en', 'aura-2-thalia-en']) t.ok(pattern.test(voice), voice)
  for (const voice of ['alloy', 'JBFqnCBsd6RMkjVDRZzb', 'Kore', 'aura-asteria-en']) {
    t.notOk(pattern.test(voice), voice)
  }
})

t.test('the answer is the audio, or a failure', async (t) => {
  const head = { status: 200, headers: { 'content-type': 'audio/ogg;codecs=opus' } }
  const reader = streamed.read(head, call({ response_format: 'opus' }), target())
  t.same(reader.push(Buffer.from('Ogg')), [{ bytes: Buffer.from('Ogg'), mediaType: 'audio/ogg' }])
  t.same(reader.end(), { result: { audio: [], mediaType: 'audio/ogg' } })
  const long = {
    err_code: 'Payload Too Large',
    err_msg: 'Input text exceeds maximum character limit of 2000.',
  }
  t.match(streamed.refused(reply(long, 413)), { kind: 'limit', status: 413 })
  t.match(operation.next(null, reply(long, 413), call({}), target()), {
    kind: 'failed',
    failure: { kind: 'limit' },
  })
})
