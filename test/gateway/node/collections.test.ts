import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { type LarkwayProcess, startLarkway, startWorker, UNUSED_STORE } from '../../support/larkway.ts'
import { startRedis } from '../../support/redis-server.ts'
import { withoutServers } from '../../support/servers.ts'
import { waitUntil } from '../../support/wait-until.ts'

/**
 * Has V8 tell what it decides of collections, makes objects of which one of eight outlives them, and then many at one
 * place that all do.
 */
const SURVIVORS = `
import { isMainThread } from 'node:worker_threads'
import { setFlagsFromString } from 'node:v8'
if (isMainThread) {
  const make = (at) => ({ at, items: [at] })
  process.on('SIGUSR2', async () => {
    setFlagsFromString('--trace_pretenuring_statistics')
    setFlagsFromString('--trace-incremental-marking')
    const kept = []
    for (let at = 0; at < 4_000_000; at += 1) {
      const one = { at, items: [at] }
      if (at % 8 === 0) kept.push(one)
      if (at % 10_000 === 0) await new Promise(setImmediate)
    }
    for (let at = 0; at < 1_000_000; at += 1) kept.push(make(at))
    process.stdout.write('kept ' + kept.length + '\\n')
  })
}
`
/** V8 may write into the same line. */
const isOver = (lines: readonly string[]) => lines.some((line) => line.includes('kept 1500000'))
const PRELOAD = `--import=data:text/javascript,${encodeURIComponent(SURVIVORS)}`
/** A place whose objects are to be made old, once young ones have had all the room that they may have. */
const DECIDED = /AllocationSite.*=> (?:maybe )?tenure$/
/** A mark of old objects begins, not since all is idle. Of the room for them, MiB: the whole and what is left. */
const MARKS = /IncrementalMarking\] Start \((?:task|allocation limit)\): .*?v8: .*?(\d+)MB \/ (\d+)MB global/
/** Of each mark, whether more than a fifth of the room was left; the figures are rounded. */
function marksTooEarly(lines: readonly string[]): boolean[] {
  const marks = lines.map((line) => MARKS.exec(line)).filter((found) => found !== null)
  return marks.map(([, whole, left]) => Number(left) > Number(whole) / 5 + 1)
}

t.test('any program has V8 make objects old, and mark them early', async (t) => {
  const { stdout } = await promisify(execFile)(process.execPath, [PRELOAD, '-e', "process.emit('SIGUSR2')"])
  const lines = stdout.split('\n')
  t.ok(isOver(lines))
  t.ok(lines.some((line) => DECIDED.test(line)))
  t.ok(marksTooEarly(lines).includes(true))
})

async function collectsLate(t: Test, { pid, output }: LarkwayProcess): Promise<void> {
  process.kill(pid, 'SIGUSR2')
  t.ok(await waitUntil(() => isOver(output), 20_000))
  t.notOk(output.some((line) => DECIDED.test(line)))
  const early = marksTooEarly(output)
  t.ok(early.length > 0 && !early.includes(true))
}

t.test('a server does not', async (t) => {
  await collectsLate(t, await startLarkway(t, { env: { NODE_OPTIONS: PRELOAD } }))
})

t.test('nor does a worker', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const env = { ...UNUSED_STORE, REDIS_URL: url, NODE_OPTIONS: PRELOAD }
  await collectsLate(t, await startWorker(t, { env }))
})
