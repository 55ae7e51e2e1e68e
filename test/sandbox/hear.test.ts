import fc from 'fast-check'
import t from 'tap'
import { ALPHABET, UnspeakableError } from '../../src/sandbox/morse.ts'
import { speak, TooLongError, VOICES } from '../../src/sandbox/speak.ts'
import { recognize } from '../../src/sandbox/transcript.ts'
import { readWav } from '../../src/sandbox/wav.ts'
import { join, melody, noise, resample, sine } from '../support/tone.ts'

const TEXT = 'the quick brown fox: 42 jumps, (over) "lazy" dogs'
const RATE = 8000

function spoken(text: string, voice = 'alloy', speed = 1): Float32Array {
  return readWav(speak(text, VOICES[voice]!, speed))!.channels[0]!
}

function recording(samples: Float32Array, sampleRate = RATE) {
  return { sampleRate, bitsPerSample: 16, channels: [samples] }
}

/** What is heard, as one line; null when it is no Morse code. */
function heard(samples: Float32Array, sampleRate = RATE): string | null {
  return (
    recognize(recording(samples, sampleRate))
      ?.flatMap(({ words }) => words.map(({ text }) => text))
      .join(' ') ?? null
  )
}

function mixed(one: Float32Array, other: Float32Array): Float32Array {
  return one.map((sample, at) => sample + (other[at] ?? 0))
}

t.test('each character is heard by itself, and all in a row, in each voice', async (t) => {
  for (const character of ALPHABET) t.equal(heard(spoken(character)), character)
  for (const voice of Object.keys(VOICES)) {
    t.equal(heard(spoken(ALPHABET.join(''), voice)), ALPHABET.join(''), voice)
    const tone = recognize(recording(spoken('paris', voice)))?.[0]?.hertz ?? 0
    t.ok(Math.abs(tone - VOICES[voice]!) <= 2, `${voice} is ${VOICES[voice]} Hz, heard ${tone}`)
  }
})

t.test('any text comes back, but for case and white space', async (t) => {
  const word = fc.string({ unit: fc.constantFrom(...ALPHABET), minLength: 1, maxLength: 6 })
  const text = fc.array(word, { minLength: 1, maxLength: 5 }).map((words) => `a ${words.join(' ')} q`)
  const speed = fc.constantFrom(0.25, 0.5, 1, 1.7, 3, 4)
  const property = fc.property(text, speed, fc.constantFrom(...Object.keys(VOICES)), (said, fast, voice) => {
    const back = heard(spoken(said, voice, fast))
    if (back !== said) throw new Error(`heard ${back}`)
  })
  t.doesNotThrow(() => fc.assert(property, { numRuns: 60, seed: 7 }))
  t.equal(heard(spoken('  Hello\r\n\tWORLD ')), 'hello world')
})

t.test('what has no symbol is refused', async (t) => {
  for (const text of ['', ' \n', 'a%', '日本', 'a_b']) t.throws(() => speak(text, 600, 1), UnspeakableError)
  t.throws(() => speak('0'.repeat(4096), 600, 0.25), TooLongError)
})

t.test('neither rate nor level nor current nor noise matters', async (t) => {
  const said = spoken(TEXT)
  for (const rate of [4000, 6000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000]) {
    t.equal(heard(resample(said, RATE, rate), rate), TEXT, `${rate} Hz`)
  }
  for (const gain of [2, 0.1, 0.001])
    t.equal(heard(said.map((sample) => sample * gain)), TEXT, `gain ${gain}`)
  for (const current of [0.2, -0.5])
    t.equal(heard(said.map((sample) => sample + current)), TEXT, `DC ${current}`)
  for (const [decibel, rms] of [
    [30, 0.0112],
    [20, 0.0354],
    [10, 0.112],
  ] as const) {
    t.equal(heard(mixed(said, noise(said.length, rms))), TEXT, `${decibel} dB over the noise`)
  }
})

t.test('silence around it moves the times and nothing else', async (t) => {
  const said = spoken('hello world')
  const early = recognize(recording(said))!
  const late = recognize(recording(join(new Float32Array(60 * RATE), said, new Float32Array(20 * RATE))))!
  t.equal(late.length, 1)
  for (const [index, word] of late[0]!.words.entries()) {
    t.equal(word.text, early[0]!.words[index]!.text)
    t.ok(Math.abs(word.start - early[0]!.words[index]!.start - 60) < 0.01)
    t.ok(Math.abs(word.end - early[0]!.words[index]!.end - 60) < 0.01)
  }
})

t.test('times are those of the samples', async (t) => {
  // 7 units of silence; "hi" lasts 7 + 3 + 3 units, the gap 7, "ok" 11 + 3 + 9; a unit is 48 ms.
  const [segment] = recognize(recording(spoken('hi ok')))!
  const expected = [
    ['hi', 7, 20],
    ['ok', 27, 50],
  ] as const
  for (const [index, [text, start, end]] of expected.entries()) {
    const word = segment!.words[index]!
    t.equal(word.text, text)
    t.ok(Math.abs(word.start - start * 0.048) < 0.006, `${text} starts at ${word.start}`)
    t.ok(Math.abs(word.end - end * 0.048) < 0.006, `${text} ends at ${word.end}`)
  }
})

t.test('segments end with sentences, long pauses and speakers', async (t) => {
  const conversation = join(
    spoken('who is there? me.', 'alloy'),
    new Float32Array(RATE),
    spoken('fine thanks', 'echo', 1.5).map((sample) => sample * 0.2),
    spoken('and you', 'alloy', 0.8),
    new Float32Array(2 * RATE),
    spoken('good', 'alloy', 0.8),
  )
  const segments = recognize(recording(conversation))!
  t.same(
    segments.map(({ words, hertz }) => [words.map(({ text }) => text).join(' '), hertz]),
    [
      ['who is there?', 600],
      ['me.', 600],
      ['fine thanks', 550],
      ['and you', 600],
      ['good', 600],
    ],
  )
  for (const [index, { start, end }] of segments.entries()) {
    t.ok(start < end && start >= (segments[index - 1]?.end ?? 0), 'in order')
  }
})

t.test('other sound is no Morse code', async (t) => {
  const rows: [string, Float32Array][] = [
    ['nothing', new Float32Array(0)],
    ['three samples', Float32Array.from([0.1, -0.1, 0.1])],
    ['silence', new Float32Array(RATE)],
    ['direct current', new Float32Array(RATE).fill(0.5)],
    ['noise', noise(5 * RATE, 0.2)],
    ['a steady tone', sine(440, 5, RATE)],
    ['one long beep', join(new Float32Array(RATE), sine(600, 1, RATE), new Float32Array(RATE))],
    ['a melody', melody(6, RATE)],
    ['a melody over noise', mixed(melody(6, RATE), noise(6 * RATE, 0.02))],
  ]
  for (const [name, samples] of rows) t.equal(heard(samples), null, name)
})
