import { execFile, spawnSync } from 'node:child_process'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { larkway } from '../support/cli.ts'
import { type DnsAnswer, type DnsQuestion, serveDns } from '../support/dns-server.ts'
import { serveHttp } from '../support/http-server.ts'
import { tempFolder } from '../support/scratch.ts'
import { answerChat, startNamedChats } from './named-chats.ts'

const CALLS = 40
/** More than Node looks up at a time by itself. */
const SILENT = ['silent-a', 'silent-b', 'silent-c', 'silent-d']
/** An address of this machine that no other name server has. */
const PLACE = { port: 53, address: '127.53.0.1' }

const mounting = ['--mount', 'mount', '--bind', '/etc/hosts', '/etc/resolv.conf']
const canMount = spawnSync('unshare', mounting).status === 0
const skip = canMount ? false : 'a resolver of its own needs root, and unshare'

const statusOf = ({ status }: { readonly status: number }) => status

/** Gives all hosts an address of this machine, and leaves those of silent name servers without an answer. */
function answerHeard({ name, type }: DnsQuestion): DnsAnswer | null {
  if (name.startsWith('silent-')) return null
  return { records: type === 'A' ? [{ type, data: '127.0.0.1' }] : [] }
}

/** A Node whose process has a name server of its own. */
async function nodeWithResolver(t: Test, server = PLACE.address): Promise<string> {
  const folder = await tempFolder(t)
  const [conf, node] = [join(folder, 'resolv.conf'), join(folder, 'node')]
  await writeFile(conf, `nameserver ${server}\n`)
  const mount = `mount --bind '${conf}' /etc/resolv.conf && exec '${process.execPath}' "$@"`
  await writeFile(node, `#!/bin/sh\nexec unshare --mount sh -c '${mount.replaceAll("'", `'"'"'`)}' sh "$@"\n`)
  await chmod(node, 0o755)
  return node
}

t.test(
  'silent name servers of some providers keep no other from being found',
  { skip, timeout: 60_000 },
  async (t) => {
    const lookingUp = Promise.withResolvers<void>()
    const { asked } = await serveDns(
      t,
      (question) => {
        if (question.name === `${SILENT[1]}.test`) lookingUp.resolve()
        return answerHeard(question)
      },
      PLACE,
    )
    const { port } = new URL(await serveHttp(t, answerChat))
    const node = await nodeWithResolver(t)
    const routes = Object.fromEntries(SILENT.map((name) => [name, [name, 'heard']]))
    const call = await startNamedChats(t, Number(port), { ...routes, other: ['heard'] }, { node })
    const statuses = async (workspace: string) =>
      new Set((await Promise.all(Array.from({ length: CALLS }, () => call(workspace)))).map(statusOf))

    let answered = 0
    const silent = SILENT.map((name) => statuses(name).finally(() => answered++))
    await lookingUp.promise
    t.same(await statuses('other'), new Set([200]), 'another provider answers all of its calls')
    t.equal(answered, 0, 'meanwhile')
    t.same(
      await Promise.all(silent),
      Array(SILENT.length).fill(new Set([200])),
      'and the next entry the others',
    )
    for (const name of SILENT) {
      const times = asked.filter((question) => question === `${name}.test A`).length
      t.ok(times > 0 && times < CALLS / 2, `${name} was asked for once at a time`)
    }
  },
)

t.test('and `larkway doctor` finds the others well', { skip, timeout: 120_000 }, async (t) => {
  await serveDns(t, answerHeard, PLACE)
  const { port } = new URL(
    await serveHttp(t, (_, response) => response.end('{"data":[{"id":"gpt-4o-mini"}]}')),
  )
  const account = (name: string) => ({
    ...{ kind: 'openai-compatible', access: 'byok', workspace: 'acme', capabilities: ['text'] },
    base_url: `http://${name}.test:${port}/v1`,
  })
  const folder = await tempFolder(t)
  const names = [...SILENT, 'heard']
  const config = {
    providers: Object.fromEntries(names.map((name) => [name, account(name)])),
    routes: {
      all: { workspace: 'acme', entries: names.map((provider) => ({ provider, model: 'gpt-4o-mini' })) },
    },
    workspaces: { acme: { apps: { web: { route: 'all' } } } },
  }
  await writeFile(join(folder, 'larkway.json'), JSON.stringify(config))
  const node = await nodeWithResolver(t)
  const env = { LARKWAY_CONFIG: join(folder, 'larkway.json'), LARKWAY_DATA: join(folder, 'data') }
  const { output } = await larkway(['doctor'], { node, env })
  t.match(output, /^ok +provider heard /m)
  for (const name of SILENT) t.match(output, new RegExp(`^fault +provider ${name} `, 'm'))
})

t.test(
  'name servers that the machine has after the start are asked for hosts of callers',
  { skip },
  async (t) => {
    await serveDns(t, answerHeard, PLACE)
    const script = `
    import { writeFile } from 'node:fs/promises'
    import { createResolver } from './src/gateway/outbound/public-host.ts'
    const { signal } = new AbortController()
    const resolve = createResolver()
    const before = await resolve('late.test', signal).catch(({ code }) => code)
    await writeFile('/etc/resolv.conf', 'nameserver ${PLACE.address}\\n')
    console.log(JSON.stringify([before, await resolve('late.test', signal)]))
  `
    const node = await nodeWithResolver(t, '127.53.0.9')
    const cwd = new URL('../..', import.meta.url)
    const { stdout } = await promisify(execFile)(node, ['--input-type=module', '--eval', script], { cwd })
    t.same(JSON.parse(stdout), ['ECONNREFUSED', ['127.0.0.1']])
  },
)
