import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { copyUntraced, withoutTracing } from '../../bench/untraced.ts'

t.test('what is cut', async (t) => {
  const source = `
  context.trace?.begin('admit')
  const key = 1
    this.#context.trace?.attemptEnded(failure.status, failure)
  context.trace?.end()
      context.trace = dependencies.tracing?.request(exchange, path) ?? null
    if (body.source.kind === 'url') context.trace?.begin('fetch')
    trace_id: context.trace?.traceId,
  return context.trace?.headers() ?? (traceparent === undefined ? undefined : { traceparent })
    traceparent: context.trace?.traceparent ?? caller.traceparent,
    return this.trace?.traceId ?? this.traceparent ?? null
`
  t.same(withoutTracing(source), {
    text: `
  const key = 1
  return (traceparent === undefined ? undefined : { traceparent })
    traceparent: caller.traceparent,
    return this.traceparent ?? null
`,
    cuts: 9,
  })
  t.same(withoutTracing('const traceparent = 1\n'), { text: 'const traceparent = 1\n', cuts: 0 })
})

t.test('what has another form is not passed over', async (t) => {
  const others = [
    'const span = context.trace?.begin("x")',
    'context.trace?.begin(\n',
    'if (context.trace !== null) begin()',
    'const { trace } = context; trace?.end()',
    'dependencies.tracing?.request(exchange)',
  ]
  for (const source of others) t.throws(() => withoutTracing(source), /no trace call of a known form/, source)
})

t.test('the copy of the tree', async (t) => {
  const folder = join(copyUntraced(), 'src')
  const paths = globSync('gateway/{call,api,jobs}/**/*.ts', { cwd: folder })
  t.ok(paths.length > 60)
  for (const path of paths) t.equal(withoutTracing(readFileSync(join(folder, path), 'utf8')).cuts, 0, path)
  const { createRoutes } = await import(join(folder, 'gateway/api/table.ts'))
  t.type(createRoutes, 'function', 'what is left can be loaded')
})
