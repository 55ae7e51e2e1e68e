import { spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { Cancellation } from '../../../src/contracts/cancellation.ts'
import type { ApiKeys, Principal } from '../../../src/contracts/catalog.ts'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { authenticate } from '../../../src/gateway/call/authentication.ts'
import { CallContext } from '../../../src/gateway/call/context/call-context.ts'
import { hashKey, looksLikeKey, makeKey } from '../../../src/gateway/catalog/key.ts'
import { tempFolder } from '../../support/scratch.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const PROGRAM = fileURLToPath(new URL('./key-memory.ts', import.meta.url))

t.test('whether a key is in force is asked at each request', (t) => {
  const key = makeKey()
  const clock = new VirtualClock()
  const expiresAtMs = clock.wallNow() + 60_000
  const holder = (expiresAtMs: number) =>
    ({ route: { name: 'a', version: 'pv_1' }, key: { expiresAtMs } }) as unknown as Principal
  let inForce: Principal | undefined = holder(expiresAtMs)
  const asked: string[] = []
  const find = (sha256: string) => {
    asked.push(sha256)
    return inForce
  }
  const keys = { find } as unknown as ApiKeys
  const ask = (authorization = `Bearer ${key}`, from = keys) =>
    authenticate(
      { keys: from, clock },
      new CallContext({ requestId: 'r', signal: new Cancellation() }),
      authorization,
    )

  t.equal(ask().principal, inForce)
  t.equal(ask().principal, inForce)
  inForce = holder(clock.wallNow())
  t.throws(() => ask(), { code: 'UNAUTHENTICATED' }, 'expired')
  inForce = undefined
  t.throws(() => ask(), { code: 'UNAUTHENTICATED' }, 'revoked')
  inForce = holder(expiresAtMs)
  t.equal(ask().principal, inForce, 'in force again')
  t.same(asked, Array(5).fill(hashKey(key)))

  const other = `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`
  const away = { find: () => raise(new GatewayError('DEPENDENCY_UNAVAILABLE')) } as unknown as ApiKeys
  t.throws(() => ask(`Bearer ${key}`, away), { code: 'DEPENDENCY_UNAVAILABLE' })
  t.throws(() => ask(`Bearer ${other}`, away), { code: 'UNAUTHENTICATED' }, 'its check digits are wrong')
  t.end()
})

function raise(error: Error): never {
  throw error
}

t.test('no key stays in memory once its request is over', async (t) => {
  const folder = await tempFolder(t)
  const snapshot = join(folder, 'heap.heapsnapshot')
  const { stdout } = spawnSync(process.execPath, ['--no-warnings', '--expose-gc', PROGRAM, snapshot])
  const key = `${stdout}`.trim()
  t.ok(looksLikeKey(key))
  const heap = await readFile(snapshot, 'utf8')
  t.ok(heap.includes(hashKey(key)), 'the snapshot has the hash of the key')
  t.notOk(heap.includes(key))
})
