import type { SpeechCall } from '../schema/calls.ts'
import type { Entry } from '../schema/catalog.ts'
import type { ModelLimits } from '../schema/facts.ts'
import { countCharacters } from './characters.ts'
import { type Left, overLimit } from './consideration.ts'

/** Whether an entry speaks this text in this way; null when it does. */
export function speechLimits(entry: Entry, call: SpeechCall): Left | null {
  const { max_input_characters, speech_formats, speed } = entry.facts.limits
  const format = call.response_format
  if (format !== null && speech_formats !== undefined && !speech_formats.includes(format))
    return overLimit('response_format', `the provider makes ${speech_formats.join(', ')}, not ${format}`)
  if (max_input_characters !== undefined && isLonger(call.input, max_input_characters))
    return overLimit(
      'input',
      `the input is over the ${max_input_characters} characters that the provider takes`,
    )
  // A speed of 1 asks for nothing: no provider has to know of speeds for it.
  const asked = call.speed ?? 1
  if (asked !== 1 && speed !== undefined && (asked < speed.min || asked > speed.max))
    return overLimit('speed', `the provider takes a speed from ${speed.min} to ${speed.max}`)
  const voice = voiceAt(entry, call.voice)
  if (voice !== null && !isVoice(entry.facts.limits, voice))
    return overLimit('voice', `the provider has no voice ${JSON.stringify(call.voice)}`)
  return null
}

/** The entry's own name for a voice; null for the provider's default. */
export function voiceAt({ voices }: Entry, voice: string | null): string | null {
  // A voice by the name of `constructor` is none that the file maps.
  return voice !== null && Object.hasOwn(voices, voice) ? (voices[voice] ?? voice) : voice
}

/** Listed, or by its look; a model of whose voices nothing is known may have any. */
function isVoice(limits: ModelLimits, voice: string): boolean {
  const { voices, voice_pattern: pattern } = limits
  if (voices?.includes(voice) === true) return true
  return pattern === undefined ? voices === undefined : patternOf(limits, pattern).test(voice)
}

/** Compiled once per model of a configuration. */
const patterns = new WeakMap<ModelLimits, RegExp>()

function patternOf(limits: ModelLimits, pattern: string): RegExp {
  const compiled = patterns.get(limits) ?? new RegExp(pattern)
  patterns.set(limits, compiled)
  return compiled
}

/** Counts only a text whose UTF-16 length leaves it open: no code point takes less than one unit. */
function isLonger(text: string, maxCharacters: number): boolean {
  return text.length > maxCharacters && countCharacters(text) > maxCharacters
}
