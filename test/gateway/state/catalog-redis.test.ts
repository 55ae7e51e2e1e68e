import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import type { CatalogStore } from '../../../src/contracts/catalog-store.ts'
import type { State } from '../../../src/contracts/state.ts'
import {
  changeOf,
  discard,
  done,
  draft,
  noteOf,
  publish,
  remove,
  routeOf,
  viewOf,
} from '../../support/catalog-under-test.ts'
import { beginToMove, startRedisCluster } from '../../support/redis-cluster.ts'
import type { Verdict } from '../../support/redis-proxy.ts'
import { startRedis } from '../../support/redis-server.ts'
import { openRedisState } from '../../support/redis-state.ts'
import { withoutServers } from '../../support/servers.ts'
import { storedKey } from '../../support/stored-key.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { CUTS, type EmptiedState, insist, judge, startCutCluster, startCutServer } from './redis-cuts.ts'

const UNAVAILABLE = { code: 'DEPENDENCY_UNAVAILABLE', cause: Error }
const VOICE = routeOf('acme')
const OTHER = routeOf('acme', 'other')
const ALL = [VOICE, OTHER]

interface Operation {
  /** What the proxy calls its command. */
  readonly command: string
  /** @param token the same whenever it is sent again */
  run(catalog: CatalogStore, token: string): Promise<unknown>
}

/** Every operation; each begins with a published record that has a draft, the first of its revision. */
const OPERATIONS: Readonly<Record<string, Operation>> = {
  'save a draft': {
    command: 'change_catalog',
    run: (catalog, token) =>
      catalog.change(changeOf([draft(VOICE, { n: 3 }, 1)], { token, audit: [noteOf()] })),
  },
  publish: {
    command: 'change_catalog',
    run: async (catalog, token) => {
      const steps = [draft(VOICE, { n: 3 }, 1), publish(VOICE, { n: 3 }), publish(OTHER, {})]
      return (await catalog.change(changeOf(steps, { token, audit: [noteOf(), noteOf()] }))).state
    },
  },
  remove: {
    command: 'change_catalog',
    run: async (catalog, token) =>
      (await catalog.change(changeOf([remove(VOICE)], { token, audit: [noteOf()] }))).state,
  },
  'change in vain': {
    command: 'change_catalog',
    run: (catalog, token) =>
      catalog.change(changeOf([publish(VOICE, {})], { token, expected: 'another', audit: [noteOf()] })),
  },
  note: { command: 'note_change', run: (catalog, token) => catalog.note(token, noteOf()) },
  version: { command: 'hmget', run: async (catalog) => typeof (await catalog.version()) },
  published: {
    command: 'published_catalog',
    run: async (catalog) => (await catalog.published()).records.map(({ number }) => number),
  },
  get: { command: 'show_record', run: async (catalog) => (await catalog.get(VOICE))?.draft?.fields },
  list: { command: 'list_records', run: async (catalog) => (await catalog.list('acme')).length },
  versions: {
    command: 'zrevrangebyscore',
    run: async (catalog) => (await catalog.versions(VOICE, null, 9)).length,
  },
  'one version': {
    command: 'zrangebyscore',
    run: async (catalog) => (await catalog.versionOf(VOICE, 1))?.fields,
  },
  audit: { command: 'list_audit', run: async (catalog) => (await catalog.audit('acme', null, 9)).length },
}

async function begin({ catalog }: State): Promise<void> {
  await done(catalog, [publish(VOICE, { n: 1 }), draft(VOICE, { n: 2 })], { audit: [noteOf()] })
}

async function breaks(t: Test, rig: EmptiedState, { command, run }: Operation, cut: Verdict): Promise<void> {
  const { state, direct } = rig
  await rig.empty()
  await begin(direct)
  const once = await run(direct.catalog, randomUUID())
  const clean = await viewOf(direct.catalog, ALL)

  await rig.empty()
  await begin(direct)
  await insist(() => state.jobs.waiting())
  judge(rig, command, cut)
  const token = randomUUID()
  await t.rejects(run(state.catalog, token), UNAVAILABLE, 'the caller is told')
  judge(rig, command, 'pass')
  const again = await insist(() => run(state.catalog, token))
  if (!isVersioned(once)) t.same(again, once, 'repeated')
  t.same(await viewOf(direct.catalog, ALL), clean, 'as if it had run once')
}

/** A version names the moment, so it is another in every state. */
function isVersioned(answer: unknown): boolean {
  return typeof answer === 'object' && answer !== null && 'version' in answer
}

async function survives(
  t: Test,
  rig: EmptiedState,
  operations: Readonly<Record<string, Operation>>,
): Promise<void> {
  for (const [name, operation] of Object.entries(operations))
    for (const cut of CUTS) await t.test(`${name}: ${cut}`, (t) => breaks(t, rig, operation, cut))
}

t.test('one server: every operation, cut at every step', { skip: withoutServers }, async (t) => {
  await survives(t, await startCutServer(t), OPERATIONS)
})

t.test('a cluster: writes, cut at every step', { skip: withoutServers }, async (t) => {
  const { publish, note } = OPERATIONS as Record<'publish' | 'note', Operation>
  await survives(t, await startCutCluster(t), { publish, note })
})

async function startCatalog(t: Test) {
  const server = await startRedis(t)
  const redis = new Redis(server.url)
  t.teardown(() => redis.disconnect())
  return { server, redis, ...(await openRedisState(t, server.url)) }
}

t.test('nothing goes with time but what changes were answered', { skip: withoutServers }, async (t) => {
  const { redis, catalog } = await startCatalog(t)
  const steps = [
    publish(VOICE, {}),
    draft(VOICE, {}),
    publish({ ...VOICE, kind: 'plan', workspace: null }, {}),
  ]
  await catalog.change(changeOf(steps, { token: 'one', audit: [noteOf(), noteOf({ workspace: null })] }))
  await catalog.change(changeOf([], { token: 'two', expected: 'another' }))
  await catalog.note('one', noteOf())
  const lives: Record<string, number | 'forever'> = {}
  for (const name of await redis.keys('lk:{*')) {
    const lifeMs = await redis.pttl(name)
    lives[name] = lifeMs === -1 ? 'forever' : Math.round(lifeMs / 10_000) * 10_000
  }
  t.same(lives, {
    'lk:{catalog}': 'forever',
    'lk:{catalog}:owners': 'forever',
    'lk:{catalog}:drafts': 'forever',
    'lk:{catalog}:revisions': 'forever',
    'lk:{catalog}:published': 'forever',
    'lk:{catalog}:numbers': 'forever',
    'lk:{catalog}:versions:acme:route/acme.voice': 'forever',
    'lk:{catalog}:versions::plan/acme.voice': 'forever',
    'lk:{catalog}:audit': 'forever',
    'lk:{catalog}:audit:acme': 'forever',
    'lk:{catalog}:change:one': 600_000,
    'lk:{catalog}:change:two': 600_000,
    'lk:{catalog}:note:one': 600_000,
  })
})

t.test(
  'a server that is full refuses without having done half of it',
  { skip: withoutServers },
  async (t) => {
    const { redis, catalog } = await startCatalog(t)
    await done(catalog, [publish(VOICE, { n: 1 }), draft(VOICE, { n: 2 })], { audit: [noteOf()] })
    const before = await viewOf(catalog, ALL)
    const changes = [
      [discard(VOICE)],
      [remove(VOICE)],
      [discard(VOICE), draft(VOICE, { n: 3 })],
      [publish(VOICE, { n: 3 })],
    ].map((steps) => changeOf(steps, { audit: [noteOf()] }))
    await redis.config('SET', 'maxmemory', '1')
    for (const change of changes) await t.rejects(catalog.change(change), UNAVAILABLE)
    await t.rejects(catalog.note(randomUUID(), noteOf()), UNAVAILABLE)
    t.same(await viewOf(catalog, ALL), before)
    await redis.config('SET', 'maxmemory', '0')
    for (const change of changes) t.match(await catalog.change(change), { state: 'done' })
  },
)

t.test('a change after a failover that lost one has another version', { skip: withoutServers }, async (t) => {
  const { redis, catalog } = await startCatalog(t)
  await done(catalog, [publish(VOICE, { n: 1 })])
  const kept = await redis.hgetall('lk:{catalog}')
  const lost = await done(catalog, [publish(VOICE, { n: 2 })])
  await redis.hset('lk:{catalog}', kept)
  const next = await done(catalog, [publish(VOICE, { n: 3 })])
  t.equal(next.split('-')[0], lost.split('-')[0], 'the same count')
  t.not(next, lost)
  t.same(await catalog.change(changeOf([], { expected: lost })), { state: 'conflict' })
})

t.test('while Redis is away everything fails at once', { skip: withoutServers }, async (t) => {
  const { server, catalog } = await startCatalog(t)
  await begin({ catalog } as State)
  await server.kill()
  for (const [name, { run }] of Object.entries(OPERATIONS)) {
    const startMs = performance.now()
    await t.rejects(run(catalog, randomUUID()), UNAVAILABLE)
    t.ok(performance.now() - startMs < 1_800, `${name} does not wait`)
  }
})

t.test('what moves from node to node is never seen by half', { skip: withoutServers }, async (t) => {
  const cluster = await startRedisCluster(t)
  const { catalog } = await openRedisState(t, cluster.url)
  let [n, refused, isOver] = [0, 0, false]
  const changing = async () => {
    while (!isOver) {
      n += 1
      const change = changeOf([publish(VOICE, { n }), publish(OTHER, { n })], { audit: [noteOf()] })
      const isDone = () =>
        catalog.change(change).then(
          ({ state }) => state === 'done',
          () => {
            refused += 1
            return false
          },
        )
      if (!(await waitUntil(isDone, 30_000))) throw new Error(`change ${n} is not made`)
    }
  }
  const halves: unknown[] = []
  const reading = async () => {
    while (!isOver) {
      const { records } = await catalog.published().catch(() => ({ records: [] }))
      if (new Set(records.map(({ fields }) => fields.n)).size > 1) halves.push(records)
    }
  }
  const all = Promise.all([changing(), reading()])
  t.ok(await waitUntil(() => n > 20))
  const moving = await beginToMove(cluster, 'lk:{catalog}')
  await moving.move('lk:{catalog}', 'lk:{catalog}:audit')
  t.ok(await waitUntil(() => refused > 0), 'half of a catalog is none')
  await moving.moveRest()
  const before = n
  await moving.finish()
  t.ok(await waitUntil(() => n > before + 20), 'it goes on')
  isOver = true
  await all

  t.same(halves, [])
  t.equal(await moving.left(), 0, 'nothing was written where the catalog is no more')
  const expected = Array.from({ length: Math.min(n, 1000) }, (_, i) => n - i)
  for (const record of ALL)
    t.same(
      (await catalog.versions(record, null, 1000)).map(({ number, fields }) => number === fields.n && number),
      expected,
    )
  t.same(
    (await catalog.audit(null, null, 1000)).map(({ number }) => number),
    expected,
  )
})

t.test('what changes keys or the catalog is told to the other nodes', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const [own, other] = [await openRedisState(t, url), await openRedisState(t, url)]
  const hints: string[] = []
  other.listen({ queued() {}, changed() {}, settings: () => hints.push('settings') })
  const key = storedKey()
  // What is published before the subscription is in force is lost.
  t.ok(await waitUntil(async () => (await own.keys.create(storedKey())) === undefined && hints.length > 0))
  const changes: [name: string, make: () => Promise<unknown>][] = [
    ['create', () => own.keys.create(key)],
    ['replace', async () => own.keys.replace({ ...key, name: 'other' }, await own.keys.version())],
    ['revoke', () => own.keys.revoke(key.id)],
    ['publish', () => own.catalog.change(changeOf([publish(VOICE, { n: 1 })]))],
    ['facts of models', () => own.catalog.putModels(randomUUID(), null, noteOf())],
  ]
  for (const [name, make] of changes) {
    await settle()
    const before = hints.length
    await make()
    t.ok(await waitUntil(() => hints.length > before), name)
  }
  await settle()
  const before = hints.length
  await own.keys.revoke(key.id)
  await own.catalog.change(changeOf([draft(VOICE, { n: 2 }, 0)]))
  await own.keys.create(storedKey())
  t.ok(await waitUntil(() => hints.length > before))
  t.equal(hints.length, before + 1, 'neither a draft nor a key that was revoked before')

  /** Every hint that was sent has come: hints keep their order on the one connection. */
  async function settle(): Promise<void> {
    const before = hints.length
    await own.keys.create(storedKey())
    await waitUntil(() => hints.length > before)
  }
})
