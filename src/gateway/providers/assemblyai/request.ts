import type { TranscriptionCall, TranscriptionOptions } from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Target, Unsupported } from '../../../contracts/provider.ts'
import { type LanguageHint, languageHint, whisperLanguage } from '../language.ts'
import { wantsSpeakers } from '../transcript-needs.ts'
import { lackedFeatures, unsupportedField } from '../unsupported.ts'
import { encodeRedaction } from './redaction.ts'

/** Only these families take a prompt. */
const PROMPTED = /^(?:universal-3|assemblyai-stt-)/
const PROMPT_WORDS_MAX = 1_500

/** Languages of a model that has but a few; https://www.assemblyai.com/docs/pre-recorded-audio/supported-languages */
const LANGUAGES_OF: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ['universal-3-pro', new Set(['en', 'es', 'pt', 'fr', 'de', 'it'])],
])

/** Tags for which the provider has a word of its own. */
const VARIANTS: ReadonlyMap<string, string> = new Map([
  ['en-us', 'en_us'],
  ['en-gb', 'en_uk'],
  ['en-au', 'en_au'],
  ['de-ch', 'de_ch'],
])
const CODES: ReadonlyMap<string, string> = new Map([
  ['jv', 'jw'],
  ['nb', 'no'],
])

/** `speakers_expected` goes up to this; more can be given as an upper bound. */
const SPEAKERS_EXPECTED_MAX = 10

export function unsupported({ options }: TranscriptionCall, { model }: Target): Unsupported | null {
  if (options.mode === 'realtime') return lackedFeatures(['realtime'])
  const spoken = hintOf(options).language
  const known = LANGUAGES_OF.get(model)
  if (spoken !== null && known !== undefined && !known.has(spoken.slice(0, 2))) {
    return unsupportedField('language', 'the model does not know it')
  }
  return null
}

/** The body of `POST /v2/transcript`, https://www.assemblyai.com/docs/api-reference/transcripts/submit */
export function encodeTranscript(
  { options }: TranscriptionCall,
  { model }: Target,
  audioUrl: string,
): JsonObject {
  const { keyterms, smart_formatting: formats, profanity_filter: filters, multichannel } = options
  return {
    audio_url: audioUrl,
    // Exactly this one: with others in the list the provider would go over to them by itself.
    speech_models: [model],
    ...encodeLanguage(options),
    ...(wantsSpeakers(options) ? encodeSpeakers(options) : {}),
    ...(multichannel ? { multichannel } : {}),
    ...(keyterms.length > 0 ? { keyterms_prompt: keyterms } : {}),
    ...encodePrompt(options, model),
    // False means that the caller did not ask, and such a caller expects no text without stops and capitals.
    ...(formats ? { format_text: true, punctuate: true } : {}),
    ...(filters ? { filter_profanity: true } : {}),
    ...encodeRedaction(options),
  }
}

function encodePrompt(options: TranscriptionOptions, model: string): JsonObject {
  const { prompt } = options
  return prompt === null || whyUnprompted(prompt, options, model) !== null ? {} : { prompt }
}

/** Warns of options left out: a language or a prompt that would make the provider refuse the whole call. */
export function warningsOf({ options }: TranscriptionCall, { model }: Target): string[] {
  const why = options.prompt === null ? null : whyUnprompted(options.prompt, options, model)
  const { warnings } = hintOf(options)
  return why === null ? [...warnings] : [...warnings, `prompt: ${model} ${why}; it was left out`]
}

function whyUnprompted(prompt: string, { keyterms }: TranscriptionOptions, model: string): string | null {
  if (!PROMPTED.test(model)) return 'does not take this hint'
  if (keyterms.length > 0) return 'takes it only without keyterms'
  const words = prompt.trim().split(/\s+/).length
  return words > PROMPT_WORDS_MAX ? `takes up to ${PROMPT_WORDS_MAX} words of it` : null
}

/**
 * Without a language the provider is told to detect it: its default was American English. Silence, in which
 * there is none to detect, is to be an empty transcript and no error.
 */
function encodeLanguage(options: TranscriptionOptions): JsonObject {
  const { language } = hintOf(options)
  if (language !== null) return { language_code: language }
  return {
    language_detection: true,
    language_detection_options: { on_no_speech_detected: 'fallback', fallback_language: 'en' },
  }
}

/** In the provider's words: its list of languages is Whisper's, but for Cantonese. */
function hintOf(options: TranscriptionOptions): LanguageHint {
  return languageHint(options, (code, given) => {
    const variant = VARIANTS.get(given.toLowerCase().replaceAll('_', '-'))
    return variant ?? CODES.get(code) ?? (code === 'haw' ? code : whisperLanguage(code))
  })
}

function encodeSpeakers({ speaker_count_hint: count }: TranscriptionOptions): JsonObject {
  if (count === null) return { speaker_labels: true }
  if (count <= SPEAKERS_EXPECTED_MAX) return { speaker_labels: true, speakers_expected: count }
  return { speaker_labels: true, speaker_options: { max_speakers_expected: count } }
}
