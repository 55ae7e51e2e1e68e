import t from 'tap'
import { languageCode } from '../../src/providers/language.ts'

t.test('names, codes and tags become ISO 639', async (t) => {
  const rows: [string, string | null][] = [
    ['english', 'en'],
    ['English', 'en'],
    [' german ', 'de'],
    ['castilian', 'es'],
    ['haitian creole', 'ht'],
    ['cantonese', 'yue'],
    ['hawaiian', 'haw'],
    ['en', 'en'],
    ['EN-us', 'en'],
    ['zh_Hant_TW', 'zh'],
    ['yue', 'yue'],
    ['eng', 'en'],
    ['DEU', 'de'],
    ['zho-Hans', 'zh'],
    ['ceb', 'ceb'],
    ['xyz', 'xyz'],
    ['', null],
    ['klingonese', null],
    ['x', null],
    ['en us', null],
    ['en\r\nx: y', null],
    ['constructor', null],
  ]
  for (const [given, expected] of rows) t.equal(languageCode(given), expected, JSON.stringify(given))
})
