import t from 'tap'
import type { SocketEnd } from '../../../src/contracts/live.ts'
import { createSocketOpener } from '../../../src/gateway/outbound/web-socket.ts'
import { freePort } from '../../support/scratch.ts'

/** How a socket to an address ends. */
function endOf(url: string): Promise<SocketEnd> {
  const { promise, resolve } = Promise.withResolvers<SocketEnd>()
  const listener = { onOpen: () => {}, onFrame: () => {}, onEnd: resolve }
  createSocketOpener(undefined)({ url, protocols: [], headers: {} }, listener, {
    handshakeMs: 5_000,
    headers: {},
  })
  return promise
}

t.test('a socket that does not come about says which error it was', async (t) => {
  const port = await freePort()
  for (const [url, code] of [
    [`ws://127.0.0.1:${port}/v1`, 'ECONNREFUSED'],
    ['wss://provider.invalid/v1', 'ENOTFOUND'],
  ] as const) {
    const end = await endOf(url)
    t.match(end, { kind: 'failed', failure: { kind: 'connect', reason: `no connection (${code})` } }, url)
  }
})
