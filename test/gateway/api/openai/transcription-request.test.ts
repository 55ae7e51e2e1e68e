import t from 'tap'
import { GatewayError } from '../../../../src/contracts/errors.ts'
import type { TranscriptionRequest } from '../../../../src/gateway/api/native/transcription-request.ts'
import { OPENAI } from '../../../../src/gateway/api/openai/door.ts'
import { readOpenAiTranscription } from '../../../../src/gateway/api/openai/transcriptions.ts'
import type { Fields } from '../../../../src/gateway/edge/form.ts'
import { principal } from '../../../support/catalog.ts'
import { FakeExchange } from '../../../support/fake-exchange.ts'

const PURPOSES = [{ purpose: 'calls', description: '', enabled: true, route: null }]
const EXCHANGE = new FakeExchange({ chunks: [] })

function read(fields: Fields, task: 'transcription' | 'translation' = 'transcription'): TranscriptionRequest {
  const hearing = { task, offers: { stream: task === 'transcription', jobs: false } }
  return readOpenAiTranscription(EXCHANGE, fields, hearing, principal({ purposes: PURPOSES }))
}

const json = (value: Record<string, unknown>): Fields => ({ kind: 'json', value })
const form = (...pairs: [name: string, value: string][]): Fields => {
  const values = new Map<string, string[]>()
  for (const [name, value] of pairs) values.set(name, [...(values.get(name) ?? []), value])
  return { kind: 'form', values }
}

t.test('OpenAI’s words become the gateway’s, in forms and in JSON', (t) => {
  const purpose = { label: 'calls', source: 'body' }
  const rows: [name: string, fields: Fields, expected: object][] = [
    ['nothing', form(), { options: { response_format: 'json', keyterms: [] }, selectors: { purpose: null } }],
    ['a purpose', form(['model', 'calls']), { selectors: { purpose }, warnings: [] }],
    ['a model', form(['model', 'whisper-1']), { selectors: { purpose: null }, warnings: [] }],
    ['null', json({ model: null }), { selectors: { purpose: null }, warnings: [] }],
    [
      'keywords with commas',
      form(['keywords[]', 'a, b'], ['keyterms', 'c']),
      { options: { keyterms: ['c', 'a, b'] }, warnings: [] },
    ],
    ['keywords as a list', json({ keywords: ['a', 'a', 'b'] }), { options: { keyterms: ['a', 'b'] } }],
    ['one language', form(['languages[]', 'en']), { options: { language: 'en' }, warnings: [] }],
    [
      'several languages',
      json({ languages: ['en', 'de'] }),
      { options: { language: 'multi' }, warnings: ['languages: more than one cannot be passed on'] },
    ],
    [
      'granularities',
      form(['timestamp_granularities[]', 'word'], ['timestamp_granularities[]', 'segment']),
      { options: { timestamps: 'both' } },
    ],
    ['nothing', form(['known_speaker_names', ''], ['temperature', '']), { warnings: [] }],
    ['null', json({ include: null, known_speaker_names: [] }), { warnings: [] }],
    [
      'the options that are passed on as they were sent',
      form(['include[]', 'logprobs'], ['known_speaker_names[]', 'Ann'], ['temperature', '0.5']),
      {
        options: {
          extras: [
            { name: 'include', value: ['logprobs'], required: true },
            { name: 'known_speaker_names', value: ['Ann'], required: true },
            { name: 'temperature', value: 0.5, required: false },
          ],
        },
        warnings: [],
      },
    ],
    ['a stream', form(['stream', 'true']), { stream: true }],
    ['own fields', form(['diarization', 'true'], ['seed', '4']), { options: { diarization: true, seed: 4 } }],
    [
      'what is OpenAI’s and not passed on',
      form(
        ['temperature', '0'],
        ['chunking_strategy[type]', 'server_vad'],
        ['chunking_strategy[threshold]', '0.5'],
      ),
      { warnings: ['chunking_strategy: only auto is passed on'] },
    ],
    [
      'a strategy',
      form(['chunking_strategy', 'auto']),
      { options: { chunking_strategy: 'auto' }, warnings: [] },
    ],
    [
      'a strategy as an object',
      json({ chunking_strategy: { type: 'server_vad' }, temperature: null }),
      { warnings: ['chunking_strategy: only auto is passed on'] },
    ],
    [
      'what is not known',
      form(['nothing_of_theirs', '1']),
      { warnings: ['nothing_of_theirs: unknown field, ignored'] },
    ],
  ]
  for (const [name, fields, expected] of rows) t.match(read(fields), expected, name)
  t.match(read(form(['purpose', 'other'], ['model', 'calls'])).selectors, { purpose: { label: 'other' } })
  t.end()
})

t.test('what is refused names the field that was sent', (t) => {
  const rows: [fields: Fields, code: string, param: string, task?: 'translation'][] = [
    [form(['model', 'a'], ['model', 'b']), 'INVALID_REQUEST', 'model'],
    [json({ model: 7 }), 'INVALID_REQUEST', 'model'],
    [json({ keywords: 'a' }), 'INVALID_REQUEST', 'keywords'],
    [json({ keywords: ['a', ''] }), 'INVALID_REQUEST', 'keywords'],
    [json({ keywords: [7] }), 'INVALID_REQUEST', 'keywords'],
    [form(['keywords', '[1]']), 'INVALID_REQUEST', 'keywords'],
    [json({ languages: 'en' }), 'INVALID_REQUEST', 'languages'],
    [json({ language: 'en', languages: ['en'] }), 'INVALID_REQUEST', 'languages'],
    [json({ include: ['usage'] }), 'INVALID_REQUEST', 'include'],
    [form(['temperature', 'hot']), 'INVALID_REQUEST', 'temperature'],
    [json({ known_speaker_names: ['a', 'b', 'c', 'd', 'e'] }), 'INVALID_REQUEST', 'known_speaker_names'],
    [json({ stream: 'true' }), 'INVALID_REQUEST', 'stream'],
    [json({ stream: true, response_format: 'verbose_json' }), 'INVALID_REQUEST', 'response_format'],
    [form(['stream', 'true']), 'INVALID_REQUEST', 'stream', 'translation'],
    [form(['mode', 'async']), 'INVALID_REQUEST', 'mode'],
    [form(['provider', 'openai']), 'ROUTE_CONTROL_NOT_ALLOWED', 'provider'],
    [json({ audio: { model: 'a' } }), 'ROUTE_CONTROL_NOT_ALLOWED', 'audio.model'],
  ]
  for (const [fields, code, param, task] of rows) {
    const wanted = { code, extra: { param } }
    t.throws(() => read(fields, task), wanted, `${param}: ${JSON.stringify(fields)}`)
  }
  t.end()
})

t.test('a fault of the audio is one of the file, where there is one', (t) => {
  const fault = new GatewayError('AUDIO_TOO_LARGE', 'too much', {
    param: 'audio',
    details: { limit_bytes: 1 },
  })
  const other = new GatewayError('INVALID_REQUEST', 'no', { param: 'language' })
  const multipart = { headers: { 'content-type': 'Multipart/form-data; boundary=a' } }
  const { translateError } = OPENAI.door
  const named = translateError(fault, multipart)
  t.match(named, {
    code: 'AUDIO_TOO_LARGE',
    message: 'too much',
    extra: { param: 'file', details: { limit_bytes: 1 } },
  })
  for (const [thrown, exchange] of [
    [fault, { headers: { 'content-type': 'application/json' } }],
    [fault, { headers: {} }],
    [other, multipart],
  ] as const) {
    t.equal(translateError(thrown, exchange), thrown)
  }
  const schema = new GatewayError('INVALID_REQUEST', 'response_schema: too deep', {
    param: 'response_schema',
  })
  t.match(translateError(schema, { headers: {} }), {
    message: 'response_format: too deep',
    extra: { param: 'response_format' },
  })
  t.end()
})
