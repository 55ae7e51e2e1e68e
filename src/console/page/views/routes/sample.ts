import type { AudioFormat } from '../../../../contracts/audio.ts'
import type { Feature, Hint } from '../../../../contracts/calls.ts'
import type { Profile } from '../../../../contracts/catalog.ts'
import type { OperationName } from '../../../../contracts/operations.ts'
import type { RouteAnswer } from '../../../server/answers/routes.ts'
import type { WorkspaceAnswer } from '../../../server/answers/workspaces.ts'
import { Checkbox, Checkboxes } from '../../components/choice.ts'
import { Select, TextInput } from '../../components/field.ts'
import { h } from '../../h.ts'
import {
  ENDPOINT_WORDS,
  FEATURE_WORDS,
  FORMAT_WORDS,
  HINT_WORDS,
  members,
  PROFILE_WORDS,
  readDuration,
} from './words.ts'

interface SampleFieldsProps {
  readonly form: SampleForm
  readonly onChange: (form: SampleForm) => void
  readonly issues: NonNullable<ReadSample['issues']>
  readonly route: RouteAnswer
  readonly workspace: WorkspaceAnswer
}

/** Fields of the sample request; only those its endpoint uses are shown. */
export function SampleFields(props: SampleFieldsProps) {
  const { form, onChange, route, workspace } = props
  const set = (change: Partial<SampleForm>) => onChange({ ...form, ...change })
  const apps = workspace.apps.map(({ id }) => ({
    value: id,
    label: route.apps.includes(id) ? id : `${id} (uses another route)`,
  }))
  const isAudio = FIELDS_OF[form.endpoint].includes('features')
  return h(
    'div',
    { class: 'stack' },
    h(Select<OperationName>, {
      label: 'Endpoint',
      value: form.endpoint,
      onChange: (endpoint: OperationName) => set({ endpoint }),
      options: members(ENDPOINT_WORDS).map((value) => ({ value, label: ENDPOINT_WORDS[value] })),
    }),
    isAudio ? h(AudioFields, { ...props, set }) : h(TextFields, { ...props, set }),
    h(
      'details',
      { class: 'more' },
      h('summary', null, 'Caller'),
      h(
        'div',
        { class: 'stack' },
        h(Select, {
          label: 'App',
          value: form.app,
          onChange: (app: string) => set({ app }),
          options: [{ value: '', label: 'One that uses this route' }, ...apps],
        }),
        h(Select, {
          label: 'Purpose',
          value: form.purpose,
          onChange: (purpose: string) => set({ purpose }),
          options: [
            { value: '', label: 'None' },
            ...workspace.purposes.map(({ purpose, enabled }) => ({
              value: purpose,
              label: enabled ? purpose : `${purpose} (disabled)`,
            })),
          ],
        }),
        h(Select<Profile | ''>, {
          label: 'Profile',
          value: form.profile,
          onChange: (profile: Profile | '') => set({ profile }),
          options: [
            { value: '', label: 'None' },
            ...members(PROFILE_WORDS).map((value) => ({ value, label: PROFILE_WORDS[value] })),
          ],
        }),
      ),
    ),
  )
}

interface PartProps extends SampleFieldsProps {
  readonly set: (change: Partial<SampleForm>) => void
}

/** `language` has its own field. */
const HINT_CHOICES = members(HINT_WORDS).filter((hint) => hint !== 'language')

/** Fields of a transcription or translation. */
function AudioFields({ form, set, issues }: PartProps) {
  const usual = usualBytes(form)
  return [
    h(Checkboxes<Feature>, {
      legend: 'Required features',
      options: members(FEATURE_WORDS).map((value) => ({ value, label: FEATURE_WORDS[value] })),
      chosen: form.features,
      onChange: (features: readonly Feature[]) => set({ features }),
      inline: true,
    }),
    h(
      'div',
      { class: 'routes-pair' },
      h(TextInput, {
        label: 'Language',
        value: form.language,
        onInput: (language: string) => set({ language }),
        placeholder: 'any',
        maxLength: 16,
      }),
      h(TextInput, {
        label: 'Duration',
        value: form.duration,
        onInput: (duration: string) => set({ duration }),
        error: issues.duration ?? null,
      }),
      h(Select<AudioFormat>, {
        label: 'Format',
        value: form.format,
        onChange: (format: AudioFormat) => set({ format }),
        options: members(FORMAT_WORDS).map((value) => ({ value, label: FORMAT_WORDS[value] })),
      }),
      h(TextInput, {
        label: 'Size',
        value: form.megabytes,
        onInput: (megabytes: string) => set({ megabytes }),
        placeholder: usual === null ? '' : (usual / 1_000_000).toFixed(usual < 10_000_000 ? 2 : 0),
        error: issues.megabytes ?? null,
        suffix: 'MB',
        inputMode: 'decimal',
      }),
      h(TextInput, {
        label: 'Channels',
        value: form.channels,
        onInput: (channels: string) => set({ channels }),
        error: issues.channels ?? null,
        inputMode: 'numeric',
      }),
    ),
    h(
      'details',
      { class: 'more' },
      h('summary', null, 'Optional hints'),
      h(Checkboxes<Hint>, {
        legend: 'Also sends',
        hideLegend: true,
        options: HINT_CHOICES.map((value) => ({ value, label: HINT_WORDS[value] })),
        chosen: form.hints,
        onChange: (hints: readonly Hint[]) => set({ hints }),
        inline: true,
      }),
    ),
  ]
}

type Typed = 'characters' | 'voice' | 'speed' | 'responseFormat' | 'size' | 'seconds' | 'count' | 'dimensions'
type Ticked = 'images' | 'tools' | 'spoken'

const TYPED: Readonly<Record<Typed, { readonly label: string; readonly placeholder?: string }>> = {
  characters: { label: 'Characters of text' },
  voice: { label: 'Voice', placeholder: 'any' },
  speed: { label: 'Speed', placeholder: '1' },
  responseFormat: { label: 'Response format', placeholder: 'any' },
  size: { label: 'Size', placeholder: '1024x1024' },
  seconds: { label: 'Duration, s', placeholder: 'any' },
  count: { label: 'How many' },
  dimensions: { label: 'Dimensions', placeholder: 'any' },
}

const TICKED: Readonly<Record<Ticked, string>> = {
  images: 'Has pictures',
  tools: 'Has tools',
  spoken: 'Audio output',
}

/** Fields of all other endpoints. */
function TextFields({ form, set, issues }: PartProps) {
  const fields: readonly string[] = FIELDS_OF[form.endpoint]
  const ticks = members(TICKED).filter((name) => fields.includes(name))
  return [
    h(
      'div',
      { class: 'routes-pair' },
      members(TYPED)
        .filter((name) => fields.includes(name))
        .map((name) =>
          h(TextInput, {
            key: name,
            label: TYPED[name].label,
            placeholder: TYPED[name].placeholder,
            value: form[name],
            onInput: (text: string) => set({ [name]: text }),
            error: issues[name] ?? null,
          }),
        ),
    ),
    ticks.length === 0
      ? null
      : h(
          'div',
          { class: 'choices-inline' },
          ticks.map((name) =>
            h(Checkbox, {
              key: name,
              label: TICKED[name],
              checked: form[name],
              onChange: (on: boolean) => set({ [name]: on }),
            }),
          ),
        ),
  ]
}

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
  /** MB; empty: the usual size for this format and duration. */
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

const AUDIO_FIELDS = [
  'features',
  'hints',
  'language',
  'format',
  'duration',
  'megabytes',
  'channels',
] as const satisfies readonly SampleField[]

/** Fields of a request that each endpoint uses to choose an entry. */
const FIELDS_OF: Readonly<Record<OperationName, readonly SampleField[]>> = {
  transcription: AUDIO_FIELDS,
  translation: AUDIO_FIELDS,
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
  mpeg: 24_000,
  webm: 6_000,
  ogg: 6_000,
  other: 16_000,
}

/** How large audio usually is; null: the duration cannot be read. */
function usualBytes({ format, duration, channels }: SampleForm): number | null {
  const seconds = readDuration(duration)
  const count = wholeNumber(channels)
  return seconds === null ? null : Math.max(1, Math.round(seconds * BYTES_PER_SECOND[format] * (count || 1)))
}

/** The sample of the form in wire names, or which fields cannot be read and why. */
export type ReadSample =
  | { readonly sample: Readonly<Record<string, unknown>>; readonly issues: null }
  | { readonly sample: null; readonly issues: Partial<Readonly<Record<SampleField, string>>> }

/** Reads the fields that the endpoint uses, and no others. */
export function readSample(form: SampleForm): ReadSample {
  const issues: Partial<Record<SampleField, string>> = {}
  const fields = FIELDS_OF[form.endpoint]
  const sample: Record<string, unknown> = {}
  if (form.purpose !== '') sample.purpose = form.purpose
  if (form.profile !== '') sample.response_profile = form.profile
  for (const field of fields) {
    const read = READERS[field]
    const { name, value, fault } = read(form)
    if (fault !== undefined) issues[field] = fault
    else if (name !== undefined && value !== undefined) sample[name] = value
  }
  if (Object.keys(issues).length > 0) return { sample: null, issues }
  if (fields.includes('format')) sample.audio = sampleAudio(form)
  return { sample, issues: null }
}

interface Read {
  readonly name?: string
  readonly value?: unknown
  readonly fault?: string
}

const READERS: Readonly<Record<SampleField, (form: SampleForm) => Read>> = {
  features: ({ features }) => listField('features', features),
  hints: ({ hints }) => listField('hints', hints),
  language: ({ language }) => texted('language', language),
  format: () => ({}),
  duration: ({ duration }) =>
    readDuration(duration) === null ? { fault: 'seconds, or such as 1:30, 5 min, 1 h' } : {},
  megabytes: ({ megabytes }) =>
    megabytes.trim() === '' || isPositive(megabytes) ? {} : { fault: 'a number of MB over 0' },
  channels: ({ channels }) => (inRange(channels, 1, 64) ? {} : { fault: 'a whole number from 1 to 64' }),
  characters: ({ characters }) => countField('characters', characters, 1, 10_000_000),
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
  count: ({ count }) => countField('count', count, 1, 100_000),
  dimensions: ({ dimensions }) => optionalCount('dimensions', dimensions, 1_000_000),
}

function sampleAudio(form: SampleForm): Readonly<Record<string, unknown>> {
  const typed = form.megabytes.trim()
  const bytes = typed === '' ? usualBytes(form) : Math.max(1, Math.round(Number(typed) * 1_000_000))
  const { format, duration, channels } = form
  return { format, bytes, seconds: readDuration(duration), channels: wholeNumber(channels) }
}

function texted(name: string, text: string): Read {
  return text.trim() === '' ? {} : { name, value: text.trim() }
}

function listField(name: string, list: readonly string[]): Read {
  return list.length === 0 ? {} : { name, value: list }
}

function ticked(name: string, value: boolean): Read {
  return value ? { name, value } : {}
}

function countField(name: string, text: string, min: number, max: number): Read {
  return inRange(text, min, max)
    ? { name, value: wholeNumber(text) }
    : { fault: `a whole number from ${min} to ${max.toLocaleString('en')}` }
}

function optionalCount(name: string, text: string, max: number): Read {
  return text.trim() === '' ? {} : countField(name, text, 1, max)
}

/** NaN when it is no whole number. */
function wholeNumber(text: string): number {
  return /^\d{1,12}$/.test(text.trim()) ? Number(text) : Number.NaN
}

function inRange(text: string, min: number, max: number): boolean {
  const value = wholeNumber(text)
  return value >= min && value <= max
}

function isPositive(text: string): boolean {
  return Number.isFinite(Number(text)) && Number(text) > 0
}
