import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import type { EdgeRoute } from '../../../src/gateway/edge/server.ts'
import { localCertificate, startEdge } from '../../support/edge.ts'
import { RawClient } from '../../support/raw-client.ts'

const BODY_BYTES = 64 * 1024 ** 2
/** uWS reads this much at a time, and again while the kernel has as much. */
const READ_BYTES = 512 * 1024

/** Pauses with every chunk for a turn. The answer tells how many bytes came between a pause and its end at most. */
const pausing: EdgeRoute = {
  method: 'POST',
  path: '/pausing',
  handle: (exchange) =>
    new Promise((resolve) => {
      let most = 0
      let sincePause: number | null = null
      const resume = () => {
        sincePause = null
        exchange.body.resume()
      }
      exchange.body.consume({
        onChunk({ length }, last) {
          if (last) {
            exchange.reply({ status: 200, headers: {}, body: String(most) })
            return resolve()
          }
          if (sincePause === null) {
            sincePause = 0
            exchange.body.pause()
            setImmediate(resume)
          } else sincePause += length
          most = Math.max(most, sincePause)
        },
        onError() {},
      })
    }),
}

/** Sends a body as fast as it is taken. @returns the most bytes that came after a pause */
async function bytesAfterPause(client: RawClient): Promise<number> {
  client.socket.write(`POST /pausing HTTP/1.1\r\nHost: a\r\nContent-Length: ${BODY_BYTES}\r\n\r\n`)
  client.socket.write(Buffer.alloc(BODY_BYTES))
  const response = await client.response()
  client.socket.destroy()
  return Number(response?.body)
}

t.test('a paused body of a sender faster than the process does not come into memory', async (t) => {
  const { ca, files } = await localCertificate(t)
  const edge = await startEdge(t, [pausing], { files })
  for (const [way, client] of [
    ['plain', await RawClient.connect(edge.port)],
    ['TLS', await RawClient.connect(edge.tlsPort, ca)],
  ] as const) {
    const bytes = await bytesAfterPause(client)
    t.ok(bytes < READ_BYTES, `${way}: ${bytes} bytes after a pause`)
  }
  t.same(edge.logged, [])
})

const RMEM = '/proc/sys/net/ipv4/tcp_rmem'
const mostBytes = existsSync(RMEM) ? Number(readFileSync(RMEM, 'utf8').trim().split(/\s+/)[2]) : 0

t.test(
  'where the system has the say, it comes',
  { skip: mostBytes < 4 * 1024 ** 2 && `needs ${RMEM} of 4 MiB` },
  async (t) => {
    const edge = await startEdge(t, [pausing], { receiveBuffers: 'system' })
    const bytes = await bytesAfterPause(await RawClient.connect(edge.port))
    t.ok(bytes >= READ_BYTES, `${bytes} bytes after a pause`)
  },
)
