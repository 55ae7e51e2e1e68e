import { setTimeout as sleep } from 'node:timers/promises'
import { bareUws, type Candidate, larkway, started } from '../candidates.ts'
import { cpuSeconds, peakRssMib, rssMib } from '../harness/accounting.ts'
import type { Served } from '../harness/lab.ts'
import type { Session, Trial } from '../harness/measure.ts'
import type { Run } from '../harness/result.ts'
import { type Scenario, sort } from './scenario.ts'

/** A server that ends as soon as it is told to. */
export const STARTED = { memoryMib: 256, env: { LARKWAY_DRAIN_SECONDS: '0' } }
/** As long as what a server does once after its start may take. */
const IDLE_MS = 3_000
const ORDERLY_END_MS = 5_000

const COMMON = {
  cpuUnit: 'us/request',
  network: 'system',
  upstream: { program: 'upstream.ts', args: [] },
} as const

/** From a start command to the first 200, with everything installed; what was compiled before is compiled. */
export const start: Scenario = {
  ...COMMON,
  name: 'start',
  title: 'Start, from the command to the first 200',
  rounds: 7,
  plan: () => planWith(startTrial),
}

/** Memory of a server before its first call. */
export const idle: Scenario = {
  ...COMMON,
  name: 'idle',
  title: 'Idle, three seconds after the start',
  rounds: 3,
  plan: () => planWith(idleTrial),
}

async function planWith(trialOf: (candidate: Candidate) => Trial) {
  const own = larkway({ ...STARTED, name: 'larkway', label: 'Larkway, npm start' })
  const { found, skipped } = await sort<null>([
    [started(own), null],
    [bareUws(), null],
  ])
  return { trials: found.map(([candidate]) => trialOf(candidate)), skipped }
}

/** Its latency is the time of the start, its CPU what the start took. */
export function startTrial(candidate: Candidate): Trial {
  return onceServed(candidate, 'start', async ({ server, startMs }) =>
    runOf(startMs, cpuSeconds(server.pid), peakRssMib(server.pid)),
  )
}

/** Its memory is that of this moment, not the peak. */
export function idleTrial(candidate: Candidate): Trial {
  return onceServed(candidate, 'idle', async ({ server, startMs }) => {
    await sleep(IDLE_MS)
    const launched = candidate.launched === true
    return runOf(startMs, cpuSeconds(server.pid), rssMib(server.pid, { launched }))
  })
}

/** Each run starts a server of its own; the session's is left alone. */
function onceServed(candidate: Candidate, load: string, look: (served: Served) => Promise<Run>): Trial {
  return {
    candidate,
    load,
    async verify() {},
    // All that a start or an orderly end compiles or caches is there from then on.
    async warmUp({ lab }: Session) {
      await (await lab.serve(candidate, 'start')).server.stop(ORDERLY_END_MS)
    },
    async run({ lab }: Session) {
      const served = await lab.serve(candidate, 'start')
      try {
        return await look(served)
      } finally {
        await served.server.stop()
      }
    },
  }
}

function runOf(startMs: number, cpuSeconds: number, memoryMib: number): Run {
  return {
    requests: 1,
    bodyBytes: 0,
    seconds: startMs / 1000,
    cpu: cpuSeconds * 1e6,
    serverLoad: cpuSeconds / (startMs / 1000),
    clientLoad: 0,
    peakRssMib: memoryMib,
    p50Ms: startMs,
    p99Ms: startMs,
    failures: 0,
    firstFailure: null,
  }
}
