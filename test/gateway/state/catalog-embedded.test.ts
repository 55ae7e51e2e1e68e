import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { openDatabase } from '../../../src/gateway/state/embedded/database.ts'
import { createOperations } from '../../../src/gateway/state/embedded/operations.ts'
import { openEmbeddedState } from '../../../src/gateway/state/embedded/state.ts'
import {
  changeOf,
  done,
  draft,
  hashOf,
  noteOf,
  publish,
  routeOf,
  viewOf,
} from '../../support/catalog-under-test.ts'
import { tempFolder } from '../../support/scratch.ts'

const VOICE = routeOf('acme')
const KNOWN_MS = 600_000
const log = pino({ level: 'silent' })

const newFile = async (t: Test) => join(await tempFolder(t), 'state.sqlite')

t.test('everything is there after a restart', async (t) => {
  const file = await newFile(t)
  const first = await openEmbeddedState({ file, log })
  const change = changeOf([publish(VOICE, { n: 1 }), draft(VOICE, { n: 2 })], { audit: [noteOf()] })
  const conflict = changeOf([draft(VOICE, { n: 3 })])
  const answers = [await first.catalog.change(change), await first.catalog.change(conflict)]
  await first.catalog.note('one', noteOf())
  const version = await first.catalog.version()
  const view = await viewOf(first.catalog, [VOICE])
  await first.close()

  const second = await openEmbeddedState({ file, log })
  t.teardown(() => second.close())
  t.equal(await second.catalog.version(), version)
  t.same(await viewOf(second.catalog, [VOICE]), view)
  t.same([await second.catalog.change(change), await second.catalog.change(conflict)], answers)
  await second.catalog.note('one', noteOf())
  t.same(await viewOf(second.catalog, [VOICE]), view, 'tokens are remembered too')
})

t.test('versions and the audit list cannot be changed in the file', async (t) => {
  const file = await newFile(t)
  const state = await openEmbeddedState({ file, log })
  await done(state.catalog, [publish(VOICE, {})], { audit: [noteOf()] })
  await state.close()
  const db = new DatabaseSync(file)
  t.teardown(() => db.close())
  const refused = [
    "UPDATE catalog_versions SET fields = '{}'",
    'DELETE FROM catalog_versions',
    "UPDATE catalog_audit SET detail = 'x'",
    'DELETE FROM catalog_audit',
  ]
  for (const sql of refused) t.throws(() => db.exec(sql), /never changed|only added to/, sql)
})

t.test('tokens are forgotten when their time is over, and nothing else is', async (t) => {
  const db = openDatabase(':memory:')
  t.teardown(() => db.close())
  let nowMs = Date.now()
  const { operations, purge } = createOperations(db, () => nowMs)
  const count = (table: string) => Number(db.prepare(`SELECT count(*) AS rows FROM ${table}`).get()?.rows)
  for (let n = 1; n <= 5; n++) {
    const fields = { n }
    operations.catalog.change({
      ...changeOf([{ do: 'publish', record: VOICE, fields, hash: hashOf(fields), note: null }]),
      audit: [noteOf()],
    })
    operations.catalog.note(`note ${n}`, noteOf())
  }
  nowMs += KNOWN_MS - 1
  purge(100)
  t.equal(count('catalog_tokens'), 10)
  operations.catalog.note('note 1', noteOf())
  t.equal(count('catalog_audit'), 10, 'it is known to the end')
  nowMs += 1
  purge(4)
  t.equal(count('catalog_tokens'), 6, 'some at a time')
  purge(100)
  t.equal(count('catalog_tokens'), 0)
  t.same([count('catalog_versions'), count('catalog_audit')], [5, 10])
})
