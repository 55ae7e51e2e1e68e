import { firstJobId, idTimeMs, jobPartition } from '../../../contracts/ids.ts'
import { instantMs } from '../../../contracts/instants.ts'
import type { JobPage, JobPageFilter, JobStatus, ListedJob } from '../../../contracts/jobs.ts'
import type { Exchange } from '../../edge/exchange.ts'
import { invalidField, MUST } from '../../edge/refusals.ts'
import { type DoorOptions, kept, OptionReader, optionsParameter } from '../door-options.ts'
import { endpoint } from '../endpoint.ts'
import { warningHeaders } from '../fact-headers.ts'
import { jsonReply } from '../json-reply.ts'
import { AssemblyAiTranscripts } from '../openapi/assemblyai-answers.ts'
import { json } from '../openapi/operation.ts'
import { ASSEMBLYAI } from './door.ts'
import { audioUrlOf, jobErrorText, jobStatus } from './transcript.ts'
import { PATH } from './transcripts.ts'

const LIMIT = 10
const LIMIT_MAX = 200
const DAY_MS = 24 * 3_600_000

/** Every option of `GET /v2/transcript`, in the order of AssemblyAI's reference. */
export const LIST_OPTIONS: DoorOptions = {
  limit: kept(`most transcripts of a page, 1 to ${LIMIT_MAX}; default: ${LIMIT}`),
  status: kept('`queued`, `processing`, `completed` or `error`'),
  created_on: kept('a date in UTC'),
  before_id: kept('only older transcripts than this'),
  after_id: kept('only newer ones: those next to it, unless there is `before_id`'),
  throttled_only: kept('an empty list: nothing is throttled'),
}

const STATUSES: Readonly<Record<string, readonly JobStatus[]>> = {
  queued: ['queued'],
  processing: ['processing'],
  completed: ['succeeded'],
  error: ['failed', 'cancelled'],
}

export const listTranscripts = endpoint({
  ...ASSEMBLYAI,
  method: 'GET',
  path: PATH,
  kind: 'none',
  id: 'assemblyaiList',
  summary: 'List transcripts',
  description: 'Those of the app, the newest first, also those that came by `POST /v1/transcription/jobs`.',
  parameters: [optionsParameter(LIST_OPTIONS)],
  answers: [
    {
      status: 200,
      description: 'a page of them',
      contents: [json(AssemblyAiTranscripts)],
      headers: ['X-LK-Warnings'],
    },
  ],
  async handle({ exchange, context, deps }) {
    const { workspace, app } = context.principal
    const { page, query, isEmpty, warnings } = listingIn(exchange)
    const owner = { workspace: workspace.id, app: app.id }
    const { jobs, next } = isEmpty
      ? { jobs: [], next: null }
      : await deps.services.state.jobs.page({ ...page, owner })
    const reply = await jsonReply(listView({ page, query }, { jobs, next }, deps.publicUrl))
    return { ...reply, headers: { ...reply.headers, ...warningHeaders(warnings) } }
  },
})

/** A page as AssemblyAI has it. @param publicUrl undefined: URLs are paths */
export function listView(
  { page, query }: Pick<Listing, 'page' | 'query'>,
  { jobs, next }: JobPage,
  publicUrl: string | undefined,
) {
  const newestFirst = page.from === 'newest' ? jobs : jobs.toReversed()
  const urls = new PageUrls(publicUrl, query)
  return {
    page_details: {
      limit: page.limit,
      result_count: jobs.length,
      current_url: urls.current(),
      ...neighbours(newestFirst, next, page, urls),
    },
    transcripts: newestFirst.map((job) => listedJob(job, urls)),
  }
}

/** @param next the last id that was looked at, in the direction of the page; null: it is the end of the list */
function neighbours(
  jobs: readonly ListedJob[],
  next: string | null,
  { from }: Pick<JobPageFilter, 'from'>,
  urls: PageUrls,
) {
  const [newest, oldest] = [jobs[0]?.id ?? null, jobs.at(-1)?.id ?? null]
  return {
    prev_url: urls.at('before_id', from === 'newest' ? next : oldest),
    next_url: urls.at('after_id', from === 'newest' ? newest : (next ?? newest)),
  }
}

function listedJob(job: ListedJob, urls: PageUrls) {
  const { id, endedAtMs } = job
  const status = jobStatus(job)
  return {
    id,
    resource_url: urls.resource(id),
    status,
    // By the clock that orders the list.
    created: momentOf(idTimeMs(id)),
    completed: status === 'completed' && endedAtMs !== null ? momentOf(endedAtMs) : null,
    audio_url: audioUrlOf(job),
    error: jobErrorText(job),
  }
}

/** As AssemblyAI writes a moment: in UTC, without a zone. */
function momentOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, -1)
}

/** URLs of the list, under the origin of the node, else below the base URL that clients are given. */
class PageUrls {
  readonly #path: string
  readonly #query: URLSearchParams

  constructor(publicUrl: string | undefined, query: URLSearchParams) {
    this.#path = publicUrl === undefined ? PATH.replace(BASE, '') : `${publicUrl}${PATH}`
    this.#query = query
  }

  current(): string {
    return `${this.#path}?${this.#query}`
  }

  at(bound: 'before_id' | 'after_id', id: string | null): string | null {
    if (id === null) return null
    const query = new URLSearchParams(this.#query)
    for (const name of ['before_id', 'after_id']) query.delete(name)
    query.set(bound, id)
    return `${this.#path}?${query}`
  }

  resource(id: string): string {
    return `${this.#path}/${id}`
  }
}

const BASE = '/assemblyai'

interface Listing {
  readonly page: Omit<JobPageFilter, 'owner'>
  /** The query, as pages repeat it. */
  readonly query: URLSearchParams
  /** No transcript can match. */
  readonly isEmpty: boolean
  readonly warnings: readonly string[]
}

/** @throws GatewayError INVALID_REQUEST naming the option */
export function listingIn(exchange: Pick<Exchange, 'query'>): Listing {
  const sent = new URLSearchParams(exchange.query)
  const names = [...new Set(sent.keys())]
  const values = new Map(names.map((name) => [name, sent.getAll(name)]))
  const reader = new OptionReader({ kind: 'form', values }, LIST_OPTIONS)
  const limit = reader.number('limit') ?? LIMIT
  if (!Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX)
    throw invalidField('limit', `must be a whole number from 1 to ${LIMIT_MAX}`)
  const status = reader.text('status')
  if (status !== null && !Object.hasOwn(STATUSES, status))
    throw invalidField('status', MUST.beOneOf(Object.keys(STATUSES)))
  const day = dayIn(reader)
  const [before, after] = [idIn(reader, 'before_id'), idIn(reader, 'after_id')]
  const isEmpty = reader.flag('throttled_only') ?? false
  const query = new URLSearchParams({ limit: String(limit) })
  for (const name of Object.keys(LIST_OPTIONS)) {
    const value = name === 'limit' ? null : reader.text(name)
    if (value !== null) query.set(name, value)
  }
  const page: Omit<JobPageFilter, 'owner'> = {
    statuses: status === null ? null : (STATUSES[status] ?? null),
    after: greatest([after, day?.after ?? null]),
    before: greatest([before, day?.before ?? null], -1),
    from: after !== null && before === null ? 'oldest' : 'newest',
    limit,
  }
  return { page, query, isEmpty, warnings: reader.settleKindly() }
}

function idIn(reader: OptionReader, name: 'before_id' | 'after_id'): string | null {
  const id = reader.text(name)
  if (id !== null && (!id.startsWith('tj_') || jobPartition(id) === null))
    throw invalidField(name, 'must be the ID of a transcript')
  return id
}

/** Bounds of the ids that were made on a day. */
function dayIn(reader: OptionReader): { readonly after: string; readonly before: string } | null {
  const day = reader.text('created_on')
  if (day === null) return null
  const startMs = instantMs(`${day}T00:00:00Z`)
  if (startMs === null) throw invalidField('created_on', 'must be a date such as 2026-11-03')
  return { after: firstJobId('tj', startMs), before: firstJobId('tj', startMs + DAY_MS) }
}

/** The greatest of the ids that are there, or with -1 the smallest. */
function greatest(ids: readonly (string | null)[], sign: 1 | -1 = 1): string | null {
  const there = ids.filter((id) => id !== null).sort()
  return (sign === 1 ? there.at(-1) : there[0]) ?? null
}
