import { pino } from 'pino'
import type { Test } from 'tap'
import type { Audio, AudioRef, BodySource } from '../../src/contracts/audio.ts'
import type { Entry, Principal } from '../../src/contracts/catalog.ts'
import { newId, newJobId } from '../../src/contracts/ids.ts'
import type { InlineAudio, JobObjects } from '../../src/contracts/job-objects.ts'
import type { Job, Jobs, JobWork } from '../../src/contracts/jobs.ts'
import type { Limits } from '../../src/contracts/limits.ts'
import type { Objects } from '../../src/contracts/objects.ts'
import type { FetchAudio } from '../../src/contracts/remote-audio.ts'
import type { WorkspaceSettings } from '../../src/contracts/settings.ts'
import type { State } from '../../src/contracts/state.ts'
import { systemClock } from '../../src/contracts/time.ts'
import type { Services } from '../../src/gateway/call/context/services.ts'
import { createSettlements, createUsageBuffer } from '../../src/gateway/call/money/accounts.ts'
import { createMoneyLeases } from '../../src/gateway/call/money/money-leases.ts'
import type { JobTiming } from '../../src/gateway/jobs/claim.ts'
import { retentionOf } from '../../src/gateway/jobs/retention.ts'
import { type JobRunner, startJobRunner } from '../../src/gateway/jobs/runner.ts'
import { createJobSignals, type JobSignals } from '../../src/gateway/jobs/watch.ts'
import { createMediaProbe } from '../../src/gateway/media/probe.ts'
import { createAudioReader } from '../../src/gateway/storage/audio-reader.ts'
import { createBlocks } from '../../src/gateway/storage/blocks.ts'
import { createBudget } from '../../src/gateway/storage/budget.ts'
import { createFileObjects } from '../../src/gateway/storage/folder.ts'
import { createJobObjects } from '../../src/gateway/storage/job-objects.ts'
import { createRemoteAudio } from '../../src/gateway/storage/remote-audio.ts'
import { sealObjects } from '../../src/gateway/storage/sealed-objects.ts'
import { createSpool } from '../../src/gateway/storage/spool.ts'
import { createWorkers } from '../../src/gateway/workers/pool.ts'
import { options } from './call.ts'
import { principal } from './catalog.ts'
import { chatCall, entryAt, gatewayRig } from './gateway-rig.ts'
import { tempFolder } from './scratch.ts'
import { startUpstream } from './upstream/upstream.ts'
import { waitUntil } from './wait-until.ts'
import { filledWav } from './wav.ts'

const MIB = 1024 * 1024
const ENDED: ReadonlySet<string> = new Set(['succeeded', 'failed', 'cancelled'])

const PATIENCE_MS = 30_000

/** Runners in a hurry. */
export const HASTE: Partial<JobTiming> = {
  pollMs: [50, 50],
  awayMs: [50, 200],
  renewMs: 100,
  fetchAgainMs: [20, 20],
  retryMs: [30, 30, 30],
  returnMs: [10, 20],
}

export interface JobRigOptions {
  readonly entries: readonly Entry[]
  readonly caller?: Partial<Principal>
  readonly limits?: Partial<Limits>
  /** Hosts that every workspace may fetch audio from. */
  readonly domains?: readonly string[]
  readonly fetchAudio?: FetchAudio
  /** Absent: an embedded one of the rig's own. */
  readonly state?: State
  /** Absent: a folder of the rig's own. */
  readonly store?: Objects
}

/** What is different about one of the runners, as if it were in a process of its own. */
export interface RunnerOptions {
  readonly jobs?: Partial<Jobs>
  /** In place of the rig's. */
  readonly state?: State
  readonly settings?: Partial<WorkspaceSettings>
  readonly objects?: Partial<JobObjects>
  readonly signals?: JobSignals
  readonly places?: number
  readonly perWorkspace?: number
  readonly timing?: Partial<JobTiming>
  /** The configuration has the app no more. */
  readonly appless?: boolean
}

export type LogLine = Readonly<Record<string, unknown>>

/** Jobs, in a state and an object store that are real, and whoever runs them. */
export interface JobRig {
  readonly services: Services
  readonly jobs: Jobs
  readonly store: Objects
  readonly objects: JobObjects
  readonly signals: JobSignals
  /** What the runners have said so far. */
  readonly lines: LogLine[]
  /** Of these, the one of each claim that has ended. */
  readonly ends: () => LogLine[]
  readonly memoryUsed: () => number
  run(options?: RunnerOptions): JobRunner
  /** A job whose audio is given by its bytes, or by a URL. */
  hear(audio: Buffer | { readonly url: string }, kind?: Job['kind']): Promise<string>
  /** A transcription job whose audio is in its record. */
  hearInline(audio: Buffer): Promise<string>
  /** A queue job: a chat. */
  chat(): Promise<string>
  /** The job as it stands. */
  job(id: string): Promise<Job | null>
  /** Asks for the cancellation of a job, as another process does; with a word to the runners when `here`. */
  cancel(id: string, here: boolean): Promise<Job | null>
  /** The job, once it has ended. */
  ended(id: string): Promise<Job>
  /** Until it is so of the job. */
  reached(id: string, isSo: (job: Job) => boolean): Promise<Job>
  /** Keys of all objects there are. */
  keys(): Promise<string[]>
}

export const SOUND = filledWav(32_044, 3)

export async function startJobRig(t: Test, given: JobRigOptions): Promise<JobRig> {
  const lines: LogLine[] = []
  const log = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  const budget = createBudget(64 * MIB)
  const blocks = createBlocks(budget, { restMs: 400 })
  const store = given.store ?? (await createFileObjects(await tempFolder(t)))
  const spool = createSpool({ budget, blocks, objects: sealObjects(store), log })
  const workers = createWorkers()
  const reader = createAudioReader({ objects: store, decoder: workers.decoder, memory: { blocks, budget } })
  const { domains = [], fetchAudio = () => Promise.reject(new Error('nothing is fetched')) } = given
  const rig = gatewayRig(t, {
    entries: given.entries,
    reader,
    audioUrlDomains: domains,
    ...(given.caller && { caller: given.caller }),
    ...(given.limits && { limits: given.limits }),
  })
  const counted = { ...rig.services, budget }
  const services = given.state === undefined ? counted : servicesOn(t, counted, given.state)
  t.teardown(async () => {
    await spool.close()
    await workers.close()
    blocks.close()
  })
  const probe = createMediaProbe({ reader })
  const objects = createJobObjects({ objects: store, budget })
  const signals = createJobSignals()
  const { jobs } = services.state
  await waitUntil(() => services.state.healthy(), PATIENCE_MS)
  const [caller = principal()] = services.snapshot().keys.values()
  const { key, ...app } = caller
  const apps = new Map([[app.workspace.id, new Map([[app.app.id, app]])]])

  async function submit(
    kind: Job['kind'],
    work: (id: string) => Promise<{ readonly work: JobWork; readonly input?: Uint8Array }>,
  ): Promise<string> {
    const id = newJobId(kind === 'queue' ? 'qj' : 'tj', app.workspace.id)
    const given = await work(id)
    const spec = {
      id,
      kind,
      mode: 'priority' as const,
      endpoint: kind === 'queue' ? 'chat' : 'transcription',
      workspace: app.workspace.id,
      app: app.app.id,
      keyId: key.id,
      keyBudgetMicros: key.budgetMicros,
      requestId: `req_of_${id}`,
      traceparent: null,
      selectors: { purpose: null, responseProfile: null },
      warnings: [],
      work: given.work,
      eventId: kind === 'queue' ? null : newId('evt'),
    }
    await patiently(() => jobs.submit({ spec, slot: null, input: given.input }))
    signals.queued()
    return id
  }

  async function keep(bytes: Buffer, id: string): Promise<Audio> {
    const signal = new AbortController().signal
    const object = `job/${app.workspace.id}/${id}/given`
    await store.put(object, inPieces(bytes), bytes.length, { signal })
    return probe.probe(wholeOf({ kind: 'object', key: object }, bytes.length), signal)
  }

  async function keepInline(bytes: Buffer, id: string): Promise<InlineAudio> {
    const block = new Uint8Array(new SharedArrayBuffer(bytes.length))
    block.set(bytes)
    const sent = wholeOf({ kind: 'memory', blocks: [block] }, bytes.length)
    const audio = await probe.probe(sent, new AbortController().signal)
    const inline = objects.inline(audio, { id, workspace: app.workspace.id })
    if (inline === null) throw new Error('the audio is too long for a record')
    return inline
  }

  const workOn = (audio: Audio | { readonly url: string }): JobWork => ({
    operation: 'transcription',
    options: options(),
    audio,
  })

  async function reached(id: string, isSo: (job: Job) => boolean): Promise<Job> {
    let job: Job | null = null
    const is = await waitUntil(async () => {
      job = await patiently(() => jobs.get(id))
      return job !== null && isSo(job)
    }, PATIENCE_MS)
    if (is && job !== null) return job
    throw new Error(`the job does not get there: ${JSON.stringify(job)}`)
  }

  return {
    services,
    jobs,
    store,
    objects,
    signals,
    lines,
    ends: () => lines.filter(({ msg }) => msg === 'job'),
    memoryUsed: () => budget.used,
    run(options = {}) {
      const snapshot = () => ({ ...services.snapshot(), apps: options.appless === true ? new Map() : apps })
      const mine = options.state === undefined ? services : servicesOn(t, services, options.state)
      const { settings, jobs, ...state } = mine.state
      const own = {
        ...state,
        settings: { ...settings, ...options.settings },
        jobs: { ...jobs, ...options.jobs },
      }
      const runner = startJobRunner({
        services: { ...mine, state: own, snapshot },
        objects: { ...objects, ...options.objects },
        probe,
        remoteAudio: createRemoteAudio({ spool, fetchAudio }),
        signals: options.signals ?? signals,
        log,
        tracing: null,
        places: options.places ?? 4,
        perWorkspace: options.perWorkspace ?? 4,
        timing: { ...HASTE, ...options.timing },
      })
      t.teardown(() => runner.stop(0))
      return runner
    },
    hear: (audio, kind = 'transcription') =>
      submit(kind, async (id) => ({ work: workOn('url' in audio ? audio : await keep(audio, id)) })),
    hearInline: (bytes) =>
      submit('transcription', async (id) => {
        const { audio, input } = await keepInline(bytes, id)
        return { work: workOn(audio), input }
      }),
    chat: () =>
      submit('queue', async () => ({
        work: { operation: 'chat', payload: { text: JSON.stringify(chatCall()) } },
      })),
    job: (id) => patiently(() => jobs.get(id)),
    async cancel(id, here) {
      const keep = retentionOf(services.snapshot().limits)
      const owner = { workspace: app.workspace.id, app: app.app.id }
      const job = await patiently(() => jobs.cancel(id, owner, keep))
      if (here) signals.changed(id)
      return job
    },
    ended: (id) => reached(id, ({ status }) => ENDED.has(status)),
    reached,
    async keys() {
      const keys: string[] = []
      for await (const { key } of store.list('')) keys.push(key)
      return keys
    },
  }
}

/** On a machine with much else to do the state may not answer in time; what is asked here may be asked again. */
export async function patiently<Value>(ask: () => Promise<Value>): Promise<Value> {
  const untilMs = performance.now() + PATIENCE_MS
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (performance.now() > untilMs) throw error
    }
  }
}

/** The same with another state. */
function servicesOn(t: Test, services: Services, state: State): Services {
  const log = pino({ level: 'silent' })
  const settlements = createSettlements(state.ledger, log)
  const usage = createUsageBuffer({ accounts: state.accounts, log, clock: systemClock })
  const moneyLeases = createMoneyLeases({ ledger: state.ledger, settlements, usage, log, clock: systemClock })
  t.teardown(async () => {
    await moneyLeases.close()
    await usage.close()
    await settlements.close()
  })
  return { ...services, state, settlements, moneyLeases, usage }
}

/** Audio that is all of a body. */
function wholeOf(source: BodySource, length: number): AudioRef {
  const whole = { offset: 0, length, encoding: 'identity', decodedBytes: length, canonical: true } as const
  return { source, ...whole, mediaType: null, filename: null }
}

async function* inPieces(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes
}

/** Jobs for one provider that hears, as its model `ear`. */
export async function hearingRig(t: Test, options: Partial<JobRigOptions> = {}) {
  const upstream = await startUpstream(t)
  const entries = [entryAt(new URL(upstream.url).origin, { model: 'ear' })]
  return { upstream, rig: await startJobRig(t, { entries, ...options }) }
}

/** Jobs for one provider that chats, as its model `mouth`. */
export async function chattingRig(t: Test, options: Partial<JobRigOptions> = {}) {
  const upstream = await startUpstream(t)
  const entries = [entryAt(new URL(upstream.url).origin, { model: 'mouth' })]
  return { upstream, rig: await startJobRig(t, { entries, ...options }) }
}
