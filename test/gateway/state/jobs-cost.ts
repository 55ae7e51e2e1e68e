import { Redis } from 'ioredis'
import type { Test } from 'tap'
import { jobPartition } from '../../../src/contracts/ids.ts'
import type { Jobs } from '../../../src/contracts/jobs.ts'
import { claimingOf, KEEP, SUCCESS, specOf } from '../../support/jobs-under-test.ts'
import { startRedis } from '../../support/redis-server.ts'
import { openRedisState } from '../../support/redis-state.ts'

const WORKSPACE = 'ws_cost'
/** A claim of one job asks the partitions in turn: over so many rounds that comes out even. */
const ROUNDS = 48
/** In one script: the server answers nobody else meanwhile, and a client takes a long silence for a lost connection. */
const FILLED_AT_ONCE = 2000

/**
 * Writes jobs as they are after their submission: the same as the first one, but for their ids, numbers and workspaces,
 * each of which has so many.
 */
const FILL = `
  local partition, first_id = KEYS[1], ARGV[1]
  local function key(...) return table.concat({ partition, ... }, ':') end
  local fields = redis.call('HGETALL', key('job', first_id))
  for i = 1, ARGV[2] do
    local number = redis.call('HINCRBY', partition, 'number', 1)
    local id = string.sub(first_id, 1, -11) .. string.format('%010d', number)
    local workspace = '${WORKSPACE}'
    if ARGV[3] ~= '' then workspace = workspace .. math.floor(number / ARGV[3]) end
    redis.call('HSET', key('job', id), unpack(fields))
    redis.call('HSET', key('job', id), 'number', number, 'workspace', workspace)
    redis.call('ZADD', key('ready', 'priority', workspace), number, id)
    redis.call('ZADD', key('ring', 'priority'), 'NX', number, workspace)
    redis.call('ZADD', key('index'), 1, id)
    redis.call('ZADD', key('waiting', 'queue', 'priority'), 1, id)
    redis.call('HINCRBY', partition, 'waiting', 1)
  end`

/** Commands of one kind: how many the server has executed, those in scripts too. */
type Counts = Readonly<Record<string, number>>

/**
 * Few jobs that wait, and then many: what is done with jobs takes the same commands.
 *
 * @param perWorkspace jobs of each workspace; null: all are of one
 */
export async function costsTheSame(
  t: Test,
  few: number,
  many: number,
  perWorkspace: number | null = null,
): Promise<void> {
  const { url } = await startRedis(t)
  const { jobs } = await openRedisState(t, url)
  const redis = new Redis(url)
  t.teardown(() => redis.disconnect())
  const first = specOf(WORKSPACE)
  await jobs.submit({ spec: first, slot: null })
  const partition = `lk:{jobs:${jobPartition(first.id)}}`
  const fill = async (count: number) => {
    for (let left = count - (await jobs.waiting()); left > 0; left -= FILLED_AT_ONCE)
      await redis.eval(FILL, 1, partition, first.id, Math.min(left, FILLED_AT_ONCE), perWorkspace ?? '')
    t.equal(await jobs.waiting(), count)
  }

  await fill(few)
  // The server comes to know the scripts.
  await countsOf(redis, jobs)
  const cheap = await countsOf(redis, jobs)
  await fill(many)
  const dear = await countsOf(redis, jobs)
  if (perWorkspace === null) t.same(dear, cheap, 'not one command more')
  // Which lists come to their end in these rounds differs a little.
  else for (const [name, count] of Object.entries(dear)) t.ok(count <= 1.02 * (cheap[name] ?? 0) + 2, name)
  const perRound = Object.values(cheap).reduce((sum, count) => sum + count, 0) / ROUNDS
  t.ok(perRound < 1000, `${perRound} commands each time`)
}

async function countsOf(redis: Redis, jobs: Jobs): Promise<Counts> {
  await redis.config('RESETSTAT')
  for (let round = 0; round < ROUNDS; round++) {
    await jobs.submit({ spec: specOf(WORKSPACE), slot: null })
    const cancelled = specOf(WORKSPACE)
    await jobs.submit({ spec: cancelled, slot: null })
    await jobs.cancel(cancelled.id, { workspace: WORKSPACE, app: 'web' }, KEEP)
    for (const { job } of await jobs.claim(claimingOf())) await jobs.end(job.id, job.fence, SUCCESS, KEEP)
    await jobs.figures()
  }
  const stats = await redis.info('commandstats')
  const counts = [...stats.matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm)].map(([, name, calls]) => [name, calls])
  // The limiter counts the nodes by the clock, by a script of these three.
  const byTheClock = /^(?:config|info|evalsha|time|zremrangebyscore|zcard|zadd|pexpire)/
  return Object.fromEntries(
    counts.filter(([name = '']) => !byTheClock.test(name)).map(([name, calls]) => [name, Number(calls)]),
  )
}
