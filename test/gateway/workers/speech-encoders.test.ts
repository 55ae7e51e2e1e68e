import t, { type Test, test } from 'tap'
import { UnreadableSpeech } from '../../../src/contracts/speech-encoding.ts'
import { speechForm } from '../../../src/gateway/media/speech-form.ts'
import { createWorkers } from '../../../src/gateway/workers/pool.ts'
import { FILES_PER_THREAD } from '../../../src/gateway/workers/speech-encoders.ts'
import { speak } from '../../../src/sandbox/speak.ts'
import { decodeSpeech, heardIn } from '../../support/decoded-speech.ts'

function open(t: Test) {
  const workers = createWorkers()
  t.teardown(workers.close)
  return workers.encoders
}

const MP3 = speechForm('mp3_24000_48')!
const PIECE = 2_000

test('many files at once, each with its own words', async (t) => {
  const encoders = open(t)
  const words = ['alpha', 'bravo', 'charlie', 'delta', 'echo', 'foxtrot', 'golf', 'hotel']
  const heard = await Promise.all(
    words.map(async (word, index) => {
      const format = index % 2 === 0 ? 'mp3_24000_48' : 'opus'
      const encoder = encoders.begin(null, speechForm(format)!)
      const wav = speak(word, 600, 3)
      const made: Uint8Array[] = []
      for (let at = 0; at < wav.length; at += PIECE) {
        const piece = wav.subarray(at, at + PIECE)
        made.push(await encoder.push(piece))
        t.ok(piece.length > 0, 'the bytes stay those of the caller')
      }
      made.push(await encoder.end())
      encoder.close()
      t.ok(
        made.slice(0, -1).some(({ length }) => length > 0),
        'it comes while more is to come',
      )
      return heardIn(await decodeSpeech(Buffer.concat(made), format))
    }),
  )
  t.same(heard, words)
})

test('more files than a thread has room for wait for one that ends', async (t) => {
  const encoders = open(t)
  const silence = speechForm('ulaw_8000')!
  const threads = 4
  const files = Array.from({ length: FILES_PER_THREAD * threads + 1 }, () => encoders.begin(null, silence))
  const last = files.pop()!
  const wav = speak('e', 600, 4)
  await Promise.all(files.slice(0, 2).map((file) => file.push(wav)))
  const waiting = last.push(wav)
  for (const file of files) file.close()
  t.ok((await waiting).length > 0)
  last.close()
})

test('what is no speech is refused, and its neighbours go on', async (t) => {
  const encoders = open(t)
  const [good, bad] = [encoders.begin(null, MP3), encoders.begin(null, MP3)]
  const wav = speak('sos', 600, 3)
  await good.push(wav.subarray(0, PIECE))
  await t.rejects(bad.push(Buffer.alloc(200)), UnreadableSpeech)
  bad.close()
  bad.close()
  await t.rejects(bad.push(wav), /closed/)
  const rest = [await good.push(wav.subarray(PIECE)), await good.end()]
  t.ok(Buffer.concat(rest).length > 0)
  good.close()
})

test('a file that is left does not hold its thread, and one that is under way fails with it', async (t) => {
  const workers = createWorkers()
  const left = workers.encoders.begin(null, MP3)
  await left.push(speak('e', 600, 4))
  left.close()
  const cut = workers.encoders.begin(null, MP3)
  await cut.push(speak('e', 600, 4))
  const closed = workers.close()
  await t.rejects(cut.push(speak('e', 600, 4)))
  await closed
  cut.close()
})

t.comment(`${FILES_PER_THREAD} files a thread`)
