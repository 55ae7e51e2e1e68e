import t from 'tap'
import type { EdgeServer } from '../../src/inbound/server.ts'
import { createLogger } from '../../src/log.ts'
import { type DrainTimes, drain } from '../../src/node/drain.ts'

const log = createLogger('silent')
const TIMES: DrainTimes = { listenMs: 200, quietMs: 300, extraMs: 700, answerMs: 1_000, idleMs: 400 }

/** A server of which the test says what it has under way; notes what it is told, and when. */
class Server implements EdgeServer {
  readonly port = 0
  readonly tlsPort = undefined
  readonly uws = ''
  inFlight = 0
  accepted = 0
  connections = 0
  readonly told: string[] = []
  readonly #startMs = performance.now()
  stoppedMs = 0
  acceptedBefore = 0

  renewCertificate(): void {}
  closeConnections(): void {
    this.told.push('close connections')
  }
  stopListening(): void {
    this.stoppedMs = performance.now() - this.#startMs
    this.acceptedBefore = this.accepted
    this.told.push('stop listening')
  }
  refuse(): void {
    this.told.push('refuse')
    this.inFlight = 0
    this.connections = 0
  }
  close(): void {}
}

const drainedMs = async (server: Server, times: Partial<DrainTimes> = {}, pending = () => 0) => {
  const startMs = performance.now()
  await drain(server, pending, { ...TIMES, ...times }, log)
  return performance.now() - startMs
}

t.test('it listens until nobody has asked for a while', async (t) => {
  const server = new Server()
  await drainedMs(server)
  t.same(server.told, ['close connections', 'stop listening'])
  t.ok(server.stoppedMs >= 290, `${server.stoppedMs} ms: the time to listen is over, but not the quiet`)
  const asked = new Server()
  setTimeout(() => {
    asked.accepted += 1
  }, 200)
  await drainedMs(asked)
  t.ok(asked.stoppedMs >= 480, `${asked.stoppedMs} ms: 300 after the last request`)
})

t.test('what came while the node stood still is read before it stops listening', async (t) => {
  const server = new Server()
  setTimeout(() => {
    // Accepted in the turn after the look that is due by now, and asked for in the next one.
    setImmediate(() => setImmediate(() => (server.accepted += 1)))
    const startMs = performance.now()
    while (performance.now() - startMs < 2 * TIMES.quietMs);
  }, 20)
  await drainedMs(server)
  t.equal(server.acceptedBefore, 1)
})

t.test('it does not listen for ever', async (t) => {
  const server = new Server()
  let asked = 0
  // Another request by each look.
  Object.defineProperty(server, 'accepted', { get: () => (asked += 1) })
  await drainedMs(server)
  t.ok(server.stoppedMs >= 890, `${server.stoppedMs} ms`)
})

t.test('where nobody balances it stops listening at once', async (t) => {
  const server = new Server()
  await drainedMs(server, { listenMs: 0, quietMs: 10_000, extraMs: 20_000 })
  t.ok(server.stoppedMs < 9_000, `${server.stoppedMs} ms`)
})

t.test('it waits for answers, for calls without a caller, and for connections to end', async (t) => {
  for (const busy of ['inFlight', 'connections', 'pending'] as const) {
    const server = new Server()
    let pending = busy === 'pending' ? 1 : 0
    if (busy !== 'pending') server[busy] = 1
    setTimeout(() => {
      pending = server.inFlight = server.connections = 0
    }, 300)
    const ms = await drainedMs(server, { listenMs: 0 }, () => pending)
    t.ok(ms >= 290, `${busy}: ${ms} ms`)
    t.notMatch(server.told, ['refuse'])
  }
})

t.test('a connection that nobody uses is not waited for as long as an answer', async (t) => {
  const server = new Server()
  server.connections = 1
  const ms = await drainedMs(server, { listenMs: 0, answerMs: 20_000 })
  t.ok(ms >= 390 && ms < 10_000, `${ms} ms`)
})

t.test('what is not answered in time is refused', async (t) => {
  const server = new Server()
  server.inFlight = server.connections = 1
  await drainedMs(server, { listenMs: 0, answerMs: 300 })
  t.same(server.told, ['close connections', 'stop listening', 'refuse'])
})
