import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { type RedisServer, startAndConnect, startRedis } from './redis-server.ts'
import { freePort, type Teardown, tempFolder } from './scratch.ts'
import { Daemon, locate } from './servers.ts'
import { waitUntil } from './wait-until.ts'

const SENTINELS = 3
const QUORUM = 2

export interface WatchedRedis {
  /** `redis+sentinel://[:password@]127.0.0.1:<port>,…/larkway` */
  readonly url: string
  /** The primary at the start, and the replica that takes its place. */
  readonly primary: RedisServer
  readonly replica: RedisServer
  readonly sentinels: readonly Redis[]
}

/** A private Redis with a replica and three real Sentinels that watch them, ended with the test. */
export async function startWatchedRedis(t: Teardown, password?: string): Promise<WatchedRedis> {
  const secret = password === undefined ? [] : ['--requirepass', password, '--masterauth', password]
  const args = [...secret, '--repl-diskless-sync-delay', '0']
  const primary = await startRedis(t, { args })
  const replica = await startRedis(t, { args: [...args, '--replicaof', `127.0.0.1 ${primary.port}`] })
  const { url, sentinels } = await startSentinels(t, primary.port, password)
  const found = await waitUntil(async () => {
    const calls = sentinels.map((sentinel) => sentinel.call('SENTINEL', 'REPLICAS', 'larkway'))
    const lists = (await Promise.all(calls)) as unknown[][]
    return lists.every((list) => list.length === 1)
  }, 30_000)
  if (!found) throw new Error('the Sentinels do not find the replica')
  return { url, primary, replica, sentinels }
}

/** Sentinels that watch what listens on a port of this machine, and know one another. */
export async function startSentinels(
  t: Teardown,
  watchedPort: number,
  password?: string,
): Promise<Pick<WatchedRedis, 'url' | 'sentinels'>> {
  const ports = await Promise.all(Array.from({ length: SENTINELS }, () => freePort()))
  const sentinels = await Promise.all(ports.map((port) => startSentinel(t, port, watchedPort, password)))
  const agree = await waitUntil(async () => {
    const checks = sentinels.map((sentinel) => sentinel.call('SENTINEL', 'CKQUORUM', 'larkway'))
    const results = await Promise.allSettled(checks)
    return results.every(({ status }) => status === 'fulfilled')
  }, 30_000)
  if (!agree) throw new Error('the Sentinels do not find one another')
  const user = password === undefined ? '' : `:${encodeURIComponent(password)}@`
  const hosts = ports.map((port) => `127.0.0.1:${port}`)
  return { url: `redis+sentinel://${user}${hosts.join(',')}/larkway`, sentinels }
}

async function startSentinel(
  t: Teardown,
  port: number,
  watchedPort: number,
  password: string | undefined,
): Promise<Redis> {
  const program = await locate('redis')
  const folder = await tempFolder(t)
  const file = join(folder, 'sentinel.conf')
  const lines = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${folder}`,
    `sentinel monitor larkway 127.0.0.1 ${watchedPort} ${QUORUM}`,
    'sentinel down-after-milliseconds larkway 1000',
    'sentinel failover-timeout larkway 3000',
    ...(password === undefined ? [] : [`sentinel auth-pass larkway ${password}`]),
  ]
  await writeFile(file, `${lines.join('\n')}\n`)
  const daemon = new Daemon('redis-sentinel', program, [file, '--sentinel'], join(folder, 'sentinel.log'))
  return startAndConnect(t, daemon, port)
}
