import type { Redis } from 'ioredis'
import { pino } from 'pino'
import t from 'tap'
import { connected, primariesOf, redisConnector } from '../../../src/gateway/state/redis/connect.ts'
import { addReplica, startRedisCluster } from '../../support/redis-cluster.ts'
import { openRedisState, startsEmpty } from '../../support/redis-state.ts'
import { withoutServers } from '../../support/servers.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { permitsContract } from './permits.contract.ts'
import { stateContracts } from './redis.contracts.ts'

t.test('a cluster', { skip: withoutServers }, async (t) => {
  const cluster = await startRedisCluster(t)
  const { url, primaries } = cluster
  const state = await openRedisState(t, url)
  const clients = primaries.map(({ client }) => client)
  const [first, second] = primaries as [(typeof primaries)[0], (typeof primaries)[0]]
  const book = (workspace: string, id: string) => state.accounts.addCredits(workspace, { id, micros: 1 })
  const workspaces = Array.from({ length: 60 }, (_, i) => `ws_${i}`)

  await t.test('keeps the contracts of the state', async (t) => {
    await stateContracts(t, startsEmpty(state, clients))
  })

  await t.test(
    'a connection is ready when every primary has one, and is no outage when it is closed',
    async (t) => {
      const lines: string[] = []
      const connect = redisConnector(url, pino({ level: 'warn' }, { write: (line) => lines.push(line) }))
      for (let n = 0; n < 20; n += 1) {
        const connection = connect('test')
        await connected(connection)
        t.same(
          primariesOf(connection).map(({ status }) => status),
          primaries.map(() => 'ready'),
        )
        const ended = new Promise((resolve) => connection.once('end', resolve))
        connection.disconnect()
        await ended
      }
      t.same(lines, [])
    },
  )

  await t.test('shares permits between nodes', async (t) => {
    let went = 0
    const onLine = (line: string) => {
      if (line.includes('this node counts permits alone')) went += 1
    }
    const start = () => Promise.all([openRedisState(t, url, onLine), openRedisState(t, url, onLine)])
    permitsContract(
      t,
      async () => (await start()).map(({ permits }) => permits),
      () => went,
    )
  })

  await t.test('has the workspaces on all its nodes', async (t) => {
    await Promise.all(workspaces.map((workspace) => book(workspace, 'one')))
    const sizes = await Promise.all(clients.map((client) => client.dbsize()))
    t.ok(
      sizes.every((size) => size > 10),
      `${sizes} keys`,
    )
  })

  await t.test('answers while keys move from node to node', async (t) => {
    const workspace = 'ws_0'
    const slot = Number(await first.client.call('CLUSTER', 'KEYSLOT', `{${workspace}}`))
    const served = await Promise.all(clients.map((client) => client.call('CLUSTER', 'COUNTKEYSINSLOT', slot)))
    const from = primaries[served.findIndex((count) => Number(count) > 0)]!
    const to = from === first ? second : first
    await to.client.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from.id)
    await from.client.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to.id)
    const moving = (async () => {
      for (let i = 0; i < 40; i++) t.match(await book(workspace, `moving ${i}`), { booked: true })
    })()
    const keys = (await from.client.call('CLUSTER', 'GETKEYSINSLOT', slot, 100)) as string[]
    await from.client.call('MIGRATE', '127.0.0.1', to.port, '', 0, 5000, 'KEYS', ...keys)
    for (const { client } of [to, from, ...primaries])
      await client.call('CLUSTER', 'SETSLOT', slot, 'NODE', to.id)
    await moving
    t.equal((await state.accounts.addCredits(workspace, { id: 'sum', micros: 0 })).creditsMicros, 41)
  })

  const replica = await addReplica(t, cluster)
  await t.test('goes on when a primary dies and its replica takes over', async (t) => {
    await Promise.all(workspaces.map((workspace) => book(workspace, 'two')))
    const offsetOf = async (client: Redis, field: string) =>
      new RegExp(`^${field}:(\\d+)`, 'm').exec(await client.info('replication'))?.[1]
    const written = await offsetOf(first.client, 'master_repl_offset')
    const isCopied = async () =>
      Number(await offsetOf(replica.client, 'slave_repl_offset')) >= Number(written)
    t.ok(await waitUntil(isCopied))
    const startMs = performance.now()
    await first.kill()
    const answers = await Promise.allSettled(workspaces.map((workspace) => book(workspace, 'three')))
    t.ok(performance.now() - startMs < 10_000, 'nobody waits for it')
    const failures = answers.filter(({ status }) => status === 'rejected')
    t.ok(failures.length > 0, `${failures.length} of ${workspaces.length} workspaces are away`)
    const isBack = async () => {
      const again = await Promise.allSettled(workspaces.map((workspace) => book(workspace, 'three')))
      return again.every(({ status }) => status === 'fulfilled')
    }
    t.ok(await waitUntil(isBack, 20_000), 'the replica serves them')
    t.match(await replica.client.info('replication'), /role:master/)
    for (const workspace of workspaces.slice(1))
      t.match(await book(workspace, 'four'), { booked: true, creditsMicros: 4 })
  })

  await t.test('a node that hangs is given up', async (t) => {
    const startMs = performance.now()
    second.freeze()
    const answers = await Promise.allSettled(workspaces.map((workspace) => book(workspace, 'five')))
    t.ok(performance.now() - startMs < 10_000)
    t.ok(answers.some(({ status }) => status === 'rejected'))
    second.thaw()
    const isBack = async () => {
      const again = await Promise.allSettled(workspaces.map((workspace) => book(workspace, 'five')))
      return again.every(({ status }) => status === 'fulfilled')
    }
    t.ok(await waitUntil(isBack, 20_000), 'and found again')
  })
})
