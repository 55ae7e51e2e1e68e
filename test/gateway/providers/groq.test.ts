import t from 'tap'
import { factsOf } from '../../../src/gateway/providers/facts.ts'
import { groq } from '../../../src/gateway/providers/groq.ts'
import { audio, chatCall, options, speechCall } from '../../support/call.ts'
import { bytesOf, fieldsOf, requestOf } from '../../support/form-of.ts'
import { fixture, reply } from '../../support/replies.ts'

const SPEAKER = 'canopylabs/orpheus-v1-english'

function target(model: string) {
  return { model, baseUrl: groq.baseUrl!, credential: 'gsk_secret', options: {} }
}

const heard = { audio: audio(), options: options() }

t.test('its own address and key', async (t) => {
  for (const request of [
    requestOf(groq.transcription!.start(heard, target('whisper-large-v3'))),
    requestOf(groq.speech!.start(speechCall().payload, target(SPEAKER))),
    requestOf(groq.chat!.start(chatCall(), target('openai/gpt-oss-20b'))),
    requestOf(groq.models!.start(null, target('openai/gpt-oss-20b'))),
  ]) {
    t.match(request.url, /^https:\/\/api\.groq\.com\/openai\/v1\//)
    t.equal(request.headers.authorization, 'Bearer gsk_secret')
  }
})

t.test('models that answer by no schema are known, and the others’ refusal leads on', (t) => {
  for (const model of ['llama-3.3-70b-versatile', 'llama-3.1-8b-instant'])
    t.equal(factsOf('groq', model)?.limits.json_schema, false, model)
  t.equal(factsOf('groq', 'openai/gpt-oss-20b')?.limits.json_schema, undefined)
  const message = 'This model does not support response format `json_schema`. See supported models'
  const refusal = reply({ error: { message, type: 'invalid_request_error' } }, 400)
  const rejection = { reason: 'unsupported_option', param: 'response_schema' }
  t.match(groq.chat!.next(null, refusal, chatCall(), target('qwen')), {
    kind: 'failed',
    failure: { kind: 'limit', rejection },
  })
  t.end()
})

t.test('verbose_json always: it has the language and the length', async (t) => {
  const body = await fixture('groq/whisper-large-v3.verbose_json.json')
  const step = groq.transcription!.next(null, reply(body), heard, target('whisper-large-v3'))
  t.match(step, {
    kind: 'done',
    result: { text: 'The gateway hears you.', language: 'en', durationSeconds: 9.28 },
  })
})

t.test('the turbo model does not translate', async (t) => {
  const request = requestOf(groq.translation!.start(heard, target('whisper-large-v3')))
  t.equal(request.url, 'https://api.groq.com/openai/v1/audio/translations')
  t.same(await fieldsOf(request), [
    ['model', 'whisper-large-v3'],
    ['response_format', 'verbose_json'],
  ])
  const refused = groq.translation!.start(heard, target('whisper-large-v3-turbo'))
  t.match(refused, { kind: 'failed', failure: { kind: 'model', status: null } })
})

t.test('speech is wav', async (t) => {
  const request = requestOf(groq.speech!.start(speechCall({ speed: 1.5 }).payload, target(SPEAKER)))
  t.same(JSON.parse(bytesOf(request).toString()), {
    model: SPEAKER,
    input: 'hello',
    voice: 'autumn',
    response_format: 'wav',
    speed: 1.5,
  })
  for (const format of ['mp3', 'opus', 'flac', 'aac', 'pcm']) {
    const step = groq.speech!.start(speechCall({ response_format: format }).payload, target(SPEAKER))
    t.match(step, { kind: 'failed', failure: { kind: 'model', reason: /^response_format:/ } }, format)
  }
})

t.test('498 is overload, not the caller’s fault', async (t) => {
  const body = await fixture('groq/error.498.json')
  const step = groq.chat!.next(null, reply(body, 498, { 'retry-after': '3' }), chatCall(), target('x'))
  t.match(step, { kind: 'failed', failure: { kind: 'rate', status: 498, retryAfterMs: 3000 } })
})

t.test('the models that the key sees', async (t) => {
  const list = { object: 'list', data: [{ id: 'whisper-large-v3' }, { id: 7 }, null, { id: SPEAKER }] }
  const next = (body: unknown, status = 200) =>
    groq.models!.next(null, reply(body, status), null, target('x'))
  t.same(next(list), { kind: 'done', result: ['whisper-large-v3', SPEAKER] })
  t.match(next({ object: 'list' }), { kind: 'failed', failure: { kind: 'server' } })
  t.match(next({ error: { message: 'Invalid API Key', code: 'invalid_api_key' } }, 401), {
    kind: 'failed',
    failure: { kind: 'credential' },
  })
})
