import { test } from 'tap'
import { trimBlanks, trimEndWhere, trimWhere } from '../../src/contracts/trim.ts'

test('both ends are trimmed, and nothing between them', (t) => {
  const isMark = (point: number) => /[\p{P}\p{S}]/u.test(String.fromCodePoint(point))
  for (const [text, trimmed] of [
    ['', ''],
    ['…', ''],
    ['«a-b»!', 'a-b'],
    ['💶a💶b💶', 'a💶b'],
    ['💶', ''],
    ['\ud83da\udcb6', '\ud83da\udcb6'],
  ] as const)
    t.equal(trimWhere(text, isMark), trimmed, text)
  t.equal(trimBlanks(' \t a \t b\u00a0\t '), 'a \t b\u00a0')
  t.equal(
    trimEndWhere('/a//', (point) => point === 0x2f),
    '/a',
  )
  t.end()
})
