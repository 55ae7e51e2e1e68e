import {
  type Feature,
  HINTS,
  type Hint,
  type SpeechCall,
  type TranscriptionCall,
  type TranscriptionOptions,
} from '../schema/calls.ts'
import type { Entry } from '../schema/catalog.ts'
import type { Provider } from '../schema/provider.ts'
import { CAPABILITY_OF, type Calls, type OperationName, operationOf } from './gateway.ts'

/** Why an entry cannot serve a call, in the order in which the refusals are told. */
export type Refusal =
  | { readonly why: 'capability' }
  | { readonly why: 'plan' }
  | { readonly why: 'features'; readonly missing: readonly Feature[] }
  | { readonly why: 'limits'; readonly param: string; readonly message: string }

/** What a transcription requires: the options themselves, and what its answer's format is made of. */
export function requiredFeatures(options: TranscriptionOptions): Feature[] {
  const { timestamps, response_format: format } = options
  const needed = new Set<Feature>()
  if (timestamps === 'word' || timestamps === 'both') needed.add('word_timestamps')
  if (timestamps === 'segment' || timestamps === 'both') needed.add('segment_timestamps')
  if (format === 'srt' || format === 'vtt' || format === 'verbose_json') needed.add('segment_timestamps')
  if (options.diarization || format === 'diarized_json') needed.add('diarization')
  if (options.redaction.length > 0) needed.add('redaction')
  if (options.keyterms.length > 0) needed.add('keyterms')
  if (options.multichannel) needed.add('multichannel')
  if (options.mode === 'realtime') needed.add('realtime')
  return [...needed]
}

/** Whether one entry can serve a call as a whole; null when it can. Pure. */
export function refusalOf<K extends OperationName>(
  entry: Entry,
  provider: Provider | undefined,
  operation: K,
  payload: Calls[K],
  plan: string | null,
): Refusal | null {
  const { facts } = entry
  const translates = operation !== 'translation' || facts.translates
  if (!facts.capabilities.includes(CAPABILITY_OF[operation]) || !translates) return { why: 'capability' }
  if (operationOf(provider, operation) === undefined) return { why: 'capability' }
  if (entry.plans.length > 0 && (plan === null || !entry.plans.includes(plan))) return { why: 'plan' }
  if (operation === 'speech') return speechLimits(entry, payload as SpeechCall)
  const call = payload as TranscriptionCall
  const kept = operation === 'translation' ? (facts.translation_features ?? facts.features) : facts.features
  const missing = requiredFeatures(call.options).filter((feature) => !kept.includes(feature))
  if (missing.length > 0) return { why: 'features', missing }
  return audioLimits(entry, call)
}

function audioLimits(entry: Entry, { audio }: TranscriptionCall): Refusal | null {
  const { max_audio_bytes, max_audio_seconds, audio_formats } = entry.facts.limits
  if (max_audio_bytes !== undefined && audio.decodedBytes > max_audio_bytes) {
    return limit('audio', `the audio is over the ${max_audio_bytes} bytes that the provider takes`)
  }
  if (max_audio_seconds !== undefined && (audio.durationSeconds ?? 0) > max_audio_seconds) {
    return limit('audio', `the audio is over the ${max_audio_seconds} seconds that the provider takes`)
  }
  if (audio_formats !== undefined && !audio_formats.includes(audio.format)) {
    return limit('audio', `the provider takes ${audio_formats.join(', ')}, not ${audio.format}`)
  }
  return null
}

function speechLimits(entry: Entry, call: SpeechCall): Refusal | null {
  const { max_input_characters, speech_formats, speed, voices } = entry.facts.limits
  const format = call.response_format
  if (format !== null && speech_formats !== undefined && !speech_formats.includes(format)) {
    return limit('response_format', `the provider makes ${speech_formats.join(', ')}, not ${format}`)
  }
  if (max_input_characters !== undefined && countCharacters(call.input) > max_input_characters) {
    return limit('input', `the input is over the ${max_input_characters} characters that the provider takes`)
  }
  if (call.speed !== null && speed !== undefined && (call.speed < speed.min || call.speed > speed.max)) {
    return limit('speed', `the provider takes a speed from ${speed.min} to ${speed.max}`)
  }
  const voice = call.voice === null ? null : (entry.voices[call.voice] ?? call.voice)
  if (voice !== null && voices !== undefined && !voices.includes(voice)) {
    return limit('voice', `the provider has no voice ${JSON.stringify(call.voice)}`)
  }
  return null
}

function limit(param: string, message: string): Refusal {
  return { why: 'limits', param, message }
}

/** Unicode code points: what speech is metered in. */
export function countCharacters(text: string): number {
  let count = 0
  for (const _ of text) count += 1
  return count
}

/** Hints that were given and that the entry would not heed. */
export function lackedHints(entry: Entry, options: TranscriptionOptions): Hint[] {
  return HINTS.filter(
    (hint) => options[hint] !== null && options[hint] !== false && !entry.facts.hints.includes(hint),
  )
}

/** The options as an entry gets them: hints that it lacks are taken out. */
export function withoutHints(options: TranscriptionOptions, lacked: readonly Hint[]): TranscriptionOptions {
  const changed: { -readonly [Name in Hint]?: TranscriptionOptions[Name] } = {}
  for (const hint of lacked) {
    if (hint === 'language' || hint === 'prompt' || hint === 'speaker_count_hint') changed[hint] = null
    else changed[hint] = false
  }
  return { ...options, ...changed }
}
