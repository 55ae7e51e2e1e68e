import { Redis } from 'ioredis'
import t from 'tap'
import { Cancellation } from '../../../src/contracts/cancellation.ts'
import { startRedis } from '../../support/redis-server.ts'
import { startServerLink } from '../../support/server-link.ts'
import { withoutServers } from '../../support/servers.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { leaseOf, newName } from './permits.contract.ts'
import { many, openNode, PATIENT, provider } from './permits-rig.ts'

t.test('what was given back without Redis is free when it is back', { skip: withoutServers }, async (t) => {
  const server = await startRedis(t)
  const link = await startServerLink(t, server.port)
  const outages = {
    'the line is cut': { begin: () => link.cut(), end: () => link.mend() },
    'nobody answers': { begin: async () => server.freeze(), end: async () => server.thaw() },
  }
  for (const [name, outage] of Object.entries(outages))
    t.test(name, async (t) => {
      const limit = { name: newName(), most: 4 }
      const [cut, other] = await Promise.all([openNode(t, `redis://${link.host}`), openNode(t, server.url)])
      const leases = await Promise.all([1, 2, 3, 4].map(() => cut.permits.wait(limit, PATIENT)))
      await outage.begin()
      for (const lease of leases) lease?.release()
      // Taken and given back by the node's own count.
      for (const lease of await Promise.all([1, 2, 3, 4].map(() => cut.permits.take([limit]))))
        leaseOf(lease).release()
      const held = leaseOf(await cut.permits.take([limit]))
      // Left while it waited: its place is given up, too.
      const leaves = new Cancellation()
      const left = cut.permits.wait({ ...limit, name: newName() }, { ...PATIENT, signal: leaves })
      leaves.abort(new Error('left'))
      await left
      t.ok(cut.told('counts permits alone'), 'the node counts alone')
      await outage.end()
      const others = await Promise.all([1, 2, 3].map(() => other.permits.wait(limit, PATIENT)))
      t.ok(others.every((lease) => lease !== null))
      const isFull = async () => {
        const taken = await other.permits.take([limit])
        if ('full' in taken) return true
        leaseOf(taken).release()
        return false
      }
      t.ok(await waitUntil(isFull), 'what is held counts')
      held.release()
      t.ok(await other.permits.wait(limit, PATIENT))
    })
})

t.test('a Redis that is far away costs trips, and no permits', { skip: withoutServers }, async (t) => {
  const server = await startRedis(t)
  const link = await startServerLink(t, server.port)
  const { permits, told } = await openNode(t, `redis://${link.host}`)
  const limit = { name: newName(), most: 4 }
  // Redis gets to know the scripts.
  ;(await permits.wait(limit, PATIENT))?.release()
  link.delayMs = 100
  const { run, figures } = provider()
  const [callMs, callers] = [300, 16]
  const startMs = performance.now()
  const stop = run(many(permits, callers), limit, callMs, 1_500)
  t.ok(await waitUntil(() => figures().served >= 60, 60_000))
  const { most, served, refused } = figures()
  const seconds = (performance.now() - startMs) / 1_000
  await stop()
  t.comment(`${served} served, ${refused} refused in ${seconds.toFixed(1)} s`)
  t.equal(told('counts permits alone'), 0, 'it answers')
  t.equal(most, 4)
  t.ok(refused <= served / 10, `${refused} of ${served + refused} got no permit in time`)
})

t.test('a Redis that takes no writes', { skip: withoutServers }, async (t) => {
  const refusals: Readonly<Record<string, (client: Redis, refuses: boolean) => Promise<unknown>>> = {
    'as its memory is full': (client, refuses) => client.config('SET', 'maxmemory', refuses ? '1' : '0'),
    'as it is a replica': (client, refuses) =>
      refuses ? client.replicaof('127.0.0.1', 1) : client.replicaof('NO', 'ONE'),
  }
  for (const [why, refuse] of Object.entries(refusals))
    t.test(why, async (t) => {
      const server = await startRedis(t)
      const client = new Redis(server.url)
      t.teardown(() => client.disconnect())
      const nodes = await Promise.all([openNode(t, server.url), openNode(t, server.url)])
      const limit = { name: newName(), most: 4 }
      const providers = nodes.map(() => provider())
      const stops = nodes.map(({ permits }, at) => providers[at]!.run(many(permits, 8), limit, 20, 10_000))
      const served = (count: number) =>
        waitUntil(() => providers.every((one) => one.figures().served >= count), 60_000)
      t.ok(await served(20))
      await refuse(client, true)
      const isAlone = () => nodes.every(({ told }) => told('counts permits alone') === 1)
      t.ok(await waitUntil(isAlone), 'both nodes count alone')
      for (const one of providers) one.forget()
      t.ok(await served(200))
      for (const one of providers) t.equal(one.figures().most, 4, 'each as many as there are, and no more')
      await refuse(client, false)
      const isShared = () => nodes.every(({ told }) => told('share their permits') > 0)
      t.ok(await waitUntil(isShared, 20_000), 'and share them again')
      for (const one of providers) one.forget()
      t.ok(await served(20))
      const both = providers.reduce((sum, one) => sum + one.figures().most, 0)
      t.ok(both <= 8, `${both}`)
      await Promise.all(stops.map((stop) => stop()))
      for (const { told } of nodes) {
        t.equal(told('counts permits alone'), 1, 'one line when it begins')
        t.equal(told('share their permits'), 1, 'and one when it is over')
        t.ok(told('Redis is away') <= 1, 'its connection breaks once at most')
        t.ok(await waitUntil(() => told('Redis is back') === told('Redis is away')))
      }
    })
})
