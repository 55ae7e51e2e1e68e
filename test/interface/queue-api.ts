import type { Test } from 'tap'
import type { Entry, Principal } from '../../src/contracts/catalog.ts'
import type { Job, Jobs } from '../../src/contracts/jobs.ts'
import type { Limits } from '../../src/contracts/limits.ts'
import type { Objects } from '../../src/contracts/objects.ts'
import type { Dependencies } from '../../src/gateway/api/endpoint.ts'
import { queue } from '../../src/gateway/api/native/queue.ts'
import { startJobRunner } from '../../src/gateway/jobs/runner.ts'
import { principal, route } from '../support/catalog.ts'
import { openDoors, openToMore } from '../support/doors-rig.ts'
import { startEdge } from '../support/edge.ts'
import { entryAt } from '../support/gateway-rig.ts'
import { HASTE } from '../support/job-rig.ts'
import { waitUntil } from '../support/wait-until.ts'

/** The answer to an enqueue, whichever it is. */
export interface Enqueued {
  readonly status: number
  readonly headers: Headers
  readonly body: {
    readonly queued?: boolean
    readonly job?: Readonly<Record<'id' | 'endpoint' | 'mode' | 'status' | 'created_at', string>>
    readonly error?: { readonly code: string; readonly [field: string]: unknown }
  }
}

export interface QueueApi {
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
  /** POSTs a body, or what is JSON of it. */
  post(body: unknown, headers?: Readonly<Record<string, string>>): Promise<Enqueued>
  /** Enqueues what must be taken. @returns the job as the state has it */
  enqueued(body: unknown, headers?: Readonly<Record<string, string>>): Promise<Job>
  /** Has the jobs taken up from now on. */
  work(): void
  /** The job, once it has ended. */
  ended(id: string): Promise<Job>
  /** Keys of the objects there are. */
  kept(): Promise<string[]>
}

export interface QueueApiOptions {
  /** Default: a provider that has every operation, and of which nobody expects an answer. */
  readonly entries?: readonly Entry[]
  readonly caller?: Partial<Principal>
  readonly limits?: Partial<Limits>
  readonly domains?: readonly string[]
  /** Stands between the endpoint and the state. */
  readonly between?: (jobs: Jobs) => Jobs
}

const RATE = { requestsPerMinute: 1_000_000, burst: 100_000 }
export const QUEUE_KEY = { ...principal().key, rateLimit: RATE, scopes: ['queue'] as const }

/** The queue's endpoint over real sockets, in this process. Nobody takes the jobs up before `work`. */
export async function startQueueApi(t: Test, options: QueueApiOptions = {}): Promise<QueueApi> {
  const { entries = [entryAt('http://127.0.0.1:1', { kind: 'sandbox' })], caller, limits, between } = options
  const base = principal({ route: route(entries), key: QUEUE_KEY, ...caller })
  const {
    dependencies: given,
    authorization,
    objects,
    budgetUsed,
  } = await openDoors(t, {
    entries,
    caller: base,
    fetchAudio: () => Promise.reject(new Error('nothing is fetched before a worker does')),
    audioUrlDomains: options.domains ?? [],
    ...(limits && { limits }),
  })
  const { services } = given
  const { state } = services
  const { dependencies, admit } = openToMore(given, base, between)
  const edge = await startEdge(t, [queue.route(dependencies)])

  async function post(body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Enqueued> {
    const asItIs = typeof body === 'string' || body instanceof Uint8Array
    const response = await fetch(`${edge.origin}/v1/queue`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json', ...headers },
      body: asItIs ? (body as NonNullable<RequestInit['body']>) : JSON.stringify(body),
    })
    return {
      status: response.status,
      headers: response.headers,
      body: (await response.json()) as Enqueued['body'],
    }
  }

  return {
    port: edge.port,
    origin: edge.origin,
    dependencies,
    jobs: state.jobs,
    objects,
    budgetUsed,
    authorization,
    admit,
    post,
    async enqueued(body, headers) {
      const answer = await post(body, headers)
      const id = answer.body.job?.id
      const job = id === undefined ? null : await state.jobs.get(id)
      if (answer.status !== 202 || job === null) throw new Error(`not taken: ${JSON.stringify(answer.body)}`)
      return job
    },
    work() {
      const { key: _, ...app } = base
      const apps = new Map([[app.workspace.id, new Map([[app.app.id, app]])]])
      const runner = startJobRunner({
        ...given,
        ...given.jobs,
        services: { ...services, snapshot: () => ({ ...services.snapshot(), apps }) },
        places: 4,
        perWorkspace: 4,
        timing: HASTE,
      })
      t.teardown(() => runner.stop(0))
    },
    async ended(id) {
      let job: Job | null = null
      const isEnded = async () => {
        job = await state.jobs.get(id)
        return (job?.endedAtMs ?? null) !== null
      }
      if ((await waitUntil(isEnded, 30_000)) && job !== null) return job
      throw new Error(`the job does not end: ${JSON.stringify(job)}`)
    },
    async kept() {
      const keys: string[] = []
      for (const kind of ['job', 'spool'])
        for await (const { key } of objects.list(`${kind}/`)) keys.push(key)
      return keys
    },
  }
}
