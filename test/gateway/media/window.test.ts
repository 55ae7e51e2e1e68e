import t from 'tap'
import { AudioWindow, OutOfReach, RANGE_BYTES } from '../../../src/gateway/media/window.ts'
import { memoryAudio } from '../../support/memory-audio.ts'

const SIZE = 3_000_000
const AUDIO = Buffer.from(Uint32Array.from({ length: SIZE / 4 }, (_, index) => index * 4).buffer)

function open(standing: 'identity' | 'loose base64', chunkBytes?: number) {
  const { audio, reader, reads } = memoryAudio(AUDIO, standing, chunkBytes)
  return { window: new AudioWindow(reader, audio, new AbortController().signal), reads }
}

const at = (bytes: Uint8Array): number => Buffer.from(bytes).readUInt32LE(0)

t.test('one range serves what lies in it; the head and the tail stay at hand', async (t) => {
  const { window, reads } = open('identity')
  t.equal(at(await window.from(0)), 0)
  t.equal((await window.from(4)).length, RANGE_BYTES - 4, 'as many as are at hand')
  const { start, bytes } = await window.tail()
  t.equal(start, SIZE - RANGE_BYTES)
  t.equal(at(bytes), start)
  t.equal(at(await window.from(1_000_000, 64)), 1_000_000)
  t.equal(at(await window.from(8, 64)), 8)
  t.equal(at(await window.from(SIZE - 4, 4)), SIZE - 4)
  t.equal(reads.ranges.length, 3)
  t.equal(reads.passes, 0)
})

t.test('there is nothing behind the end, however far', async (t) => {
  const { window, reads } = open('identity')
  for (const offset of [SIZE, SIZE + 1, Number.MAX_VALUE, Number.POSITIVE_INFINITY]) {
    t.equal((await window.from(offset, 64)).length, 0)
  }
  t.same(reads.ranges, [])
  t.equal((await window.from(SIZE - 2, 64)).length, 2, 'the last bytes, fewer than were asked for')
})

t.test('after four ranges one pass serves the rest, and may begin again once', async (t) => {
  const { window, reads } = open('identity', 64 * 1024 + 1)
  for (const offset of [0, 500_000, 1_000_000, 1_500_000]) t.equal(at(await window.from(offset, 4)), offset)
  t.equal(reads.passes, 0)
  for (let offset = 800_000; offset < SIZE; offset += 10_000) {
    t.equal(at(await window.from(offset, 5_000)), offset)
  }
  t.equal(reads.ranges.length, 4)
  t.equal(reads.passes, 1)
  t.equal(at(await window.from(700_000, 4)), 700_000)
  t.equal(reads.passes, 2)
  await t.rejects(window.from(600_000, 4), OutOfReach)
  await window.close()
  t.equal(reads.open, 0)
})

t.test('audio that can only be decoded from its beginning: the head, then a pass', async (t) => {
  const { window, reads } = open('loose base64', 100_001)
  t.notOk(window.seekable)
  t.equal(at(await window.from(0, 4)), 0)
  t.equal(at((await window.tail()).bytes), SIZE - RANGE_BYTES)
  t.equal(at(await window.from(SIZE - 400, 400)), SIZE - 400)
  t.equal(at(await window.from(16, 4)), 16)
  t.same([reads.ranges.length, reads.passes], [1, 1])
  await window.close()
})

t.test('steps are counted, so that no file can ask for ever', async (t) => {
  const { audio, reader } = memoryAudio(AUDIO.subarray(0, 64), 'identity')
  const window = new AudioWindow(reader, audio, new AbortController().signal)
  let steps = 0
  const forever = async () => {
    for (;;) {
      await window.from(0, 1)
      steps += 1
    }
  }
  await t.rejects(forever(), OutOfReach)
  t.ok(steps > 1_000 && steps < 100_000, `${steps}`)
})

t.test('an abort ends a look that goes on', async (t) => {
  const { audio, reader } = memoryAudio(AUDIO, 'identity')
  const abort = new AbortController()
  const window = new AudioWindow(reader, audio, abort.signal)
  await window.from(0)
  abort.abort(new Error('the client left'))
  const longer = async () => {
    for (let count = 0; count < 40_000; count++) await window.from(0)
  }
  await t.rejects(longer(), { message: 'the client left' })
})
