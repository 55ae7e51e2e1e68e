import t from 'tap'
import type { TranscriptionResult } from '../../../src/contracts/calls.ts'
import type { Provider, Step } from '../../../src/contracts/provider.ts'
import { adapt } from '../../../src/gateway/call/select/eligibility.ts'
import { factsOf } from '../../../src/gateway/providers/facts.ts'
import { PROVIDERS } from '../../../src/gateway/providers/index.ts'
import { languageCode } from '../../../src/gateway/providers/language.ts'
import { transcriptionCall } from '../../support/call.ts'
import { entry } from '../../support/catalog.ts'
import { bytesOf } from '../../support/form-of.ts'
import { reply } from '../../support/replies.ts'

t.test('names, codes and tags become ISO 639', async (t) => {
  const rows: [string, string | null][] = [
    ['english', 'en'],
    ['English', 'en'],
    [' german ', 'de'],
    ['castilian', 'es'],
    ['haitian creole', 'ht'],
    ['cantonese', 'yue'],
    ['hawaiian', 'haw'],
    ['en', 'en'],
    ['EN-us', 'en'],
    ['zh_Hant_TW', 'zh'],
    ['yue', 'yue'],
    ['eng', 'en'],
    ['DEU', 'de'],
    ['zho-Hans', 'zh'],
    ['ceb', 'ceb'],
    ['xyz', 'xyz'],
    ['', null],
    ['klingonese', null],
    ['x', null],
    ['en us', null],
    ['en\r\nx: y', null],
    ['constructor', null],
  ]
  for (const [given, expected] of rows) t.equal(languageCode(given), expected, JSON.stringify(given))
})

const LANGUAGES = ['de', 'german', 'pt-BR', 'nb', 'haw', 'yue', 'tlh', 'klingon', 'qz']

/** Each of them as a provider is sent it; null: it is left out, and the answer says so. */
const HINTS: readonly (readonly [provider: string, model: string, ...sent: (string | null)[]])[] = [
  ['openai', 'whisper-1', 'de', 'de', 'pt', 'no', null, null, null, null, null],
  ['openai', 'gpt-4o-transcribe', 'de', 'de', 'pt', 'no', null, null, null, null, null],
  ['groq', 'whisper-large-v3', 'de', 'de', 'pt', 'no', null, null, null, null, null],
  ['mistral', 'voxtral-mini-transcribe-3-0', 'de', 'de', 'pt', 'nb', null, null, null, null, null],
  ['elevenlabs', 'scribe_v2', 'de', 'de', 'pt', 'nb', 'haw', 'yue', 'tlh', null, null],
  ['deepgram', 'nova-3', 'de', 'de', 'pt-BR', null, null, null, null, null, null],
  ['gemini', 'gemini-3.5-transcribe', 'de', 'de', 'pt-BR', 'nb', 'haw', 'yue', 'tlh', null, null],
  ['assemblyai', 'universal-2', 'de', 'de', 'pt', 'no', 'haw', null, null, null, null],
]

/** The value of the field for a language in a request, whatever its form. */
const SENT = new RegExp(
  [
    '[?&]language=([^&"]+)',
    'name="(?:language|languages\\[\\]|language_code)"\\r\\n\\r\\n(.*)\\r\\n',
    '"language_code":"([^"]*)"',
    '"languageCodes":\\["([^"]*)"',
  ].join('|'),
)

/** Good answers of all of them in one. */
const ANSWER = {
  text: 'Hi.',
  id: 'x',
  status: 'completed',
  upload_url: 'https://p/1',
  results: { channels: [{ alternatives: [{ transcript: 'Hi.' }] }] },
  candidates: [{ content: { parts: [{ text: 'Hi.' }] }, finishReason: 'STOP' }],
}

/** Carries a call through to its end, with the hint as the gateway passes it on. */
function hinted(kind: string, model: string, language: string) {
  const { transcription } = PROVIDERS.get(kind) as Required<Provider>
  const target = { model, baseUrl: 'http://p', credential: 'k', options: {} }
  const at = entry({ model, facts: factsOf(kind, model)! })
  const adapted = adapt(transcriptionCall({ options: { language } }), at)
  let sent = ''
  let step: Step<TranscriptionResult> = transcription.start(adapted.payload, target)
  while (step.kind === 'send') {
    sent += step.request.url + bytesOf(step.request)
    step = transcription.next(step.state, reply(ANSWER), adapted.payload, target)
  }
  if (step.kind !== 'done') throw new Error(`${kind}: ${step.kind}`)
  const warnings = [...adapted.warnings, ...step.result.warnings]
  const value = SENT.exec(sent)
    ?.slice(1)
    .find((group) => group !== undefined)
  return { sent: value ?? null, warned: warnings.some((line) => /^language: .*left out/.test(line)) }
}

t.test('a language that a provider does not take is left out with a warning, and ends no call', async (t) => {
  for (const [kind, model, ...cells] of HINTS) {
    for (const [index, language] of LANGUAGES.entries()) {
      const cell = cells[index] ?? null
      t.same(
        hinted(kind, model, language),
        { sent: cell, warned: cell === null },
        `${language} to ${kind} ${model}`,
      )
    }
  }
})
