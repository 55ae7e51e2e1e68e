import type {
  TranscriptionCall,
  TranscriptionOptions,
  TranscriptionResult,
} from '../../../contracts/calls.ts'
import type { Operation, Step, Target, Unsupported } from '../../../contracts/provider.ts'
import type { UpstreamReply } from '../../../contracts/upstream.ts'
import { readEnding } from '../answer.ts'
import { unusable } from '../failure.ts'
import { FILE_MEDIA_TYPES } from '../form.ts'
import { type LanguageHint, languageCode, languageHint, SEVERAL_LANGUAGES } from '../language.ts'
import { wantsSegments, wantsSpeakers, wholeTranscript } from '../transcript-needs.ts'
import { lackedFeatures, unsent, unsupportedField } from '../unsupported.ts'
import { languagesHeard, readListening } from './transcript.ts'
import { deepgramHeaders, optOut } from './wire.ts'

/** Regions that are models of their own; of any other tag only the language is sent. */
const REGIONAL: ReadonlySet<string> = new Set([
  ...['zh-CN', 'zh-Hans', 'zh-TW', 'zh-Hant', 'zh-HK', 'da-DK', 'nl-BE', 'fr-CA', 'de-CH', 'ko-KR'],
  ...['en-US', 'en-AU', 'en-GB', 'en-NZ', 'en-IN', 'pt-BR', 'pt-PT', 'es-419', 'sv-SE', 'th-TH'],
])

/**
 * `POST /v1/listen`: options in the query, the audio itself as the body, or JSON with a URL of it.
 * https://developers.deepgram.com/reference/speech-to-text/listen-pre-recorded
 */
export const transcription: Operation<TranscriptionCall, TranscriptionResult> = {
  unsupported,
  takesAudioUrl: true,
  // The body of the request is what is transcribed: one that is shorter than its Content-Length is no request (RFC
  // 9112, section 8), and the price is for the seconds that were transcribed.
  billsWholeBody: {
    source:
      'https://developers.deepgram.com/reference/speech-to-text/listen-pre-recorded; https://deepgram.com/pricing',
    asOf: '2026-11-21',
  },

  start(call, target): Step<TranscriptionResult> {
    const issue = unsupported(call, target)
    if (issue !== null) return unsent(issue)
    const { audio, options } = call
    const { audioUrl } = target
    const isPulled = audioUrl !== undefined
    const request = {
      method: 'POST' as const,
      url: `${target.baseUrl}/v1/listen?${queryOf(options, target)}`,
      headers: {
        accept: 'application/json',
        ...deepgramHeaders(target),
        'content-type': isPulled ? 'application/json' : FILE_MEDIA_TYPES[audio.format],
      },
      body: isPulled ? [Buffer.from(JSON.stringify({ url: audioUrl }))] : [{ audio, as: 'bytes' as const }],
    }
    return { kind: 'send', request, state: null }
  },

  next: (_state, reply, call, target) => decodeReply(reply, call.options, target),
}

function queryOf(options: TranscriptionOptions, target: Target): URLSearchParams {
  const query = optionsQuery(options, target.model)
  // Without any of these, the audio would be taken for English.
  if (!query.has('language')) {
    if (wantsSeveral(options, target.model)) query.set('language', MULTI)
    else query.set('detect_language', 'true')
  }
  if (wantsSegments(options) || wantsSpeakers(options) || options.multichannel) {
    query.set('utterances', 'true')
  }
  for (const [name, value] of Object.entries(optOut(target))) query.set(name, value)
  return query
}

/** Replaces a language where there are several in a recording. */
export const MULTI = 'multi'

/** Models of several languages in one recording; https://developers.deepgram.com/docs/multilingual-code-switching */
export const MULTILINGUAL = /^nova-3(?:-general)?$/

function wantsSeveral({ language }: TranscriptionOptions, model: string): boolean {
  return language === SEVERAL_LANGUAGES && MULTILINGUAL.test(model)
}

/** The options that files and live audio have in common. */
export function optionsQuery(options: TranscriptionOptions, model: string): URLSearchParams {
  const query = new URLSearchParams({ model, punctuate: 'true' })
  const { language } = hintOf(options)
  if (language !== null) query.set('language', language)
  if (wantsSpeakers(options)) query.set('diarize_model', 'latest')
  if (options.multichannel) query.set('multichannel', 'true')
  if (options.smart_formatting) query.set('smart_format', 'true')
  if (options.profanity_filter) query.set('profanity_filter', 'true')
  for (const group of options.redaction) query.append('redact', group)
  for (const term of options.keyterms) query.append(isNova3(model) ? 'keyterm' : 'keywords', term)
  return query
}

/** Keyterms work with this family only, keywords with all others: neither is an alias of the other. */
function isNova3(model: string): boolean {
  return model === 'nova-3' || model.startsWith('nova-3-')
}

/** Which languages a model has, the table of facts says. */
export function hintOf(options: TranscriptionOptions): LanguageHint {
  return languageHint(options, (code, given) => {
    const wanted = given.replaceAll('_', '-').toLowerCase()
    return [...REGIONAL].find((tag) => tag.toLowerCase() === wanted) ?? code
  })
}

function unsupported({ options }: TranscriptionCall, { model }: Target): Unsupported | null {
  const { keyterms, language, redaction, mode, detect_language: detect } = options
  const code = language === null || detect ? null : languageCode(language)
  const foreign = code !== null && !redactsIn(code, redaction)
  // Entities are known in English only, and of several languages it tells none for the whole.
  if (redaction.length > 0 && wantsSeveral(options, model)) return lackedFeatures(['redaction'])
  const lacked = foreign
    ? lackedFeatures(['redaction'], { language: code })
    : lackedFeatures([mode === 'realtime' && 'realtime'])
  return lacked ?? unsupportedKeyterms(keyterms, model)
}

export function unsupportedKeyterms(keyterms: readonly string[], model: string): Unsupported | null {
  // There a colon begins the weight of a keyword.
  if (isNova3(model) || !keyterms.some((term) => term.includes(':'))) return null
  return unsupportedField('keyterms', 'the provider takes terms without a colon')
}

/** The groups of entities are known in English only, and numbers elsewhere are no more than their digits. */
export function redactsIn(code: string | null, redaction: TranscriptionOptions['redaction']): boolean {
  return redaction.length === 0 || code === 'en'
}

const ONE_LANGUAGE = 'language: the model takes one language for a whole recording; it was detected'

function decodeReply(
  reply: UpstreamReply,
  options: TranscriptionOptions,
  { model }: Pick<Target, 'model'>,
): Step<TranscriptionResult> {
  return readEnding(reply, (body) => {
    const single = options.language === SEVERAL_LANGUAGES && !wantsSeveral(options, model)
    const warnings = [...hintOf(options).warnings, ...(single ? [ONE_LANGUAGE] : [])]
    const made = wholeTranscript(readListening(body, options, { model, warnings }), options, reply)
    const lacking = 'result' in made ? unredacted(languagesHeard(body, options), options) : null
    return lacking === null ? made : unusable(reply, lacking)
  })
}

/** Audio that turned out to be in a language whose entities the provider does not know has not been redacted. */
function unredacted(
  languages: readonly (string | null)[],
  { redaction }: TranscriptionOptions,
): string | null {
  if (languages.every((language) => redactsIn(language, redaction))) return null
  return 'the provider redacts English only, and the audio is not known to be English'
}
