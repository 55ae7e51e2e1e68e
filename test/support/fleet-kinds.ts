import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import type { Test } from 'tap'
import type { State } from '../../src/contracts/state.ts'
import { openEmbeddedState } from '../../src/state/embedded/state.ts'
import {
  customersOf,
  type FleetOptions,
  type JobCustomer,
  KILLED_FLEET_TIMING,
  startJobFleet,
} from './job-fleet.ts'
import { type LarkwayProcess, startLarkway } from './larkway.ts'
import { tempFolder } from './scratch.ts'

/** Processes that are killed, and started again, while they work. */
export interface KillableFleet extends JobCustomer {
  readonly state: State
  /** Of whatever takes jobs on now. */
  url(): string
  /** Those that work on jobs now. */
  workers(): readonly LarkwayProcess[]
  /** Kills one of these, and has another started in its place. */
  kill(): Promise<void>
}

/** Workers beside a server that is never killed, which have a Redis and an S3 server together. */
export async function startRedisFleet(
  t: Test,
  { workers: count, ...options }: FleetOptions & { readonly workers: number },
): Promise<KillableFleet> {
  const fleet = await startJobFleet(t, options)
  const workers = await Promise.all(Array.from({ length: count }, () => fleet.startWorker()))
  /** Places whose worker is on its way: a busy machine takes seconds for it, in which others can be killed. */
  const starting = new Map<number, Promise<unknown>>()
  const startAt = async (at: number) => {
    workers[at] = await fleet.startWorker()
    starting.delete(at)
  }
  return {
    ...fleet,
    url: () => fleet.server.url,
    workers: () => workers,
    async kill() {
      if (starting.size === count) await Promise.race(starting.values())
      const up = [...workers.keys()].filter((at) => !starting.has(at))
      const at = up[Math.floor(Math.random() * up.length)] ?? 0
      await workers[at]?.signal('SIGKILL')
      starting.set(at, startAt(at))
    },
  }
}

export interface EmbeddedFleet extends KillableFleet {
  /** Of everything. */
  readonly folder: string
  /** Of the state. */
  readonly file: string
  /** Kills the process, and starts it again when `between` is done. */
  kill(between?: () => Promise<unknown>): Promise<void>
}

/** One process that has everything in one folder. */
export async function startEmbeddedFleet(t: Test, options: FleetOptions): Promise<EmbeddedFleet> {
  const { config, customer } = customersOf(options)
  const dataFolder = await tempFolder(t)
  const env = { LARKWAY_INSECURE_WEBHOOKS: 'true', ...KILLED_FLEET_TIMING, ...options.env }
  const start = () => startLarkway(t, { config, dataFolder, env })
  let server = await start()
  const file = join(dataFolder, 'state.sqlite')
  const state = await openEmbeddedState({ file, log: pino({ level: 'silent' }) })
  t.teardown(() => state.close())
  return {
    ...customer,
    state,
    folder: dataFolder,
    file,
    url: () => server.url,
    workers: () => [server],
    async kill(between) {
      await server.signal('SIGKILL')
      await between?.()
      server = await start()
    },
  }
}

/**
 * Kills one after the other, with pauses of any length up to two seconds.
 *
 * @param goesOn told how many were killed
 * @returns how many
 */
export async function killNowAndThen(
  { kill }: Pick<KillableFleet, 'kill'>,
  goesOn: (killed: number) => boolean,
): Promise<number> {
  let killed = 0
  while (goesOn(killed)) {
    await sleep(200 + Math.random() * 1_800)
    await kill()
    killed += 1
  }
  return killed
}
