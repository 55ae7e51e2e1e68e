import t from 'tap'
import { Cancellation } from '../../src/cancellation.ts'
import { hashKey, makeKey } from '../../src/catalog/key.ts'
import type { ApiKeys, Principal } from '../../src/contracts/catalog.ts'
import { authenticate } from '../../src/gateway/authentication.ts'
import { CallContext } from '../../src/gateway/call-context.ts'

t.test('whether a key is in force is asked at each request, also of one whose hash is remembered', (t) => {
  const key = makeKey()
  const expiresAtMs = Date.now() + 60_000
  const holder = (expiresAtMs: number) =>
    ({ route: { name: 'a', version: 'pv_1' }, key: { expiresAtMs } }) as unknown as Principal
  let inForce: Principal | undefined = holder(expiresAtMs)
  const asked: string[] = []
  const find = (sha256: string) => {
    asked.push(sha256)
    return inForce
  }
  const keys = { find } as unknown as ApiKeys
  const ask = (authorization = `Bearer ${key}`) =>
    authenticate(keys, new CallContext({ requestId: 'r', signal: new Cancellation() }), authorization)

  t.equal(ask().principal, inForce)
  t.equal(ask().principal, inForce)
  inForce = holder(Date.now() - 1)
  t.throws(() => ask(), { code: 'UNAUTHENTICATED' }, 'expired')
  inForce = undefined
  t.throws(() => ask(), { code: 'UNAUTHENTICATED' }, 'revoked')
  inForce = holder(expiresAtMs)
  t.equal(ask().principal, inForce, 'in force again')
  t.same(asked, Array(5).fill(hashKey(key)))

  const other = `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`
  t.throws(() => ask(`Bearer ${other}`), { code: 'UNAUTHENTICATED' }, 'another key by one character')
  t.equal(asked.length, 5, 'whose check digits are wrong, so that nobody is asked')
  t.end()
})
