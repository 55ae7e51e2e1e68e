import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import type { CliContext } from '../../src/cli/context.ts'
import type { State } from '../../src/contracts/state.ts'
import { openEmbeddedState } from '../../src/gateway/state/embedded/state.ts'
import { createRedisState } from '../../src/gateway/state/redis/state.ts'
import { EXAMPLE } from './catalog-file.ts'
import { runInProcess } from './cli.ts'
import { startRedis } from './redis-server.ts'
import { type Teardown, tempFolder } from './scratch.ts'

/** A configuration, a state, and the commands that work on both. */
export interface Bench {
  readonly folder: string
  /** Path of the configuration; it does not exist where none was wanted. */
  readonly config: string
  /** Runs a command to its end, in the process of the test. */
  run(args: readonly string[], env?: Readonly<Record<string, string>>): ReturnType<typeof runInProcess>
  /** For commands that are called in this process. What they print goes nowhere. */
  readonly desk: CliContext
  /** Looks into the state from this process. */
  withState<Result>(work: (state: State) => Promise<Result>): Promise<Result>
}

const log = pino({ level: 'silent' })

/** The state is a file of a new data folder. @param text of the configuration; null: there is none */
export async function startSqliteBench(t: Teardown, text: string | null = EXAMPLE): Promise<Bench> {
  const folder = await tempFolder(t)
  const file = join(folder, 'state.sqlite')
  return benchOf(folder, text, { LARKWAY_DATA: folder }, () => openEmbeddedState({ file, log }))
}

/** The state is a Redis of the test's own; there is no data folder. */
export async function startRedisBench(t: Teardown, text: string | null = EXAMPLE): Promise<Bench> {
  const folder = await tempFolder(t)
  const { url } = await startRedis(t)
  const env = { REDIS_URL: url, LARKWAY_DATA: join(folder, 'none') }
  return benchOf(folder, text, env, () => createRedisState({ url, log }))
}

async function benchOf(
  folder: string,
  text: string | null,
  env: Readonly<Record<string, string>>,
  open: () => Promise<State>,
): Promise<Bench> {
  const config = join(folder, 'larkway.yaml')
  if (text !== null) await writeFile(config, text)
  return {
    folder,
    config,
    desk: { env: { ...env, LARKWAY_CONFIG: config }, print: () => {} },
    run: (args, over = {}) => runInProcess(args, { cwd: folder, env: { ...env, ...over } }),
    async withState(work) {
      const state = await open()
      try {
        return await work(state)
      } finally {
        await state.close()
      }
    },
  }
}
