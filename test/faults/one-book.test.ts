import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { AccountTerms } from '../../src/contracts/ledger.ts'
import type { UsageRecord } from '../../src/contracts/usage-record.ts'
import { type Fleet, type FleetOptions, startFleet } from '../support/fleet.ts'
import { processesOf } from '../support/larkway.ts'
import { processesProgram } from '../support/program.ts'
import { withoutServers } from '../support/servers.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { costOf, usageRecords } from '../support/usage-records.ts'
import { waitUntil } from '../support/wait-until.ts'

/** Of each kind of state: a file of tests has five minutes. */
const KILLS = 15
const CALLERS = 3
const GRANT_MICROS = 100_000_000
/** Estimated at more than a lease covers. */
const LARGE_TOKENS = 65_000
const LARGE_MICROS = LARGE_TOKENS * 10 + 10
const NO_TERMS: AccountTerms = { grant: null, trial: null, budgetMicros: null }
const FACTS = {
  model: 'm',
  capabilities: ['text', 'audio_output'],
  price: { per_1k_characters_usd: 0.13, per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 10 },
}
const CREDITS = { credits_usd: GRANT_MICROS / 1_000_000, grant_id: 'initial' }
const WORKSPACES = {
  paid: { entries: [{ provider: 'platform', ...FACTS }], terms: CREDITS },
  capped: { entries: [{ provider: 'capped', ...FACTS }], terms: { budget_usd: { per_month: 100 } } },
  own: { entries: [{ provider: 'own', ...FACTS }] },
}
type Name = keyof typeof WORKSPACES
const NAMES = Object.keys(WORKSPACES) as Name[]

/** Nodes under paid traffic, with leases that are over soon. */
async function startPaid(
  t: Test,
  servers: Pick<FleetOptions, 'nodes' | 'redis' | 'program'>,
): Promise<Fleet> {
  const usage = { prompt_tokens: 10, completion_tokens: 50, total_tokens: 60 }
  const upstream = await startUpstream(t, { script: { usage, waitMs: 40 } })
  const provider = { kind: 'openai-compatible', base_url: upstream.url }
  return startFleet(t, {
    providers: {
      platform: { ...provider, access: 'platform' },
      capped: { ...provider, access: 'byok', workspace: 'capped' },
      own: { ...provider, access: 'byok', workspace: 'own' },
    },
    workspaces: WORKSPACES,
    config: { deadline_seconds: 3 },
    env: { LARKWAY_USAGE: 'true' },
    timing: {
      calls: { reservationGraceMs: 1_500 },
      usage: { segmentMs: 500, keptMs: 500 },
      usageFiles: { lostMs: 200 },
    },
    ...servers,
  })
}

/** Calls until it is stopped. Of each workspace some are leased, and some are too large for a lease. */
function callers(fleet: Fleet) {
  let isOver = false
  const refused: string[] = []
  let answered = 0
  async function call(count: number): Promise<void> {
    const name = NAMES[count % NAMES.length] as Name
    const isLarge = count % 7 === 0
    const body = { messages: [{ role: 'user', content: 'hello' }], max_tokens: isLarge ? LARGE_TOKENS : 60 }
    const { url } = fleet.node(count % fleet.nodes.length)
    const response = await fetch(`${url}/v1/chat`, {
      method: 'POST',
      headers: { authorization: fleet.authorizationOf(name), 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    if (response.status === 402) refused.push(`${name}: ${await response.text()}`)
    else await response.arrayBuffer()
    if (response.status === 200) answered += 1
  }
  async function caller(first: number): Promise<void> {
    for (let count = first; !isOver; count += CALLERS) await call(count).catch(() => sleep(20))
  }
  const calling = Array.from({ length: CALLERS }, (_, first) => caller(first))
  return {
    refused,
    get answered() {
      return answered
    },
    async stop() {
      isOver = true
      await Promise.all(calling)
    },
  }
}

/** Each record as it was written last. */
async function recordsOf(fleet: Fleet): Promise<UsageRecord[]> {
  const folders = new Set(fleet.nodes.map(({ dataFolder }) => join(dataFolder, 'usage-segments')))
  const all = (await Promise.all([...folders].map((folder) => usageRecords(folder)))).flat()
  const last = new Map<string, UsageRecord>()
  for (const record of all)
    if ((last.get(record.record_id)?.ended_at ?? 0) <= record.ended_at) last.set(record.record_id, record)
  return [...last.values()]
}

const processes = await processesProgram(2)
const kinds: readonly [string, Parameters<typeof startPaid>[1], { skip: string | false }][] = [
  ['embedded', {}, { skip: false }],
  ['two processes on a folder', { program: () => processes }, { skip: false }],
  ['two nodes and Redis', { nodes: 2, redis: {} }, { skip: withoutServers }],
]
for (const [name, servers, { skip }] of kinds) {
  t.test(`${name}: accounts and records are one book after kills`, { skip, timeout: 280_000 }, async (t) => {
    const fleet = await startPaid(t, servers)
    const { accounts } = await fleet.openState()
    const traffic = callers(fleet)
    for (let killed = 0; killed < KILLS; killed += 1) {
      const before = traffic.answered
      await waitUntil(async () => traffic.answered > before + 3, 10_000)
      await sleep(Math.random() * 700)
      const at = killed % fleet.nodes.length
      const pids = processesOf(fleet.node(at))
      if (pids.length > 1 && killed % 3 > 0) process.kill(pids.at(-1)!, 'SIGKILL')
      // Some stay away until their leases are over.
      else await fleet.restartNode(at, 'SIGKILL', () => (killed % 6 === 5 ? sleep(6_500) : Promise.resolve()))
      const { creditsMicros } = await accounts.show('paid', NO_TERMS)
      t.ok(creditsMicros >= 0, 'never negative')
    }
    await traffic.stop()
    const booksOf = async (workspace: Name) => {
      const view = await accounts.show(workspace, NO_TERMS)
      const records = (await recordsOf(fleet)).filter((one) => one.workspace === workspace)
      const bookedMicros = view.booked.months.reduce((sum, { micros }) => sum + micros, 0)
      return { view, records, bookedMicros, recordedMicros: costOf(records) }
    }
    for (const workspace of NAMES) {
      const isOne = async () => {
        const { view, bookedMicros, recordedMicros } = await booksOf(workspace)
        return (
          view.reservedMicros === 0 && view.spentMicros === bookedMicros && bookedMicros === recordedMicros
        )
      }
      await waitUntil(isOne, 20_000)
      const { view, records, bookedMicros, recordedMicros } = await booksOf(workspace)
      t.equal(bookedMicros - recordedMicros, 0, `${workspace}: accounts less records`)
      t.equal(view.spentMicros, bookedMicros)
      const lost = records.filter(({ kind }) => kind === 'lease_expired')
      // At most the calls that were under way: of each workspace one is large.
      t.ok(costOf(lost) <= KILLS * CALLERS * LARGE_MICROS)
      t.comment(`${workspace}: ${records.length} records, ${recordedMicros}, of that ${costOf(lost)} lost`)
      if (workspace === 'paid')
        t.equal(
          view.creditsMicros,
          GRANT_MICROS - bookedMicros + view.overageMicros,
          'credits less what was paid',
        )
    }
    t.same(traffic.refused, [], 'nothing was refused for money that nobody has spent')
    t.comment(`${traffic.answered} answers`)
  })
}
