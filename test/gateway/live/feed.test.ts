import { test } from 'tap'
import { systemClock } from '../../../src/contracts/time.ts'
import type { LiveConnection } from '../../../src/gateway/live/connection.ts'
import { LiveFeed } from '../../../src/gateway/live/feed.ts'
import type { SessionMoney } from '../../../src/gateway/live/money.ts'
import { AudioRing, RingMemory } from '../../../src/gateway/live/ring.ts'

const AUDIO = { encoding: 'pcm_s16le', sampleRate: 16_000, channels: 1 } as const
const BYTES_PER_MS = 32

type Finalizing = ReturnType<LiveConnection['finalize']>

/** A feed whose provider takes everything, and the lengths of what it took, ms. */
function feeding({ finalize = (): Finalizing => 'asked', ringSeconds = 30 } = {}) {
  const sent: number[] = []
  const connection = {
    ...{ base: 0, place: 0, bills: 'audio', isStuck: false, isEnding: false, hasWorked: false },
    mayTake: () => true,
    sendAudio: (bytes: Uint8Array) => sent.push(bytes.length / BYTES_PER_MS),
    finalize,
  } as unknown as LiveConnection
  const money = { leftSeconds: 60, spend() {} } as unknown as SessionMoney
  const feed = new LiveFeed(AUDIO, new RingMemory(1024 * 1024), ringSeconds, systemClock)
  feed.begin(connection)
  const told: (string | null)[] = []
  const send = (nowMs: number) => feed.send(connection, money, nowMs, ({ id }) => told.push(id))
  const push = (ms: number, nowMs: number) => {
    feed.push(new Uint8Array(ms * BYTES_PER_MS), nowMs)
    return send(nowMs)
  }
  return { feed, connection, sent, told, send, push }
}

test('pieces go out whole once a tenth of a second is there', async (t) => {
  const { sent, push } = feeding()
  for (let piece = 1; piece <= 12; piece += 1) push(30, piece * 30)
  t.same(sent, [120, 120, 120])
  const long = feeding()
  long.push(950, 950)
  t.same(long.sent, [...Array(8).fill(100), 150], 'all of it, in pieces of less than two tenths')
})

test('a caller who stalls has the ends of later pieces where they would have been', async (t) => {
  const { sent, send, push } = feeding()
  for (const nowMs of [20, 40, 60]) push(20, nowMs)
  send(160)
  for (let piece = 0; piece < 12; piece += 1) push(20, 160 + piece * 20)
  t.same(sent, [60, 140, 100])
  const marked = feeding()
  for (const nowMs of [20, 40, 60]) marked.push(20, nowMs)
  marked.feed.mark(null)
  for (let piece = 0; piece < 10; piece += 1) marked.push(20, 80 + piece * 20)
  t.same(marked.sent, [60, 100, 100], 'a mark is among what came')
})

test('a piece that is short is asked for again, and goes out when nothing has followed it', async (t) => {
  const { sent, send, push } = feeding()
  t.ok(push(20, 0), 'more may follow, or not')
  t.ok(send(99))
  t.same(sent, [])
  t.notOk(send(100), 'nothing is left')
  t.same(sent, [20])
})

test('a ring that is empty is asked for nothing', async (t) => {
  const { send, push } = feeding()
  t.notOk(send(0))
  t.notOk(push(100, 100))
  t.equal(new AudioRing(new RingMemory(0), 1_000).read(0, 10).length, 0)
})

test('what there is nothing to settle of is answered in its turn', async (t) => {
  let asked = 0
  const { feed, connection, told, push } = feeding({ finalize: () => (++asked === 1 ? 'asked' : 'nothing') })
  push(200, 200)
  for (const id of ['one', 'two']) {
    feed.mark(id)
    push(200, 400)
  }
  t.same(told, [], 'the first is with the provider')
  t.match(feed.finalized(connection), { id: 'one' })
  push(200, 600)
  t.same(told, ['two'])
})

test('a mark that the provider cannot be asked for yet waits, and is no answer', async (t) => {
  let isBusy = false
  let asked = 0
  const finalize = () => {
    if (isBusy) return 'later'
    asked += 1
    return 'asked'
  }
  const { feed, connection, told, send, push } = feeding({ finalize })
  for (const id of ['one', 'two', 'three']) {
    push(200, 200)
    feed.mark(id)
    send(200)
    isBusy = true
  }
  t.equal(asked, 1)
  push(200, 400)
  t.equal(connection.place, 800 * BYTES_PER_MS, 'the audio is sent on')
  t.match(feed.finalized(connection), { id: 'one' })
  isBusy = false
  send(600)
  t.equal(asked, 3, 'both are asked for once there is room')
  t.same(told, [], 'nothing was taken for settled')
  t.equal(feed.unsettled(0).place, 200 * BYTES_PER_MS)
  for (const id of ['two', 'three']) t.match(feed.finalized(connection), { id })
})

test('a mark in audio that is lost asks for nothing of what is left', async (t) => {
  const { feed } = feeding({ ringSeconds: 1 })
  feed.push(new Uint8Array(500 * BYTES_PER_MS), 0)
  feed.mark('lost')
  for (let piece = 1; piece <= 20; piece += 1) feed.push(new Uint8Array(100 * BYTES_PER_MS), piece * 100)
  const { due, place } = feed.unsettled(10_000 * BYTES_PER_MS)
  t.ok(place > 500 * BYTES_PER_MS, 'it is lost')
  t.equal(due, 0)
})
