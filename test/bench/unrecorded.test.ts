import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { copyUnrecorded, withoutRecorder } from '../../bench/unrecorded.ts'

t.test('what is cut', async (t) => {
  const source = `
      const recorder = deps.recorder
        recorder?.ended(exchange, context, seen)
        seen = recorder?.answered(exchange, context, reply.status) ?? null
  node.recorder.start(() => server.inFlight)
`
  t.same(withoutRecorder(source), { text: '\n      const recorder = deps.recorder\n', cuts: 3 })
})

t.test('what has another form is not passed over', async (t) => {
  const others = [
    'if (seen) recorder?.ended(exchange, context, seen)',
    'const seen = recorder.answered(exchange)',
    'services.recorder?.ran(job)',
  ]
  for (const source of others) t.throws(() => withoutRecorder(source), /in no known form/, source)
})

t.test('the copy of the tree', async (t) => {
  const folder = join(copyUnrecorded(), 'src')
  for (const path of globSync('{gateway/node/serve.ts,gateway/api/endpoint.ts,gateway/jobs/*.ts}', {
    cwd: folder,
  }))
    t.equal(withoutRecorder(readFileSync(join(folder, path), 'utf8')).cuts, 0, path)
  const { createRoutes } = await import(join(folder, 'gateway/api/table.ts'))
  t.type(createRoutes, 'function', 'what is left can be loaded')
})
