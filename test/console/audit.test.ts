import t from 'tap'
import { STORES, sameFor, startConsoleBench, type Told } from '../support/console-bench.ts'

interface Line {
  readonly number: number
  readonly [field: string]: unknown
}
const linesIn = ({ body }: Told) => body.lines as readonly Line[]

for (const [store, options] of STORES) {
  t.test(`${store}: the list is read a page at a time, each by whom it concerns`, options, async (t) => {
    const { visitors, state } = await startConsoleBench(t, { store })
    const { admin, operator, foreign } = visitors
    const by = { via: 'cli', keyId: null, name: 'cli' } as const
    const note = { by, action: 'plan.change', target: 'plan/pro', before: null, after: null, detail: null }
    await state.catalog.note('none', { ...note, workspace: null })
    for (let at = 0; at < 130; at += 1) {
      const workspace = at % 2 === 0 ? 'acme' : 'other'
      await state.catalog.note(`${at}`, { ...note, workspace, target: `app/${workspace}/${at}`, after: 'a1' })
    }
    const first = linesIn(await operator.get('audit'))
    t.equal(first.length, 100)
    const { number, at, ...rest } = first[0] as Line
    t.match(at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    t.same(rest, {
      by: { via: 'cli', key_id: null, name: 'cli' },
      action: 'plan.change',
      workspace: 'other',
      target: 'app/other/129',
      before: null,
      after: 'a1',
      detail: null,
    })
    const second = linesIn(await operator.get(`audit?below=${first.at(-1)?.number}`))
    const numbers = [...first, ...second].map((line) => line.number)
    t.same(
      numbers,
      Array.from({ length: 131 }, (_, index) => number - index),
      'newest first, without a gap',
    )
    t.match(second.at(-1), { workspace: null, target: 'plan/pro' })
    t.same(linesIn(await operator.get(`audit?below=${second.at(-1)?.number}`)), [])

    const own = linesIn(await admin.get('audit'))
    t.equal(own.length, 65)
    t.ok(own.every(({ workspace }) => workspace === 'acme'))
    t.same(linesIn(await admin.get('audit?workspace=acme')), own)
    t.same(linesIn(await operator.get('audit?workspace=acme')), own)
    t.ok(linesIn(await foreign.get('audit')).every(({ workspace }) => workspace === 'other'))
    t.same(linesIn(await admin.get(`audit?below=${own[9]?.number}`)), own.slice(10))

    const nowhere = await admin.get('audit?workspace=nowhere')
    t.match(nowhere, { status: 404, body: { error: { code: 'NOT_FOUND' } } })
    t.equal(sameFor(await admin.get('audit?workspace=other')), sameFor(nowhere))
    for (const query of ['below=x', 'below=-1', 'limit=0', 'limit=1001', 'from=soon', 'below=1&below=2'])
      t.equal((await admin.get(`audit?${query}`)).status, 400, query)
  })
}
