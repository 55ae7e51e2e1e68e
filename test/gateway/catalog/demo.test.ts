import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { CAPABILITIES } from '../../../src/contracts/calls.ts'
import { BUILT_IN_SANDBOX } from '../../../src/contracts/provider.ts'
import { demoKey, openDemo } from '../../../src/gateway/catalog/demo.ts'
import { hashKey, looksLikeKey, makeKey } from '../../../src/gateway/catalog/key.ts'
import { SURROUNDINGS } from '../../support/catalog-file.ts'

t.test('the demo serves one key, whose route the sandbox answers', async (t) => {
  const key = makeKey()
  const { keys, limits } = openDemo({ key, ...SURROUNDINGS }).current()
  t.same([...keys.keys()], [hashKey(key)])
  t.equal(limits.max_audio_bytes, 26_214_400)
  const principal = keys.get(hashKey(key))
  t.match(principal, { workspace: { id: 'demo' }, app: { id: 'demo' }, key: { id: 'key_demo' } })
  t.same(principal?.key.scopes, ['inference', 'jobs', 'queue', 'admin', 'operator'])
  const [entry, ...others] = principal?.route.entries ?? []
  t.same(others, [])
  t.match(entry, {
    model: 'morse-1',
    provider: { kind: 'sandbox', baseUrl: BUILT_IN_SANDBOX, access: 'byok' },
  })
  t.same([...(entry?.facts.capabilities ?? [])].sort(), [...CAPABILITIES].sort(), 'it serves every endpoint')
  t.equal(entry?.facts.translates, true)
})

t.test('the key is made at the first start and kept for its owner alone', async (t) => {
  const folder = join(t.testdir(), 'data')
  const made = await demoKey(folder, undefined)
  t.ok(looksLikeKey(made))
  t.equal(await demoKey(folder, undefined), made, 'the second start finds it')
  const path = join(folder, 'demo-key')
  t.equal(await readFile(path, 'utf8'), `${made}\n`)
  t.equal((await stat(path)).mode & 0o777, 0o600)
})

t.test('processes that start at once agree on one key, and leave no other file', async (t) => {
  const folder = t.testdir()
  const keys = await Promise.all(Array.from({ length: 20 }, () => demoKey(folder, undefined)))
  t.equal(new Set(keys).size, 1)
  t.same(await readdir(folder), ['demo-key'])
})

t.test('a key of the environment goes first, and has to be one', async (t) => {
  const folder = t.testdir()
  const given = makeKey()
  t.equal(await demoKey(folder, given), given)
  t.same(await readdir(folder), [])
  await t.rejects(demoKey(folder, 'my-own-words'), {
    message: 'LARKWAY_DEMO_KEY holds no API key of Larkway; "larkway key make" makes one',
  })
})

t.test('a file that holds something else is not replaced', async (t) => {
  const folder = t.testdir()
  await writeFile(join(folder, 'demo-key'), 'my notes')
  await t.rejects(demoKey(folder, undefined), /demo-key holds no API key of Larkway/)
  t.equal(await readFile(join(folder, 'demo-key'), 'utf8'), 'my notes')
})
