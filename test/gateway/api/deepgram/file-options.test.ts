import t from 'tap'
import { GatewayError } from '../../../../src/contracts/errors.ts'
import { LISTEN_OPTIONS, readFileOptions } from '../../../../src/gateway/api/deepgram/file-options.ts'
import type { Exchange } from '../../../../src/gateway/edge/exchange.ts'
import { principal } from '../../../support/catalog.ts'
import { publishedOptions } from '../../../support/vendor-options.ts'

const REQUESTS = '@deepgram/sdk/dist/cjs/api/resources/listen/resources/v1/resources/media/client/requests'
const PURPOSE = { purpose: 'calls', description: '', enabled: true, route: null }

/** A value of each option that differs from its default. */
const SAMPLES: Readonly<Record<string, string>> = {
  callback: 'https://hooks.example.com/dg',
  callback_method: 'PUT',
  extra: 'call:7',
  summarize: 'v2',
  tag: 'night',
  custom_topic: 'larks',
  custom_topic_mode: 'strict',
  custom_intent: 'sing',
  custom_intent_mode: 'strict',
  diarize_model: 'latest',
  encoding: 'linear16',
  sample_rate: '16000',
  channels: '2',
  keyterm: 'Larkway',
  keywords: 'lark',
  language: 'de',
  model: 'calls',
  redact: 'pci',
  replace: 'a:b',
  search: 'lark',
  utt_split: '2',
  version: 'latest',
}

function read(query: string, json: Readonly<Record<string, unknown>> = {}) {
  const exchange = { query, headers: {} } as unknown as Exchange
  const caller = principal({ purposes: [PURPOSE] as never })
  return readFileOptions(exchange, { kind: 'json', value: { ...json } }, caller)
}

function refusalOf(query: string): GatewayError {
  try {
    read(query)
  } catch (error) {
    if (error instanceof GatewayError) return error
  }
  throw new Error(`${query} was not refused`)
}

t.test('every option that Deepgram publishes has a row, and no row is stale', async (t) => {
  const published = publishedOptions(
    `${REQUESTS}/MediaTranscribeRequestOctetStream.d.ts`,
    'MediaTranscribeRequestOctetStream',
  )
  t.ok(published.length > 30)
  // Two of raw audio that the client leaves out.
  t.same(Object.keys(LISTEN_OPTIONS).sort(), [...published, 'sample_rate', 'channels'].sort())
})

t.test('each option becomes what its row says', async (t) => {
  const plain = read('')
  t.same(plain.warnings, [])
  for (const [name, { fate, note }] of Object.entries(LISTEN_OPTIONS)) {
    const beside = name === 'callback_method' ? 'callback=https%3A%2F%2Fhooks.example.com&' : ''
    const query = `${beside}${name}=${encodeURIComponent(SAMPLES[name] ?? 'true')}`
    if (fate === 'refused') {
      const { code, extra, message } = refusalOf(query)
      t.same([code, extra.param], ['INVALID_REQUEST', name], query)
      t.ok(message.includes(note), query)
      t.same(read(`${name}=false`), plain, `${name} that is off`)
      continue
    }
    const { warnings, ...request } = read(query)
    const { warnings: _, ...usual } = read(beside)
    if (fate === 'kept' || fate === 'hint') t.notSame(request, usual, query)
    else t.same(request, usual, query)
    t.same(warnings, fate === 'warned' ? [`${name}: ${note}`] : [], query)
  }
})

t.test('what is demanded of providers is never ignored', async (t) => {
  t.match(read('require=retention%3Dzero').selectors, { require: { retentionDays: 0 } })
  t.equal(refusalOf('require=retention%3Dnever').extra.param, 'require')
  t.same(read('mip_opt_out=true&require=region%3Deu').selectors.require, {
    regions: [['eu']],
    retentionDays: 0,
    noTraining: true,
  })
})

t.test('options of one field are read beside one another', async (t) => {
  const both = read('diarize=true&diarize_model=v2&smart_format=true&numerals=true')
  t.match(both, { options: { diarization: true, smart_formatting: true }, view: { paragraphs: true } })
  t.same(both.warnings, ['diarize_model: which version it is, the entry decides'])
  t.match(read('keyterm=a&keyterm=b&keywords=c:2'), {
    options: { keyterms: ['a', 'b', 'c'] },
    warnings: ['keywords: how much a word is favoured is not passed on'],
  })
  t.match(read('language=multi'), {
    options: { language: 'multi', detect_language: true },
    view: { detectsLanguage: true },
  })
  t.match(read('detect_language=de'), { options: { language: 'de', detect_language: true } })
  t.match(read('detect_language=de&detect_language=fr'), {
    options: { language: null, detect_language: true },
    warnings: ['detect_language: more than one language cannot be passed on'],
  })
  t.match(read('').options, { language: 'en', detect_language: false, timestamps: 'word', mode: 'batch' })
  t.match(read('redact=pci&redact=numbers').options, { redaction: ['pci', 'numbers'] })
  t.match(read('tag=a&tag=b&extra=k:v:w').view, { tags: ['a', 'b'], extra: { k: 'v:w' } })
})

t.test('what nobody knows is named in a warning, and a value that is none refused', async (t) => {
  t.same(read('modle=nova-3').warnings, ['modle: unknown field, ignored; did you mean model?'])
  t.same(read('max_cost_usd=0&smart_format=false').warnings, ['max_cost_usd: unknown field, ignored'])
  t.same(read('', { language: 'de' }).warnings, ['language: unknown field, ignored'])
  for (const [query, param] of [
    ['redact=ssn', 'redact'],
    ['punctuate=true&diarize=yes', 'diarize'],
    ['utt_split=0', 'utt_split'],
    ['utt_split=soon', 'utt_split'],
    ['extra=key', 'extra'],
    ['callback=https://hooks.example.com&callback_method=GET', 'callback_method'],
    ['callback_method=PUT', 'callback_method'],
  ] as const)
    t.equal(refusalOf(query).extra.param, param, query)
})
