import { readFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { startLarkway } from '../support/larkway.ts'

const MANY = 100_000
/** They take 52 MiB; with the garbage of reading them it was more than twice as much. */
const MEBIBYTES_MAX = 80
const KEY = makeKey()

/** Resident memory of a node that has just started with so many keys, and the status of a call with one of them. */
async function startWith(t: Test, count: number) {
  const further = Array.from({ length: count }, (_, i) => ({
    id: `key_${i}`,
    name: `key ${i}`,
    app: 'web',
    sha256: hashKey(`key ${i}`),
  }))
  const keys = [{ id: 'key_used', app: 'web', sha256: hashKey(KEY) }, ...further]
  const { pid, url, signal } = await startLarkway(t, {
    config: {
      providers: { sandbox: { kind: 'sandbox', access: 'byok', workspace: 'acme' } },
      routes: { voice: { workspace: 'acme', entries: [{ provider: 'sandbox', model: 'morse-1' }] } },
      workspaces: { acme: { apps: { web: { route: 'voice' } }, keys } },
    },
  })
  const { status } = await fetch(`${url}/v1/me`, { headers: { authorization: `Bearer ${KEY}` } })
  const kibibytes = /VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]
  await signal('SIGTERM')
  return { status, mebibytes: Number(kibibytes) / 1_024 }
}

t.test('100,000 keys of the configuration take little more memory than what is kept of them', async (t) => {
  const few = await startWith(t, 10)
  const many = await startWith(t, MANY)
  t.same([few.status, many.status], [200, 200])
  const more = many.mebibytes - few.mebibytes
  t.ok(more < MEBIBYTES_MAX, `${more.toFixed()} MiB more than ${few.mebibytes.toFixed()}`)
})
