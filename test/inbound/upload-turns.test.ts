import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import type { EdgeRoute } from '../../src/inbound/server.ts'
import { UploadTurns } from '../../src/inbound/upload-turns.ts'
import { startEdge } from '../support/edge.ts'
import { RawClient } from '../support/raw-client.ts'

const KIB = 1024
const MIB = 1024 * KIB

class FakeUpload {
  held = false
  readBytes = 0

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
    turns.take(upload, bytes)
    upload.readBytes += bytes
    read += bytes
  }
  return read
}

t.test('a turn takes two MiB and what was under way, and all uploads have the same share', async (t) => {
  const turns = new UploadTurns()
  const uploads = Array.from({ length: 16 }, () => new FakeUpload())
  poll(turns, uploads, 1)
  for (let round = 0; round < 64; round += 1) {
    const read = poll(turns, uploads, 400 * KIB)
    t.ok(read <= 2.5 * MIB, `${read} bytes in one turn`)
    await turn()
  }
  const shares = uploads.map(({ readBytes }) => readBytes)
  t.ok(Math.min(...shares) > 0)
  t.ok(Math.max(...shares) - Math.min(...shares) <= 800 * KIB, `from ${Math.min(...shares)}`)
})

t.test('whoever had its turn is not held up by uploads that have nothing to be read', async (t) => {
  const turns = new UploadTurns()
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

t.test('an upload that leaves is let go, and holds no one up', async (t) => {
  const turns = new UploadTurns()
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
  // The one that is being read continues while it has whole reads of 512 KiB.
  t.ok(most <= 2 * MIB + length, `${most} bytes in one turn`)
})
