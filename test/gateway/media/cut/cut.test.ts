import t from 'tap'
import type { Audio } from '../../../../src/contracts/audio.ts'
import { planCut } from '../../../../src/gateway/media/cut/plan.ts'
import { Uncuttable } from '../../../../src/gateway/media/cut/sound.ts'
import { speak } from '../../../../src/sandbox/speak.ts'
import { decodeSpeech, heardIn, probed } from '../../../support/decoded-speech.ts'
import { encodedSpeech } from '../../../support/encoded-speech.ts'
import { cutFile, plainPlan } from '../cut-audio.ts'
import { fixture, formatOf, VERDICTS } from '../fixtures.ts'

/** Files whose sound does not tell its packets, and why. */
const UNCUTTABLE: Readonly<Record<string, RegExp>> = { 'ogg-chained.ogg': /follow one another/ }

for (const name of Object.keys(VERDICTS).filter((one) => formatOf(one) !== 'none'))
  t.test(`${name}: its parts are files of their own, as long as the whole`, async (t) => {
    const why = UNCUTTABLE[name]
    if (why !== undefined)
      return t.rejects(
        cutFile(fixture(name), () => plainPlan(60)),
        { message: why },
      )
    const whole = await probed(fixture(name))
    const seconds = whole.durationSeconds ?? 1
    for (const target of [60, seconds / 3]) {
      const { parts } = await cutFile(fixture(name), () => plainPlan(target))
      t.ok(target === 60 ? parts.length === 1 : parts.length > 1, `${parts.length} parts`)
      let at = 0
      for (const { kept, fromSeconds, toSeconds, startSeconds, endSeconds } of parts) {
        t.ok(Math.abs(fromSeconds - at) < 1e-6, 'a part begins where the one before ends')
        at = toSeconds
        t.ok(startSeconds <= fromSeconds + 1e-6 && endSeconds >= toSeconds - 1e-6, 'it has what is its own')
        const { format, durationSeconds, channels } = await probed(kept)
        t.equal(format, whole.format)
        t.equal(channels, whole.channels)
        const off = Math.abs((durationSeconds ?? 0) - (endSeconds - startSeconds))
        t.ok(off < 0.15, `${durationSeconds} s, of ${endSeconds - startSeconds}`)
      }
      // Delays of encoders, and the rest of the last packet.
      if (whole.durationSeconds !== null) t.ok(Math.abs(at - seconds) < 0.15, `${at} s in all, of ${seconds}`)
    }
  })

const WORDS = [
  ...['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten', 'eleven', 'twelve'],
]

/** Morse code with a second of silence behind each word. */
function words(): Buffer {
  const spoken = WORDS.map((word) => speak(word, 600, 1.5).subarray(44))
  const data = Buffer.concat(spoken.flatMap((samples) => [samples, Buffer.alloc(16_000)]))
  const head = Buffer.from(speak('a', 600, 1).subarray(0, 44))
  head.writeUInt32LE(36 + data.length, 4)
  head.writeUInt32LE(data.length, 40)
  return Buffer.concat([head, data])
}

for (const format of ['wav', 'mp3', 'opus'])
  t.test(`${format}: it is cut in silence, and every word is in one part`, async (t) => {
    const file = format === 'wav' ? words() : await encodedSpeech(words(), format)
    const plan = (audio: Audio) => planCut(audio, { maxBytes: null, maxSeconds: 16 })
    const { parts } = await cutFile(file, plan)
    t.ok(parts.length >= 3, `${parts.length} parts`)
    const heard: string[] = []
    for (const { kept, startSeconds, endSeconds, endsQuietly } of parts) {
      t.ok(endSeconds - startSeconds <= 16)
      if (kept !== parts.at(-1)!.kept) t.ok(endsQuietly)
      heard.push(heardIn(await decodeSpeech(kept, format)) ?? '')
    }
    t.equal(heard.join(' '), WORDS.join(' '))
  })

t.test('parts keep to a limit of bytes, heads included', async (t) => {
  for (const format of ['wav', 'mp3', 'opus']) {
    const file = format === 'wav' ? words() : await encodedSpeech(words(), format)
    const maxBytes = Math.round(file.length / 1.9)
    const { parts } = await cutFile(file, (audio) => planCut(audio, { maxBytes, maxSeconds: null }))
    t.ok(parts.length >= 2)
    for (const { kept } of parts) t.ok(kept.length <= maxBytes, `${kept.length} of ${maxBytes}`)
  }
})

t.test('a plan keeps to its limits, and there is none for what is not worth it', async (t) => {
  const { audio } = await cutFile(words(), () => plainPlan(60))
  const of = (durationSeconds: number | null, more: Partial<Audio> = {}) => ({
    ...audio,
    durationSeconds,
    ...more,
  })
  const long = { maxBytes: null, maxSeconds: 1500 }
  t.match(planCut(of(7200), long), { count: 12, targetSeconds: 600 })
  t.match(planCut(of(7200), { maxBytes: null, maxSeconds: 600 }), { count: 14 })
  t.equal(planCut(of(7200), { maxBytes: null, maxSeconds: 10 }), null, 'parts of some seconds')
  t.equal(planCut(of(86_400), { maxBytes: null, maxSeconds: 20 }), null, 'thousands of parts')
  t.match(planCut(of(null), long), { count: null, targetSeconds: 600 }, 'audio of unknown length')
  t.match(planCut(of(3600, { decodedBytes: 115_200_000 }), { maxBytes: 26_214_400, maxSeconds: null }), {
    count: 6,
  })
})

t.test('a format whose packets are not known is refused', async (t) => {
  const mpeg = { format: 'mpeg' as const }
  const { audio } = await cutFile(words(), () => plainPlan(60))
  const { withSound } = await import('../../../../src/gateway/media/cut/open-sound.ts')
  const reader = { async *bytes() {} } as never
  const { signal } = new AbortController()
  await t.rejects(
    withSound(reader, { ...audio, ...mpeg }, signal, async () => {}),
    Uncuttable,
  )
})
