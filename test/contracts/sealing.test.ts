import { createHash, hkdfSync, randomBytes } from 'node:crypto'
import t from 'tap'
import { type SealContext, seal, unseal } from '../../src/contracts/sealing.ts'

const KEY = randomBytes(32)
const OTHER = randomBytes(32)
const CONTEXT: SealContext = { purpose: 'webhook', workspace: 'acme' }
const SECRET = `whsec_${randomBytes(32).toString('base64')}`

t.test('what was sealed opens, whatever it is', async (t) => {
  for (const plain of [SECRET, '', 'bücher 🐦', 'x'.repeat(100_000)]) {
    t.equal(unseal([KEY], seal([KEY], plain, CONTEXT), CONTEXT), plain)
  }
})

t.test('a sealed text shows nothing, and is another one each time', async (t) => {
  const texts = Array.from({ length: 1_000 }, () => seal([KEY], SECRET, CONTEXT))
  t.equal(new Set(texts).size, texts.length)
  t.equal(new Set(texts.map((text) => text.split('.')[2]?.slice(0, 16))).size, texts.length, 'by its nonce')
  for (const text of texts) t.match(text, /^sealed1\.[0-9a-f]{8}\.[A-Za-z0-9_-]+$/)
  const parts = [SECRET, SECRET.slice(6), KEY.toString('hex'), KEY.toString('base64url').slice(0, 8)]
  const whole = texts.join('\n')
  for (const part of parts) t.notOk(whole.includes(part))
})

t.test('it opens for its own workspace and purpose only: 1,000 swaps', async (t) => {
  const workspaces = Array.from({ length: 1_000 }, (_, index) => `workspace-${index}`)
  const sealed = workspaces.map((workspace) =>
    seal([KEY], `secret of ${workspace}`, { purpose: 'webhook', workspace }),
  )
  let own = 0
  let foreign = 0
  for (const [index, workspace] of workspaces.entries()) {
    const swapped = sealed[(index + 1 + (index % 998)) % sealed.length] ?? ''
    if (unseal([KEY], sealed[index] ?? '', { purpose: 'webhook', workspace }) === `secret of ${workspace}`)
      own++
    if (unseal([KEY], swapped, { purpose: 'webhook', workspace }) !== null) foreign++
  }
  t.same([own, foreign], [1_000, 0])

  const text = seal([KEY], SECRET, { purpose: 'a', workspace: 'b,c' })
  for (const context of [
    { purpose: 'b', workspace: 'b,c' },
    { purpose: 'a,b', workspace: 'c' },
    { purpose: 'a","b', workspace: 'c' },
    { purpose: 'ab', workspace: ',c' },
    { purpose: '', workspace: 'ab,c' },
  ]) {
    t.equal(unseal([KEY], text, context), null, JSON.stringify(context))
  }
})

t.test('no text with one bit changed opens, nor one cut or made longer', async (t) => {
  // Of every length modulo three, so that the last character of base64url has bits that stand for nothing.
  for (const plain of ['a', 'ab', 'abc', SECRET]) {
    const sealed = Buffer.from(seal([KEY], plain, CONTEXT))
    for (let bit = 0; bit < sealed.length * 8; bit += 1) {
      const flipped = Buffer.from(sealed)
      flipped[bit >> 3]! ^= 1 << (bit & 7)
      if (unseal([KEY], flipped.toString('latin1'), CONTEXT) !== null) t.fail(`bit ${bit} of ${plain}`)
    }
    for (let length = 0; length < sealed.length; length += 1) {
      if (unseal([KEY], sealed.toString('latin1', 0, length), CONTEXT) !== null)
        t.fail(`${length} characters`)
    }
    for (const more of ['A', 'AA', 'AAAA', '=', '\n', ' ', '.'])
      t.equal(unseal([KEY], sealed + more, CONTEXT), null)
    t.equal(unseal([KEY], sealed.toString(), CONTEXT), plain)
  }
})

t.test('what is no sealed text is no error either', async (t) => {
  const rubbish = [
    '',
    'sealed1',
    'sealed1..',
    'sealed1.00000000.',
    `sealed2.${'0'.repeat(8)}.AAAA`,
    SECRET,
    '🐦',
    '\0',
  ]
  for (const text of rubbish) t.equal(unseal([KEY], text, CONTEXT), null, JSON.stringify(text))
  const id = seal([KEY], '', CONTEXT).split('.')[1]
  for (let bytes = 0; bytes < 64; bytes += 1) {
    t.equal(unseal([KEY], `sealed1.${id}.${randomBytes(bytes).toString('base64url')}`, CONTEXT), null)
  }
  t.equal(unseal([], seal([KEY], SECRET, CONTEXT), CONTEXT), null, 'without a key')
  t.equal(unseal([Buffer.alloc(0)], seal([KEY], SECRET, CONTEXT), CONTEXT), null)
})

t.test('a new key goes in front, and the old one is dropped when nothing needs it any more', async (t) => {
  const before = seal([KEY], SECRET, CONTEXT)
  t.equal(unseal([OTHER, KEY], before, CONTEXT), SECRET, 'what the old one sealed')
  const after = seal([OTHER, KEY], SECRET, CONTEXT)
  t.equal(unseal([OTHER], after, CONTEXT), SECRET, 'the first one seals')
  t.equal(unseal([KEY], after, CONTEXT), null)
  t.equal(unseal([KEY, OTHER], after, CONTEXT), SECRET, 'wherever in the list it stands')
  t.equal(unseal([OTHER], before, CONTEXT), null, 'dropped')
})

t.test('the keys that encrypt are of this use alone', async (t) => {
  const [, id = '', text = ''] = seal([KEY], SECRET, CONTEXT).split('.')
  const hashes = [KEY, createHash('sha256').update(KEY).digest()].map((bytes) => bytes.toString('hex'))
  for (const hex of hashes) t.notOk(hex.startsWith(id), 'the id is not of the key itself')
  // Made by the definition of the format, so that a later change does not go unnoticed by what is stored.
  const derived = Buffer.from(hkdfSync('sha256', KEY, '', 'larkway sealing 1', 36))
  t.equal(id, derived.toString('hex', 32))
  const bytes = Buffer.from(text, 'base64url')
  const key = await crypto.subtle.importKey('raw', derived.subarray(0, 32), 'AES-GCM', false, ['decrypt'])
  const ciphertextAndTag = Buffer.concat([bytes.subarray(28), bytes.subarray(12, 28)])
  const plain = await crypto.subtle.decrypt(
    { name: 'AES-GCM', iv: bytes.subarray(0, 12), additionalData: Buffer.from('["webhook","acme"]') },
    key,
    ciphertextAndTag,
  )
  t.equal(Buffer.from(plain).toString(), SECRET)
})

t.test('without a key nothing is sealed, and nothing of the secret is told', async (t) => {
  t.throws(() => seal([], SECRET, CONTEXT), { message: 'sealing needs a key' })
})
