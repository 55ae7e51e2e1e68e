import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { answerOf, send, tally, uploadsOf } from '../support/audio-upload.ts'
import { childEnvironment } from '../support/child-environment.ts'
import { type DemoProcess, startDemoProcess } from '../support/demo-route.ts'
import { programOf } from '../support/program.ts'
import { RawClient } from '../support/raw-client.ts'
import { tempFolder } from '../support/scratch.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

const AUDIO = filledWav(12_000_000, 9)

const uploadsTo = (gateway: DemoProcess) => uploadsOf(AUDIO, gateway.authorization.authorization)
const isStopping = (gateway: DemoProcess) =>
  waitUntil(() => gateway.log.some(({ msg }) => msg === 'stopping'))

/** Runs the product on a data folder until it ends by itself. */
async function runOn(t: Test, dataFolder: string): Promise<{ code: number | null; complaint: string }> {
  const program = await programOf('main.ts')
  const env = childEnvironment({ ...program.env, PORT: '0', HOST: '127.0.0.1', LARKWAY_DATA: dataFolder })
  const child = spawn(process.execPath, program.args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
  t.teardown(() => child.kill('SIGKILL'))
  let complaint = ''
  child.stderr.on('data', (chunk: Buffer) => {
    complaint += chunk.toString()
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, complaint }
}

t.test('a data folder that is in use is refused, and the reason named', { timeout: 60_000 }, async (t) => {
  const dataFolder = await tempFolder(t)
  const first = await startDemoProcess(t, { dataFolder })
  const second = await runOn(t, dataFolder)
  t.equal(second.code, 1)
  t.match(second.complaint, `the data folder ${dataFolder} is in use by another Larkway process`)
  t.same(tally([await send(first.port, uploadsTo(first).raw)]), { 200: 1 }, 'the first one is not disturbed')
  for (const signal of ['SIGKILL', 'SIGTERM', 'SIGINT'] as const) {
    const gateway = await startDemoProcess(t, { dataFolder: await tempFolder(t) })
    await gateway.signal(signal)
    const next = await startDemoProcess(t, { dataFolder: gateway.dataFolder })
    t.same(tally([await send(next.port, uploadsTo(next).raw)]), { 200: 1 }, `free after ${signal}`)
    await next.signal('SIGTERM')
  }
})

t.test('SIGTERM while requests are under way', { timeout: 60_000 }, async (t) => {
  const gateway = await startDemoProcess(t, { entries: [{ delay_ms: 1_500 }] })
  const { raw } = uploadsTo(gateway)
  const [working, arriving, idle] = await Promise.all([
    RawClient.connect(gateway.port),
    RawClient.connect(gateway.port),
    RawClient.connect(gateway.port),
  ])
  await working.send(raw.head, raw.body)
  await arriving.send(raw.head, raw.body.subarray(0, 1_000_000))
  t.ok(await waitUntil(async () => (await gateway.calls()).length === 1), 'one is with the provider')
  const ended = gateway.signal('SIGTERM')
  t.ok(await isStopping(gateway))
  await t.rejects(fetch(`${gateway.url}/healthz`), 'nobody new is taken')
  await arriving.send(raw.body.subarray(1_000_000))
  const answers = await Promise.all([answerOf(working), answerOf(arriving)])
  t.same(tally(answers), { 200: 2 }, 'both are answered, also the one that was half there')
  t.equal(await ended, 0)
  t.ok(await idle.closes(), 'a connection without a request is cut')
  t.ok(await waitUntil(() => gateway.log.at(-1)?.msg === 'stopped'))
  t.match(gateway.log.at(-1), { held_bytes: 0 })
})

t.test('a second SIGTERM ends it at once', { timeout: 60_000 }, async (t) => {
  const gateway = await startDemoProcess(t, { entries: [{ delay_ms: 60_000 }] })
  const { raw } = uploadsTo(gateway)
  const client = await RawClient.connect(gateway.port)
  await client.send(raw.head, raw.body)
  t.ok(await waitUntil(async () => (await gateway.calls()).length === 1), 'a call is under way')
  void gateway.signal('SIGTERM')
  t.ok(await isStopping(gateway))
  const startedMs = performance.now()
  t.equal(await gateway.signal('SIGTERM'), 1)
  t.ok(performance.now() - startedMs < 5_000)
})
