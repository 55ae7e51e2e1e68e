import type { TranscriptionOptions } from '../../src/contracts/calls.ts'
import type { Job, JobDoor, JobError } from '../../src/contracts/jobs.ts'
import type { UpstreamRequest } from '../../src/contracts/upstream.ts'
import { ASSEMBLYAI } from '../../src/gateway/api/assemblyai/door.ts'
import { LIST_OPTIONS, listingIn, listView } from '../../src/gateway/api/assemblyai/list.ts'
import {
  type KeptTranscript,
  paragraphsView,
  sentencesView,
  transcriptView,
  wordSearchView,
} from '../../src/gateway/api/assemblyai/transcript.ts'
import {
  readTranscriptOptions,
  TRANSCRIPT_OPTIONS,
} from '../../src/gateway/api/assemblyai/transcript-options.ts'
import type { Exchange } from '../../src/gateway/edge/exchange.ts'
import { newJobOf } from '../../src/gateway/state/new-job.ts'
import { options as optionsOf } from '../support/call.ts'
import { principal } from '../support/catalog.ts'
import { specOf } from '../support/jobs-under-test.ts'
import type { Contract } from './contract.ts'
import { type DoorCase, type DoorEndpoint, doorCases } from './doors.ts'
import { RESULTS } from './heard.ts'

const ROOT = 'https://api.assemblyai.com'
const { door } = ASSEMBLYAI
const ONE = '/v2/transcript/9ea68fd3-f953-42c1-9742-976c447fb463'
const AUDIO = { audio_url: 'https://cdn.example/a.wav' }
const ERROR: JobError = { code: 'UPSTREAM_REJECTED', message: 'bad audio', param: null, details: {} }
const ENDED_MS = 1_795_000_000_000

const exchangeOf = (query = '') => ({ query, headers: {} }) as unknown as Exchange

const KEPT: readonly KeptTranscript[] = RESULTS.map(({ text, words, ...heard }) => ({
  ...{ content: text, words, model: 'nova-3', warnings: [] },
  ...{ language: heard.language, language_confidence: heard.languageConfidence },
  duration_seconds: heard.durationSeconds,
}))

/** Jobs in every state, and deleted ones. */
function jobsOf(options: TranscriptionOptions, given: JobDoor): Job[] {
  const audio = { url: given.audioUrl }
  const spec = specOf('acme', {
    kind: 'transcription',
    work: { operation: 'transcription', options, audio },
    door: given,
  })
  const queued = newJobOf(spec, ENDED_MS)
  const ended = { ...queued, startedAtMs: ENDED_MS, endedAtMs: ENDED_MS, fence: 1 }
  const each: Job[] = [
    queued,
    { ...queued, status: 'processing' },
    { ...ended, status: 'succeeded' },
    { ...ended, status: 'failed', error: ERROR },
    { ...ended, status: 'cancelled' },
  ]
  return [...each, ...each.map((job) => ({ ...job, erased: true }))]
}

function transcriptsOf(options: TranscriptionOptions, given: JobDoor): object[] {
  return jobsOf(options, given).flatMap((job) => {
    const kept = job.status === 'succeeded' && !job.erased ? KEPT : [null]
    return kept.map((one) => onWire(transcriptView(job, one, null)))
  })
}

/**
 * As it is sent, without what newer types of AssemblyAI's client have (assemblyai 4.41.5, openapi.generated.d.ts), and
 * without a language that is unknown: null in the file's own examples, and not in its schema.
 */
function onWire(answer: object): object {
  const { dual_channel: _, ...rest } = JSON.parse(JSON.stringify(answer)) as Record<string, unknown>
  if (rest.language_code === null) delete rest.language_code
  if (!('status' in rest)) delete rest.speech_model_used
  return rest
}

const SUBMIT: DoorEndpoint = {
  ...{ door, method: 'POST', path: '/v2/transcript', bodyAs: 'json' },
  // Options that newer clients always send. The header's two options go together.
  always: { ...AUDIO, speech_models: ['universal'] },
  besides: ['webhook_auth_header_name', 'webhook_auth_header_value'],
  table: TRANSCRIPT_OPTIONS,
  ask({ body }) {
    const { request, door: given } = readTranscriptOptions(exchangeOf(), body, principal())
    return { warnings: request.warnings, answers: transcriptsOf(request.options, given) }
  },
}

/** One end of an id is as good as another: the file's are UUIDs. */
const LIST: DoorEndpoint = {
  ...{ door, method: 'GET', path: '/v2/transcript', bodyAs: null, always: {} },
  besides: ['before_id', 'after_id', 'created_on'],
  table: LIST_OPTIONS,
  ask({ query }) {
    const asked = listingIn(exchangeOf(`${query}`))
    const jobs = jobsOf(optionsOf(), { audioUrl: AUDIO.audio_url, models: [] })
    const pages = [
      { jobs, next: null },
      { jobs, next: 'tj_one' },
      { jobs: [], next: null },
    ]
    const answers = ['https://larkway.example', undefined].flatMap((origin) =>
      pages.map((page) => onWire(listView(asked, page, origin))),
    )
    return { warnings: asked.warnings, answers }
  },
}

const PLAIN = { door, method: 'GET', bodyAs: null, always: {}, table: {} } as const

/** Always with words, which are no option. */
const SEARCH: DoorEndpoint = {
  ...{ ...PLAIN, path: `${ONE}/word-search`, besides: [] },
  table: { words: { fate: 'kept', note: 'what to search for' } },
  ask({ query }) {
    const phrases = query.getAll('words').map((word) => [word])
    const all = [...phrases, ['hello'], ['hello', 'world']]
    return { warnings: [], answers: KEPT.map((kept) => onWire(wordSearchView('tj_one', kept, all))) }
  },
}

const UPLOAD: DoorEndpoint = {
  ...{ ...PLAIN, method: 'POST', path: '/v2/upload', bodyAs: 'audio', besides: [] },
  ask: () => ({
    warnings: [],
    answers: [{ upload_url: 'https://larkway.invalid/upload/sealed1.a' }],
  }),
}

/** The endpoints of AssemblyAI's format. */
export function assemblyaiDoor(contract: Contract): DoorCase[] {
  const views = (path: string, view: (kept: KeptTranscript) => object) => {
    const answers = KEPT.map((kept) => onWire(view(kept)))
    return { ...PLAIN, path: `${ONE}${path}`, besides: [], ask: () => ({ warnings: [], answers }) }
  }
  const transcripts = transcriptsOf(optionsOf(), { audioUrl: AUDIO.audio_url, models: ['universal'] })
  const one = { ...PLAIN, path: ONE, besides: [], ask: () => ({ warnings: [], answers: transcripts }) }
  const endpoints: DoorEndpoint[] = [
    SUBMIT,
    LIST,
    one,
    { ...one, method: 'DELETE' },
    views('/sentences', (kept) => sentencesView('tj_one', kept)),
    views('/paragraphs', (kept) => paragraphsView('tj_one', kept)),
    SEARCH,
    UPLOAD,
  ]
  return endpoints
    .flatMap((endpoint) => doorCases(contract, ROOT, endpoint))
    .filter(({ request: { url } }) => !url.endsWith('/word-search'))
    .map((one) => ({ ...one, request: { ...one.request, headers: bytesOf(one.request.headers) } }))
}

/** The file has one type for audio. */
function bytesOf(headers: UpstreamRequest['headers']): UpstreamRequest['headers'] {
  return headers['content-type'] === 'audio/wav'
    ? { ...headers, 'content-type': 'application/octet-stream' }
    : headers
}
