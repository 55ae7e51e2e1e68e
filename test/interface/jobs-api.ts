import type { Test } from 'tap'
import type { Entry, Principal } from '../../src/contracts/catalog.ts'
import type { Job, JobEnding, Jobs } from '../../src/contracts/jobs.ts'
import type { Limits } from '../../src/contracts/limits.ts'
import type { Objects } from '../../src/contracts/objects.ts'
import type { Clock } from '../../src/contracts/time.ts'
import { listTranscripts } from '../../src/gateway/api/assemblyai/list.ts'
import {
  deleteTranscript,
  showTranscript,
  submitTranscript,
} from '../../src/gateway/api/assemblyai/transcripts.ts'
import { upload } from '../../src/gateway/api/assemblyai/upload.ts'
import type { Dependencies } from '../../src/gateway/api/endpoint.ts'
import { audio } from '../../src/gateway/api/native/audio.ts'
import { result } from '../../src/gateway/api/native/results.ts'
import { transcription, translation } from '../../src/gateway/api/native/transcription.ts'
import {
  cancelTranscriptionJob,
  showTranscriptionJob,
  submitTranscriptionJob,
} from '../../src/gateway/api/native/transcription-jobs.ts'
import { retentionOf } from '../../src/gateway/jobs/retention.ts'
import { createJobWatch } from '../../src/gateway/jobs/watch.ts'
import { principal, route } from '../support/catalog.ts'
import { openDoors, openToMore } from '../support/doors-rig.ts'
import { startEdge } from '../support/edge.ts'
import { entryAt } from '../support/gateway-rig.ts'

/** A job object, or what is told to who hands a job in. */
export interface JobAnswer {
  readonly job_id: string
  readonly status: string
  readonly [field: string]: unknown
}

export interface Asked {
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Uint8Array | string
  readonly signal?: AbortSignal
}

export interface Answered {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly job: JobAnswer
  readonly error: { readonly code: string; readonly [field: string]: unknown } | undefined
}

export interface JobsApi {
  readonly port: number
  readonly origin: string
  readonly dependencies: Dependencies
  readonly jobs: Jobs
  readonly objects: Objects
  readonly budgetUsed: () => number
  /** Header of the one caller, of app `web` of workspace `acme`. */
  readonly authorization: string
  /** The same for somebody else. */
  admit(caller: Partial<Principal>): string
  ask(method: string, path: string, asked?: Asked): Promise<Answered>
  /** Hands a job in as JSON. */
  submit(body: object, headers?: Readonly<Record<string, string>>): Promise<Answered>
  /** Takes the job up, as a worker does. */
  claim(id: string): Promise<Job>
  /** Ends the newest claim. */
  end(id: string, ending: JobEnding): Promise<Job>
  /** Keys of the objects of jobs. */
  kept(): Promise<string[]>
}

export interface JobsApiOptions {
  /** Default: a provider of which nobody expects an answer. */
  readonly entries?: readonly Entry[]
  readonly caller?: Partial<Principal>
  readonly limits?: Partial<Limits>
  readonly domains?: readonly string[]
  readonly memoryMib?: number
  /** Moved by the test; absent: the machine's. */
  readonly clock?: Clock
  /** Stands between the endpoints and the state. */
  readonly between?: (jobs: Jobs) => Jobs
  /** Stands between everything and the store. */
  readonly inFrontOf?: (objects: Objects) => Objects
}

/** The same jobs in AssemblyAI's format. */
const DOOR = [upload, submitTranscript, listTranscripts, showTranscript, deleteTranscript]

const RATE = { requestsPerMinute: 1_000_000, burst: 100_000 }
const KEY = { ...principal().key, rateLimit: RATE, scopes: ['inference', 'jobs'] as const }
const POISON = { code: 'INTERNAL', message: 'internal error', param: null, details: {} } as const

/** The endpoints of transcription jobs over real sockets, in this process. No worker takes the jobs up but the test. */
export async function startJobsApi(t: Test, options: JobsApiOptions = {}): Promise<JobsApi> {
  const {
    entries = [entryAt('http://127.0.0.1:1')],
    caller,
    limits,
    domains = [],
    memoryMib,
    clock,
    between,
    inFrontOf,
  } = options
  const base = principal({ route: route(entries), key: KEY, ...caller })
  const rig = await openDoors(t, {
    entries,
    caller: base,
    fetchAudio: () => Promise.reject(new Error('nothing is fetched before a worker does')),
    audioUrlDomains: domains,
    ...(limits && { limits }),
    ...(memoryMib && { memoryMib }),
    ...(clock && { clock }),
    ...(inFrontOf && { inFrontOf }),
  })
  const { objects, links, authorization, budgetUsed } = rig
  const { services } = rig.dependencies
  const { state } = services
  const { dependencies, admit } = openToMore(rig.dependencies, base, between)
  const watch = createJobWatch(dependencies.services.state.jobs, dependencies.jobs.signals, services.clock)
  const opened = { open: (token: string) => links.open(token), objects }
  const edge = await startEdge(t, [
    submitTranscriptionJob.route(dependencies),
    showTranscriptionJob.route({ ...dependencies, watch }),
    cancelTranscriptionJob.route(dependencies),
    transcription.route(dependencies),
    translation.route(dependencies),
    audio.route(dependencies),
    result.route({ ...dependencies, links: opened }),
    ...DOOR.map((endpoint) => endpoint.route(dependencies)),
  ])
  const keep = retentionOf(services.snapshot().limits)
  const api: JobsApi = {
    port: edge.port,
    origin: edge.origin,
    dependencies,
    jobs: state.jobs,
    objects,
    budgetUsed,
    authorization,
    admit,
    async ask(method, path, { headers = {}, body, signal } = {}) {
      const response = await fetch(edge.origin + path, {
        method,
        headers: { authorization, ...headers },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : new Uint8Array(body) }),
        signal: signal ?? null,
      })
      const text = await response.text()
      const job = JSON.parse(text || '{}') as JobAnswer & { error?: Answered['error'] }
      const isError = response.status >= 400
      return {
        status: response.status,
        headers: response.headers,
        text,
        job,
        error: isError ? job.error : undefined,
      }
    },
    submit: (body, headers = {}) =>
      api.ask('POST', '/v1/transcription/jobs', {
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      }),
    async claim(id) {
      const claiming = { limit: 100, perWorkspace: 100, leaseMs: 60_000, stalledMax: 3, poison: POISON, keep }
      const claimed = await state.jobs.claim(claiming)
      const one = claimed.find(({ job }) => job.id === id)
      if (one === undefined)
        throw new Error(`${id} is not to be had, but ${claimed.map(({ job }) => job.id)}`)
      dependencies.jobs.signals.changed(id)
      return one.job
    },
    async end(id, ending) {
      const { fence } = (await state.jobs.get(id))!
      const ended = await state.jobs.end(id, fence, ending, keep)
      if (ended === null) throw new Error(`the claim of ${id} is not in force`)
      dependencies.jobs.signals.changed(id)
      return ended
    },
    async kept() {
      const keys: string[] = []
      for await (const { key } of objects.list('job/')) keys.push(key)
      return keys
    },
  }
  return api
}
