import t from 'tap'
import { type HeardWord, MorseListener } from '../../src/sandbox/live/morse-listener.ts'
import { SampleReader } from '../../src/sandbox/live/samples.ts'
import { type LiveAudio, liveAudio, timesOff } from '../support/live-audio.ts'

const TEXT = 'the quick brown fox jumps over the lazy dog 0123456789. e t i am, is it? yes!'

interface Heard {
  readonly words: HeardWord[]
  readonly partials: string[]
  readonly settled: number[]
}

function hear({ pcm, sampleRate }: Pick<LiveAudio, 'pcm' | 'sampleRate'>, cut = 3200): Heard {
  const heard: Heard = { words: [], partials: [], settled: [] }
  const listener = new MorseListener(sampleRate, {
    tone: () => undefined,
    partial: (text) => heard.partials.push(text),
    word: (word, settled) => {
      heard.words.push(word)
      heard.settled.push(settled)
    },
    advance: () => undefined,
  })
  const reader = new SampleReader({ encoding: 'linear16', sampleRate, channels: 1 }, false)
  for (let at = 0; at < pcm.length; at += cut)
    reader.read(pcm.subarray(at, at + cut), (_, samples, count) => listener.push(samples, count))
  listener.flush()
  return heard
}

const textOf = ({ words }: Heard) => words.map(({ text }) => text).join(' ')

/** A generator of numbers from 0 to 1 that is the same each time. */
function dice(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

function mixed(audio: LiveAudio, gain: number, add: (at: number) => number): LiveAudio {
  const pcm = Buffer.from(audio.pcm)
  for (let at = 0; at < pcm.length; at += 2) {
    const sample = Math.round(pcm.readInt16LE(at) * gain + add(at / 2) * 32_767)
    pcm.writeInt16LE(Math.max(-32_768, Math.min(32_767, sample)), at)
  }
  return { ...audio, pcm }
}

t.test('every rate and speed, from the first character', async (t) => {
  for (const sampleRate of [8000, 11_025, 16_000, 24_000, 48_000])
    for (const speed of [0.25, 0.5, 1, 2, 4])
      for (const hertz of [350, 950]) {
        const audio = liveAudio(TEXT, { sampleRate, speed, hertz })
        const heard = hear(audio)
        const name = `${sampleRate} Hz at ${speed}, ${hertz} Hz`
        t.equal(textOf(heard), TEXT, name)
        t.ok(timesOff(heard.words, audio.words) <= 0.005, `${name}: times`)
        t.ok(
          heard.words.every((word) => Math.abs(word.hertz - hertz) <= 20),
          `${name}: tone`,
        )
      }
})

t.test('the same however audio is cut', async (t) => {
  const audio = liveAudio(TEXT)
  const whole = hear(audio, audio.pcm.length)
  for (const cut of [1, 2, 3, 333, 640, 3200]) t.same(hear(audio, cut), whole, `${cut} bytes`)
})

t.test('a listener that begins in the gap before a word hears the rest alike', async (t) => {
  const audio = liveAudio(TEXT)
  const whole = hear(audio).words
  for (let next = 1; next < audio.words.length; next += 1) {
    for (const part of [0.05, 0.5, 0.95]) {
      const [end, start] = [audio.words[next - 1]!.end, audio.words[next]!.start]
      const at = Math.round((end + (start - end) * part) * audio.sampleRate)
      const { words } = hear({ ...audio, pcm: audio.pcm.subarray(at * 2) })
      t.same(
        words.map(({ text }) => text),
        whole.slice(next).map(({ text }) => text),
        `word ${next}`,
      )
      const moved = words.map(({ start, end }) => ({
        start: start + at / audio.sampleRate,
        end: end + at / audio.sampleRate,
      }))
      t.ok(timesOff(moved, audio.words.slice(next)) <= 0.005)
    }
  }
})

t.test('a listener that begins anywhere hears what comes after the next gap', async (t) => {
  const audio = liveAudio('the quick brown fox jumps over it')
  const roll = dice(1)
  for (let run = 0; run < 100; run += 1) {
    const seconds = roll() * (audio.seconds - 8)
    const at = Math.round(seconds * audio.sampleRate)
    const { words } = hear({ ...audio, pcm: audio.pcm.subarray(at * 2) })
    const whole = audio.words.filter((word) => word.start > seconds + 0.05)
    t.same(
      words.slice(-whole.length).map(({ text }) => text),
      whole.map(({ word }) => word),
      `from ${seconds} s`,
    )
  }
})

t.test('what is settled lies behind each word and before the next', async (t) => {
  const audio = liveAudio(TEXT)
  const { settled } = hear(audio)
  for (const [at, seconds] of settled.entries()) {
    t.ok(seconds >= audio.words[at]!.end - 0.005)
    t.ok(seconds <= (audio.words[at + 1]?.start ?? Number.POSITIVE_INFINITY))
  }
})

t.test('partial texts grow by characters', async (t) => {
  const { partials } = hear(liveAudio('sos et'))
  t.same(partials, ['s', 'so', 'sos', 'e', 'et'])
})

t.test('noise, direct current and quiet speakers', async (t) => {
  const audio = liveAudio(TEXT)
  const roll = dice(7)
  const noise = () => (roll() + roll() + roll() - 1.5) * 0.04
  const rows: [name: string, audio: LiveAudio][] = [
    ['noise', mixed(audio, 1, noise)],
    ['quiet', mixed(audio, 0.01, () => 0)],
    ['quiet on direct current', mixed(audio, 0.05, () => 0.3)],
    ['hum', mixed(audio, 1, (at) => 0.02 * Math.sin((2 * Math.PI * 50 * at) / 16_000))],
  ]
  for (const [name, sound] of rows) {
    const heard = hear(sound)
    t.equal(textOf(heard), TEXT, name)
    t.ok(timesOff(heard.words, audio.words) <= 0.02, `${name}: times`)
  }
})

t.test('what is no Morse code is not heard', async (t) => {
  const roll = dice(3)
  const quiet = { ...liveAudio('e'), pcm: Buffer.alloc(16_000 * 2 * 20) }
  t.same(hear(quiet).words, [], 'silence')
  t.same(hear(mixed(quiet, 0, () => (roll() - 0.5) * 0.5)).words, [], 'noise')
  const bursts = mixed(quiet, 0, (at) => (Math.floor(at / 4000) % 2) * (roll() - 0.5))
  t.same(hear(bursts).words, [], 'bursts of noise')
  t.same(hear(mixed(quiet, 0, (at) => 0.4 * Math.sin(at / 5))).words, [], 'a tone without an end')
  const notes = [262, 330, 392, 523, 440, 349]
  const melody = mixed(quiet, 0, (at) => {
    const note = Math.floor(at / 2400)
    return at % 2400 < 2000 ? 0.4 * Math.sin((2 * Math.PI * notes[note % notes.length]! * at) / 16_000) : 0
  })
  t.same(hear(melody).words, [], 'a melody')
})
