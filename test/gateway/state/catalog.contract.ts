import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import {
  type CatalogStep,
  type CatalogStore,
  RECORD_KINDS,
  type RecordFields,
  type RecordName,
  recordId,
} from '../../../src/contracts/catalog-store.ts'
import {
  ANNA,
  CLI,
  changeOf,
  discard,
  done,
  draft,
  hashOf,
  noteOf,
  publish,
  remove,
  routeOf,
  viewOf,
} from '../../support/catalog-under-test.ts'
import type { StateUnderTest } from '../../support/state-under-test.ts'

type Start = (t: Test) => Promise<StateUnderTest>

const VOICE = routeOf('acme')
const OTHER = routeOf('acme', 'other')
const ALL = [VOICE, OTHER, routeOf('beta')]
const CONFLICT = { state: 'conflict' }

/** What a file may hold, and what does not survive everywhere: empty lists, large and tiny numbers, odd names. */
const HOSTILE: RecordFields = JSON.parse(String.raw`{
  "entries": [], "options": {}, "nothing": null, "deep": [[[[{"a": [[]]}]]]], "list": [null, [], {}],
  "large": 9007199254740991, "huge": 1.7976931348623157e308, "tiny": 5e-324, "price": 0.0043, "less": -1.5,
  "text": "Größe '\"{}: 🎙 \u0000 \u2028 \\u0041 \ud800 %d %s \r\n", "__proto__": {"polluted": true},
  "constructor": 1, "": "empty", "1": "one", "do": "remove", "a b": "c:d}{e"
}`)

/** What the catalog of the console is like, wherever it is kept. */
export function catalogContract(t: Test, start: Start): void {
  drafts(t, start)
  publications(t, start)
  conflicts(t, start)
  owners(t, start)
  tokens(t, start)
  auditList(t, start)
  modelFacts(t, start)
}

const moment = (t: Test, atMs: number | undefined) =>
  t.ok(Math.abs(Number(atMs) - Date.now()) < 10_000, 'by the clock of the state')

function drafts(t: Test, start: Start): void {
  t.test('an empty catalog', async (t) => {
    const { catalog } = (await start(t)).state
    const version = await catalog.version()
    t.same(await catalog.published(), { version, records: [] })
    t.same(await catalog.list(null), [])
    t.equal(await catalog.get(VOICE), null)
    t.same(await catalog.versions(VOICE, null, 10), [])
    t.equal(await catalog.versionOf(VOICE, 1), null)
    t.same(await catalog.audit(null, null, 10), [])
    t.equal(await catalog.version(), version, 'reading changes nothing')
  })

  t.test('a draft is kept as it was sent, and publishes nothing', async (t) => {
    const { catalog } = (await start(t)).state
    const version = await catalog.version()
    t.equal(await done(catalog, [draft(VOICE, HOSTILE)]), version)
    const record = await catalog.get(VOICE)
    const atMs = record?.draft?.atMs
    moment(t, atMs)
    const revision = Number(record?.draft?.revision)
    t.same(record, { ...VOICE, draft: { fields: HOSTILE, revision, atMs, by: ANNA }, published: null })
    t.equal(JSON.stringify(record?.draft?.fields), JSON.stringify(HOSTILE), 'to the letter')
    t.same(await catalog.list(null), [{ ...VOICE, hasDraft: true, isPublished: false }])
    t.same(await catalog.published(), { version, records: [] })
    t.same(await catalog.versions(VOICE, null, 10), [])
    t.same(Reflect.get({}, 'polluted'), undefined)
  })

  t.test('revisions grow, and none comes back', async (t) => {
    const { catalog } = (await start(t)).state
    const revisions: number[] = []
    const save = async (over: number | null) => {
      await done(catalog, [draft(VOICE, { n: revisions.length }, over)])
      revisions.push(Number((await catalog.get(VOICE))?.draft?.revision))
    }
    await save(null)
    await save(revisions.at(-1)!)
    await save(revisions.at(-1)!)
    await done(catalog, [discard(VOICE)])
    t.match(await catalog.get(VOICE), { draft: null, published: null })
    await save(null)
    await done(catalog, [publish(VOICE, {})])
    t.match(await catalog.get(VOICE), { draft: null })
    await save(null)
    await done(catalog, [remove(VOICE)])
    await save(null)
    t.same(
      revisions,
      [...new Set(revisions)].sort((a, b) => a - b),
    )
    t.equal(revisions.length, 6)
  })

  t.test('a draft replaces the one that it names, and no other', async (t) => {
    const { catalog } = (await start(t)).state
    await done(catalog, [draft(VOICE, { n: 1 })])
    const first = Number((await catalog.get(VOICE))?.draft?.revision)
    const refused = async (revision: number | null) => {
      const before = await viewOf(catalog, ALL)
      const change = changeOf([draft(VOICE, { n: 2 }, revision)], { audit: [noteOf()] })
      t.same(await catalog.change(change), CONFLICT)
      t.same(await viewOf(catalog, ALL), before, 'nothing changed')
    }
    await refused(null)
    await refused(first + 1)
    await refused(first - 1)
    await done(catalog, [draft(VOICE, { n: 2 }, first)], { by: CLI })
    t.match(await catalog.get(VOICE), { draft: { fields: { n: 2 }, by: CLI } })
    await refused(first)
    await done(catalog, [discard(VOICE)])
    await refused(first)
    await refused(first + 1)
    await done(catalog, [discard(VOICE)])
    t.equal(await catalog.get(OTHER), null, 'discarding nothing makes nothing')
    await done(catalog, [discard(OTHER)])
    t.equal(await catalog.get(OTHER), null)
  })
}

function publications(t: Test, start: Start): void {
  t.test('a publication is the next version, is in force and drops the draft', async (t) => {
    const { catalog } = (await start(t)).state
    const seen = [await catalog.version()]
    await done(catalog, [draft(VOICE, { draft: true })])
    seen.push(await done(catalog, [publish(VOICE, HOSTILE)]))
    const atMs = (await catalog.get(VOICE))?.published?.atMs
    moment(t, atMs)
    const first = {
      ...{ number: 1, fields: HOSTILE, hash: hashOf(HOSTILE), atMs: Number(atMs), by: ANNA, note: null },
    }
    t.same(await catalog.get(VOICE), { ...VOICE, draft: null, published: first })
    t.same(await catalog.published(), { version: seen[1], records: [{ ...VOICE, ...first }] })
    t.equal(await catalog.version(), seen[1])
    const [record] = (await catalog.published()).records
    t.equal(JSON.stringify(record?.fields), JSON.stringify(HOSTILE), 'to the letter')

    seen.push(await done(catalog, [publish(VOICE, { n: 2 }, 'zurück auf 1: "🎙"')], { by: CLI }))
    t.match(await catalog.published(), {
      version: seen[2]!,
      records: [{ number: 2, fields: { n: 2 }, by: CLI, note: 'zurück auf 1: "🎙"' }],
    })
    t.equal(new Set(seen).size, 3, 'each time another version')
    t.same(await catalog.versionOf(VOICE, 1), first, 'the one before stays as it was')
    t.equal(await catalog.versionOf(VOICE, 3), null)
    t.equal(await catalog.versionOf(VOICE, 0), null)
  })

  t.test('a removed record keeps its versions, and goes on counting them', async (t) => {
    const { catalog } = (await start(t)).state
    const versions = [await catalog.version()]
    const make = async (n: number) => versions.push(await done(catalog, [publish(VOICE, { n })]))
    await make(1)
    await make(2)
    await done(catalog, [draft(VOICE, { n: 3 })])
    versions.push(await done(catalog, [remove(VOICE)]))
    t.same(await catalog.get(VOICE), { ...VOICE, draft: null, published: null })
    t.same(await catalog.list('acme'), [])
    t.same(await catalog.published(), { version: versions.at(-1), records: [] })
    t.match(await catalog.versionOf(VOICE, 2), { fields: { n: 2 } })
    await make(3)
    t.match(await catalog.get(VOICE), { published: { number: 3 } })
    t.match(await catalog.versions(VOICE, null, 10), [{ number: 3 }, { number: 2 }, { number: 1 }])
    t.equal(new Set(versions).size, 5, 'each publication and the removal changed the version')
  })

  t.test('what is not there can be removed', async (t) => {
    const { catalog } = (await start(t)).state
    const version = await catalog.version()
    t.equal(await done(catalog, [remove(VOICE)]), version)
    t.equal(await catalog.get(VOICE), null)
    await done(catalog, [draft(VOICE, {})])
    t.equal(await done(catalog, [remove(VOICE)]), version, 'a draft was never published')
    await done(catalog, [publish(VOICE, {})])
    const after = await done(catalog, [remove(VOICE)])
    t.equal(await done(catalog, [remove(VOICE)]), after)
  })

  t.test('versions come in pages, newest first', async (t) => {
    const { catalog } = (await start(t)).state
    for (let n = 1; n <= 12; n++) await done(catalog, [publish(VOICE, { n }), publish(OTHER, { n: -n })])
    const page = async (below: number | null, limit: number) =>
      (await catalog.versions(VOICE, below, limit)).map(({ number, fields }) => {
        t.equal(fields.n, number)
        return number
      })
    t.same(await page(null, 5), [12, 11, 10, 9, 8])
    t.same(await page(8, 5), [7, 6, 5, 4, 3])
    t.same(await page(3, 5), [2, 1])
    t.same(await page(1, 5), [])
    t.same(await page(100, 2), [12, 11])
    t.same(await page(null, 5000), [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1])
  })

  t.test('every kind of record is listed by its id and found by its name', async (t) => {
    const { catalog } = (await start(t)).state
    const records: RecordName[] = RECORD_KINDS.flatMap((kind): RecordName[] => {
      if (kind === 'head') return [{ kind, workspace: null, name: 'head' }]
      if (kind === 'plan') return [{ kind, workspace: null, name: 'pro' }]
      if (kind === 'workspace') return ['acme', 'beta'].map((name) => ({ kind, workspace: name, name }))
      const owned = ['acme', 'beta'].map((workspace) => ({ kind, workspace, name: 'same' }))
      if (kind === 'app' || kind === 'purpose') return owned
      const dotted = owned.map(({ workspace }) => ({ kind, workspace, name: `${workspace}.same/with/slash` }))
      return kind === 'provider' ? [{ kind, workspace: null, name: 'platform' }, ...dotted] : dotted
    })
    const version = await done(
      catalog,
      records.map((record) => publish(record, { id: recordId(record) })),
    )
    const sorted = records.toSorted((a, b) => (recordId(a) < recordId(b) ? -1 : 1))
    const named = ({ kind, workspace, name }: RecordName) => ({ kind, workspace, name })
    const published = await catalog.published()
    t.equal(published.version, version)
    t.same(published.records.map(named), sorted)
    for (const record of published.records) t.match(record, { number: 1, fields: { id: recordId(record) } })
    t.same((await catalog.list(null)).map(named), sorted)
    const ofAcme = sorted.filter(({ workspace }) => workspace === 'acme')
    t.same((await catalog.list('acme')).map(named), ofAcme)
    t.same(await catalog.list('nobody'), [])
    for (const record of records)
      t.match(await catalog.get(record), { ...record, published: { fields: { id: recordId(record) } } })
  })
}

function conflicts(t: Test, start: Start): void {
  t.test('a change is made to the version that it expects, or not at all', async (t) => {
    const { catalog } = (await start(t)).state
    const versions = [await catalog.version()]
    const make = async (n: number, expected: string) => {
      versions.push(await done(catalog, [publish(VOICE, { n })], { expected, audit: [noteOf()] }))
    }
    await make(1, versions[0]!)
    await make(2, versions[1]!)
    const steps = [
      publish(VOICE, { n: 3 }),
      remove(VOICE),
      draft(OTHER, {}),
      discard(OTHER),
      publish(OTHER, {}),
    ]
    for (const expected of [versions[0]!, versions[1]!, 'never', '0-0', '1'])
      for (const step of [...steps.map((step) => [step]), [], steps]) {
        const before = await viewOf(catalog, ALL)
        const change = changeOf(step, { expected, audit: [noteOf()] })
        t.same(await catalog.change(change), CONFLICT, expected)
        t.same(await viewOf(catalog, ALL), before, 'nothing changed')
      }
    t.equal(await catalog.version(), versions[2])
    await make(3, versions[2]!)
  })

  t.test('drafts, discards and notes leave the expected version as it is', async (t) => {
    const { catalog } = (await start(t)).state
    const expected = await done(catalog, [publish(VOICE, {})])
    await done(catalog, [draft(VOICE, {}), draft(OTHER, {})], { expected })
    await done(catalog, [discard(VOICE), remove(OTHER)], { expected })
    await done(catalog, [], { expected, audit: [noteOf()] })
    await catalog.note(randomUUID(), noteOf())
    t.equal(await catalog.version(), expected)
    t.not(await done(catalog, [publish(OTHER, {})], { expected }), expected)
  })

  t.test('of a change of many steps all are made or none', async (t) => {
    const { catalog } = (await start(t)).state
    await done(catalog, [publish(VOICE, { n: 1 }), draft(OTHER, { n: 1 })])
    const before = await viewOf(catalog, ALL)
    const good: CatalogStep[] = [
      publish(VOICE, { n: 2 }),
      draft(VOICE, { n: 3 }),
      publish(routeOf('beta'), { n: 1 }),
      remove(VOICE),
    ]
    const bad = draft(OTHER, { n: 2 }, null)
    for (let at = 0; at <= good.length; at++) {
      const steps = good.toSpliced(at, 0, bad)
      t.same(await catalog.change(changeOf(steps, { audit: [noteOf(), noteOf()] })), CONFLICT)
      t.same(await viewOf(catalog, ALL), before, `a conflict in step ${at + 1}`)
    }
    const version = await catalog.version()
    const after = await done(catalog, good, { audit: [noteOf(), noteOf()] })
    t.not(after, version)
    t.match(await catalog.published(), { version: after, records: [{ name: 'beta.voice' }] })
    t.match(await catalog.versions(VOICE, null, 9), [{ number: 2 }, { number: 1 }])
  })

  t.test('a draft that is kept stays as it is, and has to be there', async (t) => {
    const { catalog } = (await start(t)).state
    const keeping = (n: number, keeps: number) => ({ ...publish(VOICE, { n }), keeps })
    t.same(await catalog.change(changeOf([keeping(1, 1)])), CONFLICT, 'there is none')
    await done(catalog, [draft(VOICE, { n: 1 })])
    const before = (await catalog.get(VOICE))?.draft
    const revision = Number(before?.revision)
    for (const other of [revision - 1, revision + 1])
      t.same(await catalog.change(changeOf([keeping(2, other)])), CONFLICT, 'it is another')
    t.match(await catalog.get(VOICE), { draft: before, published: null })
    await done(catalog, [keeping(2, revision)], { by: CLI })
    const kept = await catalog.get(VOICE)
    t.same(kept?.draft, before, 'by whom and when it was saved, too')
    t.match(kept?.published, { number: 1, fields: { n: 2 }, by: CLI })
    await done(catalog, [draft(VOICE, { n: 3 }, revision)])
    t.match(await catalog.get(VOICE), { draft: { revision: revision + 1, fields: { n: 3 } } })
  })

  t.test('steps come one after the other', async (t) => {
    const { catalog } = (await start(t)).state
    await done(catalog, [draft(VOICE, { n: 1 })])
    const revision = Number((await catalog.get(VOICE))?.draft?.revision)
    // So a draft is published only when it is the one that its author has seen.
    const publishing = (revision: number) => [
      draft(VOICE, { n: 1 }, revision),
      publish(VOICE, { n: 1 }),
      draft(VOICE, { n: 2 }, null),
    ]
    t.same(await catalog.change(changeOf(publishing(revision + 1))), CONFLICT)
    await done(catalog, publishing(revision))
    t.match(await catalog.get(VOICE), { draft: { fields: { n: 2 } }, published: { number: 1 } })
    await done(catalog, [publish(VOICE, { n: 3 }), remove(VOICE), publish(VOICE, { n: 4 })])
    t.match(await catalog.get(VOICE), { draft: null, published: { number: 3, fields: { n: 4 } } })
    t.match(await catalog.versionOf(VOICE, 2), { fields: { n: 3 } })
    const before = await viewOf(catalog, ALL)
    const twice = [draft(VOICE, { n: 5 }, null), draft(VOICE, { n: 6 }, null)]
    t.same(await catalog.change(changeOf(twice)), CONFLICT)
    t.same(await viewOf(catalog, ALL), before)
  })
}

function owners(t: Test, start: Start): void {
  t.test('a name that stands belongs to its owner', async (t) => {
    const { catalog } = (await start(t)).state
    const theirs: RecordName = { ...VOICE, workspace: 'beta' }
    const nobodys: RecordName = { ...VOICE, workspace: null }
    for (const mine of [publish(VOICE, { n: 1 }), draft(VOICE, { n: 2 })]) {
      await done(catalog, [mine])
      const before = await viewOf(catalog, ALL)
      for (const record of [theirs, nobodys]) {
        const steps = [draft(record, {}, null), discard(record), publish(record, {}), remove(record)]
        for (const step of steps) t.same(await catalog.change(changeOf([step])), CONFLICT, step.do)
        t.equal(await catalog.get(record), null)
        t.same(await catalog.versions(record, null, 10), [])
        t.equal(await catalog.versionOf(record, 1), null)
      }
      t.same(await catalog.list('beta'), [])
      t.same(await viewOf(catalog, ALL), before, 'nothing changed')
    }
    // Once it is free another may have it, who sees nothing of what it was.
    await done(catalog, [remove(VOICE)])
    await done(catalog, [draft(theirs, { n: 9 })])
    t.equal(await catalog.get(VOICE), null)
    t.same(await catalog.list('acme'), [])
    await done(catalog, [publish(theirs, { n: 9 })])
    t.match(await catalog.versions(theirs, null, 10), [{ number: 2, fields: { n: 9 } }])
    t.equal((await catalog.versions(theirs, null, 10)).length, 1)
    t.equal(await catalog.versionOf(theirs, 1), null)
    t.match(await catalog.published(), { records: [theirs] })
  })
}

/** Whatever the change comes to: sent again, it comes to the same, and nothing is done. */
async function sendsAgain(t: Test, catalog: CatalogStore, change: ReturnType<typeof changeOf>) {
  const first = await catalog.change(change)
  const view = await viewOf(catalog, ALL)
  t.same(await catalog.change(change), first)
  t.same(await viewOf(catalog, ALL), view)
  return first
}

function tokens(t: Test, start: Start): void {
  t.test('a change that is sent again is made once, and answers the same', async (t) => {
    const { catalog } = (await start(t)).state
    const audit = [noteOf()]
    const expected = await catalog.version()
    const publishing = changeOf([publish(VOICE, { n: 1 })], { expected, audit })
    const published = await sendsAgain(t, catalog, publishing)
    t.match(published, { state: 'done' })
    const saving = changeOf([draft(VOICE, { n: 2 })], { audit })
    t.match(await sendsAgain(t, catalog, saving), { state: 'done' })
    t.match(await sendsAgain(t, catalog, changeOf([remove(VOICE)], { audit })), { state: 'done' })
    t.same(await catalog.change(publishing), published, 'also when others came between')
    t.match(await catalog.change(saving), { state: 'done' })
    t.same(await catalog.list(null), [])
    t.equal((await catalog.audit(null, null, 10)).length, 3)
  })

  t.test('a conflict that is sent again stays one', async (t) => {
    const { catalog } = (await start(t)).state
    await done(catalog, [draft(VOICE, { n: 1 })])
    const change = changeOf([draft(VOICE, { n: 2 }, null)], { audit: [noteOf()] })
    t.same(await sendsAgain(t, catalog, change), CONFLICT)
    await done(catalog, [discard(VOICE)])
    t.same(await catalog.change(change), CONFLICT)
    t.same(await catalog.audit(null, null, 10), [])
    t.match(await catalog.change({ ...change, token: randomUUID() }), { state: 'done' })
  })

  t.test('sent many times at once, a change is made once', async (t) => {
    const { catalog } = (await start(t)).state
    const change = changeOf([publish(VOICE, { n: 1 })], { audit: [noteOf()] })
    const answers = await Promise.all(Array.from({ length: 50 }, () => catalog.change(change)))
    t.same(
      answers,
      Array.from({ length: 50 }, () => answers[0]),
    )
    t.equal((await catalog.versions(VOICE, null, 10)).length, 1)
    const token = randomUUID()
    await Promise.all(Array.from({ length: 50 }, () => catalog.note(token, noteOf())))
    t.equal((await catalog.audit(null, null, 10)).length, 2)
  })
}

function modelFacts(t: Test, start: Start): void {
  t.test('one document of facts, whose change is seen like a publication', async (t) => {
    const { catalog } = (await start(t)).state
    t.equal(await catalog.models(), null)
    await done(catalog, [publish(VOICE, {})])
    const { version: before, records } = await catalog.published()
    const stored = {
      text: JSON.stringify({ text: `Größe 🎙 ${'x'.repeat(200_000)}`, list: [] }),
      over: 'then',
    }
    const token = randomUUID()
    const note = noteOf({ action: 'models.update', target: 'models', workspace: null })
    await catalog.putModels(token, stored, note)
    const after = await catalog.version()
    t.not(after, before)
    t.same(await catalog.models(), stored)
    t.same((await catalog.published()).records, records, 'no record has changed')
    await catalog.putModels(token, { text: 'other', over: 'later' }, note)
    t.same(await catalog.models(), stored, 'once per token')
    t.equal(await catalog.version(), after)
    await catalog.putModels(randomUUID(), { text: 'other', over: 'later' }, note)
    t.same(await catalog.models(), { text: 'other', over: 'later' })
    await catalog.putModels(randomUUID(), null, note)
    t.equal(await catalog.models(), null)
    const lines = (await catalog.audit(null, null, 9)).filter(({ action }) => action === 'models.update')
    t.equal(lines.length, 3)
  })
}

function auditList(t: Test, start: Start): void {
  t.test('the audit list is numbered without a gap, of all and of each workspace', async (t) => {
    const { catalog } = (await start(t)).state
    const workspaces = ['acme', 'beta', null] as const
    const notes = Array.from({ length: 24 }, (_, i) =>
      noteOf({ workspace: workspaces[i % 3]!, target: `route/${i}`, detail: i % 2 ? `Nr. ${i} "🎙"` : null }),
    )
    await done(catalog, [], { audit: notes.slice(0, 10) })
    for (const note of notes.slice(10, 20)) await catalog.note(randomUUID(), note)
    await done(catalog, [publish(VOICE, {})], { audit: notes.slice(20) })
    const lines = await catalog.audit(null, null, 100)
    for (const { atMs } of lines) moment(t, atMs)
    const expected = notes.map((note, i) => ({ number: i + 1, ...note })).reverse()
    t.same(
      lines.map(({ atMs: _, ...line }) => line),
      expected,
    )

    const numbers = async (workspace: string | null, below: number | null, limit: number) =>
      (await catalog.audit(workspace, below, limit)).map(({ number }) => number)
    t.same(await numbers(null, null, 3), [24, 23, 22])
    t.same(await numbers(null, 22, 3), [21, 20, 19])
    t.same(await numbers(null, 3, 5), [2, 1])
    t.same(await numbers(null, 1, 5), [])
    t.same(await numbers('acme', null, 3), [22, 19, 16])
    t.same(await numbers('acme', 16, 3), [13, 10, 7])
    t.same(await numbers('acme', 7, 5), [4, 1])
    t.same(await numbers('acme', 1, 5), [])
    t.same(await numbers('beta', 20, 2), [17, 14])
    t.same(await numbers('beta', 1000, 1), [23])
    t.same(await numbers('nobody', null, 5), [])
  })

  t.test('a line is added once per token, whatever it says', async (t) => {
    const { catalog } = (await start(t)).state
    const token = randomUUID()
    await catalog.note(token, noteOf({ by: CLI, before: 'b'.repeat(64), after: null }))
    await catalog.note(token, noteOf({ action: 'another' }))
    // A change has its own tokens.
    await done(catalog, [], { token, audit: [noteOf({ action: 'key.create' })] })
    const [second, first, ...more] = await catalog.audit(null, null, 10)
    t.same(more, [])
    t.match(first, { number: 1, by: CLI, action: 'route.publish', before: 'b'.repeat(64), after: null })
    t.match(second, { number: 2, by: ANNA, action: 'key.create' })
  })
}
