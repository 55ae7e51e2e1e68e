import { execFile } from 'node:child_process'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { Snapshot } from '../../../src/contracts/catalog.ts'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { KeyChanges, KeyPage, StoredKey, StoredKeys } from '../../../src/contracts/stored-keys.ts'
import { createApiKeys } from '../../../src/gateway/catalog/api-keys.ts'
import { hashKey, makeKey } from '../../../src/gateway/catalog/key.ts'
import { KnownKeys, readKeys } from '../../../src/gateway/catalog/known-keys.ts'
import { buildSnapshot } from '../../../src/gateway/catalog/snapshot.ts'
import { BentFile, SURROUNDINGS } from '../../support/catalog-file.ts'
import { watchTurns } from '../../support/loop-turns.ts'
import { storedKey } from '../../support/stored-key.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const POLL_MS = 20
const PAGE = 1_000
const FILE_KEY = '0a'.repeat(32)

function snapshotAfter(bend: (file: BentFile) => void = () => {}): Snapshot {
  const file = new BentFile()
  bend(file)
  const reading = buildSnapshot(file.document, SURROUNDINGS)
  if ('issues' in reading) throw new Error(reading.issues.join('\n'))
  return reading.snapshot
}

/** Keys as a state gives them: new objects each time, after a while, or not at all. */
class Keys implements Omit<StoredKeys, 'forget'> {
  readonly #keys = new Map<string, StoredKey>()
  /** Ids, as they were changed. */
  readonly #log: string[] = []
  #changes = 0
  away = false
  /** It does not know any more what has changed. */
  forgetful = false
  /** Keys that it told of as changed. */
  told = 0
  /** What answers wait for. */
  held: Promise<void> | null = null
  reading = 0
  readingMost = 0
  versions = 0
  lists = 0

  constructor(...keys: StoredKey[]) {
    for (const key of keys) void this.create(key)
  }

  async create(key: StoredKey): Promise<void> {
    this.#keys.set(key.id, key)
    this.#log.push(key.id)
    this.#changes += 1
  }

  async replace(key: StoredKey): Promise<boolean> {
    await this.create(key)
    return true
  }

  async revoke(id: string): Promise<StoredKey | null> {
    const key = this.#keys.get(id)
    if (key === undefined) return null
    await this.create({ ...key, revokedAtMs: Date.now() })
    return key
  }

  async version(): Promise<string> {
    this.versions += 1
    return this.#answer(() => String(this.#changes))
  }

  async list(): Promise<readonly StoredKey[]> {
    throw new Error('a process that serves does not ask for all at once')
  }

  async page(from: string | null): Promise<KeyPage> {
    if (from === null) this.lists += 1
    return this.#answer(() => {
      const begin = Number(from ?? 0)
      const keys = structuredClone([...this.#keys.values()].slice(begin, begin + PAGE))
      const total = this.#keys.size
      return { keys, next: begin + PAGE < total ? String(begin + PAGE) : null, total }
    })
  }

  async changes(since: string): Promise<KeyChanges | null> {
    return this.#answer(() => {
      if (this.forgetful) return null
      const ids = new Set(this.#log.slice(Number(since)))
      this.told += ids.size
      const keys = structuredClone([...ids].flatMap((id) => this.#keys.get(id) ?? []))
      return { keys, version: String(this.#changes) }
    })
  }

  /** As the state forgets an expired key: no version tells of it. */
  forget(id: string): void {
    this.#keys.delete(id)
  }

  async #answer<Result>(read: () => Result): Promise<Result> {
    this.reading += 1
    this.readingMost = Math.max(this.readingMost, this.reading)
    // What it answers is how it was before the answer was on its way.
    const answer = read()
    await nextTurn()
    await this.held
    this.reading -= 1
    if (this.away) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
    return answer
  }
}

function bookOf(
  t: Test,
  keys: Keys,
  snapshot: () => Snapshot = always(snapshotAfter()),
  isWhole: () => boolean = () => true,
  clock = new VirtualClock(),
) {
  const log: { level: string; msg: string }[] = []
  const book = createApiKeys({
    snapshot,
    isWhole,
    keys,
    log: pino(
      { base: null, formatters: { level: (level) => ({ level }) } },
      { write: (line: string) => log.push(JSON.parse(line)) },
    ),
    pollMs: POLL_MS,
    clock,
  })
  t.teardown(() => book.close())
  return { book, log, clock }
}

function always(snapshot: Snapshot): () => Snapshot {
  return () => snapshot
}

t.test('a stored key stands for its app, with the defaults of the configuration', async (t) => {
  const snapshot = snapshotAfter((file) => file.set('/rate_limit', { requests_per_minute: 30 }))
  const plain = storedKey()
  const own = storedKey({
    scopes: ['jobs', 'admin'],
    rateLimit: { requestsPerMinute: 7, burst: 3 },
    budgetMicros: 2_500_000,
    expiresAtMs: 1_950_000_000_000,
  })
  const { book } = bookOf(t, new Keys(plain, own), always(snapshot))
  await book.ready()

  const principal = book.find(plain.sha256)
  const app = snapshot.apps.get('acme')?.get('web')
  t.same(principal, {
    ...app,
    key: {
      id: plain.id,
      name: 'mobile',
      scopes: ['inference'],
      rateLimit: { requestsPerMinute: 30, burst: 100 },
      expiresAtMs: null,
      budgetMicros: null,
    },
  })
  t.equal(principal?.route, snapshot.keys.get(FILE_KEY)?.route, 'the very route of the configuration')
  t.match(book.find(own.sha256)?.key, {
    scopes: ['jobs', 'admin'],
    rateLimit: { requestsPerMinute: 7, burst: 3 },
    budgetMicros: 2_500_000,
    expiresAtMs: 1_950_000_000_000,
  })
  t.equal(book.find(hashKey(makeKey())), undefined)
})

t.test('the configuration goes first, and what it does not serve is nobody', async (t) => {
  const keys = new Keys(
    storedKey({ sha256: FILE_KEY, name: 'taken' }),
    storedKey({ sha256: '01'.repeat(32), workspace: 'other' }),
    storedKey({ sha256: '02'.repeat(32), app: 'mobile' }),
    storedKey({ sha256: '03'.repeat(32), workspace: 'constructor', app: 'name' }),
    storedKey({ sha256: '04'.repeat(32), revokedAtMs: 1_900_000_000_001 }),
  )
  const { book } = bookOf(t, keys)
  await book.ready()
  t.equal(book.find(FILE_KEY)?.key.id, 'key_web')
  for (const digit of [1, 2, 3, 4]) t.equal(book.find(`0${digit}`.repeat(32)), undefined, `0${digit}`)
})

t.test('what is created and revoked elsewhere is seen, and nothing else is read for it', async (t) => {
  const keys = new Keys()
  const { book, log, clock } = bookOf(t, keys)
  await book.ready()
  const key = storedKey()
  t.equal(book.find(key.sha256), undefined)
  await keys.create(key)
  await clock.advance(2 * POLL_MS)
  t.ok(book.find(key.sha256) !== undefined)
  await keys.revoke(key.id)
  await clock.advance(2 * POLL_MS)
  t.ok(book.find(key.sha256) === undefined)

  const { lists, versions } = keys
  await clock.advance(10 * POLL_MS)
  t.ok(keys.versions > versions + 5)
  t.equal(keys.lists, lists, 'nothing has changed')
  t.same([lists, keys.told], [1, 2], 'the rest is read once')
  t.same(log, [])
})

t.test('all keys are read again where what has changed is not known, and once a day', async (t) => {
  const [kept, lost, forgotten] = [storedKey(), storedKey(), storedKey()]
  const keys = new Keys(kept, lost, forgotten)
  const { book, clock } = bookOf(t, keys)
  await book.ready()
  const principal = book.find(kept.sha256)
  keys.forgetful = true
  keys.forget(lost.id)
  const made = storedKey()
  await keys.create(made)
  await book.refresh()
  t.ok(book.find(made.sha256))
  t.equal(book.find(lost.sha256), undefined, 'as after a failover that lost it')
  t.equal(book.find(kept.sha256), principal)
  t.equal(keys.lists, 2)

  keys.forgetful = false
  keys.forget(forgotten.id)
  await book.refresh()
  t.ok(book.find(forgotten.sha256), 'no version told of it')
  book.close()
  await clock.advance(24 * 3_600_000)
  await readKeys(keys)
  t.equal(book.find(forgotten.sha256), undefined)
  t.equal(book.find(kept.sha256), principal)
})

t.test('a reading that breaks off in the middle is made again', async (t) => {
  const all = Array.from({ length: 2 * PAGE }, () => storedKey())
  const keys = new Keys(...all)
  const page = keys.page.bind(keys)
  keys.page = (from) => (from === null ? page(from) : Promise.reject(new Error('broken off')))
  const { book } = bookOf(t, keys)
  await book.ready()
  t.throws(() => book.find(all[0]!.sha256), { code: 'DEPENDENCY_UNAVAILABLE' }, 'it may be a part of all')
  keys.page = page
  await book.refresh()
  t.ok(all.every(({ sha256 }) => book.find(sha256) !== undefined))
})

t.test('what a failover between two parts leaves out is read again', async (t) => {
  const all = Array.from({ length: 3 * PAGE }, () => storedKey())
  const keys = new Keys(...all)
  const page = keys.page.bind(keys)
  let cursors = 0
  keys.page = (from) => page(from !== null && cursors++ === 0 ? String(2 * PAGE) : from)
  const known = await readKeys(keys)
  t.equal(keys.lists, 2)
  t.equal(known.size, all.length)
  // Where there are always more than are told, it does not read for ever.
  keys.page = async (from) => ({ ...(await page(from)), total: 10 * PAGE })
  keys.forgetful = true
  await keys.revoke(all[0]!.id)
  await readKeys(keys)
  t.equal(keys.lists, 5)
  t.equal(known.size, all.length)
  t.same(
    all.filter(({ sha256 }) => known.find(sha256) === undefined),
    [all[0]],
  )
})

t.test('keys are found by their ids and workspaces', async (t) => {
  const limit = () => ({ requestsPerMinute: 5, burst: 2 })
  const [first, second, foreign] = [
    storedKey({ createdAtMs: 2, rateLimit: limit() }),
    storedKey({ createdAtMs: 1, rateLimit: limit() }),
    storedKey({ workspace: 'globex' }),
  ]
  const keys = new Keys(first, second, foreign)
  const known = await readKeys(keys)
  t.same(known.of('acme'), [second, first], 'oldest first')
  t.same(known.of('globex'), [foreign])
  t.same(known.of('nobody'), [])
  t.same([known.size, known.sizeOf('acme'), known.sizeOf('nobody')], [3, 2, 0])
  for (const key of [first, second, foreign]) t.same(known.byId(key.id), key)
  await keys.revoke(first.id)
  t.equal(await readKeys(keys), known, 'one copy, whoever asks')
  t.type(known.byId(first.id)?.revokedAtMs, 'number')
  t.equal(known.find(first.sha256), undefined)
  t.equal(known.of('acme').length, 2)
  known.drop(first.id)
  t.same(known.of('acme'), [second])
  t.equal(known.byId(first.id), undefined)
})

t.test('caps are read in parts: those of keys that calls may come with', async (t) => {
  const capped = Array.from({ length: 2_500 }, (_, at) =>
    storedKey({ workspace: `ws${at % 7}`, budgetMicros: at + 1 }),
  )
  const others = [{ budgetMicros: 0 }, {}, { budgetMicros: 5, revokedAtMs: 1 }]
  const keys = new Keys(...capped, ...others.map((over) => storedKey(over)))
  const known = await readKeys(keys)
  const capsOf = (some: readonly Pick<StoredKey, 'id' | 'workspace' | 'budgetMicros'>[]) =>
    some.map(({ id, workspace, budgetMicros }) => `${id} ${workspace} ${budgetMicros}`).sort()
  t.same(capsOf(await known.budgets()), capsOf(capped))
  await keys.revoke(capped[0]!.id)
  await keys.create({ ...capped[1]!, budgetMicros: 9_000 })
  t.same(
    capsOf(await (await readKeys(keys)).budgets()),
    capsOf([{ ...capped[1]!, budgetMicros: 9_000 }, ...capped.slice(2)]),
  )
})

t.test('keys that calls came with lately are the same objects, and all others are found', async (t) => {
  const all = Array.from({ length: 100 }, () => storedKey())
  const known = new KnownKeys(new Keys(...all), new VirtualClock(), 10)
  await known.read()
  const find = (some: StoredKey[]) => some.map(({ sha256 }) => known.find(sha256))
  const first = find(all)
  t.same(
    first.map((found) => found?.key),
    all,
  )
  const lately = [99, 95, 90, 89]
  t.ok(lately.every((at) => known.find(all[at]!.sha256) === first[at]))
  t.same(find(all.slice(0, 50)), first.slice(0, 50), 'read anew')
  t.not(known.find(all[0]!.sha256), first[0])
})

t.test('a key that was rotated is found by both, until the former is no longer kept', async (t) => {
  const former = { sha256: 'ab'.repeat(32), prefix: 'lk_before', untilMs: 1_900_000_000_000 }
  const key = storedKey({ former })
  const keys = new Keys(key)
  const { book } = bookOf(t, keys)
  await book.ready()
  const ends = (sha256: string) => book.find(sha256)?.key.expiresAtMs
  t.same([ends(key.sha256), ends(former.sha256)], [null, former.untilMs])
  const { former: _, ...alone } = { ...key, sha256: 'cd'.repeat(32) }
  await keys.create(alone)
  await book.refresh()
  t.same([ends(alone.sha256), ends(key.sha256), ends(former.sha256)], [null, undefined, undefined])
})

t.test('a change while the keys are being listed is not missed', async (t) => {
  const keys = new Keys()
  const answers = Promise.withResolvers<void>()
  const { book, clock } = bookOf(t, keys)
  while (keys.lists === 0) await nextTurn()
  keys.held = answers.promise
  const key = storedKey()
  await keys.create(key)
  answers.resolve()
  await book.ready()
  t.equal(book.find(key.sha256), undefined, 'it came too late for this list')
  await clock.advance(2 * POLL_MS)
  t.ok(book.find(key.sha256) !== undefined)
  t.equal(keys.readingMost, 1, 'one question at a time')
})

t.test('while the state is away the last known keys hold, and that is said once', async (t) => {
  const [kept, revoked] = [storedKey(), storedKey()]
  const keys = new Keys(kept, revoked)
  const { book, log, clock } = bookOf(t, keys)
  await book.ready()
  keys.away = true
  await keys.revoke(revoked.id)
  const { versions } = keys
  await clock.advance(10 * POLL_MS)
  t.ok(keys.versions > versions + 5)
  t.ok(book.find(kept.sha256))
  t.ok(book.find(revoked.sha256), 'nobody could say that it is revoked')
  t.equal(book.find(hashKey(makeKey())), undefined, 'a key that is not known is refused as ever')
  t.match(log, [{ level: 'warn', msg: /^stored keys cannot be read/ }])

  keys.away = false
  await clock.advance(2 * POLL_MS)
  t.ok(book.find(revoked.sha256) === undefined)
  t.ok(book.find(kept.sha256))
  t.match(log.slice(1), [{ level: 'info', msg: 'stored keys can be read again' }])
})

t.test('a list that is older than the configuration lets it be is not gone by', async (t) => {
  const key = storedKey()
  const keys = new Keys(key)
  const bounded = snapshotAfter((file) => file.set('/keys_stale_after_seconds', 60))
  let snapshot = bounded
  const { book, clock } = bookOf(t, keys, () => snapshot)
  await book.ready()
  keys.away = true
  await book.refresh()
  await clock.advance(60_000)
  t.equal(book.ageMs, 60_000)
  t.ok(book.find(key.sha256), 'as old as it may be')
  await clock.advance(1)
  t.throws(() => book.find(key.sha256), { code: 'DEPENDENCY_UNAVAILABLE' })
  t.throws(() => book.find(hashKey(makeKey())), { code: 'DEPENDENCY_UNAVAILABLE' }, 'it may be a new one')
  t.equal(book.find(FILE_KEY)?.key.id, 'key_web', 'keys of the file are always known')
  snapshot = snapshotAfter()
  t.ok(book.find(key.sha256), 'without a bound the last known keys hold')
  snapshot = bounded
  keys.away = false
  await book.refresh()
  t.equal(book.ageMs, 0)
  t.ok(book.find(key.sha256))
  await keys.revoke(key.id)
  await book.refresh()
  t.equal(book.find(key.sha256), undefined)
})

t.test(
  'a state that was away from the start: the configuration serves, others are told to wait',
  async (t) => {
    const key = storedKey()
    const keys = new Keys(key)
    keys.away = true
    const { book, log, clock } = bookOf(t, keys)
    t.throws(() => book.find(key.sha256), { code: 'DEPENDENCY_UNAVAILABLE' }, 'before the first answer')
    await book.ready()
    t.equal(book.find(FILE_KEY)?.key.id, 'key_web')
    t.throws(() => book.find(key.sha256), { code: 'DEPENDENCY_UNAVAILABLE' })
    t.match(log, [{ level: 'warn' }])

    keys.away = false
    await clock.advance(2 * POLL_MS)
    t.ok(book.find(key.sha256))
  },
)

t.test('a principal is the same object until its key or the configuration changes', async (t) => {
  const [key, other] = [storedKey(), storedKey()]
  const keys = new Keys(key)
  let snapshot = snapshotAfter()
  const { book, clock } = bookOf(t, keys, () => snapshot)
  await book.ready()
  const first = book.find(key.sha256)
  t.ok(first)
  t.equal(book.find(key.sha256), first)

  await keys.create(other)
  await clock.advance(2 * POLL_MS)
  t.ok(book.find(other.sha256) !== undefined)
  t.equal(book.find(key.sha256), first, 'another key came')

  await keys.create({ ...key, scopes: ['jobs'] })
  await clock.advance(2 * POLL_MS)
  t.ok(book.find(key.sha256) !== first)
  const second = book.find(key.sha256)
  t.same(second?.key.scopes, ['jobs'])

  const before = snapshot
  snapshot = snapshotAfter((file) =>
    file.set('/rate_limit', { burst: 9 }).set('/workspaces/acme/name', 'Acme & Sons'),
  )
  const third = book.find(key.sha256)
  t.not(third, second, 'at once')
  t.match(third, { workspace: { name: 'Acme & Sons' }, key: { rateLimit: { burst: 9 } } })
  t.equal(book.find(key.sha256), third)

  snapshot = snapshotAfter((file) =>
    file.remove('/workspaces/acme/apps/web').set('/workspaces/acme/keys', []),
  )
  t.equal(book.find(key.sha256), undefined, 'its app is gone')
  snapshot = before
  t.match(book.find(key.sha256), { workspace: { name: 'acme' }, key: { rateLimit: { burst: 100 } } })
})

t.test('a key of an app that may be published is not refused before that is known', async (t) => {
  const elsewhere = storedKey({ workspace: 'beta' })
  let isWhole = false
  let snapshot = snapshotAfter()
  const { book } = bookOf(
    t,
    new Keys(elsewhere),
    () => snapshot,
    () => isWhole,
  )
  await book.ready()
  t.throws(() => book.find(elsewhere.sha256), { code: 'DEPENDENCY_UNAVAILABLE' })
  t.equal(book.find(hashKey(makeKey())), undefined, 'one that nobody has is')
  isWhole = true
  t.equal(book.find(elsewhere.sha256), undefined)
  snapshot = snapshotAfter((file) =>
    file
      .set('/routes/beta.voice', { workspace: 'beta', entries: [{ provider: 'whisper', model: 'large-v3' }] })
      .set('/workspaces/beta', { apps: { web: { route: 'beta.voice' } } }),
  )
  t.equal(book.find(elsewhere.sha256)?.route.name, 'beta.voice')
})

t.test('a principal outlives a snapshot in which its app is the same one', async (t) => {
  const key = storedKey()
  const before = snapshotAfter()
  let snapshot = before
  const { book } = bookOf(t, new Keys(key), () => snapshot)
  await book.ready()
  const first = book.find(key.sha256)
  t.ok(first)
  snapshot = { ...before, rateLimit: { ...before.rateLimit } }
  t.equal(book.find(key.sha256), first)
  snapshot = { ...before, rateLimit: { requestsPerMinute: 1, burst: 1 } }
  t.match(book.find(key.sha256), { key: { rateLimit: { requestsPerMinute: 1 } } })
})

t.test('a hint has the keys read at once, and thousands of them now and then', async (t) => {
  const keys = new Keys()
  const clock = new VirtualClock()
  const book = createApiKeys({
    ...{ snapshot: always(snapshotAfter()), isWhole: () => true, keys, log: pino({ level: 'silent' }) },
    ...{ pollMs: 600_000, clock },
  })
  t.teardown(() => book.close())
  await book.ready()
  const key = storedKey()
  await keys.create(key)
  const readOnce = async (ms: number) => {
    book.hinted()
    await clock.advance(ms)
    for (let turn = 0; turn < 5; turn++) await nextTurn()
  }
  await readOnce(1)
  t.ok(book.find(key.sha256), 'it was made elsewhere')
  const before = keys.versions
  for (let ms = 0; ms < 1_000; ms++) await readOnce(1)
  t.ok(
    keys.versions - before >= 15 && keys.versions - before <= 21,
    `read ${keys.versions - before} times a second`,
  )
  await keys.revoke(key.id)
  await readOnce(250)
  t.equal(book.find(key.sha256), undefined, 'the last hint counts')
})

t.test('who made or revoked a key has it known at once', async (t) => {
  const keys = new Keys()
  const book = createApiKeys({
    snapshot: always(snapshotAfter()),
    isWhole: () => true,
    keys,
    log: pino({ level: 'silent' }),
    pollMs: 600_000,
  })
  t.teardown(() => book.close())
  await book.ready()
  const key = storedKey()
  await keys.create(key)
  t.equal(book.find(key.sha256), undefined)
  await book.refresh()
  t.ok(book.find(key.sha256))
  await keys.revoke(key.id)
  await Promise.all([book.refresh(), book.refresh()])
  t.equal(book.find(key.sha256), undefined)
  t.equal(keys.readingMost, 1, 'one question at a time')
})

t.test('ten thousand keys: each is found, and a change holds nobody up', async (t) => {
  const all = Array.from({ length: 10_000 }, () => storedKey())
  const keys = new Keys(...all)
  const { book, clock } = bookOf(t, keys)
  await book.ready()
  const principals = all.map(({ sha256 }) => book.find(sha256))
  t.same(
    principals.map((principal) => principal?.key.id),
    all.map(({ id }) => id),
  )

  const turns = watchTurns()
  await keys.revoke(all[0]?.id ?? '')
  await clock.advance(2 * POLL_MS)
  t.ok(book.find(all[0]?.sha256 ?? '') === undefined)
  const longestMs = await turns()
  t.ok(longestMs < 1_000, `nothing else for ${longestMs.toFixed(0)} ms, the copy of the test included`)
  const same = all.filter(({ sha256 }, index) => book.find(sha256) === principals[index])
  t.equal(same.length, all.length - 1, 'the others are the same objects')
})

t.test('a closed book asks no more, not even after the answer that was under way', async (t) => {
  const keys = new Keys()
  const answer = Promise.withResolvers<void>()
  keys.held = answer.promise
  const { book, log, clock } = bookOf(t, keys)
  keys.away = true
  book.close()
  answer.resolve()
  await book.ready()
  const { versions } = keys
  await clock.advance(10 * POLL_MS)
  t.equal(keys.versions, versions)
  t.same(log, [])
})

t.test('it keeps no process alive', async (t) => {
  const program = `
    import { createApiKeys } from '${new URL('../../../src/gateway/catalog/api-keys.ts', import.meta.url)}'
    const keys = { version: async () => '1', page: async () => ({ keys: [], next: null, total: 0 }) }
    const options = { isWhole: () => true, keys, log: null, pollMs: 60_000 }
    const book = createApiKeys({ snapshot: () => { throw new Error() }, ...options })
    await book.ready()
  `
  const args = ['--input-type=module', '--eval', program]
  const cwd = fileURLToPath(new URL('../../..', import.meta.url))
  await t.resolves(promisify(execFile)(process.execPath, args, { cwd, timeout: 20_000 }))
})
