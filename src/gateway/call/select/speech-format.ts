import type { SpeechCall } from '../../../contracts/calls.ts'
import type { Entry } from '../../../contracts/catalog.ts'
import type { SpeechForm } from '../../../contracts/speech-encoding.ts'
import { PLAIN_FORMS, speechForm, speechMediaType } from '../../media/speech-form.ts'

/** How an entry serves a format that its provider does not make: it is asked for samples, which are encoded here. */
export interface Encoding {
  /** Format that the provider is asked for. */
  readonly source: string
  readonly form: SpeechForm
  readonly mediaType: string
}

/** Formats with samples, the usual ones first: a wav file tells its own rate. */
const SOURCES = [
  ...['wav', 'pcm', 'wav_24000', 'pcm_24000', 'wav_48000', 'pcm_48000', 'wav_16000', 'pcm_16000'],
] as const
type FormatOf = Pick<SpeechCall, 'response_format' | 'format_aliases' | 'unencoded'>

/** How an entry serves the format of a call; null: as its provider makes it, or not at all. */
export function encodingAt(entry: Entry, call: FormatOf): Encoding | null {
  const { response_format: format, unencoded } = call
  if (entry.encode !== true || format === null || unencoded === true) return null
  if (nativeFormat(entry, call) !== null) return null
  const form = speechForm(format)
  if (form === null) return null
  const exact = form.sampleRate === null ? [] : [`pcm_${form.sampleRate}`, `wav_${form.sampleRate}`]
  const source = [...exact, ...SOURCES].find((name) => isMade(entry, name))
  return source === undefined ? null : { source, form, mediaType: speechMediaType(format) }
}

/**
 * The name by which the provider of an entry makes the format of a call; null: it does not, or the call names none. A
 * server whose formats are not listed may make any, and is rather asked for one by a name that others use, too.
 */
export function nativeFormat(
  { facts, encode }: Entry,
  { response_format: format, format_aliases: aliases = [] }: FormatOf,
): string | null {
  const { speech_formats: listed } = facts.limits
  if (format === null || listed?.includes(format) === true) return format
  if (listed !== undefined) return aliases.find((name) => listed.includes(name)) ?? null
  return [format, ...aliases].find(isUsual) ?? (encode === true ? null : format)
}

function isMade({ facts: { limits } }: Entry, format: string): boolean {
  return limits.speech_formats?.includes(format) ?? isUsual(format)
}

function isUsual(format: string): boolean {
  return PLAIN_FORMS.includes(format) || speechForm(format) === null
}
