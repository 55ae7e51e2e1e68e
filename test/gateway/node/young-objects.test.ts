import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { type LarkwayProcess, startLarkway, startWorker, UNUSED_STORE } from '../../support/larkway.ts'
import { startRedis } from '../../support/redis-server.ts'
import { withoutServers } from '../../support/servers.ts'
import { waitUntil } from '../../support/wait-until.ts'

/** Has V8 tell what it decides of places that make objects, and makes many at one place that outlive collections. */
const SURVIVORS = `
import { isMainThread } from 'node:worker_threads'
import { setFlagsFromString } from 'node:v8'
if (isMainThread) {
  const make = (at) => ({ at, items: [at] })
  process.on('SIGUSR2', () => {
    setFlagsFromString('--trace_pretenuring_statistics')
    const kept = []
    for (let at = 0; at < 1_000_000; at += 1) kept.push(make(at))
    process.stdout.write('kept ' + kept.length + '\\n')
  })
}
`
const PRELOAD = `--import=data:text/javascript,${encodeURIComponent(SURVIVORS)}`
/** A place whose objects are to be made old, once young ones have had all the room that they may have. */
const DECIDED = /AllocationSite.*=> (?:maybe )?tenure$/

t.test('any program has V8 make objects old', async (t) => {
  const { stdout } = await promisify(execFile)(process.execPath, [PRELOAD, '-e', "process.emit('SIGUSR2')"])
  const lines = stdout.split('\n')
  t.ok(lines.includes('kept 1000000'))
  t.ok(lines.some((line) => DECIDED.test(line)))
})

async function makesNoneOld(t: Test, { pid, output }: LarkwayProcess): Promise<void> {
  process.kill(pid, 'SIGUSR2')
  t.ok(await waitUntil(() => output.includes('kept 1000000'), 20_000))
  t.same(
    output.filter((line) => DECIDED.test(line)),
    [],
  )
}

t.test('a server does not', async (t) => {
  await makesNoneOld(t, await startLarkway(t, { env: { NODE_OPTIONS: PRELOAD } }))
})

t.test('nor does a worker', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const env = { ...UNUSED_STORE, REDIS_URL: url, NODE_OPTIONS: PRELOAD }
  await makesNoneOld(t, await startWorker(t, { env }))
})
