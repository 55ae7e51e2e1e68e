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
  t.match(await parseInThread('{"a":1,"a":2}'), { issues: ['line 1, column 8: duplicate key'] })
  t.match(await parseInThread('{"a":1'), { issues: [/^line 1/] })
})
