import { getHeapStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createLogger, errorMessage, type Logger, logCrash } from './contracts/log.ts'
import { systemClock } from './contracts/time.ts'
import { UWS_ENVIRONMENT } from './gateway/edge/uws.ts'
import { BOOTING, PLACE } from './gateway/node/booting.ts'
import type { Environment } from './gateway/node/config.ts'
import { openServer, openWorker, type RunningNode } from './gateway/node/serve.ts'
import { readTestTiming } from './gateway/node/timing.ts'
import { POOL_THREADS } from './gateway/outbound/host-lookup.ts'

type Variables = Readonly<Record<string, string | undefined>>

/**
 * Serves until the process is told to stop: on SIGTERM it takes up no more jobs, tells balancers by `/readyz` and
 * listens on until they have left it, finishes what is in flight and exits; on SIGINT, a person's, it does not listen
 * on. A second signal ends it at once. SIGHUP reads the configuration again.
 *
 * @throws Error that says what is wrong with the environment, the configuration or the data folder
 */
export async function serve(env: Variables): Promise<void> {
  const shared = PLACE !== 'alone'
  process.env.UV_THREADPOOL_SIZE ??= POOL_THREADS
  Object.assign(process.env, UWS_ENVIRONMENT)
  const opening = openServer(env, (environment) => logOfProcess(environment, shared), {
    place: PLACE,
    timing: readTestTiming(env),
    booting: BOOTING,
  })
  takeSignals(opening)
  const node = await opening
  tuneCollections()
  giveBackGarbage()
  greet(node, shared)
}

/**
 * Works on jobs and nothing else, beside servers that have the same Redis and the same bucket. Signals as for `serve`.
 *
 * @throws Error that says what is wrong with the environment or the configuration
 */
export async function work(env: Variables): Promise<void> {
  const opening = openWorker(env, (environment) => logOfProcess(environment, false), readTestTiming(env))
  takeSignals(opening)
  await opening
  tuneCollections()
}

/**
 * Has V8 make every object young, and collect the old ones later.
 *
 * By itself it watches which places in the code make objects that outlive collections, and has them make old ones from
 * then on. While a server is warmed up, calls are slow and many, so that what outlives collections are calls: in one
 * start of four or five it took them for long-lived, and what hung on each stayed until the next full collection.
 * Collections then took 4 ms in place of 0.6, for as long as the process lived.
 *
 * It also begins to mark old objects while less room is left for them than young ones may take, which is so all the
 * time in a heap as small as ours: with live sessions it marked every half second, for 30 ms. The triggers are shares
 * of the room, in percent: at the first it marks when there is time, at the second at once.
 *
 * Told on the command line, or before start-up, the same made that a tenth longer: Node does not use its code cache of
 * its own modules with flags other than those that it was made with.
 */
function tuneCollections(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
  setFlagsFromString('--incremental-marking-soft-trigger=80')
  setFlagsFromString('--incremental-marking-hard-trigger=95')
}

/** The heap of a start with a small configuration is half as large. */
const LARGE_HEAP_BYTES = 96 * 1024 * 1024

/**
 * Gives back what the start has left over. V8 by itself would fill it with the garbage of calls: 100,000 keys in the
 * configuration took as much again as they need. It stops the process for a tenth of a second, so it is done once, and
 * where there is something to be had.
 */
function giveBackGarbage(): void {
  if (getHeapStatistics().total_heap_size < LARGE_HEAP_BYTES) return
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as (options: object) => void
  setFlagsFromString('--no-expose-gc')
  collect({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}

/** @param shared whether the lines of several processes go into one stream */
function logOfProcess({ LOG_LEVEL }: Environment, shared: boolean): Logger {
  const common = createLogger(LOG_LEVEL)
  const log = shared ? common.child({ pid: process.pid }) : common
  logCrash(log)
  return log
}

/**
 * Greets the newcomer, or lets the parent of `larkway serve --processes` do it. When that parent dies, even of
 * SIGKILL, the channel to it closes, and this process stops instead of living on with nothing to stop it.
 */
function greet({ greeting, hasState }: RunningNode, shared: boolean): void {
  if (!shared) return void process.stdout.write(greeting)
  // Not SIGTERM: what starts the parent again needs the port. Without the state no call can end well: what was charged
  // is in the folder of its records, as after a kill.
  const stop = () => (hasState ? process.kill(process.pid, 'SIGINT') : process.exit(1))
  if (!process.connected) return void stop()
  process.once('disconnect', stop)
  process.send?.({ greeting })
}

/** How long a stop waits for a start to end, ms: what waits for Redis or for a folder is not waited for. */
const START_END_MS = 1_000

/**
 * From the beginning, because a node listens and works before its start has ended: the default of a signal would cut
 * off the calls of that moment, and a SIGHUP would end the process.
 *
 * @param opening who awaits it reports why it failed
 */
function takeSignals(opening: Promise<RunningNode>): void {
  let stopping = false
  const stop = (signal: NodeJS.Signals): void => {
    if (stopping) process.exit(1)
    stopping = true
    const late = systemClock.after(START_END_MS, () => {
      process.removeAllListeners(signal)
      process.kill(process.pid, signal) // As if this process had not taken it.
    })
    const stopNode = (node: RunningNode): void => {
      late.close()
      void node.stop(signal).finally(() => process.exit(0))
    }
    void opening.then(stopNode, () => {})
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  const reload = (node: RunningNode) => void node.reload()
  process.on('SIGHUP', () => void opening.then(reload, () => {}))
}

if (process.argv[1] === import.meta.filename)
  void serve(process.env).catch((error: unknown) => {
    process.stderr.write(`${errorMessage(error)}\n`)
    process.exit(1)
  })
