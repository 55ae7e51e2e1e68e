import { randomBytes } from 'node:crypto'
import t from 'tap'
import { type SealContext, seal, unseal } from '../../../src/contracts/sealing.ts'
import { resolveSecret, sealCredential } from '../../../src/gateway/catalog/secret.ts'
import { buildSnapshot } from '../../../src/gateway/catalog/snapshot.ts'
import { BentFile, SURROUNDINGS } from '../../support/catalog-file.ts'

const KEY = randomBytes(32)
const OLD = randomBytes(32)

function sourcesWith(...keys: readonly Buffer[]) {
  return { ...SURROUNDINGS, open: (sealed: string, context: SealContext) => unseal(keys, sealed, context) }
}

const NOT_OPENED = {
  issue: /^must be sealed again for this provider: no key in LARKWAY_SECRET_KEYS opens it$/,
}

t.test('a sealed credential opens for its provider, under any of the keys', async (t) => {
  const sealed = sealCredential([OLD], 'acme.openai', 'sk-of-acme')
  t.match(sealed, /^sealed:sealed1\.[0-9a-f]{8}\.[\w-]+$/)
  t.notMatch(sealed, /sk-of-acme/)
  t.same(resolveSecret(sealed, 'acme.openai', sourcesWith(OLD)), { value: 'sk-of-acme' })
  t.same(resolveSecret(sealed, 'acme.openai', sourcesWith(KEY, OLD)), { value: 'sk-of-acme' })
})

t.test('and for nobody else', async (t) => {
  const sealed = sealCredential([KEY], 'acme.openai', 'sk-of-acme')
  t.match(resolveSecret(sealed, 'beta.openai', sourcesWith(KEY)), NOT_OPENED, 'copied to another provider')
  t.match(resolveSecret(sealed, 'acme.openai', sourcesWith(OLD)), NOT_OPENED, 'the key is gone')
  t.match(resolveSecret(sealed, 'acme.openai', sourcesWith()), NOT_OPENED)
  const webhook = seal([KEY], 'whsec_x', { purpose: 'webhook-secret', workspace: 'acme.openai' })
  for (const text of [`sealed:${webhook}`, 'sealed:', `${sealed}x`, sealed.replace('sealed:', 'sealed:x')])
    t.match(resolveSecret(text, 'acme.openai', sourcesWith(KEY)), NOT_OPENED)
})

t.test('what was sealed is a credential, or refused as what goes into no header', async (t) => {
  const of = (plain: string) => resolveSecret(sealCredential([KEY], 'p', plain), 'p', sourcesWith(KEY))
  t.same(of(' sk-x\n'), { value: 'sk-x' })
  const issue = { issue: 'the sealed text must hold a credential of printable ASCII characters' }
  for (const plain of ['', 'a b', 'sk-\r\nx: y', 'schlüssel']) t.same(of(plain), issue)
})

t.test('a file may hold it', async (t) => {
  const file = new BentFile().set('/providers/openai/api_key', sealCredential([KEY], 'openai', 'sk-sealed'))
  const reading = buildSnapshot(file.document, sourcesWith(KEY))
  t.equal('issues' in reading ? reading.issues : reading.providers[0]?.credential, 'sk-sealed')
  const without = buildSnapshot(file.document, SURROUNDINGS)
  t.match('issues' in without && without.issues, [
    /^\/providers\/openai\/api_key: must be sealed again for this provider: no key in LARKWAY_SECRET_KEYS opens it$/,
  ])
})

t.test('the longest credential that a provider may have fits in', async (t) => {
  const file = new BentFile().set(
    '/providers/openai/api_key',
    sealCredential([KEY], 'openai', 'k'.repeat(2500)),
  )
  t.ok('snapshot' in buildSnapshot(file.document, sourcesWith(KEY)))
})
