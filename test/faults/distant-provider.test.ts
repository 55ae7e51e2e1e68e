import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { serveDns } from '../support/dns-server.ts'
import { tenantsOf } from '../support/fleet.ts'
import { startLarkway } from '../support/larkway.ts'
import { tempFolder } from '../support/scratch.ts'

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

const run = (command: string) => void execFileSync('sh', ['-c', command], { stdio: 'pipe' })

/** Links this network to another one, in which a provider of chats listens. */
async function startProvider(t: Test, folder: string) {
  const script = `
    require('node:http').createServer((request, response) => {
      request.resume().on('end', () => {
        const message = { role: 'assistant', content: 'good' }
        const choices = [{ index: 0, message, finish_reason: 'stop' }]
        const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
        response.writeHead(200, { 'content-type': 'application/json', connection: 'close' })
        response.end(JSON.stringify({ id: 'c', object: 'chat.completion', choices, usage }))
      })
    }).listen(${PORT}, '0.0.0.0', () => console.log('listening'))`
  const provider = spawn('unshare', ['--net', process.execPath, '--eval', script])
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

async function startCaller(t: Test) {
  const account = (host: string) => ({
    kind: 'openai-compatible',
    access: 'platform',
    base_url: `http://${host}.test:${PORT}/v1`,
    capabilities: ['text'],
  })
  const price = { per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 1 }
  const workspaceOf = (provider: string) => ({
    entries: [{ provider, model: 'gpt-4o-mini', price }],
    terms: { credits_usd: 1_000, grant_id: 'first' },
  })
  const tenants = tenantsOf({
    providers: { far: account('far'), half: account('half') },
    workspaces: { far: workspaceOf('far'), half: workspaceOf('half') },
  })
  const { url } = await startLarkway(t, { config: tenants.config })
  return async (workspace: string) => {
    const beganMs = performance.now()
    const response = await fetch(`${url}/v1/chat`, {
      method: 'POST',
      headers: { authorization: tenants.authorizationOf(workspace), 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }] }),
    })
    await response.arrayBuffer()
    return { status: response.status, tookMs: performance.now() - beganMs }
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
  const call = await startCaller(t)
  const far = call('far')
  // Longer than Node waits for an address by itself. The first packet is sent again after a second.
  await sleep(600)
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
