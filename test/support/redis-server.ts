import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { freePort, type Teardown, tempFolder } from './scratch.ts'
import { Daemon, locate, type Program } from './servers.ts'

/** Starts a server that speaks Redis's protocol, ended with the test. @returns a plain connection to it */
export async function startAndConnect(t: Teardown, daemon: Daemon, port: number): Promise<Redis> {
  t.teardown(() => daemon.kill())
  const client = new Redis({ host: '127.0.0.1', port, lazyConnect: true, retryStrategy: () => 50 })
  client.on('error', () => {})
  t.teardown(() => client.disconnect())
  await daemon.start(() =>
    client.ping().then(
      (pong) => pong === 'PONG',
      () => false,
    ),
  )
  return client
}

export type RedisOptions = {
  /**
   * Keeps every acknowledged write through `kill` and `restart` (`appendfsync always`), and of a change that it was
   * killed in nothing: its file is mended before each start, as operators are told to; Valkey does that by itself.
   * Default: keeps nothing.
   */
  durable?: boolean
  /** Options of redis-server, such as `--maxmemory 1mb`; they come last and win. */
  args?: string[]
}

export type RedisServer = {
  /** `redis://127.0.0.1:<port>` */
  url: string
  port: number
  /** Unix socket of the same server. */
  socketPath: string
  /** Where its files are. */
  folder: string
  /** Changes with every `restart`. */
  readonly pid: number
  /** SIGTERM: Redis saves what it is told to save, and exits. */
  stop(): Promise<void>
  /** SIGKILL. */
  kill(): Promise<void>
  /** Starts it again on the same port, with what it had saved; kills it first when it runs. */
  restart(): Promise<void>
  /** SIGSTOP: connections stay open and nothing answers. */
  freeze(): void
  thaw(): void
}

/** A private, real redis-server on a free port, ended with the test. */
export async function startRedis(t: Teardown, options: RedisOptions = {}): Promise<RedisServer> {
  const program = await locate('redis')
  const folder = await tempFolder(t)
  const port = await freePort()
  const socketPath = join(folder, 'redis.sock')
  const isMended = options.durable === true && !isValkey(program)
  const persistence = options.durable ? ['yes', '--appendfsync', 'always'] : ['no']
  if (isMended) persistence.push('--aof-load-truncated', 'no')
  const args = [
    ...['--port', String(port), '--bind', '127.0.0.1', '--unixsocket', socketPath, '--dir', folder],
    ...['--save', '', '--appendonly', ...persistence, ...(options.args ?? [])],
  ]
  const daemon = new Daemon('redis-server', program, args, join(folder, 'redis.log'))
  t.teardown(() => daemon.kill())
  await daemon.start(() => answersPing(socketPath))

  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    socketPath,
    folder,
    get pid() {
      return daemon.pid
    },
    stop: () => daemon.end('SIGTERM'),
    kill: () => daemon.kill(),
    async restart() {
      await daemon.kill()
      if (isMended) mendLog(program, folder)
      await daemon.start(() => answersPing(socketPath))
    },
    freeze: () => daemon.freeze(),
    thaw: () => daemon.thaw(),
  }
}

/** Runs the server's program under a name, which is one of its tools. */
function runAs(name: string, { command: [file = '', ...before], env }: Program, args: readonly string[]) {
  const { status, error, stdout } = spawnSync(file, [...before, ...args], {
    argv0: name,
    env: { ...process.env, ...env },
    input: 'y\n',
    encoding: 'utf8',
  })
  if (status !== 0) throw error ?? new Error(`${name}: ${stdout}`)
  return stdout
}

const isValkey = (program: Program) => /valkey/i.test(runAs('redis-server', program, ['--version']))

/** Cuts off the end of the append-only file a change that is not whole. */
function mendLog(program: Program, folder: string): void {
  const manifest = join(folder, 'appendonlydir', 'appendonly.aof.manifest')
  if (existsSync(manifest)) runAs('redis-check-aof', program, ['--fix', manifest])
}

/** A server that still loads its file answers `-LOADING`; one that wants a password answers `-NOAUTH` and is up. */
function answersPing(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketPath)
    socket.setTimeout(1000, () => socket.destroy())
    socket.on('error', () => resolve(false))
    socket.on('close', () => resolve(false))
    socket.on('connect', () => socket.write('PING\r\n'))
    socket.on('data', (reply) => {
      resolve(!reply.toString().startsWith('-LOADING'))
      socket.destroy()
    })
  })
}
