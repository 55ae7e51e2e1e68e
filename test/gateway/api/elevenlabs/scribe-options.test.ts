import t from 'tap'
import { GatewayError } from '../../../../src/contracts/errors.ts'
import { readScribeOptions, SCRIBE_OPTIONS } from '../../../../src/gateway/api/elevenlabs/scribe-options.ts'
import type { Exchange } from '../../../../src/gateway/edge/exchange.ts'
import { queryValues } from '../../../../src/gateway/edge/form.ts'
import { principal } from '../../../support/catalog.ts'
import { publishedOptions } from '../../../support/vendor-options.ts'

const REQUEST =
  '@elevenlabs/elevenlabs-js/api/resources/speechToText/client/requests/BodySpeechToTextV1SpeechToTextPost.d.ts'
const PURPOSE = { purpose: 'calls', description: '', enabled: true, route: null }
const AUDIO = ['file', 'cloud_storage_url', 'source_url']

/** A value of each field that differs from its default. */
const SAMPLES: Readonly<Record<string, string>> = {
  token: 'tok',
  enable_logging: 'false',
  model_id: 'calls',
  language_code: 'de',
  transcript_edit: 'make it short',
  num_speakers: '3',
  timestamps_granularity: 'none',
  diarization_threshold: '0.3',
  additional_formats: '[{"format":"srt"}]',
  file_format: 'other',
  webhook_id: 'w1',
  webhook_metadata: '{"a":1}',
  temperature: '0.4',
  seed: '7',
  multichannel_output_style: 'combined',
  entity_detection: 'pii',
  entity_redaction: 'pci',
  entity_redaction_mode: 'entity_type',
  keyterms: 'Larkway',
}

/** Fields as a form has them. */
function read(fields: string) {
  const exchange = { query: '', headers: {} } as unknown as Exchange
  const named = fields.startsWith('model_id') ? fields : `model_id=scribe_v2&${fields}`
  return readScribeOptions(exchange, queryValues(named), principal({ purposes: [PURPOSE] as never }))
}

function refusalOf(fields: string): GatewayError {
  try {
    read(fields)
  } catch (error) {
    if (error instanceof GatewayError) return error
  }
  throw new Error(`${fields} was not refused`)
}

const snake = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

t.test('every field that ElevenLabs publishes has a row, and no row is stale', async (t) => {
  const published = publishedOptions(REQUEST, 'BodySpeechToTextV1SpeechToTextPost').map(snake)
  t.ok(published.length > 20)
  t.same(Object.keys(SCRIBE_OPTIONS).sort(), published.filter((name) => !AUDIO.includes(name)).sort())
})

t.test('each field becomes what its row says', async (t) => {
  const plain = read('')
  t.same(plain.warnings, [])
  for (const [name, { fate, note }] of Object.entries(SCRIBE_OPTIONS)) {
    const fields = `${name}=${encodeURIComponent(SAMPLES[name] ?? 'true')}`
    if (fate === 'refused') {
      const { code, extra, message } = refusalOf(fields)
      t.same([code, extra.param], ['INVALID_REQUEST', name], fields)
      t.ok(message.includes(note), fields)
      t.same(read(`${name}=false`), plain, `${name} that is off`)
      continue
    }
    // A style is one of channels.
    const style = name === 'multichannel_output_style' ? 'use_multi_channel=true&' : ''
    const beside = name.startsWith('webhook_') ? 'webhook=true&' : style
    const { warnings, ...request } = read(beside + fields)
    const { warnings: _, ...usual } = read(beside)
    if (fate === 'kept' || fate === 'hint') t.notSame(request, usual, fields)
    else t.same(request, usual, fields)
    t.same(warnings, fate === 'warned' ? [`${name}: ${note}`] : [], fields)
  }
})

t.test('what is demanded of providers is never ignored', async (t) => {
  t.match(read('require=retention%3Dzero').selectors, { require: { retentionDays: 0 } })
  t.match(read('enable_logging=false').selectors, { require: { retentionDays: 0, noTraining: false } })
})

t.test('values that cannot be kept are refused by their names', async (t) => {
  for (const [fields, param] of [
    ['enable_logging=perhaps', 'enable_logging'],
    ['file_format=pcm_s16le_16', 'file_format'],
    ['timestamps_granularity=letter', 'timestamps_granularity'],
    ['tag_audio_events=perhaps', 'tag_audio_events'],
    ['multichannel_output_style=mixed', 'multichannel_output_style'],
    ['entity_redaction=all', 'entity_redaction'],
    ['diarize=perhaps', 'diarize'],
    ['num_speakers=33', 'speaker_count_hint'],
    ['webhook=true&webhook_metadata=[1]', 'webhook_metadata'],
  ] as const)
    t.equal(refusalOf(fields).extra.param, param, fields)
  t.equal(refusalOf('model_id=').extra.param, 'model_id')
  const redacted = read('entity_detection=pii&entity_redaction=pii')
  t.match(redacted, { options: { redaction: ['pii'] }, warnings: [] })
  t.same(read('additional_formats=[]').warnings, [], 'a list that asks for nothing')
  t.same(read('modl_id=x').warnings, ['modl_id: unknown field, ignored; did you mean model_id?'])
  t.match(read('').options, { detect_language: true, language: null, timestamps: 'word' })
  const { options } = read('timestamps_granularity=character&tag_audio_events=true')
  t.match(options, { timestamps: 'word', character_times: true, audio_events: true })
  for (const plain of ['', 'timestamps_granularity=word&tag_audio_events=false'])
    t.notOk('character_times' in read(plain).options || 'audio_events' in read(plain).options, 'as before')
})

t.test("fields that Python's client writes as JSON", async (t) => {
  const form = (fields: Readonly<Record<string, string>>) => {
    const values = new Map(Object.entries({ model_id: 'a', ...fields }).map(([name, text]) => [name, [text]]))
    const exchange = { query: '', headers: {} } as unknown as Exchange
    return readScribeOptions(exchange, { kind: 'form', values }, principal())
  }
  const names = ['webhook_metadata', 'entity_detection', 'entity_redaction', 'additional_formats']
  const left = Object.fromEntries(names.map((name) => [name, 'null']))
  t.same(form(left), form({}), 'null is what was left out')
  t.same(
    form(Object.fromEntries(names.map((name) => [name, '[]']))),
    form({}),
    'an empty list asks for nothing',
  )
  t.throws(() => form({ additional_formats: '[{"format":"srt"}]' }), { message: /`additional_formats`/ })
  const asked = form({ ...left, entity_detection: '["pii", "phi"]', entity_redaction: '["pii", "phi"]' })
  t.match(asked, { options: { redaction: ['pii', 'phi'] }, warnings: [] })
  t.match(form({ entity_redaction: '"pci"' }), { options: { redaction: ['pci'] } })
  t.match(form({ entity_redaction: 'pci' }), { options: { redaction: ['pci'] } })
  t.throws(() => form({ entity_redaction: '[7]' }), { message: /`entity_redaction`/ })
  t.throws(() => form({ entity_detection: '["pii"]' }), { message: /`entity_detection`/ })
})
