import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startFleet } from '../support/fleet.ts'
import { ask, countsOf, keyedUpload, nameOf } from '../support/keyed-call.ts'
import type { Larkway } from '../support/larkway.ts'
import type { RawClient } from '../support/raw-client.ts'
import { startUpstream, type Upstream } from '../support/upstream/upstream.ts'
import { answersOf, type Stalled, sendPart, stallAt } from './stalled-calls.ts'

const ROUNDS = 2
const AT_ONCE = 10
const DEADLINE_SECONDS = 3
/** A running slot outlasts its call's deadline by this. */
const GRACE_MS = 15_000
/** How long a gateway may take to note what it was sent. */
const NOTICE_MS = 200

interface Step {
  readonly name: string
  /** What the first request with the key is told when the gateway runs again, and one after the lease. */
  readonly answers: readonly [atOnce: string, later: string]
  reach(stalled: Stalled): Promise<RawClient[]>
}

const FREE = ['200', '200 replayed'] as const
const BURNED = ['409 IDEMPOTENCY_REPLAY_IN_PROGRESS', '409 IDEMPOTENT_RESULT_UNAVAILABLE'] as const
const REPLAYED = ['200 replayed', '200 replayed'] as const

const stopped = (share: number) => async (stalled: Stalled) => {
  const clients = await sendPart(stalled, share)
  await sleep(NOTICE_MS)
  return clients
}

const STEPS: readonly Step[] = [
  { name: 'provider connected', answers: BURNED, reach: (stalled) => stallAt(stalled, 'connected') },
  { name: 'provider has the whole request', answers: BURNED, reach: (stalled) => stallAt(stalled, 'whole') },
  { name: 'provider has answered half', answers: BURNED, reach: (stalled) => stallAt(stalled, 'half') },
  { name: 'headers sent', answers: FREE, reach: stopped(0) },
  { name: 'half of the body sent', answers: FREE, reach: stopped(0.5) },
  {
    name: 'answer written',
    answers: REPLAYED,
    async reach(stalled) {
      const clients = await sendPart(stalled, 1)
      const answers = await answersOf(clients)
      if (answers.some(({ status }) => status !== 200))
        throw new Error(`not answered: ${answers.map(nameOf)}`)
      return clients
    },
  },
]

function providersAt({ url }: Upstream) {
  return { hears: { kind: 'openai-compatible', access: 'byok', workspace: 'acme', base_url: url } }
}

async function startOn(t: Test) {
  const upstream = await startUpstream(t)
  const fleet = await startFleet(t, {
    nodes: 0,
    timing: { calls: { slotGraceMs: GRACE_MS } },
    providers: providersAt(upstream),
    workspaces: { acme: { entries: [{ provider: 'hears', model: 'm', capabilities: ['audio_input'] }] } },
    config: { deadline_seconds: DEADLINE_SECONDS },
  })
  const askAll = ({ port }: Larkway, keys: readonly string[]) =>
    Promise.all(
      keys.map(async (key) => nameOf(await ask(port, keyedUpload(key, fleet.authorizationOf('acme'))))),
    )
  return { upstream, authorization: fleet.authorizationOf('acme'), askAll, start: () => fleet.startNode() }
}

t.test(
  'the only gateway is killed while requests are on their way, and started again on its data folder',
  { timeout: 180_000 },
  async (t) => {
    const { upstream, authorization, askAll, start } = await startOn(t)
    const atOnce = new Map<Step, string[]>(STEPS.map((step) => [step, []]))
    const keysOf = new Map<Step, string[]>(STEPS.map((step) => [step, []]))
    let gateway = await start()
    let lastBurnedMs = 0
    for (const [index, step] of STEPS.entries()) {
      for (let round = 0; round < ROUNDS; round++) {
        const keys = Array.from({ length: AT_ONCE }, (_, call) => `${index}-${round}-${call}`)
        const clients = await step.reach({ port: gateway.port, authorization, keys, upstream })
        await gateway.signal('SIGKILL')
        if (step.answers === BURNED) lastBurnedMs = performance.now()
        for (const client of clients) client.destroy()
        upstream.holdAt(null)
        upstream.letGo()
        gateway = await start()
        keysOf.get(step)?.push(...keys)
        atOnce.get(step)?.push(...(await askAll(gateway, keys)))
      }
    }

    await sleep(lastBurnedMs + DEADLINE_SECONDS * 1000 + GRACE_MS + 1_000 - performance.now())
    const all = ROUNDS * AT_ONCE
    for (const step of STEPS) {
      const keys = keysOf.get(step) ?? []
      t.same(countsOf(atOnce.get(step) ?? []), { [step.answers[0]]: all }, `${step.name}: at once`)
      t.same(
        countsOf(await askAll(gateway, keys)),
        { [step.answers[1]]: all },
        `${step.name}: after the lease`,
      )
      const executions = keys.map((key) => upstream.executions(key))
      if (step.answers !== BURNED) t.same(countsOf(executions), { 1: all }, `${step.name}: executed once`)
      else
        t.ok(
          executions.every((times) => times <= 1),
          `${step.name}: never twice`,
        )
    }
  },
)
