import type { Redaction, TranscriptFormat } from '../../../../../schema/calls.ts'
import type { Profile } from '../../../../../schema/catalog.ts'

// What the playground asks `/v1` for, and how that is written as a form and as JSON.

export const TRANSCRIPT_FORMATS = [
  'json',
  'verbose_json',
  'diarized_json',
  'text',
  'srt',
  'vtt',
] as const satisfies readonly TranscriptFormat[]

export const TIMESTAMPS = ['word', 'segment', 'both'] as const
export const REDACTIONS = ['pii', 'phi', 'pci', 'numbers'] as const satisfies readonly Redaction[]
export const PROFILES = ['fast', 'balanced', 'thinking'] as const satisfies readonly Profile[]

/** An empty text, and null, stand for what is not sent. */
export interface HearingOptions {
  readonly language: string
  readonly responseFormat: TranscriptFormat
  readonly timestamps: (typeof TIMESTAMPS)[number] | null
  readonly diarization: boolean
  /** As typed: one to a line, or between commas. */
  readonly keyterms: string
  readonly redaction: readonly Redaction[]
  readonly purpose: string
  readonly profile: Profile | null
  /** Handed in as a job, which goes on when the page is closed. */
  readonly asJob: boolean
}

export const PLAIN_HEARING: HearingOptions = {
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

export const HEARING_PATH = '/v1/transcription'
export const JOBS_PATH = '/v1/transcription/jobs'
export const SPEECH_PATH = '/v1/speech'

export function hearingPath({ asJob }: Pick<HearingOptions, 'asJob'>): string {
  return asJob ? JOBS_PATH : HEARING_PATH
}

/** The terms of a list as it was typed, each once. */
export function termsOf(typed: string): readonly string[] {
  const terms = typed.split(/[\n,]/).map((term) => term.trim())
  return [...new Set(terms.filter((term) => term !== ''))]
}

/**
 * The form fields beside the file, in order. Lists are fields named `name[]`: of those each is one item as it stands,
 * whereas a single one without brackets would be read as a comma list.
 */
export function hearingFields(options: HearingOptions): readonly (readonly [name: string, value: string])[] {
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
