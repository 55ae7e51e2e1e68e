import t from 'tap'
import { readWav, writeWav } from '../../src/sandbox/wav.ts'
import { chunk, type SampleKind, sine, wav } from '../support/tone.ts'

const SAMPLES = sine(440, 0.1, 8000)

t.test('every kind of sample is read, in any number of channels', async (t) => {
  const steps: [SampleKind, number][] = [
    ['u8', 1 / 100],
    ['s16', 1 / 30_000],
    ['s24', 1 / 8_000_000],
    ['s32', 1 / 8_000_000],
    ['f32', 0],
    ['f64', 0],
  ]
  for (const [kind, off] of steps) {
    for (const extensible of [false, true]) {
      const other = SAMPLES.map((sample) => -sample / 2)
      const read = readWav(wav([SAMPLES, other], 44_100, { kind, extensible }))!
      t.equal(read.sampleRate, 44_100)
      t.equal(read.channels.length, 2)
      for (const [index, expected] of [SAMPLES, other].entries()) {
        const worst = Math.max(...expected.map((sample, at) => Math.abs(sample - read.channels[index]![at]!)))
        t.ok(worst <= off, `${kind} ${extensible ? 'extensible ' : ''}is off by ${worst} at most`)
      }
    }
  }
})

t.test('chunks that mean nothing here are passed over, odd ones with their padding', async (t) => {
  const before = Buffer.concat([chunk('LIST', Buffer.from('odd')), chunk('fact', Buffer.alloc(4))])
  t.equal(readWav(wav([SAMPLES], 8000, { before }))?.channels[0]?.length, SAMPLES.length)
})

t.test('a size that is not true is no harm', async (t) => {
  for (const claimedBytes of [0xffff_ffff, 0x7fff_ffff, SAMPLES.length * 2 + 10]) {
    t.equal(readWav(wav([SAMPLES], 8000, { claimedBytes }))?.channels[0]?.length, SAMPLES.length)
  }
  t.equal(readWav(wav([SAMPLES], 8000, { claimedBytes: 7 }))?.channels[0]?.length, 3)
})

t.test('not every float is a sample', async (t) => {
  const strange = Float32Array.from([Number.NaN, Number.POSITIVE_INFINITY, 0.5])
  t.same(readWav(wav([strange], 8000, { kind: 'f32' }))?.channels[0], Float32Array.from([0, 0, 0.5]))
})

t.test('what is no wav, or none that can be read, is null', async (t) => {
  const good = wav([SAMPLES], 8000)
  const altered = (offset: number, value: number) => {
    const bad = Buffer.from(good)
    bad.writeUInt16LE(value, offset)
    return bad
  }
  t.equal(readWav(Buffer.alloc(0)), null)
  t.equal(readWav(Buffer.from('RIFF')), null)
  t.equal(readWav(Buffer.from('RIFFxxxxAVI ')), null)
  t.equal(readWav(good.subarray(0, 36)), null, 'no data')
  t.equal(readWav(altered(20, 7)), null, 'mu-law')
  t.equal(readWav(altered(22, 0)), null, 'no channels')
  t.equal(readWav(altered(34, 12)), null, '12 bits')
  for (let length = 0; length < 60; length += 1) t.doesNotThrow(() => readWav(good.subarray(0, length)))
})

t.test('what is written can be read', async (t) => {
  const written = readWav(writeWav(Int16Array.from([0, 16_384, -32_768]), 8000))
  t.same(written?.channels, [Float32Array.from([0, 0.5, -1])])
})
