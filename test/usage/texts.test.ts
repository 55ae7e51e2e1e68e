import fc from 'fast-check'
import { test } from 'tap'
import { PackedTexts, pickTexts, TextDictionary, wantedTexts } from '../../src/usage/texts.ts'

/** Of all lengths around a word, with bytes of 0 at their end, and alike. */
const text = fc.oneof(
  fc.string({ maxLength: 12, unit: 'binary' }),
  fc.constantFrom(
    '',
    '\0',
    '\0\0\0\0',
    'a',
    'a\0',
    'a\0\0',
    'abcd',
    'abcd\0',
    'abcdefg',
    'abcdefgh',
    'ü',
    '漢字漢字',
  ),
  fc.integer({ min: 0, max: 50 }).map((number) => `user-${number}`),
)
const unordered = fc.array(text, { maxLength: 40 })
/** Those of tables are in order, and mostly the same ones. */
const lists = fc.array(
  fc.oneof(
    unordered,
    unordered.map((texts) => [...new Set(texts)].sort()),
  ),
  { maxLength: 6 },
)

test('texts are the same packed, numbered and as they were given', (t) => {
  fc.assert(
    fc.property(lists, (given) => {
      const dictionary = new TextDictionary()
      const numbers = new Map<string, number>()
      for (const [at, texts] of given.entries()) {
        const list = at % 2 === 0 ? PackedTexts.of(texts) : texts
        const numbered = dictionary.numbered(list)
        for (const [place, one] of texts.entries()) {
          const number = numbers.get(one) ?? numbers.size
          numbers.set(one, number)
          if (numbered.numbers[place] !== number || numbered.at(place) !== one) return false
          if (list.at(place) !== one || dictionary.find(one) !== number) return false
        }
        if (JSON.stringify([...numbered]) !== JSON.stringify(texts)) return false
        if (JSON.stringify([...list]) !== JSON.stringify(texts)) return false
        if (numbered.at(texts.length) !== undefined || list.at(texts.length) !== undefined) return false
      }
      return dictionary.size === numbers.size && dictionary.find('not there, whatever is') === null
    }),
  )
  t.end()
})

test('a dictionary grows, and finds each of many texts again', (t) => {
  const dictionary = new TextDictionary()
  const texts = Array.from({ length: 5_000 }, (_, at) => `${'x'.repeat(at % 90)}${at}`)
  const { numbers } = dictionary.numbered(PackedTexts.of(texts))
  t.equal(dictionary.size, texts.length)
  t.same(dictionary.numbered(texts).numbers, numbers)
  t.ok(texts.every((one, at) => dictionary.textOf(numbers[at]!) === one))
  t.end()
})

test('texts in order are found behind one another, also where some are new and others gone', (t) => {
  const dictionary = new TextDictionary()
  const numbers = new Map<string, number>()
  const all = Array.from({ length: 3_000 }, (_, at) => `user-${at}`).sort()
  for (const left of [5, 7, 3, 1]) {
    const texts = all.filter((_, at) => at % left !== left - 1)
    const wanted = texts.map((one) => {
      const number = numbers.get(one) ?? numbers.size
      numbers.set(one, number)
      return number
    })
    t.same([...dictionary.numbered(PackedTexts.of(texts)).numbers], wanted)
  }
  t.end()
})

test('texts are wanted and picked alike, whatever list they are in', (t) => {
  const texts = ['ann', '', 'bob', 'ü']
  const numbered = new TextDictionary().numbered(texts)
  for (const list of [texts, PackedTexts.of(texts), numbered]) {
    t.same([...wantedTexts(list, new Set(['ü', '', null, 'nobody']))], [0, 1, 0, 1])
    t.same([...pickTexts(list, [3, 0])], ['ü', 'ann'])
  }
  t.end()
})
