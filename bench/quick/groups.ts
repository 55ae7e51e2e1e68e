import type { Base } from '../base.ts'
import type { Candidate, LarkwayOptions } from '../candidates.ts'
import { bareUws, candidateOf, larkway, nginx, started, storeItself } from '../candidates.ts'
import type { Trial } from '../harness/measure.ts'
import type { NetworkKind } from '../harness/network.ts'
import type { CpuUnit, Run } from '../harness/result.ts'
import { larkwayChat, larkwayMe, larkwayMultipart, larkwaySpeech } from '../larkway.ts'
import { JOBS_ENVIRONMENT, larkwayJobsConfiguration } from '../larkway-jobs.ts'
import type { RequestSpec } from '../load/request.ts'
import { openaiChat, openaiMultipart, openaiSpeech } from '../openai.ts'
import { storeTrial, wholeTrial } from '../scenarios/jobs.ts'
import { AUDIO_BYTES, EVERYTHING_FITS_MIB, multipartTrial, NOTHING_FITS_MIB } from '../scenarios/multipart.ts'
import { idleTrial, STARTED, startTrial } from '../scenarios/start.ts'
import { type TinyKind, tinyTrial } from '../scenarios/tiny.ts'

// Loads of `npm run bench -- --quick`: the present sources, the base and a peer take turns at each.

export const OWN = 'larkway'
export const BASE = 'larkway-base'

/** A figure of one load. */
interface FigureOfLoad {
  readonly name: string
  readonly unit: string
  readonly load: string
  readonly of: (run: Run) => number
  /**
   * It only grows while a server lives: it is of all loads up to this one, and only the last run of each generation
   * counts.
   */
  readonly grows?: true
}

/** Loads that share servers. */
export interface Group {
  readonly name: string
  readonly network: NetworkKind
  readonly cpuUnit: CpuUnit
  readonly generations: number
  readonly rounds: number
  readonly figures: readonly FigureOfLoad[]
  plan(base: Base | null): Promise<Trial[]>
}

const DEFAULT_BUDGET_MIB = 256
const SATURATED_SECONDS = { warmUp: 0.6, run: 0.5 }
/** Enough for what is called often to be compiled; what is not by then, is compiled in the runs of all alike. */
const WARM_UP_REQUESTS = 6_000
/** Follows the same call over 64 connections, so that little is left to warm up. */
const PACED_SECONDS = { warmUp: 0.3, run: 0.5 }
const UPLOAD_SECONDS = { warmUp: 0.2, run: 0.3 }
const UPLOADS = 16
const INPUT = 'Hello.'
const JOBS = { label: '8 KiB', bytes: 8 * 1024, count: 400 }

const cpu = (name: string, load: string, unit = 'µs'): FigureOfLoad => ({
  name: `${name}, CPU`,
  unit,
  load,
  of: (run) => run.cpu,
})
const peak = (name: string, load: string): FigureOfLoad => ({
  name: `${name}, peak RSS`,
  unit: 'MiB',
  load,
  of: (run) => run.peakRssMib,
  grows: true,
})

export const GROUPS: readonly Group[] = [
  {
    name: 'calls',
    network: 'system',
    cpuUnit: 'us/request',
    generations: 2,
    rounds: 2,
    figures: [
      cpu('GET /v1/me', 'GET /v1/me'),
      peak('GET /v1/me', 'GET /v1/me'),
      cpu('speech', 'POST /v1/speech'),
      cpu('chat, 64 connections', 'chat, 64 connections'),
      cpu('chat, 1,000 calls/s', 'chat, 1,000 calls/s'),
      cpu('billed chat, 64 connections', 'billed chat, 64 connections'),
      cpu('billed chat, 1,000 calls/s', 'billed chat, 1,000 calls/s'),
      peak('all calls', 'billed chat, 1,000 calls/s'),
    ],
    plan: planCalls,
  },
  uploadGroup('multipart, memory tier', EVERYTHING_FITS_MIB),
  uploadGroup('multipart, store tier', NOTHING_FITS_MIB),
  {
    name: 'jobs',
    network: 'system',
    cpuUnit: 'us/request',
    generations: 2,
    rounds: 2,
    figures: [cpu('job of 8 KiB, embedded', 'jobs')],
    plan: planJobs,
  },
  {
    name: 'start',
    network: 'system',
    cpuUnit: 'us/request',
    generations: 1,
    rounds: 5,
    figures: [{ name: 'start', unit: 'ms', load: 'start', of: (run) => run.p50Ms }],
    plan: (base) => planStarts(base, startTrial),
  },
  {
    name: 'idle',
    network: 'system',
    cpuUnit: 'us/request',
    generations: 1,
    rounds: 2,
    figures: [{ name: 'idle, RSS', unit: 'MiB', load: 'idle', of: (run) => run.peakRssMib }],
    plan: (base) => planStarts(base, idleTrial),
  },
]

function uploadGroup(name: string, memoryMib: number): Group {
  const load = `${UPLOADS} connections`
  return {
    name,
    network: 'capped',
    cpuUnit: 's/GB',
    generations: 2,
    rounds: 2,
    figures: [cpu(name, load, 's/GB'), peak(name, load)],
    async plan(base) {
      const peer = candidateOf(await nginx('tuned'))
      return [
        ...both(base, { memoryMib }).map((candidate) =>
          multipartTrial(candidate, () => larkwayMultipart(AUDIO_BYTES), UPLOADS, UPLOAD_SECONDS),
        ),
        multipartTrial(peer, () => openaiMultipart(AUDIO_BYTES), UPLOADS, UPLOAD_SECONDS),
      ]
    },
  }
}

async function planCalls(base: Base | null): Promise<Trial[]> {
  const own = both(base, { memoryMib: DEFAULT_BUDGET_MIB })
  const proxy = candidateOf(await nginx('tuned'))
  const chat = (name: string, mine: RequestSpec, generator: TinyKind['generator']) =>
    trialsOf(own, proxy, `${name}, ${typeof generator === 'number' ? '1,000 calls/s' : '64 connections'}`, {
      generator,
      mine,
      theirs: openaiChat(INPUT, {}),
    })
  return [
    ...trialsOf(own, candidateOf(bareUws()), 'GET /v1/me', {
      generator: 'requests',
      mine: larkwayMe(),
      theirs: { method: 'GET', path: '/', headers: {}, body: null },
    }),
    ...trialsOf(own, proxy, 'POST /v1/speech', {
      generator: 'requests',
      mine: larkwaySpeech('own', INPUT),
      theirs: openaiSpeech(INPUT),
    }),
    ...chat('chat', larkwayChat(INPUT, 'own'), 'requests'),
    ...chat('chat', larkwayChat(INPUT, 'own'), 1_000),
    ...chat('billed chat', larkwayChat(INPUT), 'requests'),
    ...chat('billed chat', larkwayChat(INPUT), 1_000),
  ]
}

/** Tests and the full scenarios check answers in detail: here a body must only be there. */
function trialsOf(
  own: readonly Candidate[],
  peer: Candidate,
  load: string,
  { generator, mine, theirs }: Pick<TinyKind, 'generator'> & { mine: RequestSpec; theirs: RequestSpec },
): Trial[] {
  const kind = { load, generator, isRight: (body: string) => body.length > 0 }
  const [seconds, warm] =
    typeof generator === 'number' ? [PACED_SECONDS, 0] : [SATURATED_SECONDS, WARM_UP_REQUESTS]
  return [
    ...own.map((candidate) => tinyTrial(candidate, { ...kind, request: mine }, seconds, warm)),
    tinyTrial(peer, { ...kind, request: theirs }, seconds, warm),
  ]
}

async function planJobs(base: Base | null): Promise<Trial[]> {
  const configuration = larkwayJobsConfiguration
  const own = both(base, { memoryMib: DEFAULT_BUDGET_MIB, configuration, env: JOBS_ENVIRONMENT })
  const store = candidateOf(storeItself('store-folder', 'the folder by itself', null))
  return [
    ...own.map((candidate) => wholeTrial(candidate, 'jobs', JOBS)),
    storeTrial(store, 'jobs', { ...JOBS, count: 4 * JOBS.count }),
  ]
}

async function planStarts(base: Base | null, trialOf: (candidate: Candidate) => Trial): Promise<Trial[]> {
  const own = both(base, STARTED, true)
  return [...own, candidateOf(bareUws())].map(trialOf)
}

/** The present sources, and those of the base; both as `npm start` starts them where that is what is measured. */
function both(
  base: Base | null,
  options: Omit<LarkwayOptions, 'name' | 'label' | 'tree'>,
  byNpmStart = false,
): Candidate[] {
  const own = larkway({ ...options, name: OWN, label: 'Larkway' })
  const found = [byNpmStart ? started(own) : own]
  if (base !== null) {
    const { commit, folder } = base
    const label = `Larkway at ${commit}`
    const then = larkway({ ...options, name: BASE, label, tree: folder })
    found.push(byNpmStart ? started(then, folder) : then)
  }
  return found.map(candidateOf)
}
