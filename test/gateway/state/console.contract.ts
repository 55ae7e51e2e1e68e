import type { Test } from 'tap'
import type { RequestRecord } from '../../../src/contracts/console.ts'
import { consoleSession, nodeSample, requestFilter, requestRecord } from '../../support/console-record.ts'
import { Dice } from '../../support/dice.ts'
import { newDigest, newToken, newWorkspace, type StateUnderTest } from '../../support/state-under-test.ts'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000

type Start = (t: Test) => Promise<StateUnderTest>

/** What the console keeps, wherever it is written. */
export function consoleContract(t: Test, start: Start): void {
  sessions(t, start)
  requests(t, start)
  bounds(t, start)
  samples(t, start)
  keyUses(t, start)
  sessionEnds(t, start)
  usageMarks(t, start)
}

function usageMarks(t: Test, start: Start): void {
  t.test('each writer of usage has the mark that it made last, until it is forgotten', async (t) => {
    const { usageMarks } = (await start(t)).state.console
    t.same([...(await usageMarks.read())], [])
    await usageMarks.note('seg_one', { doneUntilMs: 1_000, notedAtMs: 2_000 })
    await usageMarks.note('seg_two', { doneUntilMs: 1_500, notedAtMs: 2_000 })
    await usageMarks.note('seg_one', { doneUntilMs: 900, notedAtMs: 3_000 })
    t.same([...(await usageMarks.read())].sort(), [
      ['seg_one', { doneUntilMs: 900, notedAtMs: 3_000 }],
      ['seg_two', { doneUntilMs: 1_500, notedAtMs: 2_000 }],
    ])
    await usageMarks.forget([])
    await usageMarks.forget(['seg_one', 'seg_unknown'])
    t.same([...(await usageMarks.read()).keys()], ['seg_two'])
  })
}

function sessionEnds(t: Test, start: Start): void {
  t.test('an order to end a live session stands until it is withdrawn', async (t) => {
    const { sessionEnds } = (await start(t)).state.console
    t.same(await sessionEnds.pending(), [])
    for (const id of ['live_1', 'live_2', 'live_1']) await sessionEnds.order(id)
    t.same([...(await sessionEnds.pending())].sort(), ['live_1', 'live_2'])
    await sessionEnds.withdraw('live_1')
    await sessionEnds.withdraw('live_3')
    t.same(await sessionEnds.pending(), ['live_2'])
    await sessionEnds.withdraw('live_2')
    t.same(await sessionEnds.pending(), [])
  })
}

function sessions(t: Test, start: Start): void {
  t.test('a session is found until it is ended', async (t) => {
    const { sessions } = (await start(t)).state.console
    const session = consoleSession()
    t.equal(await sessions.find(session.id), null)
    await sessions.begin(session, HOUR_MS)
    const found = await sessions.find(session.id)
    const { beganAtMs, seenAtMs, expiresAtMs } = found!
    t.same(found, { ...session, beganAtMs, seenAtMs, expiresAtMs })
    t.ok(Math.abs(expiresAtMs - (Date.now() + HOUR_MS)) < 5000, 'by the clock of the state')
    t.same([seenAtMs, expiresAtMs - beganAtMs], [beganAtMs, HOUR_MS])
    await sessions.begin({ ...session, csrfToken: 'other' }, 2 * HOUR_MS)
    t.same(await sessions.find(session.id), found, 'what begins again is the same')
    const hidden = consoleSession({ address: null, browser: null })
    await sessions.begin(hidden, HOUR_MS)
    t.match(await sessions.find(hidden.id), { address: null, browser: null })
    t.equal(await sessions.find(newDigest()), null)
    await sessions.end(session.id)
    t.equal(await sessions.find(session.id), null)
    await sessions.end(session.id)
  })

  t.test('a session goes when its time is over', async (t) => {
    const { state, pass } = await start(t)
    const { sessions } = state.console
    const [one, two] = [newDigest(), newDigest()]
    await sessions.begin(consoleSession({ id: one }), 1200)
    await sessions.begin(consoleSession({ id: two }), HOUR_MS)
    t.ok(await sessions.find(one))
    await pass(1250)
    t.equal(await sessions.find(one), null)
    t.ok(await sessions.find(two))
  })

  t.test('a session that may not be idle goes on with every touch, and not beyond its end', async (t) => {
    const { state, pass } = await start(t)
    const { sessions } = state.console
    // Those that are to be over are so in 500 ms, and what goes on does so for 2 s more.
    const idle = consoleSession({ idleMs: 5_000 })
    const used = consoleSession({ idleMs: 5_000 })
    const short = consoleSession({ idleMs: HOUR_MS })
    for (const session of [idle, used]) await sessions.begin(session, HOUR_MS)
    await sessions.begin(short, 5_200)
    await pass(3_000)
    for (const { id } of [used, short]) await sessions.touch(id)
    const touched = await sessions.find(used.id)
    t.ok(touched!.seenAtMs >= touched!.beganAtMs + 1_000, 'it is known when it was used')
    await pass(2_700)
    t.equal(await sessions.find(idle.id), null)
    t.ok(await sessions.find(used.id))
    t.equal(await sessions.find(short.id), null, 'its end stays')
    await sessions.touch(idle.id)
    t.equal(await sessions.find(idle.id), null, 'what is over is not begun again')
    t.same(
      (await sessions.list(used.holder, 9)).map(({ id }) => id),
      [used.id],
    )
    t.same(await sessions.list(idle.holder, 9), [])
  })

  t.test('the session of a person is kept as it is, and sessions are listed by whose they are', async (t) => {
    const { sessions } = (await start(t)).state.console
    const person = {
      issuer: 'https://id.example',
      clientId: 'larkway',
      subject: `Größe '"{}[]`,
      name: 'ada@example.com',
      groups: ['speech team', 'b'],
      email: null,
      issuerSession: 's1',
      sealedIdToken: 'sealed1.x',
    }
    const holder = `person:${newDigest()}`
    const hers = [1, 2, 3].map(() => consoleSession({ keySha256: null, person, holder }))
    for (const [index, session] of hers.entries()) await sessions.begin(session, HOUR_MS + index * 10_000)
    const other = consoleSession()
    await sessions.begin(other, HOUR_MS)
    t.match(await sessions.find(hers[0]!.id), hers[0]!)
    const listed = await sessions.list(holder, 9)
    t.same(
      listed.map(({ id }) => id),
      hers.map(({ id }) => id).reverse(),
      'the one that ends last first',
    )
    t.match(listed[0], hers[2]!)
    t.same((await sessions.list(holder, 2)).length, 2)
    const all = new Set((await sessions.list(null, 100)).map(({ id }) => id))
    t.ok([...hers, other].every(({ id }) => all.has(id)))
    await sessions.end(hers[1]!.id)
    t.same(
      (await sessions.list(holder, 9)).map(({ id }) => id),
      [hers[2]!.id, hers[0]!.id],
    )
    t.same(await sessions.list('key:none', 9), [])
  })

  t.test('a mark is taken by one alone, until it is forgotten', async (t) => {
    const { state, pass } = await start(t)
    const { sessions } = state.console
    const [one, two] = [newDigest(), newDigest()]
    const taken = await Promise.all([1, 2, 3].map(() => sessions.claim(one, 1_200)))
    t.same(taken.filter(Boolean).length, 1)
    t.equal(await sessions.claim(two, HOUR_MS), true)
    t.same([await sessions.isClaimed(one), await sessions.isClaimed(newDigest())], [true, false])
    await pass(1_250)
    t.same([await sessions.isClaimed(one), await sessions.isClaimed(two)], [false, true])
    t.equal(await sessions.claim(one, 1_000), true)
    t.equal(await sessions.claim(two, 1_000), false)
  })
}

function requests(t: Test, start: Start): void {
  t.test('requests are listed newest first, as they were given, each workspace its own', async (t) => {
    const { requests } = (await start(t)).state.console
    const [one, two] = [newWorkspace(), newWorkspace()]
    const atMs = Date.now()
    const text = `Größe '"{}[]: 🎙 \u0000`
    const records = [
      requestRecord(one, { atMs: atMs + 1 }),
      requestRecord(one, { atMs: atMs + 3, attempts: [], usage: {}, costUsd: 0, error: text }),
      requestRecord(one, { atMs: atMs + 2, usage: null, costUsd: null, addedMs: null, route: null }),
    ] as const
    const foreign = requestRecord(two, { atMs: atMs + 4 })
    t.same(await requests.list(requestFilter(one)), [])
    await requests.add(newToken(), [...records, foreign])
    await requests.add(newToken(), [])
    t.same(await requests.list(requestFilter(one)), [records[1], records[2], records[0]])
    t.same(await requests.list(requestFilter(one, { limit: 2 })), [records[1], records[2]])
    t.same(await requests.list(requestFilter(two)), [foreign])
    const [recordId] = records.map((record) => record.recordId).slice(-1)
    t.same(await requests.get(one, recordId!), records[2])
    t.equal(await requests.get(two, recordId!), null, 'of another workspace')
    t.equal(await requests.get(one, 'rec_unknown'), null)
    const again = requestRecord(one, { id: records[0].id, atMs: atMs + 9, status: 500 })
    await requests.add(newToken(), [again])
    t.same(await requests.get(one, again.recordId!), again)
    t.same(
      await requests.get(one, records[0].recordId!),
      records[0],
      'records that share a request id are two',
    )
    t.same(await requests.list(requestFilter(one, { requestId: again.id })), [again, records[0]])
  })

  t.test('page by page nothing is missed, though nodes write in turns', async (t) => {
    const { requests } = (await start(t)).state.console
    const workspace = newWorkspace()
    const dice = new Dice(7)
    const startMs = Date.now() - 4_000
    // Three nodes that each write what ended since they wrote the last time.
    for (let turn = 0; turn < 12; turn += 1) {
      const records = Array.from({ length: 20 }, (_, i) => {
        const sinceMs = 700 * Math.floor(turn / 3) + Math.floor(dice.roll() * 4) * 240 + 12 * i + turn
        return requestRecord(workspace, { atMs: startMs + sinceMs })
      })
      await requests.add(newToken(), records)
    }
    const all = await requests.list(requestFilter(workspace, { limit: 1000 }))
    const moments = all.map(({ atMs }) => atMs)
    t.equal(moments.length, 240)
    t.same(
      moments,
      moments.toSorted((one, other) => other - one),
    )
    const distinct = all.filter(({ atMs }, at) => atMs !== moments[at - 1])
    const paged: number[] = []
    for (let beforeMs: number | null = null; ; ) {
      const page = await requests.list(requestFilter(workspace, { limit: 7, beforeMs }))
      paged.push(...page.map(({ atMs }) => atMs))
      if (page.length === 0) break
      beforeMs = page.at(-1)!.atMs
    }
    t.same(
      [...new Set(paged)],
      distinct.map(({ atMs }) => atMs),
    )
  })

  t.test('a batch is kept once', async (t) => {
    const { requests } = (await start(t)).state.console
    const [one, two] = [newWorkspace(), newWorkspace()]
    const [token, records] = [newToken(), [requestRecord(one), requestRecord(two)]]
    await Promise.all([requests.add(token, records), requests.add(token, records)])
    await requests.add(token, records)
    for (const workspace of [one, two])
      t.equal((await requests.list(requestFilter(workspace))).length, 1, workspace)
    await requests.add(newToken(), [requestRecord(one)])
    t.equal((await requests.list(requestFilter(one))).length, 2)
  })

  t.test('requests are chosen by what they are', async (t) => {
    const { requests } = (await start(t)).state.console
    const workspace = newWorkspace()
    const made: Partial<RequestRecord>[] = [
      { id: 'good', atMs: 10 },
      { id: 'moved', atMs: 20, status: 399, app: 'phone' },
      { id: 'bad', atMs: 30, status: 400, error: 'INVALID_REQUEST', keyId: 'key_two' },
      { id: 'gone', atMs: 40, status: 499, error: 'CLIENT_CLOSED', path: '/v1/speech' },
      { id: 'run', atMs: 50, status: null, path: 'job', jobId: 'tj_1' },
      { id: 'lost', atMs: 60, status: null, error: 'INTERNAL', path: 'job', jobId: 'tj_2' },
      { id: 'cut', atMs: 70, error: 'UPSTREAM_ERROR', app: 'tv' },
    ]
    await requests.add(
      newToken(),
      made.map((over) => requestRecord(workspace, over)),
    )
    const ids = async (over: Parameters<typeof requestFilter>[1]) =>
      (await requests.list(requestFilter(workspace, over))).map(({ id }) => id).join(' ')
    t.equal(await ids({}), 'cut lost run gone bad moved good')
    t.equal(await ids({ outcome: 'failed' }), 'cut lost gone bad')
    t.equal(await ids({ outcome: 'ok' }), 'run moved good')
    t.equal(await ids({ path: 'job' }), 'lost run')
    t.equal(await ids({ path: '/v1' }), '', 'the whole of it')
    t.equal(await ids({ app: 'phone' }), 'moved')
    t.equal(await ids({ keyId: 'key_two' }), 'bad')
    t.equal(await ids({ jobId: 'tj_1' }), 'run')
    t.equal(await ids({ requestId: 'bad' }), 'bad')
    t.equal(await ids({ afterMs: 30 }), 'cut lost run gone')
    t.equal(await ids({ afterMs: 10, beforeMs: 40 }), 'bad moved')
    t.equal(await ids({ beforeMs: 40 }), 'bad moved good')
    t.equal(await ids({ beforeMs: 40, limit: 1 }), 'bad')
    t.equal(await ids({ outcome: 'failed', path: 'job', beforeMs: 61 }), 'lost')
    t.equal(await ids({ outcome: 'ok', keyId: 'key_two' }), '')
    t.equal(await ids({ outcome: 'failed', app: 'tv' }), 'cut', 'broken off after its 200')
  })
}

function bounds(t: Test, start: Start): void {
  t.test('of each workspace the newest thousand are kept, and the newest thousand that failed', async (t) => {
    const { requests } = (await start(t)).state.console
    const [busy, calm] = [newWorkspace(), newWorkspace()]
    await requests.add(newToken(), [requestRecord(calm)])
    const failed = requestRecord(busy, { recordId: 'rec_failed', status: 502, atMs: 1_899_999_999_999 })
    await requests.add(newToken(), [failed])
    for (let batch = 0; batch < 11; batch += 1) {
      const records = Array.from({ length: 100 }, (_, i) => {
        const atMs = 1_900_000_000_000 + batch * 100 + i
        const number = batch * 100 + i
        return requestRecord(busy, { id: `req_${number}`, recordId: `rec_${number}`, atMs })
      })
      await requests.add(newToken(), records)
    }
    const kept = await requests.list(requestFilter(busy, { limit: 5000 }))
    t.equal(kept.length, 1001)
    t.equal(kept[0]?.id, 'req_1099')
    t.equal(kept.at(-2)?.id, 'req_100')
    t.same(kept.at(-1), failed, 'what succeeds pushes no failure out')
    t.equal(await requests.get(busy, 'rec_99'), null)
    t.ok(await requests.get(busy, 'rec_100'))
    for (let batch = 0; batch < 11; batch += 1) {
      const records = Array.from({ length: 100 }, () => requestRecord(busy, { status: 500 }))
      await requests.add(newToken(), records)
    }
    const all = await requests.list(requestFilter(busy, { limit: 5000 }))
    t.equal(all.length, 2000)
    t.equal((await requests.list(requestFilter(busy, { limit: 5000, outcome: 'failed' }))).length, 1000)
    t.ok(await requests.get(busy, 'rec_100'), 'nor does a failure push others out')
    t.equal(
      (await requests.list(requestFilter(calm))).length,
      1,
      'a busy workspace pushes none of another out',
    )
  })

  t.test('requests are kept for a week', async (t) => {
    const { state, pass, setClock } = await start(t)
    if (setClock === null) return void t.pass('here the clock cannot be moved')
    const { requests, samples } = state.console
    const workspace = newWorkspace()
    await requests.add(newToken(), [requestRecord(workspace, { id: 'old', recordId: 'rec_old' })])
    await pass(6 * DAY_MS)
    await requests.add(newToken(), [requestRecord(workspace, { id: 'new', recordId: 'rec_new' })])
    t.equal((await requests.list(requestFilter(workspace))).length, 2)
    await pass(DAY_MS)
    t.match(await requests.list(requestFilter(workspace)), [{ id: 'new' }])
    t.equal(await requests.get(workspace, 'rec_old'), null)
    await samples.add(nodeSample('one', 1), HOUR_MS)
    await pass(-DAY_MS)
    t.equal(await requests.get(workspace, 'rec_old'), null, 'it is not only hidden')
    t.ok(await requests.get(workspace, 'rec_new'))
  })
}

function samples(t: Test, start: Start): void {
  t.test('samples of all nodes are read oldest first, each once', async (t) => {
    const { samples } = (await start(t)).state.console
    const atMs = Date.now() - 60_000
    const [a, b] = ['host-1.example:17', 'Rechner ä{ 2:17']
    t.same(await samples.since(0), [])
    await samples.add(nodeSample(a, atMs + 5000), HOUR_MS)
    await samples.add(nodeSample(b, atMs + 5000, { workspaces: [], breakers: [] }), HOUR_MS)
    await samples.add(nodeSample(b, atMs), HOUR_MS)
    await samples.add(nodeSample(a, atMs, { inFlight: 1 }), HOUR_MS)
    await samples.add(nodeSample(a, atMs, { inFlight: 2 }), HOUR_MS)
    const all = await samples.since(0)
    t.equal(all.length, 4)
    t.same(
      all.map((sample) => sample.atMs),
      [atMs, atMs, atMs + 5000, atMs + 5000],
    )
    t.same(
      all.find((sample) => sample.node === a),
      nodeSample(a, atMs, { inFlight: 1 }),
      'the first one of a node and a moment',
    )
    const later = await samples.since(atMs)
    t.equal(later.length, 2, 'those that ended after it')
    t.same(
      later.find(({ node }) => node === b),
      nodeSample(b, atMs + 5000, { workspaces: [], breakers: [] }),
    )
    t.same(await samples.since(atMs + 5000), [])
  })

  t.test('samples go when their time is over', async (t) => {
    const { state, pass } = await start(t)
    const { samples } = state.console
    const atMs = Date.now()
    await samples.add(nodeSample('one', atMs), 1200)
    t.equal((await samples.since(0)).length, 1)
    await pass(1300)
    await samples.add(nodeSample('one', atMs + 1300), 1200)
    t.match(await samples.since(0), [{ atMs: atMs + 1300 }])
  })
}

function keyUses(t: Test, start: Start): void {
  t.test('the last use of a key is the latest', async (t) => {
    const { keyUses } = (await start(t)).state.console
    const atMs = Date.now() - 60_000
    t.same(await keyUses.read(['key_a', 'key_b']), {})
    t.same(await keyUses.read([]), {})
    await keyUses.note({ key_a: atMs, key_b: atMs + 1 })
    await keyUses.note({ key_a: atMs - 1, key_b: atMs + 2, key_c: atMs })
    await keyUses.note({})
    t.same(await keyUses.read(['key_a', 'key_b', 'key_x']), { key_a: atMs, key_b: atMs + 2 })
    await keyUses.note({ key_a: atMs + 86_400_000 })
    const { key_a: used = 0 } = await keyUses.read(['key_a'])
    t.ok(used > atMs && used < Date.now() + 5000, 'no moment of the future is taken')
  })
}
