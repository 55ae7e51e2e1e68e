import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { Feature, Redaction, TranscriptFormat } from '../../../../contracts/calls.ts'
import type { Profile } from '../../../../contracts/catalog.ts'
import type { ModelsAnswer } from '../../../server/answers/providers.ts'
import type { RouteAnswer } from '../../../server/answers/routes.ts'
import type { AppAnswer } from '../../../server/answers/workspaces.ts'
import { Checkbox, Checkboxes } from '../../components/choice.ts'
import { Select, TextInput } from '../../components/field.ts'
import { h } from '../../h.ts'

// Requests of the playground to `/v1`, as forms and as JSON.

const TRANSCRIPT_FORMATS = [
  'json',
  'verbose_json',
  'diarized_json',
  'text',
  'srt',
  'vtt',
] as const satisfies readonly TranscriptFormat[]

const TIMESTAMPS = ['word', 'segment', 'both'] as const
const REDACTIONS = ['pii', 'phi', 'pci', 'numbers'] as const satisfies readonly Redaction[]
const PROFILES = ['fast', 'balanced', 'thinking'] as const satisfies readonly Profile[]

/** Empty strings and null are not sent. */
export interface TranscriptionOptions {
  readonly language: string
  readonly responseFormat: TranscriptFormat
  readonly timestamps: (typeof TIMESTAMPS)[number] | null
  readonly diarization: boolean
  /** As typed: one to a line, or between commas. */
  readonly keyterms: string
  readonly redaction: readonly Redaction[]
  readonly purpose: string
  readonly profile: Profile | null
  /** Sent as a job, which continues when the page is closed. */
  readonly asJob: boolean
}

export const PLAIN_HEARING: TranscriptionOptions = {
  language: '',
  responseFormat: 'json',
  timestamps: null,
  diarization: false,
  keyterms: '',
  redaction: [],
  purpose: '',
  profile: null,
  asJob: false,
}

export interface SpeechOptions {
  readonly input: string
  readonly voice: string
  readonly responseFormat: string
  /** As typed. */
  readonly speed: string
  readonly purpose: string
  readonly profile: Profile | null
}

export const PLAIN_SPEECH: SpeechOptions = {
  input: '',
  voice: '',
  responseFormat: '',
  speed: '',
  purpose: '',
  profile: null,
}

const TRANSCRIPTION_PATH = '/v1/transcription'
export const JOBS_PATH = '/v1/transcription/jobs'
export const SPEECH_PATH = '/v1/speech'

export function transcriptionPath({ asJob }: Pick<TranscriptionOptions, 'asJob'>): string {
  return asJob ? JOBS_PATH : TRANSCRIPTION_PATH
}

/** The terms of a list as it was typed, each once. */
export function termsOf(typed: string): readonly string[] {
  const terms = typed.split(/[\n,]/).map((term) => term.trim())
  return [...new Set(terms.filter((term) => term !== ''))]
}

/**
 * The form fields beside the file, in order. Lists are fields named `name[]`, each of which is one item as it is;
 * a single one without brackets would be read as a comma list.
 */
export function transcriptionFields(
  options: TranscriptionOptions,
): readonly (readonly [name: string, value: string])[] {
  const { language, responseFormat, timestamps, diarization, redaction, purpose, profile } = options
  const single = [
    ['language', language.trim()],
    ['response_format', responseFormat === 'json' ? '' : responseFormat],
    ['timestamps', timestamps ?? ''],
    ['diarization', diarization ? 'true' : ''],
    ['purpose', purpose],
    ['response_profile', profile ?? ''],
  ] as const
  return [
    ...single.filter(([, value]) => value !== ''),
    ...termsOf(options.keyterms).map((term) => ['keyterms[]', term] as const),
    ...redaction.map((kind) => ['redaction[]', kind] as const),
  ]
}

/** The JSON body of a speech call. A speed that is no number is left to the API to refuse. */
export function speechBody(options: SpeechOptions): Readonly<Record<string, string | number>> {
  const { input, voice, responseFormat, purpose, profile } = options
  const speed = options.speed.trim()
  const number = Number(speed)
  return {
    input,
    ...(voice.trim() === '' ? {} : { voice: voice.trim() }),
    ...(responseFormat.trim() === '' ? {} : { response_format: responseFormat.trim() }),
    ...(speed === '' ? {} : { speed: Number.isNaN(number) ? speed : number }),
    ...(purpose === '' ? {} : { purpose }),
    ...(profile === null ? {} : { response_profile: profile }),
  }
}

/** The options: open beside the source where there is room, else closed, to keep the send button near. */
export function Options({ children }: { readonly children: ComponentChildren }) {
  const [open] = useState(() => matchMedia('(min-width: 1000px)').matches)
  return h('details', { class: 'play-options', open }, h('summary', null, h('h2', null, 'Options')), children)
}

/** Features of the entries that would serve an app. */
export interface Abilities {
  readonly transcribes: boolean
  readonly speaks: boolean
  /** Features of the transcribing entries; null: unknown for some entry. */
  readonly features: ReadonlySet<Feature> | null
  readonly entries: readonly string[]
}

/** Out of the published fields of a route and the models' table; null where neither tells. */
export function abilitiesOf(route: RouteAnswer, { providers }: ModelsAnswer): Abilities | null {
  const entries = route.published?.fields.entries
  if (entries === undefined) return null
  const known = entries.map((entry) => {
    const models = providers.find(({ name }) => name === entry.provider)?.models
    const model = models?.find((one) => one.model === entry.model)
    return {
      name: `${entry.provider}/${entry.model}`,
      capabilities: entry.capabilities ?? model?.capabilities ?? null,
      // The schema's own type forgets which words an enumeration holds.
      features: (entry.features as readonly Feature[] | undefined) ?? model?.features ?? null,
    }
  })
  const may = (capability: 'audio_input' | 'audio_output') =>
    known.some(({ capabilities }) => capabilities === null || capabilities.includes(capability))
  const transcribing = known.filter(({ capabilities }) => capabilities?.includes('audio_input') ?? true)
  const unknown = transcribing.some(({ features }) => features === null)
  return {
    transcribes: may('audio_input'),
    speaks: may('audio_output'),
    features: unknown ? null : new Set(transcribing.flatMap(({ features }) => features ?? [])),
    entries: known.map(({ name }) => name),
  }
}

/** True if an option can be asked for, or if that is not known. */
export function keeps(abilities: Abilities | null, feature: Feature): boolean {
  return abilities?.features?.has(feature) ?? true
}

/** Routes of an app's calls without a purpose: by capability, or its default. */
export function appRoutes(fields: AppAnswer['fields'] | undefined) {
  const { route = '', capability_routes: byCapability = {} } = fields ?? {}
  const routes = byCapability as Readonly<Record<string, string | undefined>>
  return { transcribing: routes.audio_input ?? route, speaking: routes.audio_output ?? route }
}

/** Names of voices that entries of a route translate for their provider, each once. */
export function voicesOf({ published }: RouteAnswer): readonly string[] {
  const names = published?.fields.entries.flatMap(({ voices }) => Object.keys(voices ?? {})) ?? []
  return [...new Set(names)].sort()
}

const LANGUAGES = [
  'ar',
  'de',
  'en',
  'es',
  'fr',
  'hi',
  'it',
  'ja',
  'ko',
  'nl',
  'pl',
  'pt',
  'ru',
  'sv',
  'tr',
  'uk',
  'zh',
]

const KEPT_BY_NONE = 'No model of the route supports this: the request would be rejected.'

interface FormProps {
  readonly options: TranscriptionOptions
  readonly purposes: readonly string[]
  readonly abilities: Abilities | null
  readonly onChange: (fields: Partial<TranscriptionOptions>) => void
}

/** Options of a transcription, with a warning for those that no entry of the route supports. */
export function TranscriptionForm({ options, purposes, abilities, onChange }: FormProps) {
  const { language, timestamps, responseFormat, diarization, asJob } = options
  const lacking = (timestamps === 'word' || timestamps === 'both') && !keeps(abilities, 'word_timestamps')
  const lackingSegments =
    (timestamps === 'segment' || timestamps === 'both') && !keeps(abilities, 'segment_timestamps')
  return h(
    'div',
    { class: 'stack' },
    h(TextInput, {
      label: 'Language',
      optional: true,
      hint: 'ISO 639 code, e.g. en. A hint; some providers ignore it.',
      suggestions: LANGUAGES,
      maxLength: 35,
      value: language,
      onInput: (value: string) => onChange({ language: value }),
    }),
    h(Select, {
      label: 'Timestamps',
      hint: 'Word timestamps highlight the transcript during playback.',
      error: lacking || lackingSegments ? KEPT_BY_NONE : null,
      value: timestamps ?? '',
      options: [
        { value: '', label: 'none' },
        ...TIMESTAMPS.map((one) => ({
          value: one,
          label: one === 'both' ? 'words and segments' : `${one}s`,
        })),
      ],
      onChange: (value: string) => onChange({ timestamps: TIMESTAMPS.find((one) => one === value) ?? null }),
    }),
    h(Select<TranscriptFormat>, {
      label: 'Response format',
      value: responseFormat,
      options: TRANSCRIPT_FORMATS,
      onChange: (value: TranscriptFormat) => onChange({ responseFormat: value }),
    }),
    h(Checkbox, {
      label: 'Diarization',
      hint: diarization && !keeps(abilities, 'diarization') ? KEPT_BY_NONE : null,
      checked: diarization,
      onChange: (on: boolean) => onChange({ diarization: on }),
    }),
    h(Checkbox, {
      label: 'Send as a job',
      hint: 'For long recordings: it continues when you close this page, and its result is kept.',
      checked: asJob,
      onChange: (on: boolean) => onChange({ asJob: on }),
    }),
    h(More, { options, purposes, abilities, onChange }),
  )
}

function More({ options, purposes, abilities, onChange }: FormProps) {
  const { keyterms, redaction, purpose, profile } = options
  const set = [keyterms.trim(), redaction.join(''), purpose, profile ?? ''].filter(
    (value) => value !== '',
  ).length
  return h(
    'details',
    { class: 'more' },
    h('summary', null, 'More options', set === 0 ? '' : ` (${set} set)`),
    h(
      'div',
      { class: 'stack' },
      h(TextInput, {
        label: 'Keyterms',
        optional: true,
        hint: 'Words to recognize, one per line or separated by commas.',
        error: keyterms.trim() !== '' && !keeps(abilities, 'keyterms') ? KEPT_BY_NONE : null,
        rows: 3,
        value: keyterms,
        onInput: (value: string) => onChange({ keyterms: value }),
      }),
      h(Checkboxes<Redaction>, {
        legend: 'Redaction',
        hint: 'Content to redact from the transcript.',
        error: redaction.length > 0 && !keeps(abilities, 'redaction') ? KEPT_BY_NONE : null,
        inline: true,
        options: REDACTIONS.map((value) => ({ value, label: value })),
        chosen: redaction,
        onChange: (chosen: readonly Redaction[]) => onChange({ redaction: chosen }),
      }),
      h(Selectors, { purpose, profile, purposes, onChange }),
    ),
  )
}

/** Fields of any call that select the route and its entries. */
export function Selectors(props: {
  readonly purpose: string
  readonly profile: Profile | null
  readonly purposes: readonly string[]
  readonly onChange: (fields: { purpose?: string; profile?: Profile | null }) => void
}) {
  const { purpose, profile, purposes, onChange } = props
  return [
    h(Select, {
      label: 'Purpose',
      hint:
        purposes.length === 0
          ? 'No purposes in this workspace.'
          : 'Selects the route that the app assigns to it.',
      value: purpose,
      options: [{ value: '', label: 'none' }, ...purposes],
      onChange: (value: string) => onChange({ purpose: value }),
    }),
    h(Select, {
      label: 'Profile',
      hint: 'Prefers entries with this profile.',
      value: profile ?? '',
      options: [{ value: '', label: 'none' }, ...PROFILES],
      onChange: (value: string) => onChange({ profile: PROFILES.find((one) => one === value) ?? null }),
    }),
  ]
}
