import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { countWordErrors } from '../../../src/gateway/call/compare/word-errors.ts'
import { pythonClient } from '../../support/python-client.ts'
import { tempFolder } from '../../support/scratch.ts'
import { drawPairs, SEED } from './word-pairs.ts'

const jiwer = await pythonClient('jiwer')

t.test("50 pairs by Python's jiwer", { skip: jiwer.skip, timeout: 120_000 }, async (t) => {
  t.comment(`WORDS_SEED=${SEED}`)
  // jiwer has no rate for a text without a word.
  const pairs = drawPairs()
    .filter(([one]) => one !== '')
    .slice(0, 50)
  const file = join(await tempFolder(t), 'pairs.json')
  await writeFile(file, JSON.stringify(pairs))
  const rates = await jiwer.run('jiwer-rates.py', [file])
  t.equal(rates.length, 50)
  t.ok(rates.filter(({ rate }) => Number(rate) > 0.1).length > 10, 'many of them differ')
  for (const [index, [one, other]] of pairs.entries()) {
    const { words, errors } = (await countWordErrors(one, other))!
    t.ok(Math.abs(errors / words - Number(rates[index]?.rate)) < 1e-9, `${errors} of ${words}`)
  }
})
