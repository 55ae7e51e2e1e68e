import t from 'tap'
import { SentenceCutter } from '../../../src/gateway/live/sentences.ts'
import { Dice } from '../../support/dice.ts'

function cut(parts: readonly string[]): string[] {
  const cutter = new SentenceCutter()
  const sentences = parts.flatMap((part) => cutter.push(part))
  const rest = cutter.flush()
  return rest === null ? sentences : [...sentences, rest]
}

const CASES: readonly (readonly [text: string, sentences: readonly string[]])[] = [
  ['', []],
  [' \n ', []],
  ['Hello', ['Hello']],
  ['Hello. How are you? Fine!', ['Hello.', 'How are you?', 'Fine!']],
  ['It is 3.5 m long. Good.', ['It is 3.5 m long.', 'Good.']],
  ['Ask Dr. Smith or J. Doe. They know.', ['Ask Dr. Smith or J. Doe.', 'They know.']],
  ['apples, pears, etc. and more. Yes', ['apples, pears, etc. and more.', 'Yes']],
  ['"Really?" he said. "Yes." (No.) So', ['"Really?" he said.', '"Yes."', '(No.)', 'So']],
  ['Wait... What?! Oh…  Well', ['Wait...', 'What?!', 'Oh…', 'Well']],
  ['First line\nsecond line\n\nthird', ['First line', 'second line', 'third']],
  ['今日は。元気？「はい。」では', ['今日は。', '元気？', '「はい。」', 'では']],
  ['see example.com/a?b=c. Ok.', ['see example.com/a?b=c.', 'Ok.']],
]

t.test('text is cut where a sentence ends', async (t) => {
  for (const [text, sentences] of CASES) t.same(cut([text]), sentences, JSON.stringify(text))
})

t.test('the same text gives the same sentences however it comes', async (t) => {
  const text = `${CASES.map(([one]) => one).join(' ')} ${'word '.repeat(700)}${'x🐦'.repeat(900)}. End`
  const whole = cut([text])
  t.equal(whole.join(' ').replace(/\s/g, ''), text.replace(/\s/g, ''), 'no letter is lost')
  t.ok(whole.every(({ length }) => length <= 1_000))
  t.ok(whole.every((sentence) => sentence.isWellFormed()))
  const dice = new Dice(7)
  for (let round = 0; round < 50; round += 1) {
    const parts: string[] = []
    for (let at = 0; at < text.length; ) {
      const length = 1 + dice.below(round < 5 ? 1 : 40)
      parts.push(text.slice(at, at + length))
      at += length
    }
    t.same(cut(parts), whole)
  }
})

t.test('a text without an end takes time in proportion to its length', async (t) => {
  const secondsFor = (letter: string) => {
    const cutter = new SentenceCutter()
    const startMs = performance.now()
    for (let at = 0; at < 200_000; at += 1) cutter.push(letter)
    return (performance.now() - startMs) / 1000
  }
  for (const letter of ['.', '"', ' ', 'a', '\n', '。']) t.ok(secondsFor(letter) < 5, JSON.stringify(letter))
})
