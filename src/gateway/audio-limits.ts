import type { Feature, TranscriptionCall } from '../schema/calls.ts'
import type { ModelLimits } from '../schema/facts.ts'
import { countCharacters } from './characters.ts'
import { type Left, overLimit } from './consideration.ts'

/**
 * Whether a model takes this audio and these keyterms; null when it does. What is not known of the audio, its duration
 * or its channels, refuses nothing.
 */
export function audioLimits(
  limits: ModelLimits,
  { audio, options }: TranscriptionCall,
  features: readonly Feature[],
): Left | null {
  const { max_audio_bytes, audio_formats, max_channels } = limits
  if (max_audio_bytes !== undefined && audio.decodedBytes > max_audio_bytes)
    return overLimit('audio', `the audio is over the ${max_audio_bytes} bytes that the provider takes`)
  const maxSeconds = longestSeconds(limits, features)
  if ((audio.durationSeconds ?? 0) > maxSeconds)
    return overLimit('audio', `the audio is over the ${maxSeconds} seconds that the provider takes`)
  if (audio_formats !== undefined && !audio_formats.includes(audio.format))
    return overLimit('audio', `the provider takes ${audio_formats.join(', ')}, not ${audio.format}`)
  if (options.multichannel && max_channels !== undefined && (audio.channels ?? 0) > max_channels)
    return overLimit('multichannel', `the audio is over the ${max_channels} channels that the provider takes`)
  return options.keyterms.length === 0 ? null : keytermLimits(limits.keyterms, options.keyterms)
}

/** Some features take shorter audio than the model does without them. */
function longestSeconds(
  { max_audio_seconds, max_audio_seconds_with: perFeature = {} }: ModelLimits,
  features: readonly Feature[],
): number {
  const bounds = features.map((feature) => perFeature[feature] ?? Number.POSITIVE_INFINITY)
  return Math.min(max_audio_seconds ?? Number.POSITIVE_INFINITY, ...bounds)
}

function keytermLimits(limits: ModelLimits['keyterms'], terms: readonly string[]): Left | null {
  if (limits === undefined) return null
  const { max_items, max_item_characters, max_item_words, max_words, forbidden = '' } = limits
  const over = (what: string) => overLimit('keyterms', `${what} that the provider takes`)
  if (max_items !== undefined && terms.length > max_items)
    return over(`there are over the ${max_items} terms`)
  if (max_item_characters !== undefined && terms.some((term) => countCharacters(term) > max_item_characters))
    return over(`a term is over the ${max_item_characters} characters`)
  if (max_item_words !== undefined && terms.some((term) => countWords(term) > max_item_words))
    return over(`a term is over the ${max_item_words} words`)
  if (max_words !== undefined && terms.reduce((sum, term) => sum + countWords(term), 0) > max_words)
    return over(`the terms are over the ${max_words} words in all`)
  if (terms.some((term) => [...forbidden].some((character) => term.includes(character))))
    return overLimit('keyterms', `the provider takes no term with any of ${JSON.stringify(forbidden)}`)
  return null
}

function countWords(term: string): number {
  return term.trim().split(/\s+/).length
}
