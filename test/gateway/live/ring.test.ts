import fc from 'fast-check'
import { test } from 'tap'
import { AudioRing, RingMemory } from '../../../src/gateway/live/ring.ts'

const BLOCK = 16 * 1024

const upTo = (max: number) => fc.integer({ min: 0, max })

/** More audio than a test pushes. */
const AUDIO = Uint8Array.from({ length: 2_000_000 }, (_, place) => (place * 31 + (place >> 8)) & 0xff)

function audio(from: number, length: number): Uint8Array {
  return AUDIO.slice(from, from + length)
}

test('a ring holds what was pushed and is not dropped, as far as it reaches and there is memory', async (t) => {
  const steps = fc.array(
    fc.oneof(
      fc.record({ push: upTo(40_000) }),
      fc.record({ drop: upTo(60_000) }),
      fc.record({ neighbour: upTo(40_000) }),
    ),
    { maxLength: 40 },
  )
  fc.assert(
    fc.property(steps, upTo(8), fc.integer({ min: 1, max: 200_000 }), (all, blocks, reach) => {
      const memory = new RingMemory(blocks * BLOCK)
      const [ring, neighbour] = [new AudioRing(memory, reach), new AudioRing(memory, reach)]
      for (const step of all) {
        if ('push' in step) ring.push(audio(ring.end, step.push))
        else if ('drop' in step) ring.drop(ring.start + step.drop)
        else neighbour.push(audio(neighbour.end, step.neighbour))
        for (const one of [ring, neighbour]) {
          const held = one.end - one.start
          if (held < 0 || held > reach || memory.used > blocks * BLOCK) return false
          // Pieces of a length that blocks are no multiple of, and all of it at once.
          for (const length of [3_200, held])
            for (let place = one.start; place < one.end; place += length) {
              const piece = one.read(place, length)
              if (piece.length !== Math.min(length, one.end - place)) return false
              if (Buffer.compare(piece, AUDIO.subarray(place, place + piece.length)) !== 0) return false
            }
        }
      }
      ring.clear()
      neighbour.clear()
      return memory.used === 0
    }),
    { numRuns: 300 },
  )
  t.pass('in 300 sequences')
})

test('audio for which there is no memory is gone at once, and the ring goes on', async (t) => {
  const memory = new RingMemory(BLOCK)
  const greedy = new AudioRing(memory, 1_000_000)
  greedy.push(audio(0, 10))
  const ring = new AudioRing(memory, 1_000_000)
  ring.push(audio(0, 100))
  t.same([ring.start, ring.end], [100, 100])
  greedy.clear()
  ring.push(audio(100, 50))
  t.same([ring.start, ring.end], [100, 150])
  t.equal(ring.read(0, 99).length, 50)
})
