import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import type { EdgeRoute } from '../../../src/gateway/edge/server.ts'
import { UploadTurns } from '../../../src/gateway/edge/upload-turns.ts'
import { startEdge } from '../../support/edge.ts'
import { RawClient } from '../../support/raw-client.ts'

const KIB = 1024
const MIB = 1024 * KIB

/** Much is held for bodies. */
const FULL = { used: 1024 * MIB }

class FakeUpload {
  held = false
  readBytes = 0
  readonly length: number | null

  constructor(length: number | null = null) {
    this.length = length
  }

  holdBack(): void {
    this.held = true
  }

  letGo(): void {
    this.held = false
  }
}

/** Reads, as one poll does, of every upload that is not held back. @returns bytes read */
function poll(turns: UploadTurns, uploads: readonly FakeUpload[], bytes: number): number {
  let read = 0
  for (const upload of uploads) {
    if (upload.held) continue
    const { length } = upload
    const some = Math.min(bytes, (length ?? Number.POSITIVE_INFINITY) - upload.readBytes)
    upload.readBytes += some
    read += some
    if (upload.readBytes === length) turns.leave(upload)
    else turns.take(upload, some, length === null ? null : length - upload.readBytes)
  }
  return read
}

t.test('a turn takes a MiB and what was under way, and all uploads have the same share', async (t) => {
  const turns = new UploadTurns(FULL)
  const uploads = Array.from({ length: 16 }, () => new FakeUpload())
  poll(turns, uploads, 1)
  for (let round = 0; round < 24; round += 1) {
    const read = poll(turns, uploads, 400 * KIB)
    t.ok(read <= 1.5 * MIB, `${read} bytes in one turn`)
    await turn()
  }
  const shares = uploads.map(({ readBytes }) => readBytes)
  t.ok(Math.min(...shares) > 0)
  t.ok(Math.max(...shares) - Math.min(...shares) <= 800 * KIB, `from ${Math.min(...shares)}`)
})

t.test('whoever had its turn is not held up by uploads that have nothing to be read', async (t) => {
  const turns = new UploadTurns(FULL)
  const [busy, ...idle] = Array.from({ length: 16 }, () => new FakeUpload()) as [FakeUpload, ...FakeUpload[]]
  poll(turns, idle, 1)
  await turn()
  poll(turns, [busy], 3 * MIB)
  t.equal(busy.held, true)
  await turn()
  t.equal(busy.held, true, 'the others come first')
  t.notOk(idle.some(({ held }) => held))
  await turn()
  t.equal(busy.held, false)
})

/** Polls until all uploads are whole. @returns most bytes of unfinished ones at a time, and the order of the ends */
async function pollAll(turns: UploadTurns, uploads: readonly FakeUpload[]) {
  let mostBytes = 0
  const ended: FakeUpload[] = []
  let left = [...uploads]
  for (let round = 0; left.length > 0; round += 1) {
    if (round > 10_000) throw new Error(`${left.length} uploads are never read to their end`)
    poll(turns, left, 400 * KIB)
    const isOver = (upload: FakeUpload) => upload.readBytes === upload.length
    ended.push(...left.filter(isOver))
    left = left.filter((upload) => !isOver(upload))
    mostBytes = Math.max(
      mostBytes,
      left.reduce((sum, { readBytes }) => sum + readBytes, 0),
    )
    await turn()
  }
  return { mostBytes, ended }
}

t.test('of a crowd of uploads a few are read to their end before others', async (t) => {
  const uploads = Array.from({ length: 64 }, () => new FakeUpload(25 * MIB))
  const { mostBytes, ended } = await pollAll(new UploadTurns(FULL), uploads)
  t.equal(ended.length, 64)
  t.ok(mostBytes < 160 * MIB, `${mostBytes} of ${64 * 25 * MIB} bytes at a time`)
  t.notOk(
    uploads.some(({ held }) => held),
    'none is left held back',
  )
})

t.test('uploads that are not in memory are read by turns, however many', async (t) => {
  const uploads = Array.from({ length: 64 }, () => new FakeUpload(4 * MIB))
  const { mostBytes } = await pollAll(new UploadTurns({ used: 20 * MIB }), uploads)
  t.ok(mostBytes > 128 * MIB, `${mostBytes} bytes at a time`)
})

t.test('in a crowd, small uploads and beginnings do not wait', async (t) => {
  const turns = new UploadTurns(FULL)
  const crowd = Array.from({ length: 32 }, () => new FakeUpload(25 * MIB))
  for (let round = 0; round < 60; round += 1) {
    poll(turns, crowd, 400 * KIB)
    await turn()
  }
  t.ok(crowd.filter(({ held }) => held).length > 16)
  const small = new FakeUpload(MIB)
  const large = new FakeUpload(25 * MIB)
  for (const upload of [small, large]) turns.take(upload, 100 * KIB, upload.length! - 100 * KIB)
  await turn()
  t.same([small.held, large.held], [false, false])
  turns.take(large, 100 * KIB, 24 * MIB)
  t.equal(large.held, true, 'it waits once its beginning is there')
})

t.test('a large upload is not passed by smaller ones for ever', async (t) => {
  const turns = new UploadTurns(FULL)
  const large = new FakeUpload(25 * MIB)
  let uploads = [large, ...Array.from({ length: 16 }, () => new FakeUpload(8 * MIB))]
  let passed = 0
  while (large.readBytes < 25 * MIB && passed < 1_000) {
    poll(turns, uploads, 400 * KIB)
    const going = uploads.filter(({ readBytes, length }) => readBytes !== length)
    passed += uploads.length - going.length
    uploads = [
      ...going,
      ...Array.from({ length: uploads.length - going.length }, () => new FakeUpload(8 * MIB)),
    ]
    await turn()
  }
  t.ok(passed > 8 && passed < 200, `${passed} passed it`)
})

/** @returns rounds in which 16 fast uploads are read to their end beside slow ones */
async function roundsBeside(slow: readonly FakeUpload[]): Promise<number> {
  const turns = new UploadTurns(FULL)
  let fast = Array.from({ length: 16 }, () => new FakeUpload(5 * MIB))
  for (let rounds = 0; ; rounds += 1) {
    if (fast.length === 0) return rounds
    if (rounds > 1_000) throw new Error('fast uploads are never read to their end')
    poll(turns, slow, 2 * KIB)
    poll(turns, fast, 400 * KIB)
    fast = fast.filter((upload) => upload.readBytes !== upload.length)
    await turn()
  }
}

t.test('slow senders take no turn from fast ones in a crowd, however large or near their end', async (t) => {
  const alone = await roundsBeside([])
  for (const length of [900 * KIB, 25 * MIB]) {
    const slow = Array.from({ length: 200 }, () => new FakeUpload(length))
    const rounds = await roundsBeside(slow)
    t.ok(rounds <= 1.5 * alone, `${rounds} rounds, ${alone} without them`)
    t.notOk(
      slow.some(({ held }) => held),
      'none of them is held back',
    )
  }
})

t.test('chosen uploads that bring nothing hold no one up', async (t) => {
  const turns = new UploadTurns(FULL)
  const crowd = Array.from({ length: 64 }, () => new FakeUpload(25 * MIB))
  for (let round = 0; round < 120; round += 1) {
    poll(turns, crowd, 400 * KIB)
    await turn()
  }
  t.ok(crowd.filter(({ held }) => held).length > 32)
  for (let round = 0; round < 12; round += 1) await turn()
  t.notOk(crowd.some(({ held }) => held))
})

t.test('an upload that leaves is let go, and holds no one up', async (t) => {
  const turns = new UploadTurns(FULL)
  const uploads = Array.from({ length: 4 }, () => new FakeUpload()) as [
    FakeUpload,
    FakeUpload,
    ...FakeUpload[],
  ]
  const [first, second] = uploads
  poll(turns, uploads, MIB)
  t.ok(first.held && second.held)
  turns.leave(first)
  t.equal(first.held, false)
  turns.leave(first)
  await turn()
  await turn()
  t.notOk(uploads.some(({ held }) => held))
})

t.test('the edge takes no more than that of many uploads in one turn', async (t) => {
  const length = 2 * MIB
  let inTurn = 0
  let most = 0
  const route: EdgeRoute = {
    method: 'POST',
    path: '/v1/upload',
    handle(exchange) {
      let received = 0
      exchange.body.consume({
        onChunk(view, last) {
          received += view.length
          // The first chunk of each comes with its head, before anybody could hold it back.
          if (received === view.length) return
          if (inTurn === 0)
            setImmediate(() => {
              most = Math.max(most, inTurn)
              inTurn = 0
            })
          inTurn += view.length
          if (last) exchange.reply({ status: 200, body: String(received) })
        },
        onError: (error) => exchange.replyError(error),
      })
    },
  }
  const edge = await startEdge(t, [route])
  const clients = await Promise.all(Array.from({ length: 64 }, () => RawClient.connect(edge.port)))
  const body = Buffer.alloc(length, 'a')
  const head = `POST /v1/upload HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`
  for (const client of clients) client.socket.write(Buffer.concat([Buffer.from(head), body]))
  for (const client of clients) {
    const response = await client.response({ timeoutMs: 20_000 })
    t.equal(response?.body.toString(), String(length))
    client.socket.destroy()
  }
  t.ok(most > 256 * KIB, 'several came at a time')
  // The one that ends the turn brings a read more than it may.
  t.ok(most <= 1.5 * MIB, `${most} bytes in one turn`)
})
