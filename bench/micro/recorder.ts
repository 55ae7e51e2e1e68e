// Cost of telling the console of requests while no page is open: nanoseconds for each of them, and the CPU time of all
// threads in a second in which as many as may be are looked at closely and written. Run: node bench/micro/recorder.ts

import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import type { Principal } from '../../src/contracts/catalog.ts'
import type { Recorder, RecorderNote } from '../../src/contracts/recorder.ts'
import { CallContext } from '../../src/gateway/call/context/call-context.ts'
import { BatchingRecorder, type RecorderDependencies } from '../../src/gateway/observe/recorder/recorder.ts'
import { openEmbeddedState } from '../../src/gateway/state/embedded/state.ts'
import { Exchange } from './exchange.ts'

const REQUESTS = 1_000_000
const ROUNDS = 7
const SECONDS = 10
/** More than are looked at, of a few workspaces, since one alone gets no more than half. */
const REQUESTS_PER_SECOND = 1_000
const WORKSPACES = 8

const log = pino({ level: 'silent' })
const principals = Array.from(
  { length: WORKSPACES },
  (_, at) =>
    ({
      key: { id: `key_${at}`, name: 'bench' },
      workspace: { id: `workspace-${at}` },
      app: 'web',
    }) as unknown as Principal,
)
const node: RecorderDependencies['node'] = {
  name: 'bench',
  snapshot: () => ({ apps: new Map() }),
  health: { condition: () => ({ state: 'closed' }) as never },
  budget: { used: 0, limit: 1 },
  live: () => [],
  shadows: () => [],
  endUsers: () => [],
}

function serve(recorder: Recorder | null, at: number): void {
  const exchange = new Exchange('/v1/me')
  const context = new CallContext(exchange)
  context.principal = principals[at % WORKSPACES]!
  let note: RecorderNote = null
  exchange.onFinished(() => recorder?.ended(exchange, context, note))
  note = recorder?.answered(exchange, context, 200) ?? null
  exchange.finish(200)
}

function cpuMs(since?: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since)
  return (user + system) / 1000
}

function nanosecondsPerRequest(recorder: Recorder | null): number {
  const before = process.cpuUsage()
  for (let at = 0; at < REQUESTS; at += 1) serve(recorder, at)
  return (cpuMs(before) * 1e6) / REQUESTS
}

/** CPU of all threads, with the state's own. */
async function cpuMsPerSecond(recorder: Recorder | null): Promise<number> {
  const before = process.cpuUsage()
  for (let second = 0; second < SECONDS; second += 1) {
    for (let at = 0; at < REQUESTS_PER_SECOND; at += 1) serve(recorder, at)
    await sleep(1_000)
  }
  return cpuMs(before) / SECONDS
}

const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!

const folder = mkdtempSync(join(tmpdir(), 'larkway-recorder-'))
const state = await openEmbeddedState({ file: join(folder, 'state.sqlite'), log })
try {
  const untold: number[] = []
  const told: number[] = []
  const idle = new BatchingRecorder({ state: state.console, node, log })
  for (let round = 0; round < ROUNDS; round += 1) {
    untold.push(nanosecondsPerRequest(null))
    told.push(nanosecondsPerRequest(idle))
  }
  const without = await cpuMsPerSecond(null)
  const recorder = new BatchingRecorder({ state: state.console, node, log })
  recorder.start(() => 0)
  const withIt = await cpuMsPerSecond(recorder)
  await recorder.close()
  const figures = {
    ns_per_request: Math.round(median(told) - median(untold)),
    cpu_ms_per_second: Number((withIt - without).toFixed(1)),
  }
  console.table(figures)
  console.log(JSON.stringify({ bench: 'recorder', node: process.version, cpu: cpus()[0]?.model, ...figures }))
} finally {
  await state.close()
  rmSync(folder, { recursive: true, force: true })
}
