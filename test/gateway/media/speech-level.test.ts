import t from 'tap'
import { speechSeconds } from '../../../src/gateway/media/speech-level.ts'
import { memoryAudio, STANDINGS } from '../../support/memory-audio.ts'
import { filledWav } from '../../support/wav.ts'

const RATE = 16_000
const never = new AbortController().signal

/** A number in [-1, 1) for each call, always the same row of them. */
function noise() {
  let state = 1
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return state / 2 ** 31 - 1
  }
}

/** A wav of one channel whose samples are `level(second)`, from -1 to 1. */
function wavOf(seconds: number, level: (second: number) => number): Buffer {
  const wav = filledWav(44 + seconds * RATE * 2, 0, RATE)
  for (let at = 0; at < seconds * RATE; at += 1)
    wav.writeInt16LE(Math.round(level(at / RATE) * 32_767), 44 + at * 2)
  return wav
}

const hiss = noise()
const tone = (second: number) => Math.sin(second * 2 * Math.PI * 600)
/** A tone that is on for 0.2 s and off for 0.3 s. */
const keyed = (second: number) => (second % 0.5 < 0.2 ? 0.3 * tone(second) : 0)

t.test('seconds that can be speech', async (t) => {
  const rows: [string, Buffer, number][] = [
    ['digital silence', wavOf(4, () => 0), 0],
    ['a quiet room', wavOf(4, () => 0.0008 * hiss()), 0],
    ['steady loud noise', wavOf(4, () => 0.2 * hiss()), 0],
    ['hum', wavOf(4, (second) => 0.3 * Math.sin(second * 2 * Math.PI * 50)), 0],
    ['a keyed tone', wavOf(4, keyed), 1.6],
    ['the same over noise', wavOf(4, (second) => keyed(second) + 0.01 * hiss()), 1.6],
    [
      'half a second at the end of a minute',
      wavOf(60, (second) => (second >= 59.5 ? 0.1 * tone(second) : 0)),
      0.5,
    ],
    ['shorter than a frame', wavOf(0.01, () => 0.5), 0],
  ]
  for (const [name, wav, seconds] of rows)
    for (const standing of STANDINGS) {
      const { audio, reader, reads } = memoryAudio(wav, standing, 1001)
      t.equal(await speechSeconds(reader, audio, never), seconds, `${name}, ${standing}`)
      t.equal(reads.open, 0)
    }
})

t.test('other formats and sizes', async (t) => {
  const wav = wavOf(4, keyed)
  const mulaw = Buffer.alloc(44 + 4 * 8000, 0xff)
  wav.copy(mulaw, 0, 0, 44)
  mulaw.writeUInt16LE(7, 20)
  mulaw.writeUInt32LE(8000, 24)
  mulaw.writeUInt16LE(8, 34)
  mulaw.writeUInt32LE(4 * 8000, 40)
  for (let at = 0; at < 4 * 8000; at += 1) if (at % 4000 < 1600) mulaw[44 + at] = at % 16 < 8 ? 0x80 : 0x00
  const deep = Buffer.from(wav)
  deep.writeUInt16LE(24, 34)
  const endless = Buffer.from(wav)
  endless.writeUInt32LE(0xffff_ffff, 40)
  const trailed = Buffer.concat([wav, Buffer.alloc(4 * RATE, 0x55)])
  const rows: [string, Buffer, number | null][] = [
    ['mu-law', mulaw, 1.6],
    ['24 bits', deep, null],
    ['no wav', Buffer.alloc(5000, 1), null],
    ['nothing', Buffer.alloc(0), null],
    ['a length that its writer did not know', endless, 1.6],
    ['bytes behind the samples', trailed, 1.6],
  ]
  for (const [name, bytes, seconds] of rows) {
    const { audio, reader } = memoryAudio(bytes, 'identity')
    t.equal(await speechSeconds(reader, audio, never), seconds, name)
  }
  const { audio, reader, reads } = memoryAudio(wav, 'identity')
  t.equal(await speechSeconds(reader, { ...audio, decodedBytes: 65 * 1024 * 1024 }, never), null)
  t.same(reads.ranges, [], 'over 64 MiB nothing is read')
})
