import t from 'tap'
import type { Principal } from '../../../../src/contracts/catalog.ts'
import {
  readTranscriptOptions,
  TRANSCRIPT_OPTIONS,
} from '../../../../src/gateway/api/assemblyai/transcript-options.ts'
import type { Exchange } from '../../../../src/gateway/edge/exchange.ts'

const EXCHANGE = { headers: {}, query: '' } as unknown as Exchange
const PRINCIPAL = { purposes: [{ purpose: 'calls' }] } as unknown as Principal
const AUDIO = { audio_url: 'https://cdn.example.com/a.wav' }

function read(options: object) {
  return readTranscriptOptions(EXCHANGE, { ...AUDIO, ...options }, PRINCIPAL)
}

/** A value that each option may have, and that is not off. */
const VALUES: Readonly<Record<string, unknown>> = {
  audio_end_at: 1_000,
  audio_start_from: 500,
  audio_url: 'https://cdn.example.com/b.wav',
  keyterms_prompt: ['Larkway'],
  language_code: 'de',
  language_confidence_threshold: 0.5,
  prompt: 'before',
  redact_pii_policies: ['drug'],
  speakers_expected: 2,
  speech_model: 'calls',
  speech_models: ['universal', 'calls'],
  temperature: 0.1,
  topics: ['a'],
  webhook_auth_header_name: 'X-Other',
  webhook_auth_header_value: 'other',
  webhook_url: 'https://hooks.example.com/other',
  word_boost: ['skylark'],
}

t.test('every option does what the table says', async (t) => {
  const webhook = {
    webhook_url: 'https://hooks.example.com/a',
    webhook_auth_header_name: 'X-Receiver',
    webhook_auth_header_value: 'lark',
  }
  for (const [name, { fate, note }] of Object.entries(TRANSCRIPT_OPTIONS)) {
    const beside = name.startsWith('webhook_') ? webhook : {}
    const off = name === 'redact_pii_policies' ? { redact_pii: true } : beside
    const plain = JSON.stringify(read({ punctuate: true, ...beside }))
    const options = { ...off, [name]: VALUES[name] ?? true }
    if (fate === 'refused') {
      t.throws(() => read(options), {
        message: `\`${name}\` must be left out; ${note}`,
        extra: { param: name },
      })
      continue
    }
    const { request } = read(options)
    if (fate === 'warned') t.same(request.warnings, [`${name}: ${note}`], name)
    else t.same(request.warnings, [], name)
    const changed = JSON.stringify(read(options)) !== plain
    t.equal(changed, fate !== 'fixed' && name !== 'punctuate', name)
  }
  t.throws(() => read({ punctuate: false }), { message: /^`punctuate`/ })
})

t.test('what is off is as if it was not sent', async (t) => {
  const off = Object.keys(TRANSCRIPT_OPTIONS).filter((name) => !['audio_url', 'punctuate'].includes(name))
  for (const value of [false, null, []]) {
    // A list, a text and a number have no `false`.
    const names = value === false ? off.filter((name) => VALUES[name] === undefined) : off
    t.same(read(Object.fromEntries(names.map((name) => [name, value]))), read({}))
  }
})

t.test('options as calls have them', async (t) => {
  const { request, door } = read({
    ...{ speech_models: ['universal', 'calls'], speech_model: 'nano', language_code: 'en_us' },
    ...{
      dual_channel: true,
      redact_pii: true,
      redact_pii_policies: ['drug', 'credit_card_number', 'person_name'],
    },
    ...{ keyterms_prompt: ['Larkway, the gateway'], word_boost: ['skylark'], words: 1 },
  })
  t.match(request.options, {
    language: 'en-us',
    multichannel: true,
    redaction: ['phi', 'pci', 'pii'],
    keyterms: ['Larkway, the gateway', 'skylark'],
    timestamps: 'word',
  })
  t.match(request.selectors, { purpose: { label: 'calls' } })
  t.same(request.warnings, ['words: unknown field, ignored'])
  t.same(door, { audioUrl: AUDIO.audio_url, models: ['universal', 'calls', 'nano'] })
  t.equal(read({}).request.options.language, 'en')
  t.match(read({ language_detection: true }).request.options, { language: null, detect_language: true })
  t.throws(() => readTranscriptOptions(EXCHANGE, {}, PRINCIPAL), { message: '`audio_url` must be given' })
  t.throws(() => readTranscriptOptions(EXCHANGE, [], PRINCIPAL), { message: 'the body must be an object' })
})
