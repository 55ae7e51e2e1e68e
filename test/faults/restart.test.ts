import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { startDemoProcess } from '../support/demo-route.ts'
import { startLarkway } from '../support/larkway.ts'
import { RawClient } from '../support/raw-client.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

async function folder(t: Test): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'restart-'))
  t.teardown(() => rm(path, { recursive: true, force: true }))
  return path
}

/** Files of bodies: objects in `spool`, and what was on its way to become one. */
async function bodiesIn(path: string): Promise<string[]> {
  const files = await readdir(path, { recursive: true, withFileTypes: true })
  return files.filter((file) => file.isFile() && file.name.includes('acme')).map(({ name }) => name)
}

t.test(
  'killed during uploads, started again: what was orphaned is swept',
  { timeout: 120_000 },
  async (t) => {
    const dataFolder = await folder(t)
    const first = await startDemoProcess(t, {
      dataFolder,
      entries: [{ delay_ms: 60_000 }],
      env: { LARKWAY_MEMORY_MIB: '8' },
    })
    const wav = filledWav(12_000_000, 3)
    const head =
      `POST /v1/transcription HTTP/1.1\r\nHost: a\r\nAuthorization: ${first.authorization.authorization}\r\n` +
      `Content-Type: audio/wav\r\nContent-Length: ${wav.length}\r\n\r\n`
    const clients = await Promise.all(Array.from({ length: 8 }, () => RawClient.connect(first.port)))
    // Half of them are cut in the middle, half are whole and wait for the provider.
    for (const [index, client] of clients.entries()) {
      await Promise.race([
        client.send(head, wav.subarray(0, index % 2 === 0 ? 5_000_000 : wav.length)),
        sleep(5_000),
      ])
    }
    await waitUntil(async () => (await bodiesIn(dataFolder)).length >= 4)
    await first.signal('SIGKILL')
    for (const client of clients) client.destroy()
    t.ok((await bodiesIn(dataFolder)).length >= 4, 'the killed process left bodies behind')

    const second = await startDemoProcess(t, { dataFolder })
    t.same(await bodiesIn(dataFolder), [], 'they are gone when the next one listens')
    t.ok(second.log.some(({ msg }) => msg === 'swept'))
  },
)

t.test('one process to a data folder', async (t) => {
  const dataFolder = await folder(t)
  const first = await startLarkway(t, { dataFolder })
  const second = await startLarkway(t, { dataFolder }).catch((error: Error) => error)
  t.match(second, { message: /exited with 1/ }, 'a second one does not start')
  t.equal((await fetch(`${first.url}/healthz`)).status, 200, 'the first one is not disturbed')
  await first.signal('SIGKILL')
  const third = await startLarkway(t, { dataFolder })
  t.equal((await fetch(`${third.url}/readyz`)).status, 200, 'a killed one holds no claim')
})

t.test('the demo key outlives a restart', async (t) => {
  const dataFolder = await folder(t)
  const env = { LARKWAY_DEMO_KEY: '' }
  const statusOf = async ({ url }: { url: string }, key: string) =>
    (await fetch(`${url}/v1/me`, { headers: { authorization: `Bearer ${key}` } })).status
  const first = await startLarkway(t, { dataFolder, env })
  const key = (await readFile(join(dataFolder, 'demo-key'), 'utf8')).trim()
  t.equal(await statusOf(first, key), 200)
  await first.signal('SIGTERM')
  t.equal(await statusOf(await startLarkway(t, { dataFolder, env }), key), 200)
})

t.test('told to stop, it answers what it has taken', async (t) => {
  const gateway = await startDemoProcess(t, { entries: [{ delay_ms: 1_500 }] })
  const headers = { ...gateway.authorization, 'content-type': 'audio/wav' }
  const answer = fetch(`${gateway.url}/v1/transcription`, {
    method: 'POST',
    headers,
    body: filledWav(100_000),
  })
  await waitUntil(async () => (await gateway.calls()).length === 1)
  const exited = gateway.signal('SIGTERM')
  const response = await answer
  t.equal(response.status, 200)
  t.equal(response.headers.get('connection'), 'close')
  t.equal(await exited, 0)
  t.match(gateway.log.at(-1), { msg: 'stopped', held_bytes: 0 })
  await t.rejects(fetch(`${gateway.url}/healthz`), 'nobody listens any more')
})

/** A configuration with one key. */
function configuration(key: string): object {
  return {
    providers: { p: { kind: 'sandbox', access: 'platform', base_url: 'http://127.0.0.1:9/v1' } },
    routes: { r: { workspace: 'acme', entries: [{ provider: 'p', model: 'morse-1' }] } },
    workspaces: {
      acme: { apps: { web: { route: 'r' } }, keys: [{ id: 'key_1', app: 'web', sha256: hashKey(key) }] },
    },
  }
}

t.test('a changed file takes effect whole, an invalid one not at all', { timeout: 60_000 }, async (t) => {
  const [before, after] = [makeKey(), makeKey()]
  const gateway = await startLarkway(t, { config: configuration(before) })
  const path = join(gateway.dataFolder, 'larkway.yaml')
  const statusOf = async (key: string) =>
    (await fetch(`${gateway.url}/v1/me`, { headers: { authorization: `Bearer ${key}` } })).status
  t.same([await statusOf(before), await statusOf(after)], [200, 401])

  await writeFile(path, JSON.stringify(configuration(after)))
  await waitUntil(async () => (await statusOf(after)) === 200)
  t.equal(await statusOf(before), 401, 'the key that is gone from the file')

  await writeFile(path, JSON.stringify({ ...configuration(before), routes: { r: { workspace: 'nobody' } } }))
  const refusals = () => gateway.log.filter(({ issues }) => issues !== undefined)
  await waitUntil(async () => refusals().length === 1)
  t.match(JSON.stringify(refusals()[0]), '/routes/r', 'the log names the place')
  process.kill(gateway.pid, 'SIGHUP')
  await waitUntil(async () => refusals().length === 2)
  t.same([await statusOf(before), await statusOf(after)], [401, 200], 'the running one stays in force')

  await writeFile(path, JSON.stringify(configuration(before)))
  process.kill(gateway.pid, 'SIGHUP')
  await waitUntil(async () => (await statusOf(before)) === 200)
})
