import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { serveDns } from '../support/dns-server.ts'
import { tempFolder } from '../support/scratch.ts'
import { waitUntil } from '../support/wait-until.ts'
import { startNamedChats } from './named-chats.ts'

/** The file runs itself in a network of its own, where it may do as it likes. */
const IS_ALONE = process.env.LARKWAY_TEST_NETWORK === 'own'
const NETWORK = ['--mount', '--net']
const SERVER = '10.9.0.2'
const PORT = 8080

/** Addresses by the first label of a name: IPv4, and IPv6 that leads nowhere. */
const ADDRESSES: Readonly<Record<string, readonly [v4: readonly string[], v6: readonly string[]]>> = {
  far: [[SERVER], ['2001:db8::1']],
  half: [['10.9.0.3', SERVER], []],
}

const run = (command: string) => execFileSync('sh', ['-c', command], { stdio: 'pipe' }).toString()

/** Links this network to another one, in which a provider of chats listens. */
async function startProvider(t: Test, folder: string) {
  const script = `
    import { createServer } from 'node:http'
    import { answerChat } from '${new URL('./named-chats.ts', import.meta.url)}'
    createServer(answerChat).listen(${PORT}, '0.0.0.0', () => console.log('listening'))`
  const provider = spawn('unshare', ['--net', process.execPath, '--input-type=module', '--eval', script])
  t.teardown(() => provider.kill('SIGKILL'))
  await once(provider.stdout, 'data')
  const there = `nsenter --net --target ${provider.pid}`
  run(
    `ip link set lo up && ip link add near type veth peer name far && ip link set far netns ${provider.pid}`,
  )
  run(`ip addr add 10.9.0.1/24 dev near && ip link set near up && ${there} ip link set far up`)
  await writeFile(join(folder, 'resolv.conf'), 'nameserver 127.0.0.1\n')
  run(`mount --bind '${join(folder, 'resolv.conf')}' /etc/resolv.conf`)
  return {
    appear: () => run(`${there} ip addr add ${SERVER}/24 dev far`),
    vanish: () => run(`${there} ip addr del ${SERVER}/24 dev far && ip neigh flush dev near`),
  }
}

async function tryNetwork(t: Test): Promise<void> {
  const { appear, vanish } = await startProvider(t, await tempFolder(t))
  const answer = ({ name, type }: { readonly name: string; readonly type: string | null }) => {
    const [v4, v6] = ADDRESSES[name.split('.', 1)[0]!] ?? [[], []]
    if (type === 'A') return { records: v4.map((data) => ({ type, data }) as const) }
    return { records: type === 'AAAA' ? v6.map((data) => ({ type, data }) as const) : [] }
  }
  await serveDns(t, answer, { port: 53, address: '127.0.0.1' })
  const call = await startNamedChats(t, PORT, { far: ['far'], half: ['half'] })
  const far = call('far')
  // The first packet has gone to where nothing is. It is sent again after a second.
  t.ok(await waitUntil(() => run(`ip neigh show ${SERVER}`).includes('INCOMPLETE')))
  appear()
  t.equal((await far).status, 200, 'a first packet that is lost is no failure')
  const first = await call('half')
  const next = await call('half')
  t.same([first.status, next.status], [200, 200], 'one dead address of two is none either')
  t.ok(
    next.tookMs < first.tookMs / 3,
    `${next.tookMs} ms after ${first.tookMs}: it is tried last from then on`,
  )
  vanish()
  t.equal((await call('half')).status, 502)
}

if (IS_ALONE) t.test('in a network of its own', tryNetwork)
else {
  const canHave = spawnSync('unshare', [...NETWORK, 'ip', 'link', 'add', 'near', 'type', 'veth']).status === 0
  const skip = canHave ? false : 'a network of its own needs root, unshare, and ip with virtual links'
  t.test('a provider that is far away, or has a dead address', { skip, timeout: 90_000 }, async (t) => {
    const env = { ...process.env, LARKWAY_TEST_NETWORK: 'own' }
    const own = promisify(execFile)('unshare', [...NETWORK, process.execPath, import.meta.filename], { env })
    const { stdout } = await own.catch((error: { stdout: string }) => error)
    t.match(stdout, /^ok 1 - in a network of its own/m)
    t.notMatch(stdout, /^\s*not ok/m)
  })
}
