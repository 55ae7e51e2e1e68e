import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import t from 'tap'
import { hashKey, keyPrefix, looksLikeKey, makeKey } from '../../../src/gateway/catalog/key.ts'

/** Base62 read back, to compare the check digits with zlib's own figure. */
function numberOf(text: string): number {
  const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
  return [...text].reduce((sum, digit) => sum * 62 + digits.indexOf(digit), 0)
}

t.test('a new key has the documented shape, and check digits that are the CRC-32 of the rest', async (t) => {
  const keys = Array.from({ length: 500 }, makeKey)
  for (const key of keys) {
    if (!/^lk_live_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$/.test(key)) t.fail(key)
    if (numberOf(key.slice(-6)) !== crc32(key.slice(0, -7))) t.fail(`check digits of ${key}`)
    if (!looksLikeKey(key)) t.fail(`${key} is refused`)
  }
  t.equal(new Set(keys).size, keys.length, 'no key is made twice')
})

t.test('any single wrong character is found without a look-up', async (t) => {
  const key = makeKey()
  for (let at = 0; at < key.length; at++) {
    const wrong = key[at] === 'x' ? 'y' : 'x'
    const mistyped = key.slice(0, at) + wrong + key.slice(at + 1)
    if (looksLikeKey(mistyped)) t.fail(`${mistyped} was taken`)
  }
  const swapped = key.replace(/^(lk_live_.{10})(.)(.)/, '$1$3$2')
  t.equal(looksLikeKey(swapped), swapped === key, 'two characters changed places')
})

t.test('what is no key is refused', async (t) => {
  const key = makeKey()
  const others = [
    '',
    'lk_live_',
    `${key} `,
    ` ${key}`,
    `${key}\n`,
    key.slice(0, -1),
    `${key}0`,
    key.toUpperCase(),
    key.replace('lk_live', 'lk_test'),
    key.replace(/.$/, 'é'),
  ]
  for (const text of others) t.notOk(looksLikeKey(text), JSON.stringify(text))
})

t.test('a key is stored as its SHA-256, and shown as its first 12 characters', async (t) => {
  const key = makeKey()
  t.equal(hashKey(key), createHash('sha256').update(key).digest('hex'))
  t.equal(keyPrefix(key), key.slice(0, 12))
})
