import type { Test } from 'tap'
import type { KeyPage, StoredKey } from '../../../src/contracts/stored-keys.ts'
import type { StateUnderTest } from '../../support/state-under-test.ts'
import { storedKey } from '../../support/stored-key.ts'

/** What stored keys are like, wherever they are written. */
export function keysContract(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('keys are listed as they were created, oldest first', async (t) => {
    const { keys } = (await start(t)).state
    t.same(await keys.list(), [])
    const plain = storedKey({ createdAtMs: 1_900_000_000_002 })
    const full = storedKey({
      createdAtMs: 1_900_000_000_001,
      name: `Größe '"{}: 🎙`,
      scopes: ['inference', 'jobs', 'queue', 'admin'],
      rateLimit: { requestsPerMinute: 600_000, burst: 100 },
      budgetMicros: 9_007_199_254_740_991,
      expiresAtMs: 1_950_000_000_000,
    })
    const bare = storedKey({ createdAtMs: 1_900_000_000_003, scopes: [], budgetMicros: 0, name: '' })
    const own = storedKey({ createdAtMs: 1_900_000_000_004, kind: 'playground' })
    // As the playground names its keys, and as long as they live, but made by somebody.
    const life = { createdAtMs: 1_900_000_000_005, expiresAtMs: 1_900_003_600_005 }
    const named = storedKey({ ...life, name: 'playground' })
    for (const key of [plain, full, bare, own, named]) await keys.create(key)
    t.same(await keys.list(), [full, plain, bare, own, named])
    t.match(await keys.revoke(own.id), { kind: 'playground' })
  })

  t.test('a key is created once', async (t) => {
    const { keys } = (await start(t)).state
    const key = storedKey()
    await keys.create(key)
    await keys.create(key)
    await keys.create({ ...key, name: 'another' })
    t.same(await keys.list(), [key])
  })

  t.test('a revoked key stays revoked since the first time', async (t) => {
    const { state, pass } = await start(t)
    const { keys } = state
    const [key, other] = [storedKey(), storedKey({ createdAtMs: 1_900_000_000_001 })]
    await keys.create(key)
    await keys.create(other)
    const revoked = await keys.revoke(key.id)
    const revokedAtMs = revoked?.revokedAtMs
    t.type(revokedAtMs, 'number')
    t.ok(Math.abs(revokedAtMs! - Date.now()) < 5000, 'by the clock of the state')
    t.same(revoked, { ...key, revokedAtMs })
    await pass(20)
    t.same(await keys.revoke(key.id), { ...key, revokedAtMs }, 'the first time is kept')
    await keys.create(key)
    t.same(await keys.list(), [{ ...key, revokedAtMs }, other], 'creating it again revives nothing')
  })

  t.test('a key is replaced by who has read the last of them', async (t) => {
    const { keys } = (await start(t)).state
    const [key, other] = [storedKey(), storedKey({ createdAtMs: 1_900_000_000_001 })]
    await keys.create(key)
    await keys.create(other)
    const read = await keys.version()
    const former = { sha256: key.sha256, prefix: key.prefix, untilMs: 1_950_000_000_000 }
    const { sha256, prefix } = storedKey()
    const settings = {
      name: 'Größe',
      scopes: [],
      rateLimit: { requestsPerMinute: 7, burst: 2 },
      budgetMicros: 0,
    }
    const changed = { ...key, ...settings, sha256, prefix, expiresAtMs: 1_960_000_000_000, former }
    t.equal(await keys.replace(changed, read), true)
    t.same(await keys.list(), [changed, other])
    t.not(await keys.version(), read)
    t.equal(await keys.replace(key, read), false, 'others came before')
    t.equal(await keys.replace(storedKey(), await keys.version()), false, 'there is none with its id')
    t.same(await keys.list(), [changed, other])
    const { former: _, ...bare } = changed
    t.equal(await keys.replace(bare, await keys.version()), true)
    t.same(await keys.list(), [bare, other], 'the former is gone')
    const revoked = await keys.revoke(key.id)
    t.equal(await keys.replace(changed, await keys.version()), true)
    t.same((await keys.list())[0], { ...changed, revokedAtMs: revoked?.revokedAtMs }, 'and stays revoked')
    const [one, two] = [
      { ...other, name: 'one' },
      { ...other, name: 'two' },
    ]
    const version = await keys.version()
    const both = await Promise.all([keys.replace(one, version), keys.replace(two, version)])
    t.same(both.toSorted(), [false, true], 'one of two')
  })

  t.test('a key is forgotten when it has expired, and not before', async (t) => {
    const { keys } = (await start(t)).state
    const past = { createdAtMs: 1_700_000_000_000, expiresAtMs: 1_700_003_600_000 }
    const over = storedKey(past)
    const revoked = storedKey(past)
    const coming = storedKey({ expiresAtMs: 1_950_000_000_000 })
    const endless = storedKey()
    for (const key of [over, revoked, coming, endless]) await keys.create(key)
    for (const { id } of [revoked, endless]) await keys.revoke(id)
    const version = await keys.version()
    for (const { id } of [over, revoked, coming, endless, over]) await keys.forget(id)
    await keys.forget('key_unknown')
    t.equal(await keys.version(), version, 'nobody has to read them again')
    const left = await keys.list()
    t.same(left.map(({ id }) => id).sort(), [coming.id, endless.id].sort())
    t.type(left.find(({ id }) => id === endless.id)?.revokedAtMs, 'number', 'and how they stand')
    await keys.create(revoked)
    t.match(
      (await keys.list()).find(({ id }) => id === revoked.id),
      { revokedAtMs: null },
      'nothing of it is left',
    )
  })

  t.test('all keys are read in parts', async (t) => {
    const { keys } = (await start(t)).state
    t.same(await keys.page(null), { keys: [], next: null, total: 0 })
    const all = Array.from({ length: 2_500 }, () => storedKey())
    await Promise.all(all.map((key) => keys.create(key)))
    const revoked = await keys.revoke(all[7]!.id)
    const read = new Map<string, StoredKey>()
    let parts = 0
    for (let from: string | null = null; parts === 0 || from !== null; parts += 1) {
      const page: KeyPage = await keys.page(from)
      t.ok(page.keys.length <= 1_500, `${page.keys.length} at once`)
      for (const key of page.keys) read.set(key.id, key)
      from = page.next
      if (from === null) t.equal(page.total, all.length)
    }
    t.ok(parts > 1)
    const listed = await keys.list()
    t.equal(listed.length, all.length)
    t.same(new Map(listed.map((key) => [key.id, key])), read)
    t.same(read.get(all[7]!.id), revoked)
  })

  t.test('what has changed since a version is told, each key as it is', async (t) => {
    const { keys } = (await start(t)).state
    const [old, key, other, over] = [
      storedKey(),
      storedKey(),
      storedKey(),
      storedKey({ createdAtMs: 1_700_000_000_000, expiresAtMs: 1_700_003_600_000 }),
    ]
    await keys.create(old)
    const before = await keys.version()
    for (const one of [key, other, over]) await keys.create(one)
    const between = await keys.version()
    const named = { ...key, name: 'another' }
    t.equal(await keys.replace(named, between), true)
    const revoked = await keys.revoke(old.id)
    await keys.forget(over.id)
    const now = await keys.version()
    const told = async (version: string) => {
      const changes = await keys.changes(version)
      return changes && { ...changes, keys: changes.keys.toSorted((a, b) => (a.id < b.id ? -1 : 1)) }
    }
    const byId = (...some: (StoredKey | null)[]) => some.toSorted((a, b) => (a!.id < b!.id ? -1 : 1))
    t.same(await told(before), { keys: byId(named, other, revoked), version: now })
    t.same(await told(between), { keys: byId(named, revoked), version: now })
    t.same(await told(now), { keys: [], version: now })
    await keys.revoke(old.id)
    await keys.create(named)
    t.same(await told(now), { keys: [], version: now }, 'what changes nothing')
  })

  t.test('more changes than can be told one by one are not told', async (t) => {
    const { keys } = (await start(t)).state
    await keys.create(storedKey())
    const before = await keys.version()
    for (let more = 0; more < 6; more += 1)
      await Promise.all(Array.from({ length: 1_000 }, () => keys.create(storedKey())))
    t.equal(await keys.changes(before), null)
    t.equal((await keys.list()).length, 6_001)
  })

  t.test('a key that is not there cannot be revoked', async (t) => {
    const { keys } = (await start(t)).state
    t.equal(await keys.revoke('key_unknown'), null)
  })

  t.test('the version changes with every change and with nothing else', async (t) => {
    const { keys } = (await start(t)).state
    const seen = new Set<string>()
    const differs = async (what: string) => {
      const version = await keys.version()
      t.notOk(seen.has(version), what)
      seen.add(version)
      t.equal(await keys.version(), version, 'asking changes nothing')
      await keys.list()
      t.equal(await keys.version(), version, 'listing changes nothing')
    }
    await differs('at the start')
    const key = storedKey()
    await keys.create(key)
    await differs('created')
    await keys.create(storedKey())
    await differs('created another')
    await keys.revoke(key.id)
    await differs('revoked')
  })
}
