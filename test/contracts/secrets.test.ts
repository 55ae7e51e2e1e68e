import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { keptText, readSecretKeys } from '../../src/contracts/secrets.ts'

const KEY = Buffer.alloc(32, 7)

t.test('keys come from the environment, the first one first', async (t) => {
  const other = Buffer.alloc(32, 8)
  const given = `${KEY.toString('base64')}, ${other.toString('base64')}`
  t.same(await readSecretKeys(given, '/nowhere'), [KEY, other])
})

t.test('what is no key is refused without being repeated', async (t) => {
  for (const given of ['secret', '', Buffer.alloc(31).toString('base64')]) {
    await t.rejects(readSecretKeys(given, '/nowhere'), {
      message: 'LARKWAY_SECRET_KEYS must hold 32 bytes in base64 for each key',
    })
  }
})

t.test('without any given the data folder has one, for its owner alone', async (t) => {
  const folder = join(t.testdir(), 'data')
  const [first] = await readSecretKeys(undefined, folder)
  t.equal(first?.length, 32)
  t.same(await readSecretKeys(undefined, folder), [first], 'and keeps it')
  t.equal((await stat(join(folder, 'secret-key'))).mode & 0o777, 0o600)
})

t.test('many that come at once agree', async (t) => {
  const path = join(t.testdir(), 'one')
  const texts = await Promise.all(
    Array.from({ length: 20 }, (_, index) => keptText(path, () => `made by ${index}`)),
  )
  t.equal(new Set(texts).size, 1)
})
