import t, { type Test } from 'tap'
import { ImmediateBatch } from '../../../src/gateway/edge/immediate-batch.ts'
import { Socket } from '../../../src/gateway/edge/socket.ts'
import { StreamWriter } from '../../../src/gateway/edge/stream-writer.ts'
import type { HttpResponse } from '../../../src/gateway/edge/uws.ts'
import { noise } from '../../support/bodies.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

/** What uWS 20.51 gathers in a cork. */
const CORK_BYTES = 16_384

/**
 * A response as uWS 20.51 writes it to a reader that takes a number of chunks at a time. One that has no room in the
 * cork behind its own size is lost there when the cork cannot be flushed; a small one is reported as taken.
 */
class SlowResponse {
  readonly taken: Buffer[] = []
  lost = 0
  #held: Buffer[] = []
  #cork: Buffer[] = []
  #room = 0
  #onWritable: () => boolean = () => true

  cork(run: () => void): void {
    this.#take()
    run()
    this.#held.push(...this.#cork.splice(0))
    this.#take()
  }

  write(data: Uint8Array): boolean {
    const chunk = Buffer.from(data)
    if (this.#held.length > 0) {
      this.#held.push(chunk)
      return false
    }
    const gathered = this.#cork.reduce((sum, { length }) => sum + length + 8, 8)
    if (gathered + chunk.length <= CORK_BYTES) {
      this.#cork.push(chunk)
      return true
    }
    this.#held.push(...this.#cork.splice(0))
    this.#take()
    if (this.#room === 0) this.lost += 1
    else this.#held.push(chunk)
    this.#take()
    return this.#held.length === 0
  }

  onWritable(handler: () => boolean): void {
    this.#onWritable = handler
  }

  /** The kernel reports room once, and the reader takes so many chunks. */
  async read(chunks: number): Promise<void> {
    this.#room = chunks
    this.#onWritable()
    await new Promise(setImmediate)
    this.#room = 0
  }

  #take(): void {
    const taken = this.#held.splice(0, this.#room)
    this.#room -= taken.length
    this.taken.push(...taken)
  }
}

/** Pieces of turns of their own: those of one turn would be joined. */
async function* inPieces(bytes: Buffer, size: number) {
  for (let at = 0; at < bytes.length; at += size) {
    yield bytes.subarray(at, at + size)
    await new Promise(setImmediate)
  }
}

t.test('the end does not wait for a second report of room', async (t) => {
  const { res, ended } = start(t, noise(20), 10)
  for (let turns = 0; turns < 3; turns += 1) await new Promise(setImmediate)
  await res.read(0)
  for (let turns = 0; turns < 3; turns += 1) await new Promise(setImmediate)
  t.equal(ended(), 0, 'the last byte is not taken')
  await res.read(10)
  await new Promise(setImmediate)
  t.equal(ended(), 1)
})

/** Starts to write some bytes in pieces. */
function start(t: Test, bytes: Buffer, size: number) {
  const clock = new VirtualClock()
  const res = new SlowResponse()
  let ended = 0
  const shared = { corkBytes: CORK_BYTES, immediate: new ImmediateBatch() }
  const socket = new Socket(res as unknown as HttpResponse, clock, clock.now())
  const writer = new StreamWriter(socket, { stream: inPieces(bytes, size) }, shared, {
    onEnded: () => (ended += 1),
    onFailed: (error) => t.fail(String(error)),
    onFailedLate: (error) => t.fail(String(error)),
  })
  writer.start(() => {})
  return { res, ended: () => ended }
}

for (const [count, size] of [
  [1, 10],
  [3, 5_000],
  [5, 16_384],
  [3, 65_536],
  [2, 300_000],
] as const)
  t.test(`${count} pieces of ${size} bytes reach a reader that takes nothing at first`, async (t) => {
    const bytes = noise(count * size)
    const { res, ended } = start(t, bytes, size)
    // No second passes: the end does not wait for the clock.
    for (let turns = 0; ended() === 0 && turns < 1_000; turns += 1) {
      await new Promise(setImmediate)
      await res.read(turns % 3 === 2 ? 20 : turns % 3)
    }
    t.equal(ended(), 1, 'it ends when the reader has room for the last byte')
    await res.read(Number.POSITIVE_INFINITY)
    t.equal(res.lost, 0)
    t.ok(Buffer.concat(res.taken).equals(bytes), 'every byte arrived in its place')
  })
