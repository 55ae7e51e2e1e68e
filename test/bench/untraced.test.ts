import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { copyUntraced, withoutTracing } from '../../bench/untraced.ts'

t.test('what is cut', async (t) => {
  const source = `
  trail.trace?.begin('admit')
  const key = 1
    this.#trail.trace?.attemptEnded(failure.status, failure)
  request.trail.trace?.end()
      trail.trace = doors.tracing?.request(exchange, path) ?? null
    if (body.source.kind === 'url') trail.trace?.begin('fetch')
    trace_id: trail.trace?.traceId,
  return trail.trace?.headers() ?? (traceparent === undefined ? undefined : { traceparent })
    traceparent: trail.trace?.traceparent ?? caller.traceparent,
`
  t.same(withoutTracing(source), {
    text: `
  const key = 1
  return (traceparent === undefined ? undefined : { traceparent })
    traceparent: caller.traceparent,
`,
    cuts: 8,
  })
  t.same(withoutTracing('const traceparent = 1\n'), { text: 'const traceparent = 1\n', cuts: 0 })
})

t.test('what has another form is not passed over', async (t) => {
  const others = [
    'const span = trail.trace?.begin("x")',
    'trail.trace?.begin(\n',
    'if (trail.trace !== null) begin()',
    'const { trace } = trail; trace?.end()',
    'doors.tracing?.request(exchange)',
  ]
  for (const source of others) t.throws(() => withoutTracing(source), /no trace call of a known form/, source)
})

t.test('the copy of the sources', async (t) => {
  const folder = copyUntraced()
  const paths = globSync('{gateway,routes}/**/*.ts', { cwd: folder })
  t.ok(paths.length > 100)
  for (const path of paths) t.equal(withoutTracing(readFileSync(join(folder, path), 'utf8')).cuts, 0, path)
  const { createRoutes } = await import(join(folder, 'routes/table.ts'))
  t.type(createRoutes, 'function', 'what is left can be loaded')
})
