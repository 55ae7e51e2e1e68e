import t from 'tap'
import { parseInThread, parseText } from '../../../src/gateway/catalog/parse-text.ts'

const KEYS = Array.from({ length: 6_000 }, (_, at) => ({
  id: `key_${at}`,
  app: 'web',
  sha256: 'ab'.repeat(32),
}))
const DOCUMENT = { workspaces: { acme: { apps: { web: { route: 'main' } }, keys: KEYS } } }
const LINES = KEYS.map((key) => `      - ${JSON.stringify(key)}\n`)
const YAML = `workspaces:\n  acme:\n    apps: { web: { route: main } }\n    keys:\n${LINES.join('')}`

t.test('a long text is parsed beside the event loop, to the same document', async (t) => {
  let turns = 0
  const counting = setInterval(() => {
    turns += 1
  })
  const parsed = await parseInThread(YAML)
  clearInterval(counting)
  t.same(parsed, { document: DOCUMENT })
  t.ok(turns > 5, `${turns} turns`)
  t.same(parseText(YAML), parsed)
})

t.test('what is wrong with a long text is told as with a short one', async (t) => {
  const wrong = YAML.replace('"key_5000"', '"key_5000')
  t.same(await parseInThread(wrong), parseText(wrong))
  t.match(await parseInThread(wrong), { issues: [/^line \d+, column \d+: /] })
})

t.test('JSON that a program wrote is taken as it is, and any other by the rules of YAML', async (t) => {
  for (const indent of [0, 2, 4])
    t.same(await parseInThread(`${JSON.stringify(DOCUMENT, null, indent)}\n`), { document: DOCUMENT })
  t.same(await parseInThread('{"a": 1, "b": [1.0, "\\u00e9"]}'), { document: { a: 1, b: [1, 'é'] } })
  t.match(await parseInThread('{"a":1,"a":2}'), { issues: ['line 1, column 9: duplicated mapping key'] })
  t.match(await parseInThread('{"a":1'), { issues: [/^line 1/] })
})

t.test('aliases stand for what they name, within bounds', (t) => {
  t.same(parseText('a: &x [1, 2]\nb: *x\nc: [*x, *x]'), {
    document: {
      a: [1, 2],
      b: [1, 2],
      c: [
        [1, 2],
        [1, 2],
      ],
    },
  })
  const bomb = Array.from({ length: 12 }, (_, at) => `a${at}: &a${at} [${`*a${at - 1},`.repeat(9)}]`)
  bomb[0] = 'a0: &a0 [x]'
  for (const text of [bomb.join('\n'), 'a: &a [*a]', 'a: &a { b: { c: *a } }'])
    t.match(parseText(text), { issues: [/^\/: an alias/] }, text.slice(0, 30))
  t.end()
})

t.test('nothing of the text is quoted where it is at fault', (t) => {
  const hostile = [
    'a: *sk-secret',
    'a: !sk-secret x',
    'a: !<sk-secret> x',
    'a: !x!sk-secret y',
    'a: !!int sk-secret',
  ]
  hostile.push(
    '%TAG ! sk-secret\n--- a',
    '%YAML sk-secret\n---\na',
    'a: !sk{secret x',
    'a: *sk"sk-secret"',
    'a: &sk-secret',
  )
  hostile.push(
    '? sk-secret',
    'sk-secret: {',
    '"sk-secret',
    '{sk-secret: [}',
    'a: sk-secret: b',
    'sk-secret: 1\nsk-secret: 2',
  )
  for (const text of hostile) t.notMatch(JSON.stringify(parseText(text)), /issues.*secret/, text)
  const told = hostile.filter((text) => 'issues' in parseText(text))
  t.ok(told.length > 10, `${told.length} of them are faulty`)
  t.end()
})

t.test('what is one document, and what is not', (t) => {
  for (const text of ['---\n', '~']) t.same(parseText(text), { document: null }, text)
  for (const text of ['', '# nothing\n'])
    t.same(parseText(text), { issues: ['/: expected a document, but the input is empty'] }, text)
  t.match(parseText('a: 1\n---\nb: 2\n'), {
    issues: ['/: expected a single document in the stream, but found more'],
  })
  t.match(parseText('['.repeat(200)), { issues: [/^line 1, column \d+: nesting exceeded/] })
  t.end()
})
