import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { type RedisProxy, startRedisProxy } from './redis-proxy.ts'
import { startAndConnect } from './redis-server.ts'
import { freePort, type Teardown, tempFolder } from './scratch.ts'
import { Daemon, locate } from './servers.ts'
import { waitUntil } from './wait-until.ts'

/** A slot of a cluster on its way from the node that has it to another. */
export interface MovingSlot {
  /** Keys that the old node still has. */
  left(): Promise<number>
  move(...keys: string[]): Promise<void>
  moveRest(): Promise<void>
  /** Has all nodes know whose the slot is now. */
  finish(): Promise<void>
  readonly to: RedisCluster['primaries'][number]
}

/** Begins to move the slot of a key; nothing is moved yet. */
export async function beginToMove(
  { primaries }: Pick<RedisCluster, 'primaries'>,
  key: string,
): Promise<MovingSlot> {
  const slot = Number(await primaries[0]!.client.call('CLUSTER', 'KEYSLOT', key))
  const countOf = async ({ client }: (typeof primaries)[number]) =>
    Number(await client.call('CLUSTER', 'COUNTKEYSINSLOT', slot))
  const counts = await Promise.all(primaries.map(countOf))
  const from = primaries[counts.findIndex((count) => count > 0)]!
  const to = primaries.find((node) => node !== from)!
  await to.client.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from.id)
  await from.client.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to.id)
  const move = async (...keys: string[]) => {
    if (keys.length > 0) await from.client.call('MIGRATE', '127.0.0.1', to.port, '', 0, 5000, 'KEYS', ...keys)
  }
  return {
    to,
    move,
    left: () => countOf(from),
    async moveRest() {
      while ((await countOf(from)) > 0)
        await move(...((await from.client.call('CLUSTER', 'GETKEYSINSLOT', slot, 50)) as string[]))
    },
    async finish() {
      for (const { client } of [to, from, ...primaries])
        await client.call('CLUSTER', 'SETSLOT', slot, 'NODE', to.id)
    },
  }
}

const SLOTS = 16_384
const PRIMARIES = 3
/** How long a node is silent until the others take it for dead. */
const NODE_TIMEOUT_MS = 1_000

export interface ClusterNode {
  readonly port: number
  /** Of the nodes' talk among themselves. By default it is ten thousand above `port`, and may not exist there. */
  readonly busPort: number
  readonly id: string
  /** A plain connection to this node, which follows no redirections. */
  readonly client: Redis
  /** SIGKILL. */
  kill(): Promise<void>
  freeze(): void
  thaw(): void
}

export interface RedisCluster {
  /** `redis+cluster://127.0.0.1:<port>,…` */
  readonly url: string
  /** Each with a third of the slots, in their order. */
  readonly primaries: readonly ClusterNode[]
  /** In front of each primary, when that was asked for: the cluster sends its clients there. */
  readonly proxies: readonly RedisProxy[]
}

/** A private, real Redis Cluster of three primaries, ended with the test. */
export async function startRedisCluster(
  t: Teardown,
  options: { proxied?: boolean } = {},
): Promise<RedisCluster> {
  const ports = await Promise.all(Array.from({ length: PRIMARIES }, () => freePort()))
  const proxies = options.proxied ? await Promise.all(ports.map((port) => startRedisProxy(t, port))) : []
  const announced = proxies.map(({ url }) => Number(new URL(url).port))
  const primaries = await Promise.all(ports.map((port, i) => startNode(t, port, announced[i])))
  const [first] = primaries as [ClusterNode]
  for (const [i, { client }] of primaries.entries()) {
    const [from, end] = [i, i + 1].map((n) => Math.floor((SLOTS * n) / PRIMARIES)) as [number, number]
    await client.call('CLUSTER', 'ADDSLOTSRANGE', String(from), String(end - 1))
  }
  for (const { port, busPort } of primaries.slice(1))
    await first.client.call('CLUSTER', 'MEET', '127.0.0.1', String(port), String(busPort))
  await until('the cluster is not up', async () => {
    const infos = await Promise.all(primaries.map(infoOf))
    const met = infos.every((info) => info.includes(`cluster_known_nodes:${PRIMARIES}\r`))
    return met && infos.every((info) => info.includes('cluster_state:ok'))
  })
  const hosts = primaries.map(({ port }, i) => `127.0.0.1:${announced[i] ?? port}`)
  return { url: `redis+cluster://${hosts.join(',')}`, primaries, proxies }
}

/** One more node, which copies the first primary and takes its place when that dies. */
export async function addReplica(t: Teardown, { primaries }: RedisCluster): Promise<ClusterNode> {
  const [of] = primaries as [ClusterNode]
  const replica = await startNode(t, await freePort())
  await of.client.call('CLUSTER', 'MEET', '127.0.0.1', String(replica.port), String(replica.busPort))
  await until('the replica does not know its primary', async () => {
    const known = await replica.client.call('CLUSTER', 'REPLICATE', of.id).catch(() => null)
    return known === 'OK'
  })
  await until('the replica copies nothing, or is not known for it, or does not know the others', async () => {
    const lists = await Promise.all(
      primaries.map(({ client }) => client.call('CLUSTER', 'NODES').then(String)),
    )
    const isKnown = new RegExp(`^${replica.id} .* slave ${of.id} .* connected`, 'm')
    const known = String(await replica.client.call('CLUSTER', 'NODES'))
    const knows = primaries.every(({ id }) =>
      new RegExp(`^${id} .* master .* connected \\d`, 'm').test(known),
    )
    const copies = (await of.client.info('replication')).includes('state=online')
    const isUp = (await infoOf(replica)).includes('cluster_state:ok')
    return copies && knows && isUp && lists.every((list) => isKnown.test(list))
  })
  return replica
}

async function startNode(t: Teardown, port: number, announcedPort = port): Promise<ClusterNode> {
  const program = await locate('redis')
  const folder = await tempFolder(t)
  const busPort = await freePort()
  const options = {
    port,
    bind: '127.0.0.1',
    dir: folder,
    save: '',
    appendonly: 'no',
    'cluster-enabled': 'yes',
    'cluster-port': busPort,
    'cluster-announce-port': announcedPort,
    'cluster-announce-bus-port': busPort,
    'cluster-node-timeout': NODE_TIMEOUT_MS,
    'repl-diskless-sync-delay': 0,
  }
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
  const daemon = new Daemon('redis-server', program, args, join(folder, 'redis.log'))
  const client = await startAndConnect(t, daemon, port)
  const id = String(await client.call('CLUSTER', 'MYID'))
  return {
    ...{ port, busPort, id, client },
    kill: () => daemon.kill(),
    freeze: () => daemon.freeze(),
    thaw: () => daemon.thaw(),
  }
}

function infoOf({ client }: ClusterNode): Promise<string> {
  return client.call('CLUSTER', 'INFO').then(String)
}

async function until(fault: string, isSo: () => Promise<boolean>): Promise<void> {
  if (!(await waitUntil(isSo, 30_000))) throw new Error(fault)
}
