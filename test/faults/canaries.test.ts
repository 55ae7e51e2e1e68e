import t from 'tap'
import type { ConsoleContext } from '../../src/console/server/context.ts'
import { consoleRoutes } from '../../src/console/server/table.ts'
import { createRoutes } from '../../src/gateway/api/table.ts'
import { openDoors } from '../support/doors-rig.ts'
import { entryAt } from '../support/gateway-rig.ts'
import { withoutServers } from '../support/servers.ts'
import { CASES } from './canary-cases.ts'
import {
  askAgain,
  askAndLeave,
  askBadly,
  askTheUnwell,
  askTooMuch,
  askWell,
  breakRecord,
  crash,
  handIn,
  loseServers,
  misconfigure,
  startWrongly,
  stopAtWork,
} from './canary-phases.ts'
import { type CanaryRig, type Stores, startCanaryRig } from './canary-rig.ts'
import { CanaryRun } from './canary-run.ts'
import { Canaries } from './canary-values.ts'

const LONG = process.env.LARKWAY_TEST_LONG === '1'

t.test('every path that there is has canaries sent through it', async (t) => {
  const fetchAudio = () => Promise.reject(new Error('nothing is fetched'))
  const { dependencies, links, objects } = await openDoors(t, {
    fetchAudio,
    entries: [entryAt('http://127.0.0.1:1')],
  })
  const readiness = { accepting: () => true, stateHealthy: async () => true, stateBlocked: () => null }
  const opened = { open: (token: string) => links.open(token), objects }
  const webhooks = { secretKeys: [Buffer.alloc(32)], insecure: false }
  // Nobody goes through its endpoints here.
  const desk = { deps: dependencies, clock: dependencies.services.clock } as ConsoleContext
  const routes = [
    ...createRoutes({ ...dependencies, readiness, links: opened, webhooks }),
    ...consoleRoutes(desk),
  ]
  const names = routes.map(({ method, path }) => `${method} ${path}`)
  t.same(names.sort(), Object.keys(CASES).sort())
})

/** What has to have happened at least once, so that nothing of all this passes for want of being tried. */
const HAPPENED = [
  ...['200', '202', '400 INVALID_REQUEST', '400 ROUTE_CONTROL_NOT_ALLOWED', '400 AUDIO_URL_REJECTED'],
  ...['401 UNAUTHENTICATED', '402 INSUFFICIENT_CREDITS', '403 PERMISSION_DENIED', '404 NOT_FOUND'],
  ...['404 JOB_NOT_FOUND', '405 METHOD_NOT_ALLOWED', '409 IDEMPOTENCY_KEY_REUSED', '411'],
  ...['413 REQUEST_TOO_LARGE', '413 AUDIO_TOO_LARGE', '415 UNSUPPORTED_MEDIA_TYPE'],
  ...['415 UNSUPPORTED_AUDIO_FORMAT', '422 UPSTREAM_REJECTED', '422 REQUIRED_FEATURE_UNAVAILABLE'],
  ...['429 RATE_LIMITED', '502 UPSTREAM_ERROR', '504 UPSTREAM_TIMEOUT', '504 UPSTREAM_OUTCOME_UNKNOWN'],
]

const HAPPENED_TO_SERVERS = ['500 INTERNAL', '503 DEPENDENCY_UNAVAILABLE']

const SETUPS: readonly [Stores, string][] = LONG
  ? [
      ['folder', 'trace'],
      ['folder', 'info'],
      ['servers', 'trace'],
      ['servers', 'info'],
    ]
  : [
      ['folder', 'info'],
      ['servers', 'trace'],
    ]

for (const [stores, level] of SETUPS) {
  const skip = stores === 'servers' && withoutServers
  t.test(`nothing sings: ${stores}, logging at ${level}`, { skip, timeout: 300_000 }, async (t) => {
    const canaries = new Canaries()
    const rig = await startCanaryRig(t, canaries, stores, level)
    const run = new CanaryRun(canaries, rig)
    await askWell(run)
    await askBadly(run, rig)
    await askTooMuch(run)
    await askAgain(run, rig)
    t.same(await handIn(run, rig), ['succeeded', 'succeeded', 'failed', 'cancelled'])
    await askAndLeave(run, rig)
    await askTheUnwell(run, rig)
    t.ok(await breakRecord(run, rig))
    const kept = await run.judgeStores()
    const recorded = await run.judgeUsage()
    await misconfigure(rig, canaries.make('secret in a configuration', 'secret'))
    await loseServers(run, rig)
    const figures = await run.judgeMetrics()
    const ended = stores === 'folder' ? (await stopAtWork(run, rig)) === 0 : await crash(rig)
    t.ok(ended, 'it ended as it should')
    const tracedBytes = run.judgeOutputs()
    t.same([...run.faults], [])

    // And nothing of all this went well for want of being tried.
    t.ok(kept.names > 100 && kept.singing > 20, `${kept.names} names, ${kept.singing} values of callers`)
    t.ok(recorded > 200, `${recorded} records of usage`)
    t.ok(figures > 100 && tracedBytes > 100_000, `${figures} figures, ${tracedBytes} bytes of traces`)
    for (const provider of ['own', 'shared']) t.ok(rig.upstream.asked(provider) > 50, provider)
    for (const outcome of [...HAPPENED, ...(stores === 'servers' ? HAPPENED_TO_SERVERS : [])])
      t.ok(run.outcomes.has(outcome), outcome)
    t.same(unlogged(rig), [])
  })
}

t.test('nor when it cannot start', { skip: withoutServers, timeout: 300_000 }, async (t) => {
  const canaries = new Canaries()
  const outputs = await startWrongly(t, canaries.make('secret', 'secret'))
  for (const output of outputs) {
    t.same(canaries.find(output), [])
    t.ok(output.length > 0, `it says: ${String(output).slice(0, 100)}`)
  }
})

/** Paths without a line in the log; those of probes have none. */
function unlogged({ processes: [server] }: CanaryRig): string[] {
  const lines = (server?.lines() ?? []).filter(({ msg }) => msg === 'request')
  const logged = new Set(lines.map(({ method, path }) => `${method} ${path}`))
  const links = lines.some(({ path }) => path === '/results/:token')
  return Object.keys(CASES).filter(
    (name) => !/(?:health|ready)z$/.test(name) && !logged.has(name) && (links || !/results/.test(name)),
  )
}
