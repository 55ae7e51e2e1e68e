import t, { type Test } from 'tap'
import { startSandboxThread } from '../../src/sandbox/thread.ts'
import { type Fleet, startFleet } from '../support/fleet.ts'
import type { Larkway } from '../support/larkway.ts'
import type { Program } from '../support/program.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'
import { releaseProgram, withoutRelease } from './release.ts'
import { CALLER_KINDS, type CallerKind, type CallersTally, RollingCallers } from './rolling-callers.ts'

/** The long form restarts every node 20 times, and has them drain as long as they do unless they are told. */
const LONG = process.env.LARKWAY_TEST_LONG === '1'
const ROUNDS = LONG ? 20 : 1
const DRAIN_SECONDS = LONG ? '10' : '2'
const WAITING_MS = LONG ? 20_000 : 4_000
const SLOW_MS = LONG ? 15_000 : 4_000
const IDLE_MS = LONG ? ([1_000, 15_000] as const) : ([1_000, 9_000] as const)
const TIMEOUT_MS = LONG ? 3_000_000 : 240_000

const COUNTS: Readonly<Record<CallerKind, number>> = {
  'asks who it is': LONG ? 6 : 3,
  'uploads a little': LONG ? 6 : 3,
  'uploads 3 MB': 1,
  'uploads slowly': LONG ? 6 : 3,
  'reads a stream': LONG ? 4 : 2,
  'waits for its answer': LONG ? 8 : 4,
  'has a key for each call': LONG ? 2 : 1,
  'connects for each call': LONG ? 4 : 2,
  'is idle for long between calls': 20,
}

/** Counts how often the nodes have logged each request, also those that are no more. */
class RequestCounts {
  readonly #fleet: Fleet
  /** Of nodes that are no more, by the id of the request. */
  readonly #logged = new Map<string, number>()

  constructor(fleet: Fleet) {
    this.#fleet = fleet
  }

  /** @returns the exit code of the node that was stopped */
  restart(at: number): Promise<number | null> {
    const node = this.#fleet.node(at)
    return this.#fleet.restartNode(at, 'SIGTERM', async () => {
      await waitUntil(() => node.log.at(-1)?.msg === 'stopped')
      countRequests(node, this.#logged)
    })
  }

  /** Of these POSTs those that no node has seen, or that nodes have seen more than once. */
  notSeenOnce(ids: ReadonlySet<string>): string[] {
    const logged = new Map(this.#logged)
    for (const node of this.#fleet.nodes) countRequests(node, logged)
    return [...ids].filter((id) => logged.get(id) !== 1)
  }
}

function countRequests({ log }: Larkway, logged: Map<string, number>): void {
  for (const { msg, request_id: id } of log)
    if (msg === 'request') logged.set(String(id), (logged.get(String(id)) ?? 0) + 1)
}

async function startNodes(t: Test, program?: () => Program | undefined) {
  const sandbox = await startSandboxThread({}, (error) => t.fail(error.message))
  t.teardown(() => sandbox.close())
  const routeOf = (options: object) => ({ entries: [{ provider: 'sandbox', model: 'morse-1', options }] })
  return startFleet(t, {
    ...{ nodes: 3, nginx: true, redis: {}, env: { LARKWAY_DRAIN_SECONDS: DRAIN_SECONDS } },
    ...(program === undefined ? {} : { program }),
    providers: { sandbox: { kind: 'sandbox', access: 'platform', base_url: sandbox.url } },
    workspaces: {
      plain: routeOf({}),
      waiting: routeOf({ delay_ms: WAITING_MS }),
      piecewise: routeOf({ piece_delay_ms: 100 }),
    },
  })
}

function sentenceOf({ requests, faults, longestMs }: CallersTally, sinceMs: number): string {
  const seconds = Math.round((performance.now() - sinceMs) / 1_000)
  return `${requests} requests in ${seconds} s, ${faults.length} faults, the longest ${Math.round(longestMs)} ms`
}

/**
 * Restarts every node, round after round, under load.
 *
 * @param begin told of each round before its first restart
 */
async function restartUnderLoad(
  t: Test,
  fleet: Awaited<ReturnType<typeof startNodes>>,
  rounds: number,
  begin: (round: number) => void = () => {},
): Promise<void> {
  const requests = new RequestCounts(fleet)
  const startMs = performance.now()
  const callers = new RollingCallers({
    port: fleet.nginx.port,
    authorizationOf: fleet.authorizationOf,
    counts: COUNTS,
    slowMs: SLOW_MS,
    idleMs: IDLE_MS,
  })
  t.ok(
    await waitUntil(() => CALLER_KINDS.every((kind) => callers.tally.byKind[kind] > 0), 60_000),
    'callers of every kind are answered',
  )
  for (let round = 0; round < rounds; round += 1) {
    begin(round)
    for (const index of fleet.nodes.keys())
      t.equal(await requests.restart(index), 0, `round ${round}, ${index}`)
    t.comment(sentenceOf(callers.tally, startMs))
  }
  const serves = ({ log }: Larkway) => log.some(({ msg }) => msg === 'request')
  t.ok(await waitUntil(() => fleet.nodes.every(serves), 30_000), 'nginx has taken every one back')

  const tally = await callers.stop()
  t.comment(sentenceOf(tally, startMs), tally.byKind)
  t.same(tally.faults.slice(0, 20), [], `${tally.faults.length} requests were not answered as they should be`)
  // Lines of the log are written together, a moment later.
  await waitUntil(() => requests.notSeenOnce(tally.posts).length === 0)
  t.same(requests.notSeenOnce(tally.posts).slice(0, 20), [], 'every POST came to one node, and once')
}

t.test('no caller notices that nodes restart', { skip: withoutServers, timeout: TIMEOUT_MS }, async (t) => {
  await restartUnderLoad(t, await startNodes(t), ROUNDS)
})

t.test(
  'nor that they become the next version, and the last one again',
  { skip: withoutServers || withoutRelease, timeout: 2 * TIMEOUT_MS },
  async (t) => {
    const release = await releaseProgram()
    let program: Program | undefined = release
    const fleet = await startNodes(t, () => program)
    await restartUnderLoad(t, fleet, 2, (round) => {
      program = round === 0 ? undefined : release
    })
  },
)
