import t from 'tap'
import { Value } from 'typebox/value'
import { REDACTIONS, type TranscriptionOptions } from '../../../../src/contracts/calls.ts'
import type { JsonObject } from '../../../../src/contracts/json.ts'
import { assemblyai } from '../../../../src/gateway/providers/assemblyai/provider.ts'
import { policiesOf, REDACTED_LANGUAGES } from '../../../../src/gateway/providers/assemblyai/redaction.ts'
import { factsOf, SHIPPED } from '../../../../src/gateway/providers/facts.ts'
import { audio, options } from '../../../support/call.ts'
import { bytesOf, requestOf } from '../../../support/form-of.ts'
import { reply } from '../../../support/replies.ts'

type Given = Partial<TranscriptionOptions>

const transcription = assemblyai.transcription!
const UPLOADED = 'https://cdn.assemblyai.com/upload/ccbbbfaf-f319-4455-9556-272d48faaf7f'
const DETECTED = {
  language_detection: true,
  language_detection_options: { on_no_speech_detected: 'fallback', fallback_language: 'en' },
}

const target = (model = 'universal-3-5-pro') => ({
  model,
  baseUrl: 'https://api.assemblyai.com',
  credential: 'aai-secret',
  options: {},
})
const call = (given: Given = {}) => ({ audio: audio(), options: options(given) })

/** The body of the create, without the fields that each has. */
function created(given: Given, model?: string): JsonObject {
  const step = transcription.next(
    { stage: 'upload' },
    reply({ upload_url: UPLOADED }),
    call(given),
    target(model),
  )
  const { audio_url, speech_models, ...rest } = JSON.parse(bytesOf(requestOf(step)).toString())
  t.same([audio_url, speech_models], [UPLOADED, [target(model).model]])
  return rest
}

t.test('the upload', async (t) => {
  const request = requestOf(transcription.start(call(), target()))
  t.equal(`${request.method} ${request.url}`, 'POST https://api.assemblyai.com/v2/upload')
  t.same(request.headers, {
    accept: '*/*',
    authorization: 'aai-secret',
    'content-type': 'application/octet-stream',
  })
  t.same(request.body, [{ audio: audio(), as: 'bytes' }], 'the audio as it is')
})

t.test('the create', async (t) => {
  const step = transcription.next({ stage: 'upload' }, reply({ upload_url: UPLOADED }), call(), target())
  const request = requestOf(step)
  t.equal(`${request.method} ${request.url}`, 'POST https://api.assemblyai.com/v2/transcript')
  t.match(request.headers, { authorization: 'aai-secret', 'content-type': 'application/json' })
})

t.test('each option', async (t) => {
  const rows: [Given, JsonObject, string?][] = [
    [{}, DETECTED],
    [{ language: 'de' }, { language_code: 'de' }],
    [{ language: 'german' }, { language_code: 'de' }],
    [{ language: 'en-US' }, { language_code: 'en_us' }],
    [{ language: 'en_GB' }, { language_code: 'en_uk' }],
    [{ language: 'en-AU' }, { language_code: 'en_au' }],
    [{ language: 'de-CH' }, { language_code: 'de_ch' }],
    [{ language: 'fr-CA' }, { language_code: 'fr' }],
    [{ language: 'jv' }, { language_code: 'jw' }],
    [{ language: 'nb-NO' }, { language_code: 'no' }],
    [{ language: 'nonsense!' }, DETECTED],
    [{ detect_language: true }, DETECTED],
    [{ language: 'de', detect_language: true }, DETECTED],
    [{ prompt: 'Bergsteigen' }, { ...DETECTED, prompt: 'Bergsteigen' }],
    [{ prompt: 'Bergsteigen' }, { ...DETECTED, prompt: 'Bergsteigen' }, 'universal-3-pro'],
    [{ prompt: 'Bergsteigen' }, DETECTED, 'universal-2'],
    [{ prompt: 'a '.repeat(1500) }, { ...DETECTED, prompt: 'a '.repeat(1500) }],
    [{ prompt: 'a '.repeat(1501) }, DETECTED],
    [{ diarization: true }, { ...DETECTED, speaker_labels: true }],
    [{ response_format: 'diarized_json' }, { ...DETECTED, speaker_labels: true }],
    [
      { diarization: true, speaker_count_hint: 10 },
      { ...DETECTED, speaker_labels: true, speakers_expected: 10 },
    ],
    [
      { diarization: true, speaker_count_hint: 11 },
      { ...DETECTED, speaker_labels: true, speaker_options: { max_speakers_expected: 11 } },
    ],
    [{ speaker_count_hint: 2 }, DETECTED],
    [{ timestamps: 'word' }, DETECTED],
    [{ timestamps: 'segment' }, DETECTED],
    [{ timestamps: 'both', response_format: 'srt' }, DETECTED],
    [{ keyterms: ['Larkway', 'Piz Bernina'] }, { ...DETECTED, keyterms_prompt: ['Larkway', 'Piz Bernina'] }],
    [{ keyterms: ['Larkway'] }, { ...DETECTED, keyterms_prompt: ['Larkway'] }, 'universal-2'],
    [
      { keyterms: ['Larkway'], prompt: 'x' },
      { ...DETECTED, keyterms_prompt: ['Larkway'] },
    ],
    [{ smart_formatting: true }, { ...DETECTED, format_text: true, punctuate: true }],
    [{ profanity_filter: true }, { ...DETECTED, filter_profanity: true }],
    [{ multichannel: true }, { ...DETECTED, multichannel: true }],
    [
      { multichannel: true, diarization: true, language: 'it' },
      { language_code: 'it', speaker_labels: true, multichannel: true },
    ],
    [
      { redaction: ['pci'] },
      {
        ...DETECTED,
        redact_pii: true,
        redact_pii_policies: ['credit_card_cvv', 'credit_card_expiration', 'credit_card_number'],
        redact_pii_sub: 'entity_name',
      },
    ],
    [{ seed: 7 }, DETECTED],
    [{ mode: 'async' }, DETECTED],
  ]
  for (const [given, expected, model] of rows) t.same(created(given, model), expected, JSON.stringify(given))
  t.notOk(transcription.takesSeed)
})

t.test('policies of redaction', async (t) => {
  // The names that the vendor's library (assemblyai 4.41.5) types.
  const documented = new Set(
    (
      'account_number banking_information blood_type credit_card_cvv credit_card_expiration credit_card_number date ' +
      'date_interval date_of_birth drivers_license drug duration email_address event filename gender_sexuality ' +
      'healthcare_number injury ip_address language location marital_status medical_condition medical_process ' +
      'money_amount nationality number_sequence occupation organization passport_number password person_age ' +
      'person_name phone_number physical_attribute political_affiliation religion statistics time url ' +
      'us_social_security_number username vehicle_id zodiac_sign'
    ).split(' '),
  )
  for (const kind of REDACTIONS) {
    const policies = policiesOf([kind])
    t.ok(policies.length > 0, kind)
    t.same(
      policies.filter((policy) => !documented.has(policy)),
      [],
      `${kind}: documented names only`,
    )
  }
  t.same(policiesOf(['pci', 'pci']), policiesOf(['pci']))
  const all = policiesOf(REDACTIONS)
  t.equal(new Set(all).size, all.length, 'each once')
  const given: Given = { redaction: ['phi', 'numbers'] }
  t.same(created(given).redact_pii_policies, policiesOf(['phi', 'numbers']))
})

t.test('what cannot be had is not sent', async (t) => {
  const rows: [Given, string?][] = [
    [{ mode: 'realtime' }],
    [{ language: 'ja' }, 'universal-3-pro'],
    [{ language: 'haw' }, 'universal-3-pro'],
  ]
  for (const [given, model] of rows) {
    const step = transcription.start(call(given), target(model))
    t.match(step, { kind: 'failed', failure: { kind: 'model', status: null } }, JSON.stringify(given))
  }
  for (const [given, model] of [
    [{ language: 'en-GB' }, 'universal-3-pro'],
    [{ language: 'ja', detect_language: true }, 'universal-3-pro'],
    [{ language: 'ja' }, 'universal-2'],
  ] as const) {
    t.equal(transcription.start(call(given), target(model)).kind, 'send', JSON.stringify(given))
  }
})

t.test('options of an entry', async (t) => {
  const schema = assemblyai.optionsSchema!
  t.ok(Value.Check(schema, {}))
  t.ok(Value.Check(schema, { delete_after: true }))
  for (const bad of [{ delete_after: 'yes' }, { deleteAfter: true }]) t.notOk(Value.Check(schema, bad))
})

t.test('the table says what the protocol does', async (t) => {
  for (const model of modelsOf('assemblyai')) {
    const facts = factsOf('assemblyai', model)!
    // Models for live audio alone, or for speech, are sent no files.
    if (facts.operations?.length === 0 || !facts.capabilities.includes('audio_input')) continue
    t.same(new Set(facts.languages?.redaction), REDACTED_LANGUAGES, `${model} redacts the same languages`)
    t.equal(facts.hints.includes('prompt'), 'prompt' in created({ prompt: 'x' }, model), `${model} prompt`)
    for (const feature of facts.features) {
      const given: Given = {
        diarization: feature === 'diarization',
        multichannel: feature === 'multichannel',
        keyterms: feature === 'keyterms' ? ['a'] : [],
        redaction: feature === 'redaction' ? ['pii'] : [],
      }
      t.equal(transcription.start(call(given), target(model)).kind, 'send', `${model} ${feature}`)
    }
  }
})

function modelsOf(kind: string): string[] {
  return SHIPPED.all().flatMap((one) => (one.kind === kind ? [one.model] : []))
}
