import { spawnSync } from 'node:child_process'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { serveDns } from '../support/dns-server.ts'
import { tenantsOf } from '../support/fleet.ts'
import { serveHttp } from '../support/http-server.ts'
import { startLarkway } from '../support/larkway.ts'
import { tempFolder } from '../support/scratch.ts'

const CALLS = 40
/** An address of this machine that no other name server has. */
const PLACE = { port: 53, address: '127.53.0.1' }

const mounting = ['--mount', 'mount', '--bind', '/etc/hosts', '/etc/resolv.conf']
const canMount = spawnSync('unshare', mounting).status === 0
const skip = canMount ? false : 'a resolver of its own needs root, and unshare'

/** A Node whose process has the name server of the test. */
async function nodeWithResolver(t: Test): Promise<string> {
  const folder = await tempFolder(t)
  const [conf, node] = [join(folder, 'resolv.conf'), join(folder, 'node')]
  await writeFile(conf, `nameserver ${PLACE.address}\n`)
  const mount = `mount --bind '${conf}' /etc/resolv.conf && exec '${process.execPath}' "$@"`
  await writeFile(node, `#!/bin/sh\nexec unshare --mount sh -c '${mount.replaceAll("'", `'"'"'`)}' sh "$@"\n`)
  await chmod(node, 0o755)
  return node
}

t.test(
  'silent name servers of one provider keep no other from being found',
  { skip, timeout: 60_000 },
  async (t) => {
    const { asked } = await serveDns(
      t,
      ({ name, type }) => {
        if (name.startsWith('silent.')) return null
        return { records: type === 'A' ? [{ type, data: '127.0.0.1' }] : [] }
      },
      PLACE,
    )
    const choice = { index: 0, message: { role: 'assistant', content: 'good' }, finish_reason: 'stop' }
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    const origin = await serveHttp(t, (request, response) => {
      request.resume()
      request.on('end', () => {
        response.writeHead(200, { 'content-type': 'application/json', connection: 'close' })
        response.end(JSON.stringify({ id: 'c', object: 'chat.completion', choices: [choice], usage }))
      })
    })
    const { port } = new URL(origin)
    const account = (host: string) => ({
      kind: 'openai-compatible',
      access: 'platform',
      base_url: `http://${host}.test:${port}/v1`,
      capabilities: ['text'],
    })
    const price = { per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 1 }
    const entry = (provider: string) => ({ provider, model: 'gpt-4o-mini', price })
    const terms = { credits_usd: 1_000, grant_id: 'first' }
    const tenants = tenantsOf({
      providers: { silent: account('silent'), heard: account('heard') },
      workspaces: {
        both: { entries: [entry('silent'), entry('heard')], terms },
        other: { entries: [entry('heard')], terms },
      },
    })
    const node = await nodeWithResolver(t)
    const gateway = await startLarkway(t, { node, config: tenants.config })
    const call = async (workspace: string) => {
      const response = await fetch(`${gateway.url}/v1/chat`, {
        method: 'POST',
        headers: { authorization: tenants.authorizationOf(workspace), 'content-type': 'application/json' },
        body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }] }),
      })
      await response.arrayBuffer()
      return response.status
    }
    const statuses = async (workspace: string) =>
      new Set(await Promise.all(Array.from({ length: CALLS }, () => call(workspace))))

    t.equal(await call('other'), 200)
    const both = statuses('both')
    t.same(await statuses('other'), new Set([200]), 'another provider answers all of its calls meanwhile')
    t.same(await both, new Set([200]), 'and the next entry those that the silent one had first')
    t.ok(asked.includes('silent.test A'))
    t.ok(
      asked.filter((question) => question === 'silent.test A').length < CALLS / 2,
      'asked for once at a time',
    )
  },
)
