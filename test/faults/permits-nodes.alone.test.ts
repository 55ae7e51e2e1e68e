import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { withoutServers } from '../support/servers.ts'
import { callOn, PERMITS, startPermitNodes } from './permit-nodes.ts'

const FLOOD = 60

const quantile = (sorted: readonly number[], share: number) =>
  sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN

t.test(
  'three nodes share the permits of an account, and one tenant keeps no other one waiting',
  { skip: withoutServers, timeout: 120_000 },
  async (t) => {
    const nodes = await startPermitNodes(t)
    const { provider } = nodes
    const measure = async (seconds: number, flood: number) => {
      const running = [callOn(nodes, 'one', 2), callOn(nodes, 'two', 2), callOn(nodes, 'flood', flood)]
      await sleep(seconds * 1_000)
      const [one, two, flooding] = await Promise.all(running.map(({ stop }) => stop()))
      for (const { statuses } of [one!, two!, flooding!])
        t.same(
          [...statuses.keys()].filter((status) => status !== 200),
          [],
        )
      return [one!, two!, flooding!] as const
    }
    await measure(3, 0)
    const most = provider.most()
    t.ok(most <= 4, `${most} at once`)
    const [one, two, flood] = await measure(9, FLOOD)
    t.equal(provider.most(), PERMITS, 'all of them are used, and no more')
    // As many as there are permits begin in the time that one takes, so that a call which waits for them takes twice as
    // long as alone; half as many more begin before a busy machine has brought it here. In the order of their coming it
    // would wait for all of the flood.
    for (const { behind, tookMs } of [one, two]) {
      t.ok(behind.length > 20, `${behind.length} calls`)
      const [others, longest] = [quantile(behind, 0.9), Math.round(quantile(tookMs, 0.9))]
      t.ok(
        others <= 1.5 * PERMITS,
        `nine of ten waited for ${others} others or fewer, and took ${longest} ms or less`,
      )
    }
    t.ok(quantile(flood.behind, 0.5) > FLOOD / 2, 'who sends more waits for itself')
  },
)
