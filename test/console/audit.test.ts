import t from 'tap'
import { type ConsoleBench, sameFor, startConsoleBench, type Told } from '../support/console-bench.ts'

interface Line {
  readonly number: number
  readonly [field: string]: unknown
}
const linesIn = ({ body }: Told) => body.lines as readonly Line[]

let bench: ConsoleBench

t.before(async () => {
  bench = await startConsoleBench(t)
})

t.test('the list is read a page at a time, each by whom it concerns', async (t) => {
  const { visitors, state } = bench
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

t.test('lines are chosen by who, what and when', async (t) => {
  const { visitors, state } = await startConsoleBench(t)
  const { admin, operator, foreign } = visitors
  const people = ['Ada', 'Bob'] as const
  const note = { action: 'app.publish', before: null, after: null, detail: null }
  const add = (at: number) => {
    const name = people[at % 2] ?? ''
    const by = { via: 'api', keyId: `key_${name}`, name } as const
    const target = `app/acme/${at}`
    const detail = at === 1_200 ? '=why it was done' : null
    return state.catalog.note(`${at}`, { ...note, by, workspace: 'acme', target, detail })
  }
  for (let at = 0; at < 1_500; at += 1) await add(at)
  const ask = async (query: string, who = admin) => {
    const told = await who.get(`audit?${query}`)
    t.equal(told.status, 200, `${query}: ${told.text}`)
    return { lines: linesIn(told), next: told.body.next as number | null }
  }
  const targetsOf = async (query: string) => (await ask(query)).lines.map(({ target }) => target)
  t.same(await targetsOf('target=acme/1499'), ['app/acme/1499'])
  t.same(await targetsOf('target=WHY%20it'), ['app/acme/1200'], 'what it says is looked through, too')
  t.same(await targetsOf('target=acme/3&actor=key_bob&limit=3'), [
    ...['app/acme/399', 'app/acme/397', 'app/acme/395'],
  ])
  t.same(await ask('actor=nobody'), { lines: [], next: null })
  t.same((await ask('target=acme', foreign)).lines, [], 'another workspace finds nothing')
  t.equal((await ask('target=acme/7&workspace=acme', operator)).lines.length, 100)

  // Every second line, page by page, is all of them and none twice.
  const found: unknown[] = []
  let query = 'actor=Ada&limit=200'
  for (;;) {
    const { lines, next } = await ask(query)
    found.push(...lines.map(({ target }) => target))
    if (next === null) break
    query = `actor=Ada&limit=200&below=${next}`
  }
  t.same(
    found,
    Array.from({ length: 750 }, (_, index) => `app/acme/${1_498 - 2 * index}`),
  )
  const all = await ask('limit=1000')
  const [newest, middle] = [all.lines[0], all.lines[500]] as [Line, Line]
  const between = await ask(`from=${middle.at}&to=${newest.at}&limit=1000`)
  t.ok(between.lines.length >= 501, `${between.lines.length}: those of the same moment are among them`)
  t.ok(between.lines.every(({ at }) => String(at) >= String(middle.at) && String(at) <= String(newest.at)))
  t.equal(between.next, null, 'older lines are not looked through')
  t.same(await ask('to=2020-01-01T00:00:00Z'), { lines: [], next: null })

  const csv = await admin.get('audit?format=csv&actor=Ada')
  t.equal(csv.headers.get('content-type'), 'text/csv; charset=utf-8')
  t.match(csv.headers.get('content-disposition'), /^attachment; filename="audit-acme-[\d-]+\.csv"$/)
  const [head, ...rows] = csv.text.trim().split('\r\n')
  t.equal(head, 'number,at,actor,via,key_id,action,workspace,target,before,after,detail')
  t.same(
    rows.map((row) => row.split(',')[7]),
    found,
    'all of them, though a page has no more than 1,000',
  )
  const json = await admin.get('audit?format=json')
  t.equal(json.body.truncated, false)
  const [lines] = [linesIn(json)]
  t.same(lines.slice(0, 1_000), all.lines)
  t.equal(new Set(lines.map(({ number }) => number)).size, lines.length)
  t.ok(lines.length >= 1_500)
  t.match(await admin.get('audit?format=csv&target=WHY%20it'), { text: /,'=why it was done\r\n$/ })
  t.equal((await foreign.get('audit?format=csv&target=acme')).text.trim().split('\r\n').length, 1)
  for (const query of ['format=xml', 'format=csv&limit=5', 'format=json&below=5'])
    t.equal((await admin.get(`audit?${query}`)).status, 400, query)
  t.match(await admin.get('audit?format=csv&from=soon'), { status: 400 }, 'before anything is sent')
})
