import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { Redis } from 'ioredis'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { newId } from '../../../src/contracts/ids.ts'
import { redisConnector } from '../../../src/gateway/state/redis/connect.ts'
import { createRedisState } from '../../../src/gateway/state/redis/state.ts'
import { Dice } from '../../support/dice.ts'
import { listen } from '../../support/http-server.ts'
import { claimingOf, specOf } from '../../support/jobs-under-test.ts'
import { startRedis } from '../../support/redis-server.ts'
import { openRedisState } from '../../support/redis-state.ts'
import { withoutServers } from '../../support/servers.ts'
import {
  beginningOf,
  claimOf,
  LONG_MS,
  NO_TERMS,
  newDigest,
  newToken,
  newWorkspace,
  reserve,
  resultOf,
} from '../../support/state-under-test.ts'
import { storedKey } from '../../support/stored-key.ts'
import { waitUntil } from '../../support/wait-until.ts'

const UNAVAILABLE = { code: 'DEPENDENCY_UNAVAILABLE', cause: Error }

/** A plain client, to look at what is stored. */
function client(t: Test, url: string): Redis {
  const redis = new Redis(url)
  redis.on('error', () => {})
  t.teardown(() => redis.disconnect())
  return redis
}

t.test('every key is of its workspace, and what can expire does', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const { ledger, accounts, keys, settings } = await openRedisState(t, url)
  const redis = client(t, url)
  const [held, kept, burned, token] = [newDigest(), newDigest(), newDigest(), newToken()]
  await accounts.addCredits('acme', { id: 'first', micros: 1000 })
  for (const id of [held, kept, burned]) {
    const slot = claimOf(id, { leaseMs: 50_000, ttlMs: 500_000 })
    await ledger.begin(beginningOf('acme', { token, slot, reservation: reserve(100) }))
  }
  const ttlMs = 90_000
  await ledger.settle({
    ...{ token, workspace: 'acme', charge: null },
    slot: { id: kept, end: { state: 'stored', result: resultOf('x'), ttlMs } },
  })
  await ledger.settle({
    ...{ token, workspace: 'acme', charge: null },
    slot: { id: burned, end: { state: 'burned', ttlMs } },
  })
  const cancelled = newToken()
  await ledger.cancel({ workspace: 'acme', token: cancelled, slotId: null })
  await accounts.addUsage({ token, workspace: 'acme', spentMicros: { key_one: 5 } })
  await settings.putAudioUrlDomains('acme', ['a.example'])
  for (const secret of ['one', 'two'])
    await settings.putWebhook('acme', { url: 'https://a.example', secret, createdAtMs: 1 }, 300_000)
  const key = {
    ...{ id: newId('key'), sha256: 'f'.repeat(64), prefix: 'lk', workspace: 'acme', app: 'web', name: '' },
    ...{ scopes: [], rateLimit: null, budgetMicros: null, expiresAtMs: null },
    ...{ createdAtMs: 1, revokedAtMs: null },
  }
  await keys.create(key)
  await keys.revoke(key.id)

  const lives: Record<string, number | 'forever'> = {}
  for (const name of await redis.keys('*')) {
    const lifeMs = await redis.pttl(name)
    lives[name.replace(held, 'held')] = lifeMs === -1 ? 'forever' : Math.round(lifeMs / 10_000) * 10_000
  }
  t.same(lives, {
    'lk:nodes': lives['lk:nodes'],
    'lk:{acme}:slot:held': 550_000,
    [`lk:{acme}:slot:${kept}`]: ttlMs,
    [`lk:{acme}:slot:${burned}`]: ttlMs,
    [`lk:{acme}:void:${cancelled}`]: 120_000,
    [`lk:{acme}:usage:${token}`]: 3_600_000,
    'lk:{acme}:spent': 32 * 86_400_000,
    'lk:{acme}:webhook-previous': 300_000,
    'lk:{acme}:account': 'forever',
    'lk:{acme}:grants': 'forever',
    'lk:{acme}:reservations': 'forever',
    'lk:{acme}:leases': 'forever',
    'lk:{acme}:audio-url-domains': 'forever',
    'lk:{acme}:webhook': 'forever',
    'lk:{keys}:all': 'forever',
    'lk:{keys}:changes': 'forever',
    'lk:{keys}:revoked': 'forever',
    'lk:{keys}:version': 'forever',
  })

  await ledger.settle({ token, workspace: 'acme', slot: null, charge: { platformMicros: 1, spendMicros: 1 } })
  t.equal(
    await redis.exists('lk:{acme}:reservations', 'lk:{acme}:leases'),
    0,
    'nothing is left of a reservation',
  )
})

t.test('an operation is one command', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const { ledger } = await openRedisState(t, url)
  const redis = client(t, url)
  const call = async () => {
    const [id, token] = [newDigest(), newToken()]
    const slot = { id, end: { state: 'stored', result: resultOf('x'), ttlMs: LONG_MS } } as const
    await ledger.begin(beginningOf('acme', { token, slot: claimOf(id), reservation: reserve(0) }))
    await ledger.look('acme', id)
    await ledger.settle({ token, workspace: 'acme', slot, charge: { platformMicros: 0, spendMicros: 0 } })
  }
  await call()
  await redis.config('RESETSTAT')
  for (let i = 0; i < 3; i++) await call()
  const stats = await redis.info('commandstats')
  t.match(stats, /cmdstat_evalsha:calls=(9|10|11),/, 'three each, and now and then a beat of the limiter')
  t.notMatch(stats, /cmdstat_eval:|cmdstat_multi:/)
})

t.test(
  'while Redis is away everything fails at once, and comes back',
  { skip: withoutServers },
  async (t) => {
    const redis = await startRedis(t, { durable: true })
    const state = await openRedisState(t, redis.url)
    const { ledger, accounts, keys, settings, jobs, outbox } = state
    const begin = () => ledger.begin(beginningOf('acme', { slot: claimOf(newDigest()) }))
    t.same(await begin(), { state: 'begun' })

    t.equal(await state.healthy(), true)
    await redis.kill()
    const operations: readonly (() => Promise<unknown>)[] = [
      begin,
      () => ledger.settle({ token: 'x', workspace: 'acme', slot: null, charge: null }),
      () => ledger.cancel({ token: 'x', workspace: 'acme', slotId: null }),
      () => ledger.look('acme', 'abc'),
      () => accounts.show('acme', NO_TERMS),
      () => accounts.addCredits('acme', { id: 'x', micros: 1 }),
      () => accounts.addUsage({ token: 'x', workspace: 'acme', spentMicros: {} }),
      () => keys.list(),
      () => keys.page(null),
      () => keys.changes('1-1'),
      () => keys.version(),
      () => keys.revoke('x'),
      () => settings.audioUrlDomains('acme'),
      () => settings.putAudioUrlDomains('acme', []),
      () => settings.webhook('acme'),
      () => settings.removeWebhook('acme'),
      () => jobs.submit({ spec: specOf('acme'), slot: null }),
      () => jobs.claim(claimingOf({ limit: 100 })),
      () => jobs.get(specOf('acme').id),
      () => jobs.known([specOf('acme').id]),
      () => jobs.list({ workspace: null, kind: null, status: null, limit: 10 }),
      () => jobs.waiting(),
      () => jobs.takeExpired(10),
      () => outbox.claim({ limit: 10, leaseMs: 1, perWorkspace: 1, perAiling: 1 }),
      () => outbox.list(null, 10),
    ]
    for (const operation of operations) {
      const startMs = performance.now()
      await t.rejects(operation(), UNAVAILABLE)
      t.ok(performance.now() - startMs < 1_800, 'nobody waits')
    }
    t.equal(await state.healthy(), false, 'though a moment ago it was found well')

    await redis.restart()
    t.ok(await waitUntil(() => state.healthy()))
    t.same(await begin(), { state: 'begun' })
  },
)

t.test('a Redis that answers and refuses writes is not healthy', { skip: withoutServers }, async (t) => {
  const redis = await startRedis(t)
  const client = new Redis(redis.url)
  t.teardown(() => client.quit())
  const lines: string[] = []
  const state = await openRedisState(t, redis.url, (line) => lines.push(JSON.parse(line).msg))
  const refusals: Readonly<Record<string, (begins: boolean) => Promise<unknown>>> = {
    'is full': (begins) => client.config('SET', 'maxmemory', begins ? '1' : '0'),
    'misses its replicas': (begins) => client.config('SET', 'min-replicas-to-write', begins ? '1' : '0'),
    'is a replica': (begins) => (begins ? client.replicaof('127.0.0.1', 1) : client.replicaof('NO', 'ONE')),
  }
  for (const [name, change] of Object.entries(refusals)) {
    t.equal(await state.healthy(), true, `before it ${name}`)
    await change(true)
    t.equal(await client.ping(), 'PONG')
    // An answer holds for a moment.
    t.ok(await waitUntil(async () => !(await state.healthy())), `while it ${name}`)
    await change(false)
    // The connection to a replica is made anew.
    t.ok(await waitUntil(() => state.healthy()), `after it ${name}`)
  }
  t.equal(
    lines.filter((line) => line === 'Redis refuses writes').length,
    1,
    'one line, since it is one outage',
  )
})

t.test('while Redis hangs nobody waits over two seconds', { skip: withoutServers }, async (t) => {
  const redis = await startRedis(t)
  const state = await openRedisState(t, redis.url)
  const [id, token] = [newDigest(), newToken()]
  const beginning = beginningOf('acme', { token, slot: claimOf(id) })
  redis.freeze()
  const startMs = performance.now()
  const calls = Array.from({ length: 50 }, () => t.rejects(state.ledger.begin(beginning), UNAVAILABLE))
  t.equal(await state.healthy(), false)
  await Promise.all(calls)
  const tookMs = performance.now() - startMs
  t.ok(tookMs > 1800 && tookMs < 10_000, `${tookMs} ms`)
  redis.thaw()
  t.ok(await waitUntil(() => state.healthy()))
  t.same(await state.ledger.begin(beginning), { state: 'begun' }, 'whether or not it had arrived')
})

t.test('a node starts without Redis', { skip: withoutServers }, async (t) => {
  const redis = await startRedis(t)
  await redis.kill()
  const startMs = performance.now()
  const state = await openRedisState(t, redis.url)
  t.ok(performance.now() - startMs < 10_000)
  await t.rejects(state.keys.list(), UNAVAILABLE)
  await redis.restart()
  t.ok(await waitUntil(() => state.healthy()))
  t.same(await state.keys.list(), [])
})

t.test('a Redis that loads is looked at again soon, however long it estimates', async (t) => {
  let looks = 0
  const answerTo = (command: string | undefined): string => {
    if (command !== 'info') return '+OK\r\n'
    looks += 1
    const info = `loading:${looks < 3 ? 1 : 0}\r\nloading_eta_seconds:1000000\r\n`
    return `$${info.length}\r\n${info}\r\n`
  }
  const server = createServer((socket) => {
    socket.on('data', (bytes) => {
      for (const [, command] of bytes.toString().matchAll(/\*\d+\r\n\$\d+\r\n(\w+)/g))
        socket.write(answerTo(command))
    })
  })
  const { host } = new URL(await listen(t, server))
  const connection = redisConnector(`redis://${host}`, pino({ level: 'silent' }))('test')
  t.teardown(() => connection.disconnect())
  t.ok(await waitUntil(() => connection.status === 'ready', 5_000))
  t.equal(looks, 3)
})

t.test('an address that is none is refused at the start', async (t) => {
  const log = pino({ level: 'silent' })
  await t.rejects(createRedisState({ url: 'redis://:secret@h/x', log }), { message: /^REDIS_URL / })
})

t.test('settings that lose what was acknowledged are warned of', { skip: withoutServers }, async (t) => {
  const warnings = async (args: string[], durable: boolean) => {
    const { url } = await startRedis(t, { args, durable })
    const lines: string[] = []
    const log = pino({ level: 'warn' }, { write: (line) => lines.push(JSON.parse(line).msg) })
    const state = await createRedisState({ url, log })
    t.teardown(() => state.close())
    return lines
  }
  t.same(await warnings([], true), [])
  t.match(await warnings([], false), [/append-only/])
  t.match(await warnings(['--maxmemory-policy', 'allkeys-lru'], true), [/noeviction/])
  t.match(await warnings(['--maxmemory-policy', 'volatile-ttl'], false), [/noeviction/, /append-only/])
  t.match(await warnings(['--appendfsync', 'everysec'], true), [/appendfsync always/])
  t.same(await warnings(['--appendfsync', 'everysec', '--rename-command', 'CONFIG', ''], true), [])
})

t.test(
  'a server that is full refuses without having done half of it',
  { skip: withoutServers },
  async (t) => {
    const { url } = await startRedis(t)
    const state = await openRedisState(t, url)
    const redis = client(t, url)
    await state.accounts.addCredits('acme', { id: 'first', micros: 1000 })
    const [id, token] = [newDigest(), newToken()]
    const beginning = beginningOf('acme', { token, slot: claimOf(id), reservation: reserve(100) })
    await redis.config('SET', 'maxmemory', '1')
    await t.rejects(state.ledger.begin(beginning), UNAVAILABLE)
    await redis.config('SET', 'maxmemory', '0')
    t.match(await state.accounts.show('acme', NO_TERMS), { creditsMicros: 1000, reservedMicros: 0 })
    t.same(await state.ledger.look('acme', id), { state: 'free' })
    t.same(await state.ledger.begin(beginning), { state: 'begun' })
  },
)

t.test('the month of every script is that of the calendar', { skip: withoutServers }, async (t) => {
  const folder = new URL('../../../src/gateway/state/redis/', import.meta.url)
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const months = files.flatMap((file) => {
    if (!file.endsWith('.lua')) return []
    const lua = readFileSync(new URL(file, folder), 'utf8')
    return /^local function month_of[\s\S]*?^end$/m.exec(lua)?.[0] ?? []
  })
  t.equal(months.length, 1, 'it stands in one place')

  const redis = client(t, (await startRedis(t)).url)
  const dice = new Dice(7)
  const moments = Array.from({ length: 3000 }, () => dice.below(8_000_000_000_000))
  for (let month = 0; month < 12 * 230; month++) {
    const startMs = Date.UTC(1970, month, 1)
    moments.push(startMs, Math.max(startMs - 1, 0))
  }
  for (const form of months) {
    const lua = `${form}
      local replies = {}
      for i, ms in ipairs(ARGV) do
        local month, end_ms = month_of(tonumber(ms))
        replies[i] = month .. ' ' .. (end_ms and string.format('%.0f', end_ms) or '')
      end
      return replies`
    const endsToo = form.includes('end_ms')
    const expected = moments.map((ms) => {
      const date = new Date(ms)
      const endMs = endsToo ? Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1) : ''
      return `${date.toISOString().slice(0, 7)} ${endMs}`
    })
    t.same(await redis.eval(lua, 0, ...moments), expected)
  }
})

// The clock of Redis cannot be moved, so its months are.
t.test('what was spent in another month counts no more', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const { ledger, accounts } = await openRedisState(t, url)
  const redis = client(t, url)
  const capped = (token: string) =>
    ledger.begin(
      beginningOf('acme', { token, reservation: reserve(0, { spendMicros: 100, keyBudgetMicros: 100 }) }),
    )
  const [settled, cancelled, late] = [newToken(), newToken(), newToken()]
  for (const token of [settled, cancelled]) {
    await capped(token)
    // Now it was in a month that is over.
    await redis.hset('lk:{acme}:spent', 'month', '2001-02')
    const record = await redis.hget('lk:{acme}:reservations', token)
    await redis.hset('lk:{acme}:reservations', token, record!.replace(/\d{4}-\d\d/, '2001-02'))
    t.match(await accounts.show('acme', NO_TERMS), { spentMicros: 0, spentByKey: {} })
  }
  t.same(await capped(late), { state: 'begun' }, 'the budget begins anew')
  const charge = { platformMicros: 0, spendMicros: 90 }
  await ledger.settle({ token: settled, workspace: 'acme', slot: null, charge })
  await ledger.cancel({ token: cancelled, workspace: 'acme', slotId: null })
  t.match(await accounts.show('acme', NO_TERMS), { spentMicros: 100, spentByKey: { key_one: 100 } })
  await redis.hset('lk:{acme}:spent', 'month', '2001-02')
  await accounts.addUsage({ token: newToken(), workspace: 'acme', spentMicros: { key_two: 7 } })
  const month = new Date().toISOString().slice(0, 7)
  t.match(await accounts.show('acme', NO_TERMS), { month, spentMicros: 7, spentByKey: { key_two: 7 } })
})

t.test('keys of versions without marks are marked as they were told', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const { keys } = await openRedisState(t, url)
  const redis = client(t, url)
  const hour = { name: 'playground', createdAtMs: 1, expiresAtMs: 3_600_001 }
  const [own, longer, other] = [hour, { ...hour, expiresAtMs: 3_600_002 }, { ...hour, name: 'mine' }].map(
    storedKey,
  )
  for (const key of [own!, longer!, other!]) await redis.hset('lk:{keys}:all', key.id, JSON.stringify(key))
  const kinds = new Map((await keys.list()).map(({ id, kind }) => [id, kind]))
  t.same(
    [own, longer, other].map((key) => kinds.get(key!.id)),
    ['playground', undefined, undefined],
  )
})

t.test('nodes that start at once on an empty Redis miss nothing', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const [one, other] = [await openRedisState(t, url), await openRedisState(t, url)]
  let noted: string | null = null
  const note = async (id: string) => {
    noted = id
  }
  const latest = async () => noted
  await one.memory?.watch({
    note,
    // The other starts while this one looks, and is done first.
    latest: async () => {
      await other.memory?.watch({ note, latest })
      return noted
    },
  })
  t.match(noted, /^gen_/)
  t.same([one.memory?.isLost, other.memory?.isLost], [false, false])
})

t.test(
  'a grant is booked by whatever call is the first under its terms',
  { skip: withoutServers },
  async (t) => {
    const { url } = await startRedis(t)
    let noted: string | null = null
    const witness = {
      note: async (id: string) => {
        noted = id
      },
      latest: async () => noted,
    }
    const node = async () => {
      const state = await openRedisState(t, url)
      await state.memory?.watch(witness)
      return state
    }
    const [token, workspace] = [newToken(), newWorkspace()]
    const terms = { ...NO_TERMS, grant: { id: 'later', micros: 5_000 } }
    const begin = (number: number, over: object) =>
      beginningOf(workspace, { token, reservation: { ...reserve(0), ...over }, claim: { number } })
    t.same(await (await node()).ledger.begin(begin(1, {})), { state: 'begun' })
    const { ledger, accounts } = await node()
    t.same(
      await ledger.begin(begin(2, { terms })),
      { state: 'begun' },
      'a claim that takes a reservation over',
    )
    t.equal((await accounts.show(workspace, terms)).creditsMicros, 5_000)
  },
)

t.test(
  'a change of keys that the list of changes lacks has all of them read',
  { skip: withoutServers },
  async (t) => {
    const { url } = await startRedis(t)
    const redis = client(t, url)
    const { keys } = await openRedisState(t, url)
    const [first, second, third] = [storedKey(), storedKey(), storedKey()]
    await keys.create(first)
    const before = await keys.version()
    // As a version writes that does not know the list.
    await redis.hset('lk:{keys}:all', second.id, JSON.stringify(second))
    await redis.hincrby('lk:{keys}:version', 'count', 1)
    await redis.hset('lk:{keys}:version', 'changed_at', '1.5')
    t.equal(await keys.changes(before), null)
    const between = await keys.version()
    t.equal(between, '2-1.5')
    await keys.create(third)
    t.equal(await keys.changes(between), null, 'where it began is not in the list')
    const now = await keys.version()
    await keys.revoke(second.id)
    t.same(
      (await keys.changes(now))?.keys.map(({ id }) => id),
      [second.id],
    )

    const lost = await keys.version()
    const [newest = '', last = ''] = await redis.lrange('lk:{keys}:changes', 0, 1)
    t.ok(newest.startsWith(`${lost} `))
    // As a failover leaves it that has lost the last change.
    await redis.lpop('lk:{keys}:changes')
    await redis.hset('lk:{keys}:version', 'count', 3, 'changed_at', last.split(/[- ]/)[1] ?? '')
    t.equal(await keys.changes(lost), null)
    await keys.create(storedKey())
    t.equal(await keys.changes(lost), null, 'a count that was there before is another change')
  },
)
