import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startRedis } from '../../support/redis-server.ts'
import { startServerLink } from '../../support/server-link.ts'
import { withoutServers } from '../../support/servers.ts'
import { newName } from './permits.contract.ts'
import { many, openNode, provider } from './permits-rig.ts'

// Two nodes share the four permits of a provider when their line to Redis is cut for a while.

const MOST = 4
const CALL_MS = 50
/** Callers of each node: more than there are permits, so that the provider is always asked as much as it takes. */
const CALLERS = 6
const PATIENCE_MS = 10_000

for (const cutMs of [3_000, 8_000, 30_000])
  t.test(`cut for ${cutMs / 1_000} s`, { skip: withoutServers, timeout: 120_000 }, async (t) => {
    const server = await startRedis(t)
    const links = [await startServerLink(t, server.port), await startServerLink(t, server.port)]
    const nodes = await Promise.all(
      links.map((link) => openNode(t, `redis://${link.host}`, { leaseMs: 15_000 })),
    )
    const limit = { name: newName(), most: MOST }
    const { run, figures, forget } = provider()
    const stop = run(
      nodes.flatMap(({ permits }) => many(permits, CALLERS)),
      limit,
      CALL_MS,
      PATIENCE_MS,
    )
    const servedIn = async (ms: number) => {
      const before = figures().served
      await sleep(ms)
      return figures().served - before
    }
    await servedIn(1_000)
    const before = await servedIn(1_000)
    t.equal(figures().most, MOST, 'never more than four while Redis lives')

    await Promise.all(links.map((link) => link.cut()))
    const alone = await servedIn(cutMs)
    await Promise.all(links.map((link) => link.mend()))
    const first = await servedIn(1_000)
    forget()
    const second = await servedIn(1_000)
    const { most, refused } = figures()
    await stop()
    t.comment(`${before} a second before, ${alone} while away, ${first} and ${second} in the seconds after`)
    t.ok(first >= 0.7 * before, `${first} calls in the first second, ${before} in one before the cut`)
    t.ok(second >= 0.7 * before, `${second} calls in the second one`)
    t.ok(most <= MOST, `${most} at once in the second after Redis was back`)
    t.equal(refused, 0)
    t.equal(nodes.filter(({ told }) => told('counts permits alone') === 1).length, 2, 'each says so once')
  })
