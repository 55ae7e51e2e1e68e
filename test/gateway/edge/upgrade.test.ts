import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { CACHE } from '../../../scripts/install.mjs'
import { childEnvironment } from '../../support/child-environment.ts'
import { startEdge } from '../../support/edge.ts'
import { CLOSE, frame, handshake, RawClient, TEXT } from '../../support/raw-frames.ts'
import { ECHO_PATH, type UpgradeOrder } from './upgrade-process.ts'

// uWS older than 20.79 can take a WebSocket that was opened in a later turn for the request before it, and closes it
// behind `open` where that request said `Connection: close`. The edge upgrades in the turn of the request.

const BUILDS = ['uWebSockets.js', 'uWebSockets.js-glibc227'] as const
/** The build that has the fault: the other one closes none, whatever the turn. */
const FAULTY = 'uWebSockets.js-glibc227'
const PROGRAM = fileURLToPath(new URL('./upgrade-process.ts', import.meta.url))
const CLIENTS = 40

/** Two lines are one list, in which a client may ask for both. */
const CONNECTIONS: Readonly<Record<string, string>> = {
  'Connection: Upgrade': 'Upgrade',
  'Connection: close, Upgrade in one line': 'close, Upgrade',
  'Connection: close, and another line with Upgrade': 'close\r\nConnection: Upgrade',
}

/** How Node is started so that a build loads: as it is, or with the newer C library of an unpacked server. */
function nodeWith(build: string): readonly string[] | null {
  const ways = [[process.execPath], ...loaders().map((loader) => [...loader, process.execPath])]
  const loads = ([command = '', ...args]: readonly string[]) =>
    spawnSync(command, [...args, '-e', `require(${JSON.stringify(build)})`]).status === 0
  return ways.find(loads) ?? null
}

function loaders(): readonly string[][] {
  if (!existsSync(CACHE)) return []
  const roots = readdirSync(CACHE).filter((name) => name.startsWith('ceph-'))
  return roots.flatMap((name) => {
    const libraries = join(CACHE, name, 'usr', 'lib', `${MACHINE}-linux-gnu`)
    const found = existsSync(libraries) ? readdirSync(libraries) : []
    const loader = found.find((file) => file.startsWith('ld-linux-'))
    return loader === undefined ? [] : [[join(libraries, loader), '--library-path', libraries]]
  })
}

const MACHINE = process.arch === 'arm64' ? 'aarch64' : 'x86_64'

async function serve(t: Test, node: readonly string[], order: UpgradeOrder): Promise<number> {
  const [command = '', ...args] = [...node, '--no-warnings', PROGRAM, JSON.stringify(order)]
  const child: ChildProcess = spawn(command, args, {
    env: childEnvironment(),
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const [line] = await Promise.race([once(child.stdout!, 'data'), once(child, 'exit').then(() => ['0'])])
  return Number(String(line))
}

/** Says something on each of many sockets, and ends it. @returns how many heard it back */
async function heard(port: number, connection: string): Promise<number> {
  const headers = { Connection: connection, 'Sec-WebSocket-Protocol': null, Authorization: null }
  const ends = await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      const client = new RawClient(port)
      client.socket.write(handshake(port, '', { path: ECHO_PATH, headers }))
      await client.opened()
      client.socket.write(frame({ opcode: TEXT, payload: 'here' }))
      client.socket.write(frame({ opcode: CLOSE, payload: Buffer.from([0x03, 0xe8]) }))
      return client.ended
    }),
  )
  return ends.filter(
    ({ status, code, messages }) => status === 101 && code === 1000 && messages[0] === 'here',
  ).length
}

for (const build of BUILDS) {
  const node = nodeWith(build)
  const skip = node === null ? `${build} does not load here` : false

  t.test(`${build}: every WebSocket that the edge opens stays open`, { skip }, async (t) => {
    const port = await serve(t, node!, { build, server: 'edge' })
    for (const [name, connection] of Object.entries(CONNECTIONS))
      t.equal(await heard(port, connection), CLIENTS, name)
  })

  t.test(`${build}: what an upgrade in a later turn comes to`, { skip }, async (t) => {
    const port = await serve(t, node!, { build, server: 'late' })
    for (const [name, connection] of Object.entries(CONNECTIONS)) {
      const isHit = build === FAULTY && connection.startsWith('close\r\n')
      t.equal(await heard(port, connection), isHit ? 0 : CLIENTS, name)
    }
  })
}

t.test('the edge upgrades in no later turn', async (t) => {
  const { port } = await startEdge(t, [
    {
      method: 'GET',
      path: ECHO_PATH,
      socket: { maxMessageBytes: 1024 },
      async handle(exchange) {
        await new Promise(setImmediate)
        const listener = { onOpen() {}, onMessage() {}, onClose() {}, onStopping() {} }
        exchange.upgrade({ status: 101, protocol: null, listener })
      },
    },
  ])
  const client = new RawClient(port)
  client.socket.write(handshake(port, '', { path: ECHO_PATH }))
  t.equal(await client.opened(), 500)
  client.socket.destroy()
})
