import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { openEmbeddedState } from '../../src/gateway/state/embedded/state.ts'
import { type LarkwayOptions, startLarkway } from '../support/larkway.ts'
import { tempFolder } from '../support/scratch.ts'
import { storedKey } from '../support/stored-key.ts'

const MANY = 100_000
/**
 * They take 52 MiB, those of the state 65, and 87 with what reading them leaves to be collected. It was twice as much
 * where the text was parsed here, and three times where all keys of the state came as one message.
 */
const MEBIBYTES_MAX = { configuration: 80, state: 110 }
const KEY = makeKey()

const ROUTED = {
  providers: { sandbox: { kind: 'sandbox', access: 'byok', workspace: 'acme' } },
  routes: { voice: { workspace: 'acme', entries: [{ provider: 'sandbox', model: 'morse-1' }] } },
} as const

/** Resident memory of a node, and the status of a call with the key; then it is stopped. */
async function lookAt(t: Test, options: LarkwayOptions) {
  const { pid, url, signal } = await startLarkway(t, options)
  const { status } = await fetch(`${url}/v1/me`, { headers: { authorization: `Bearer ${KEY}` } })
  const kibibytes = /VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]
  await signal('SIGTERM')
  return { status, mebibytes: Number(kibibytes) / 1_024 }
}

/** With so many keys in the configuration. */
function lookWith(t: Test, count: number) {
  const further = Array.from({ length: count }, (_, i) => ({
    id: `key_${i}`,
    name: `key ${i}`,
    app: 'web',
    sha256: hashKey(`key ${i}`),
  }))
  const keys = [{ id: 'key_used', app: 'web', sha256: hashKey(KEY) }, ...further]
  return lookAt(t, {
    config: { ...ROUTED, workspaces: { acme: { apps: { web: { route: 'voice' } }, keys } } },
  })
}

/** With so many keys in the state. */
async function lookWithStored(t: Test, count: number) {
  const dataFolder = await tempFolder(t)
  const state = await openEmbeddedState({
    file: join(dataFolder, 'state.sqlite'),
    log: pino({ level: 'silent' }),
  })
  const used = storedKey({ sha256: hashKey(KEY) })
  await state.keys.create(used)
  for (let from = 0; from < count; from += 5_000) {
    const some = Array.from({ length: Math.min(5_000, count - from) }, (_, i) => `key ${from + i}`)
    await Promise.all(
      some.map((name) => state.keys.create({ ...used, id: name, name, sha256: hashKey(name) })),
    )
  }
  await state.close()
  const config = { ...ROUTED, workspaces: { acme: { apps: { web: { route: 'voice' } } } } }
  return lookAt(t, { config, dataFolder })
}

for (const [where, look] of [
  ['configuration', lookWith],
  ['state', lookWithStored],
] as const)
  t.test(`100,000 keys of the ${where} take little more memory than what is kept of them`, async (t) => {
    const few = await look(t, 10)
    const many = await look(t, MANY)
    t.same([few.status, many.status], [200, 200])
    const more = many.mebibytes - few.mebibytes
    t.ok(more < MEBIBYTES_MAX[where], `${more.toFixed()} MiB more than ${few.mebibytes.toFixed()}`)
  })
