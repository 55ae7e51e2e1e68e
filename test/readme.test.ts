import { readFile } from 'node:fs/promises'
import t from 'tap'
import { ENVIRONMENT_SCHEMA } from '../src/config.ts'
import { ERRORS } from '../src/errors.ts'

const README = await readFile(new URL('../README.md', import.meta.url), 'utf8')

t.test('every variable is documented as it is, and none is stale', async (t) => {
  const rows = [...README.matchAll(/^\| `([A-Z0-9_]+)` \| (?:`([^`]*)`)? ?\| (.*) \|$/gm)].map(
    ([, ...cells]) => cells,
  )
  const expected = Object.entries(ENVIRONMENT_SCHEMA.properties).map(([name, schema]) => {
    const { default: value, description } = schema as { default?: unknown; description?: string }
    return [name, value === undefined ? undefined : String(value), description]
  })
  t.same(rows, expected)
})

t.test('every error is documented with its status and whether to retry, and none is stale', async (t) => {
  const rows = [...README.matchAll(/^\| (\d{3}) \| `([A-Z_]+)` \| (yes|no) \|/gm)].map(([, ...cells]) =>
    cells.join(' '),
  )
  const expected = Object.entries(ERRORS)
    .filter(([, { status }]) => status !== 499)
    .map(([code, { status, retryable }]) => `${status} ${code} ${retryable ? 'yes' : 'no'}`)
  t.same(rows.sort(), expected.sort())
})
