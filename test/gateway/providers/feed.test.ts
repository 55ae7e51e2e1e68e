import { execFileSync } from 'node:child_process'
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type ModelsDocument, SHIPPED } from '../../../src/gateway/providers/facts.ts'
import { modelKeys, modelsInForce, readFeed, signModels } from '../../../src/gateway/providers/feed.ts'

const { publicKey, privateKey } = generateKeyPairSync('ed25519')
const KEYS = [publicKey]
const OWN = JSON.parse(
  readFileSync(new URL('../../../src/gateway/providers/models.json', import.meta.url), 'utf8'),
) as ModelsDocument

const LATER = '2099-01-01T00:00:00.000Z'
const EARLIER = '2026-01-01T00:00:00.000Z'

function signed(change: Partial<ModelsDocument> = {}, key: KeyObject = privateKey): string {
  return JSON.stringify(signModels({ ...OWN, issued_at: LATER, ...change }, key))
}

/** The document with a price of its own for whisper-1. */
function priced(usd: number): ModelsDocument['models'] {
  const whisper = { ...(OWN.models.openai?.['whisper-1'] as object), price: { per_hour_usd: usd } }
  return { ...OWN.models, openai: { ...OWN.models.openai, 'whisper-1': whisper } }
}

const refusal = (text: string, keys = KEYS) => {
  try {
    readFeed(text, keys)
  } catch (error) {
    return (error as Error).message
  }
  return null
}

t.test('a signed document is read, however its members are ordered', async (t) => {
  const table = readFeed(signed({ models: priced(9) }), KEYS)
  t.match(table, { issuedAt: LATER, origin: 'stored' })
  t.match(table.factsOf('openai', 'whisper-1'), { price: { per_hour_usd: 9 } })
  t.match(SHIPPED.factsOf('openai', 'whisper-1'), { price: { per_hour_usd: 0.36 } }, 'the other one stays')
  const parts = Object.entries(JSON.parse(signed()) as object).reverse()
  t.equal(readFeed(JSON.stringify(Object.fromEntries(parts)), KEYS).all().length, SHIPPED.all().length)
})

t.test('tampered, by another key, unsigned, malformed: refused with a sentence', async (t) => {
  const other = generateKeyPairSync('ed25519')
  const untrusted = /^its signature is not by a key that is trusted here, or it was changed/
  t.match(refusal(signed().replace('0.36', '0.35')), untrusted)
  t.match(refusal(signed().replace(LATER, '2098-01-01T00:00:00.000Z')), untrusted)
  t.match(refusal(signed({}, other.privateKey)), untrusted)
  t.equal(refusal(signed({}, other.privateKey), [publicKey, other.publicKey]), null, 'one of them is enough')
  t.match(refusal(JSON.stringify({ ...OWN, signature: 'AAAA' })), untrusted)
  t.match(refusal(JSON.stringify({ ...OWN, signature: 'A'.repeat(1_000_000) })), untrusted)
  t.equal(refusal(JSON.stringify(OWN)), 'it has no signature')
  for (const text of ['', '{', '[]', 'null', '"x"']) t.equal(refusal(text), 'it is not a JSON object', text)
  t.equal(refusal(`"${'x'.repeat(5 * 1024 * 1024)}"`), 'it is larger than 4 MiB')
})

t.test('what is signed has to be readable as a whole', async (t) => {
  const cannot = (change: object) =>
    t.match(
      refusal(signed(change as Partial<ModelsDocument>)),
      /^it holds what this version of Larkway cannot read: \S/,
    )
  cannot({ format: 2 })
  cannot({ issued_at: 'yesterday' })
  cannot({ issued_at: '2099-13-45T99:00:00.000Z' })
  cannot({ more: true })
  cannot({ models: { openai: { x: { as_of: '2026-11-24' } } } })
  cannot({
    models: { ...OWN.models, openai: { x: { ...(OWN.models.openai?.['tts-1'] as object), featurs: [] } } },
  })
  cannot({
    models: { openai: { x: { ...(OWN.models.openai?.['tts-1'] as object), price: { per_hour_usd: -1 } } } },
  })
  const odd = readFeed(signed({ models: { ...OWN.models, constructor: {}, elsewhere: {} } }), KEYS)
  t.equal(odd.factsOf('toString', 'whisper-1'), undefined)
})

t.test('which document holds: the newer one, unless an older one was forced', async (t) => {
  const inForce = (issued_at: string, over: string) =>
    modelsInForce({ text: signed({ issued_at }), over }, KEYS).table.origin
  t.same(modelsInForce(null, KEYS), { table: SHIPPED, refused: null })
  t.equal(inForce(LATER, EARLIER), 'stored')
  t.equal(inForce(EARLIER, SHIPPED.issuedAt), 'stored', 'forced over that of the program')
  t.equal(inForce(EARLIER, EARLIER), 'shipped', 'the program came to be newer than both')
  const foreign = { text: signed({}, generateKeyPairSync('ed25519').privateKey), over: EARLIER }
  t.match(modelsInForce(foreign, KEYS), { table: SHIPPED, refused: /^its signature/ })
})

t.test('no key is trusted unless one is set, and the refusal names the setting', async (t) => {
  t.same(modelKeys(undefined), [])
  t.match(
    refusal(signed(), modelKeys(undefined)),
    /^LARKWAY_MODELS_KEYS is not set; set it to the public key/,
  )
  const stored = { text: signed(), over: EARLIER }
  t.match(modelsInForce(stored, modelKeys(undefined)), { table: SHIPPED, refused: /^LARKWAY_MODELS_KEYS/ })
})

t.test('keys are 32 bytes in either base64', async (t) => {
  const { x = '' } = publicKey.export({ format: 'jwk' })
  const plain = Buffer.from(x, 'base64url').toString('base64')
  for (const text of [x, plain]) t.equal(refusal(signed(), modelKeys(text)), null)
  for (const text of ['', 'AAAA', `${x}AA`, 'ä'.repeat(43)])
    t.throws(() => modelKeys(text), /must be base64/, text)
})

t.test('the script signs the document of the program', async (t) => {
  const folder = t.testdir({ 'key.pem': privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() })
  const script = new URL('../../../scripts/sign-models.ts', import.meta.url).pathname
  const run = (...more: string[]) =>
    execFileSync(process.execPath, [script, join(folder, 'key.pem'), ...more], { encoding: 'utf8' })
  t.equal(readFeed(run(), KEYS).issuedAt, SHIPPED.issuedAt)
  t.equal(readFeed(run(LATER), KEYS).issuedAt, LATER)
})
