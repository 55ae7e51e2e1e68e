import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { askTls } from '../support/ask-tls.ts'
import { childEnvironment } from '../support/child-environment.ts'
import { larkway } from '../support/cli.ts'
import { localCertificate } from '../support/edge.ts'
import { listen } from '../support/http-server.ts'
import { isAlive } from '../support/larkway.ts'
import { programOf } from '../support/program.ts'
import { RawClient } from '../support/raw-client.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import { type Bucket, openBucket } from '../support/s3-server.ts'
import { freePort, tempFolder } from '../support/scratch.ts'
import { withoutServers } from '../support/servers.ts'
import { sharedS3 } from '../support/shared-s3.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

const START = fileURLToPath(new URL('../../scripts/start.mjs', import.meta.url))
const KEY = makeKey()

t.test('a number of processes that cannot be had is refused', async (t) => {
  for (const number of ['0', '65', '-1', '2.5', 'two', ''])
    t.same(
      await larkway(['serve', `--processes=${number}`]),
      { code: 2, output: '', errors: 'larkway: --processes takes 1 to 64\n' },
      number,
    )
  t.match(await larkway(['serve', '--processes', '2'], { env: { PORT: 'x' } }), {
    code: 1,
    errors: /PORT must be/,
  })
})

t.test('npm start passes its arguments on', { timeout: 120_000 }, async (t) => {
  const child = spawn(process.execPath, [START, '--processes', '0'], { stdio: ['ignore', 'ignore', 'pipe'] })
  t.teardown(() => child.kill('SIGKILL'))
  const lines: string[] = []
  createInterface(child.stderr).on('line', (line) => lines.push(line))
  t.same(await once(child, 'close'), [2, null])
  t.equal(lines.at(-1), 'larkway: --processes takes 1 to 64')
})

/** What the processes share: Redis and a bucket, or a data folder. */
type Shared = { readonly redis: RedisServer; readonly bucket: Bucket } | null

interface Processes {
  readonly port: number
  readonly parent: ChildProcess
  /** What was written to standard output and error, line by line. */
  readonly lines: readonly string[]
  /** Where the configuration is. */
  readonly path: string
  /** Of the processes that listen or have listened, in the order of their starts. */
  pids(): number[]
  /** The lines of their logs with this message. */
  logged(message: string): Record<string, unknown>[]
  /** Resolves with the exit code and the signal that ended the parent. */
  readonly ended: Promise<[number | null, NodeJS.Signals | null]>
}

/** Runs `larkway serve --processes`; returns when all listen, or when it has ended. */
async function startProcesses(
  t: Test,
  shared: Shared,
  {
    count = 2,
    options = {},
    config,
    port,
    env = {},
  }: { count?: number; options?: object; config?: object; port?: number; env?: Record<string, string> } = {},
): Promise<Processes> {
  const path = join(await tempFolder(t), 'larkway.yaml')
  await writeFile(path, JSON.stringify(config ?? (await configuration(t, options))))
  const taken = port ?? (await freePort())
  const program = await programOf('cli.ts')
  const parent = spawn(process.execPath, [...program.args, 'serve', '--processes', String(count)], {
    env: childEnvironment({
      ...program.env,
      PORT: String(taken),
      HOST: '127.0.0.1',
      LARKWAY_CONFIG: path,
      LARKWAY_DRAIN_SECONDS: '0',
      ...(shared === null
        ? { LARKWAY_DATA: await tempFolder(t) }
        : { REDIS_URL: shared.redis.url, ...shared.bucket.env }),
      ...env,
    }),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const lines: string[] = []
  for (const output of [parent.stdout, parent.stderr])
    createInterface(output).on('line', (line) => lines.push(line))
  const pids = () =>
    lines.flatMap((line) => /\(pid (\d+)\) listens on port/.exec(line)?.slice(1).map(Number) ?? [])
  let over = false
  const ended = once(parent, 'close') as Processes['ended']
  void ended.then(() => {
    over = true
  })
  t.teardown(async () => {
    parent.kill('SIGKILL')
    await ended
    for (const pid of pids()) if (isAlive(pid)) process.kill(pid, 'SIGKILL')
  })
  await waitUntil(() => over || pids().length === count, 30_000)
  const logged = (message: string) =>
    lines
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter(({ msg }) => msg === message)
  return { port: taken, parent, lines, path, pids, logged, ended }
}

/** One route that leads to a sandbox in this process. */
async function configuration(t: Test, options: object): Promise<object> {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  return {
    rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
    providers: { sandbox: { kind: 'sandbox', access: 'byok', workspace: 'acme', base_url: sandbox.url } },
    routes: { voice: { workspace: 'acme', entries: [{ provider: 'sandbox', model: 'morse-1', options }] } },
    workspaces: {
      acme: {
        apps: { web: { route: 'voice' } },
        keys: [{ id: 'key_web', app: 'web', sha256: hashKey(KEY) }],
      },
    },
  }
}

const authorization = `Bearer ${KEY}`

/** The status of a request on a connection of its own; 0 when there was no answer. */
async function askOnce(port: number): Promise<number> {
  const client = await RawClient.connect(port).catch(() => null)
  if (client === null) return 0
  await client.send(`GET /v1/me HTTP/1.1\r\nHost: a\r\nAuthorization: ${authorization}\r\n\r\n`)
  const answer = await client.response()
  client.destroy()
  return answer?.status ?? 0
}

async function socketsOf(pid: number): Promise<number> {
  const folder = `/proc/${pid}/fd`
  const links = (await readdir(folder)).map((fd) => readlink(join(folder, fd)).catch(() => ''))
  return (await Promise.all(links)).filter((link) => link.startsWith('socket:')).length
}

/** How many more sockets each process has while `count` connections are open. */
async function spread(port: number, pids: readonly number[], count: number): Promise<number[]> {
  const before = await Promise.all(pids.map(socketsOf))
  const clients = await Promise.all(Array.from({ length: count }, () => RawClient.connect(port)))
  await sleep(300)
  const after = await Promise.all(pids.map(socketsOf))
  for (const client of clients) client.destroy()
  return after.map((sockets, index) => sockets - (before[index] ?? 0))
}

/** A transcription that the sandbox takes its time for. */
async function upload(port: number): Promise<RawClient> {
  const body = filledWav(20_000)
  const client = await RawClient.connect(port)
  await client.send(
    `POST /v1/transcription HTTP/1.1\r\nHost: a\r\nAuthorization: ${authorization}\r\n` +
      `Content-Type: audio/wav\r\nContent-Length: ${body.length}\r\n\r\n`,
    body,
  )
  await sleep(500)
  return client
}

/** A request that is under way is answered behind the signal, and then they end. */
async function assertLetsEnd(t: Test, gateway: Processes, signal: 'SIGTERM' | 'SIGINT'): Promise<void> {
  const client = await upload(gateway.port)
  gateway.parent.kill(signal)
  t.equal((await client.response({ timeoutMs: 20_000 }))?.status, 200)
  t.same(await gateway.ended, [0, null], signal)
}

t.test('several processes on Redis and S3', { skip: withoutServers, timeout: 300_000 }, async (t) => {
  const [redis, s3] = await Promise.all([startRedis(t), sharedS3(t)])
  await assertProcesses(t, { redis, bucket: await openBucket(t, s3) })
})

t.test('several processes on a data folder', { timeout: 300_000 }, async (t) => {
  await assertProcesses(t, null)
  t.test('a folder that somebody has is refused', async (t) => {
    const folder = await tempFolder(t)
    const gateway = await startProcesses(t, null, { env: { LARKWAY_DATA: folder } })
    const second = await startProcesses(t, null, { env: { LARKWAY_DATA: folder } })
    t.same(await second.ended, [1, null])
    t.match(second.lines, [/^larkway: the data folder \S+ is in use by another Larkway process/])
    t.equal(await askOnce(gateway.port), 200)
  })
})

async function assertProcesses(t: Test, servers: Shared): Promise<void> {
  t.test('they share the port, and one that is killed is replaced', async (t) => {
    const gateway = await startProcesses(t, servers, { count: 3 })
    const pids = gateway.pids()
    t.equal(new Set(pids).size, 3)
    const shares = await spread(gateway.port, pids, 120)
    t.ok(
      shares.every((share) => share >= 15),
      `120 connections were spread as ${shares}`,
    )

    const victim = pids[1] ?? 0
    process.kill(victim, 'SIGKILL')
    await waitUntil(() => !isAlive(victim))
    const answers = await Promise.all(Array.from({ length: 100 }, () => askOnce(gateway.port)))
    t.same(new Set(answers), new Set([200]), 'new connections go to those that live')
    t.ok(await waitUntil(() => gateway.pids().length === 4), 'another one listens')
    const ended = gateway.lines.find((line) => line.endsWith(`(pid ${victim}) ended by SIGKILL`))
    const number = /^larkway: process (\d)/.exec(ended ?? '')?.[1]
    const successor = gateway.pids()[3] ?? 0
    const greeting = `larkway: process ${number} of 3 (pid ${successor}) listens on port ${gateway.port}`
    t.ok(gateway.lines.includes(greeting), 'in its place')
    const [share = 0] = await spread(gateway.port, [successor], 120)
    t.ok(share >= 15, `the successor got ${share} of 120 connections`)

    gateway.parent.kill('SIGHUP')
    t.ok(
      await waitUntil(() => gateway.logged('configuration read').length === 3),
      'each reads the file again',
    )
    gateway.parent.kill('SIGTERM')
    t.same(await gateway.ended, [0, null])
    t.equal(gateway.logged('stopped').length, 3)
    t.notOk([...pids, successor].some(isAlive))
  })

  t.test('they share the port of HTTPS, and SIGHUP renews the certificate of each', async (t) => {
    const { files, ca, renew } = await localCertificate(t)
    const gateway = await startProcesses(t, servers, {
      options: { delay_ms: 2_000 },
      env: { LARKWAY_TLS_CERT: files.certFile, LARKWAY_TLS_KEY: files.keyFile, LARKWAY_TLS_PORT: '0' },
    })
    const ports = new Set(gateway.logged('listening').map(({ tls_port }) => Number(tls_port)))
    t.equal(ports.size, 1)
    const [port = 0] = ports
    const shown = async () => {
      const answers = await Promise.all(Array.from({ length: 40 }, () => askTls(port, ca, '/readyz')))
      t.same(new Set(answers.map(({ status }) => status)), new Set([200]))
      return new Set(answers.map((answer) => answer.shown))
    }
    const [before] = await shown()
    await renew()
    gateway.parent.kill('SIGHUP')
    t.ok(await waitUntil(() => gateway.logged('TLS certificate read').length === 2))
    const after = await shown()
    t.equal(after.size, 1, 'both show the same')
    t.notOk(after.has(before ?? ''))
    await assertLetsEnd(t, gateway, 'SIGTERM')
  })

  t.test('a port that somebody has is refused', async (t) => {
    const holder = createServer()
    const port = Number(new URL(await listen(t, holder)).port)
    const gateway = await startProcesses(t, servers, { port })
    t.same(await gateway.ended, [1, null])
    t.same(gateway.lines, [`larkway: cannot listen on 127.0.0.1:${port}`])
    const other = await startProcesses(t, servers)
    const second = await startProcesses(t, servers, { port: other.port })
    t.same(await second.ended, [1, null], 'also by other processes that would share it')

    other.parent.stdout?.destroy()
    other.parent.kill('SIGHUP')
    for (let round = 0; round < 10; round += 1) {
      t.equal(await askOnce(other.port), 200, 'who has it goes on, also when nobody reads its log any more')
      await sleep(50) // until a log is written
    }
    other.parent.kill('SIGTERM')
    t.same(await other.ended, [0, null])
  })

  t.test('what keeps them from serving is said once', async (t) => {
    const gateway = await startProcesses(t, servers, { count: 4, config: { routes: { voice: {} } } })
    t.same(await gateway.ended, [1, null])
    t.equal(gateway.lines.filter((line) => /larkway\.yaml is not valid/.test(line)).length, 1)
    t.match(gateway.lines.at(-1), /^larkway: process 1 \(pid \d+\) ended with 1$/)
    t.same(gateway.pids(), [])
  })

  t.test('SIGINT lets requests end as SIGTERM does, a second one does not', async (t) => {
    const interrupted = await startProcesses(t, servers, { options: { delay_ms: 2_000 } })
    await assertLetsEnd(t, interrupted, 'SIGINT')
    const gateway = await startProcesses(t, servers, { options: { delay_ms: 60_000 } })
    await upload(gateway.port)
    gateway.parent.kill('SIGTERM')
    t.ok(await waitUntil(() => gateway.logged('stopping').length === 2))
    const startMs = performance.now()
    gateway.parent.kill('SIGTERM')
    t.same(await gateway.ended, [1, null])
    t.ok(performance.now() - startMs < 5_000)
    t.ok(await waitUntil(() => !gateway.pids().some(isAlive)))
  })

  t.test('when nothing reads their log they serve, and end', async (t) => {
    const gateway = await startProcesses(t, servers)
    gateway.parent.stdout?.pause()
    const statuses: number[] = []
    // More than the pipes on the way take.
    for (let round = 0; round < 40; round++)
      statuses.push(...(await Promise.all(Array.from({ length: 100 }, () => askOnce(gateway.port)))))
    t.same(new Set(statuses), new Set([200]))
    const exited = once(gateway.parent, 'exit')
    gateway.parent.kill('SIGTERM')
    t.same(await exited, [0, null])
    gateway.parent.stdout?.resume()
  })

  t.test('when their parent is killed they end what they do, and themselves', async (t) => {
    const gateway = await startProcesses(t, servers, { options: { delay_ms: 2_000 } })
    const client = await upload(gateway.port)
    gateway.parent.kill('SIGKILL')
    const answer = await client.response({ timeoutMs: 20_000 })
    t.equal(answer?.status, servers === null ? undefined : 200, 'with it goes the state of a data folder')
    t.ok(await waitUntil(() => !gateway.pids().some(isAlive)), 'nobody is left')
    t.equal(await askOnce(gateway.port), 0)
  })

  t.test('one that cannot start again leaves the others alone, and is tried until it can', async (t) => {
    const gateway = await startProcesses(t, servers)
    const [victim = 0] = gateway.pids()
    const sound = await configuration(t, {})
    await sleep(6_000) // so long until a process counts as started
    await writeFile(gateway.path, '{ "routes": 1 }')
    process.kill(victim, 'SIGKILL')
    const failures = () =>
      gateway.lines.filter((line) => /^larkway: process 1 \(pid \d+\) ended with 1$/.test(line))
    t.ok(await waitUntil(() => failures().length >= 2, 30_000))
    t.equal(await askOnce(gateway.port), 200)
    await writeFile(gateway.path, JSON.stringify(sound))
    t.ok(await waitUntil(() => gateway.pids().length === 3, 30_000))
    gateway.parent.kill('SIGTERM')
    t.same(await gateway.ended, [0, null])
  })

  t.test('when none stays up it is given up', async (t) => {
    const gateway = await startProcesses(t, servers)
    let killed = 0
    const killer = setInterval(() => {
      const pids = gateway.pids()
      for (const pid of pids.slice(killed)) if (isAlive(pid)) process.kill(pid, 'SIGKILL')
      killed = pids.length
    }, 50)
    t.teardown(() => clearInterval(killer))
    t.same(await gateway.ended, [1, null])
    t.ok(gateway.lines.includes('larkway: no process stays up'))
    t.ok(killed >= 6 && killed <= 12, `after ${killed} starts of 2 processes`)
    t.notOk(gateway.pids().some(isAlive))
  })
}
