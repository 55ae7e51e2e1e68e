import { readdir, stat, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type RedisServer, startRedis } from '../../support/redis-server.ts'
import { openRedisState } from '../../support/redis-state.ts'
import { withoutServers } from '../../support/servers.ts'
import { NO_TERMS } from '../../support/state-under-test.ts'
import { waitUntil } from '../../support/wait-until.ts'

/**
 * Bytes of a booking that did not reach the file of a Redis that was killed: within its EXEC, all of its EXEC, and
 * within the command before, which adds the money.
 */
const MISSING = [1, 7, 14, 15, 40]
const MICROS = 1_000

/** Books credits, which nobody hears of: the server is killed when the last bytes are not written yet. */
async function bookAndDie(t: Test, redis: RedisServer, id: string, missing: number): Promise<void> {
  const { accounts } = await openRedisState(t, redis.url)
  await accounts.addCredits('acme', { id, micros: MICROS })
  await redis.kill()
  const folder = join(redis.folder, 'appendonlydir')
  const [log] = (await readdir(folder)).filter((name) => name.endsWith('.incr.aof'))
  const path = join(folder, `${log}`)
  await truncate(path, (await stat(path)).size - missing)
  await redis.restart()
}

/** Books it again, as whoever heard nothing does, restarts the server, and tells what the account has. */
async function bookAgain(t: Test, redis: RedisServer, id: string): Promise<number> {
  const { accounts } = await openRedisState(t, redis.url)
  await accounts.addCredits('acme', { id, micros: MICROS })
  await redis.restart()
  const { healthy, accounts: after } = await openRedisState(t, redis.url)
  t.ok(await waitUntil(() => healthy()))
  const { creditsMicros } = await after.show('acme', NO_TERMS)
  return creditsMicros
}

t.test(
  'a booking that Redis was killed in counts once, where its file is mended before it starts',
  { skip: withoutServers },
  async (t) => {
    const redis = await startRedis(t, { durable: true })
    for (const [before, missing] of MISSING.entries()) {
      const id = `grant-${missing}`
      await bookAndDie(t, redis, id, missing)
      t.equal(await bookAgain(t, redis, id), (before + 1) * MICROS, `${missing} bytes were missing`)
    }
  },
)

t.test(
  'start-up warns of a server that brings back half of a booking, and of no other',
  { skip: withoutServers },
  async (t) => {
    const redis = await startRedis(t, { args: ['--appendonly', 'yes', '--appendfsync', 'always'] })
    const lines: string[] = []
    await openRedisState(t, redis.url, (line) => lines.push(line))
    const isWarned = lines.some((line) => line.includes('half of a change'))
    t.equal(lines.length, isWarned ? 1 : 0, 'of nothing else')
    await bookAndDie(t, redis, 'grant', 7)
    const credits = await bookAgain(t, redis, 'grant')
    t.equal(credits, isWarned ? 2 * MICROS : MICROS)
  },
)
