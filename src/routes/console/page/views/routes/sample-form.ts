import type { AudioFormat } from '../../../../../schema/audio.ts'
import type { Feature, Hint } from '../../../../../schema/calls.ts'
import type { Profile } from '../../../../../schema/catalog.ts'
import type { OperationName } from '../../../../../schema/operations.ts'
import { readDuration } from './duration.ts'

/** A sample request as it is typed: everything is text until it is asked about. */
export interface SampleForm {
  readonly endpoint: OperationName
  /** Id of an app; empty: any that leads to the route. */
  readonly app: string
  readonly purpose: string
  readonly profile: Profile | ''
  readonly features: readonly Feature[]
  readonly hints: readonly Hint[]
  readonly language: string
  readonly format: AudioFormat
  /** Seconds, `1:30`, `2 min` or `1 h`. */
  readonly duration: string
  /** MB; empty: what audio of this format and duration usually has. */
  readonly megabytes: string
  readonly channels: string
  readonly characters: string
  readonly voice: string
  readonly speed: string
  readonly responseFormat: string
  readonly images: boolean
  readonly tools: boolean
  readonly spoken: boolean
  readonly size: string
  readonly seconds: string
  readonly count: string
  readonly dimensions: string
}

export const PLAIN_FORM: SampleForm = {
  endpoint: 'transcription',
  app: '',
  purpose: '',
  profile: '',
  features: [],
  hints: [],
  language: '',
  format: 'wav',
  duration: '60 s',
  megabytes: '',
  channels: '1',
  characters: '1000',
  voice: '',
  speed: '',
  responseFormat: '',
  images: false,
  tools: false,
  spoken: false,
  size: '',
  seconds: '',
  count: '1',
  dimensions: '',
}

type SampleField = Exclude<keyof SampleForm, 'endpoint' | 'app' | 'purpose' | 'profile'>

const HEARD = [
  'features',
  'hints',
  'language',
  'format',
  'duration',
  'megabytes',
  'channels',
] as const satisfies readonly SampleField[]

/** What of a request each endpoint looks at when it chooses an entry. */
export const FIELDS_OF: Readonly<Record<OperationName, readonly SampleField[]>> = {
  transcription: HEARD,
  translation: HEARD,
  speech: ['characters', 'voice', 'speed', 'responseFormat'],
  chat: ['characters', 'images', 'tools', 'spoken'],
  vision: ['characters', 'tools'],
  complete: ['characters'],
  embeddings: ['characters', 'count', 'dimensions'],
  image: ['characters', 'count', 'size', 'responseFormat'],
  video: ['characters', 'seconds', 'size'],
}

/** Bytes of a second of audio as such files usually have it, one channel of speech. */
const BYTES_PER_SECOND: Readonly<Record<AudioFormat, number>> = {
  wav: 32_000,
  flac: 18_000,
  mp3: 16_000,
  mp4: 16_000,
  webm: 6_000,
  ogg: 6_000,
}

/** How large audio usually is; null: the duration cannot be read. */
export function usualBytes({ format, duration, channels }: SampleForm): number | null {
  const seconds = readDuration(duration)
  const count = wholeOf(channels)
  return seconds === null ? null : Math.max(1, Math.round(seconds * BYTES_PER_SECOND[format] * (count || 1)))
}

/** The sample of the form in wire names, or which fields cannot be read and why. */
export type ReadSample =
  | { readonly sample: Readonly<Record<string, unknown>>; readonly faults: null }
  | { readonly sample: null; readonly faults: Partial<Readonly<Record<SampleField, string>>> }

/** Reads what the endpoint of the form looks at, and nothing else. */
export function readSample(form: SampleForm): ReadSample {
  const faults: Partial<Record<SampleField, string>> = {}
  const fields = FIELDS_OF[form.endpoint]
  const sample: Record<string, unknown> = {}
  if (form.purpose !== '') sample.purpose = form.purpose
  if (form.profile !== '') sample.response_profile = form.profile
  for (const field of fields) {
    const read = READERS[field]
    const { name, value, fault } = read(form)
    if (fault !== undefined) faults[field] = fault
    else if (name !== undefined && value !== undefined) sample[name] = value
  }
  if (Object.keys(faults).length > 0) return { sample: null, faults }
  if (fields.includes('format')) sample.audio = audioOf(form)
  return { sample, faults: null }
}

interface Read {
  readonly name?: string
  readonly value?: unknown
  readonly fault?: string
}

const READERS: Readonly<Record<SampleField, (form: SampleForm) => Read>> = {
  features: ({ features }) => listed('features', features),
  hints: ({ hints }) => listed('hints', hints),
  language: ({ language }) => texted('language', language),
  format: () => ({}),
  duration: ({ duration }) =>
    readDuration(duration) === null ? { fault: 'seconds, or such as 1:30, 5 min, 1 h' } : {},
  megabytes: ({ megabytes }) =>
    megabytes.trim() === '' || isPositive(megabytes) ? {} : { fault: 'a number of MB over 0' },
  channels: ({ channels }) => (inRange(channels, 1, 64) ? {} : { fault: 'a whole number from 1 to 64' }),
  characters: ({ characters }) => counted('characters', characters, 1, 10_000_000),
  voice: ({ voice }) => texted('voice', voice),
  speed: ({ speed }) => {
    if (speed.trim() === '') return {}
    return isPositive(speed) ? { name: 'speed', value: Number(speed) } : { fault: 'a number over 0' }
  },
  responseFormat: ({ responseFormat }) => texted('response_format', responseFormat),
  images: ({ images }) => ticked('images', images),
  tools: ({ tools }) => ticked('tools', tools),
  spoken: ({ spoken }) => ticked('spoken', spoken),
  size: ({ size }) => texted('size', size),
  seconds: ({ seconds }) => optionalCount('duration_seconds', seconds, 3600),
  count: ({ count }) => counted('count', count, 1, 100_000),
  dimensions: ({ dimensions }) => optionalCount('dimensions', dimensions, 1_000_000),
}

function audioOf(form: SampleForm): Readonly<Record<string, unknown>> {
  const typed = form.megabytes.trim()
  const bytes = typed === '' ? usualBytes(form) : Math.max(1, Math.round(Number(typed) * 1_000_000))
  const { format, duration, channels } = form
  return { format, bytes, seconds: readDuration(duration), channels: wholeOf(channels) }
}

function texted(name: string, text: string): Read {
  return text.trim() === '' ? {} : { name, value: text.trim() }
}

function listed(name: string, list: readonly string[]): Read {
  return list.length === 0 ? {} : { name, value: list }
}

function ticked(name: string, value: boolean): Read {
  return value ? { name, value } : {}
}

function counted(name: string, text: string, min: number, max: number): Read {
  return inRange(text, min, max)
    ? { name, value: wholeOf(text) }
    : { fault: `a whole number from ${min} to ${max.toLocaleString('en')}` }
}

function optionalCount(name: string, text: string, max: number): Read {
  return text.trim() === '' ? {} : counted(name, text, 1, max)
}

/** NaN when it is no whole number. */
function wholeOf(text: string): number {
  return /^\d{1,12}$/.test(text.trim()) ? Number(text) : Number.NaN
}

function inRange(text: string, min: number, max: number): boolean {
  const value = wholeOf(text)
  return value >= min && value <= max
}

function isPositive(text: string): boolean {
  return Number.isFinite(Number(text)) && Number(text) > 0
}
