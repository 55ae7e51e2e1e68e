import t from 'tap'
import { createLogger } from '../../../src/contracts/log.ts'
import { makeKey } from '../../../src/gateway/catalog/key.ts'
import type { EdgeServer } from '../../../src/gateway/edge/server.ts'
import { UWS_ENVIRONMENT } from '../../../src/gateway/edge/uws.ts'
import { type DrainTimes, drain } from '../../../src/gateway/node/drain.ts'
import { openServer } from '../../../src/gateway/node/serve.ts'
import { gatewayEnvironment } from '../../support/gateway.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'

const log = createLogger('silent')
const TIMES: DrainTimes = { listenMs: 2_000, quietMs: 3_000, extraMs: 10_000, answerMs: 5_000, idleMs: 400 }
/** Between two looks of a node that leaves. */
const LOOK_MS = 50

/** A server of which the test says what it has under way; notes what it is told, and when. */
class Server implements EdgeServer {
  readonly port = 0
  readonly tlsPort = undefined
  readonly uws = ''
  readonly clock = new VirtualClock()
  /** How long the process stood still so far. */
  stalledMs = 0
  inFlight = 0
  accepted = 0
  connections = 0
  readonly told: string[] = []
  stoppedMs = 0
  acceptedBefore = 0

  renewCertificate(): void {}
  closeConnections(): void {
    this.told.push('close connections')
  }
  stopListening(): void {
    this.stoppedMs = this.clock.now()
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

/** Drains it, while time passes. @returns how long that took */
async function drainedMs(server: Server, times: Partial<DrainTimes> = {}, pending = () => 0) {
  const clock = { ...server.clock, now: () => server.clock.now() + server.stalledMs }
  let isDone = false
  const drained = drain(server, pending, { ...TIMES, ...times }, { log, clock }).then(() => {
    isDone = true
  })
  while (!isDone) await server.clock.advance(LOOK_MS)
  await drained
  return server.clock.now()
}

t.test('it listens until no one has asked for a while', async (t) => {
  const server = new Server()
  await drainedMs(server)
  t.same(server.told, ['close connections', 'stop listening'])
  t.equal(server.stoppedMs, 3_000, 'the time to listen is over before, but not the quiet')
  const asked = new Server()
  asked.clock.after(2_010, () => {
    asked.accepted += 1
  })
  await drainedMs(asked)
  t.equal(asked.stoppedMs, 2_050 + 3_000, 'as long after the look that saw the last request')
})

t.test('what came while the node stood still is read before it stops listening', async (t) => {
  const server = new Server()
  server.clock.after(20, () => {
    server.stalledMs = 2 * TIMES.quietMs
    // Accepted after the look that is due by now.
    server.clock.after(LOOK_MS, () => (server.accepted += 1))
  })
  await drainedMs(server)
  t.equal(server.acceptedBefore, 1)
})

t.test('it does not listen for ever', async (t) => {
  const server = new Server()
  let asked = 0
  // Another request by each look.
  Object.defineProperty(server, 'accepted', { get: () => (asked += 1) })
  await drainedMs(server)
  t.equal(server.stoppedMs, 12_000)
})

t.test('without a balancer it stops listening at once', async (t) => {
  const server = new Server()
  await drainedMs(server, { listenMs: 0 })
  t.equal(server.stoppedMs, 0)
})

t.test('it waits for answers, for calls without a caller, and for connections to end', async (t) => {
  for (const busy of ['inFlight', 'connections', 'pending'] as const) {
    const server = new Server()
    let pending = busy === 'pending' ? 1 : 0
    if (busy !== 'pending') server[busy] = 1
    server.clock.after(300, () => {
      pending = server.inFlight = server.connections = 0
    })
    const ms = await drainedMs(server, { listenMs: 0 }, () => pending)
    t.ok(ms >= 300 && ms <= 350, `${busy}: ${ms} ms`)
    t.notMatch(server.told, ['refuse'])
  }
})

t.test('an idle connection is not waited for as long as an answer', async (t) => {
  const server = new Server()
  server.connections = 1
  t.equal(await drainedMs(server, { listenMs: 0 }), TIMES.idleMs)
})

t.test('what is not answered in time is refused', async (t) => {
  const server = new Server()
  server.inFlight = server.connections = 1
  await drainedMs(server, { listenMs: 0 })
  t.same(server.told, ['close connections', 'stop listening', 'refuse'])
})

t.test('a node has stopped when its last lines are read', async (t) => {
  const lines: string[] = []
  let read: (() => void) | null = null
  const output = {
    write: (line: string) => void lines.push(line),
    flush: (written: () => void) => {
      read = written
    },
  }
  const { env } = await gatewayEnvironment(t, {}, makeKey())
  Object.assign(process.env, UWS_ENVIRONMENT)
  const node = await openServer(env, () => createLogger('info', output))
  let isStopped = false
  const stopped = node.stop('SIGINT').then(() => {
    isStopped = true
  })
  t.ok(await waitUntil(() => read !== null))
  t.match(lines.at(-1), '"msg":"stopped"')
  t.notOk(isStopped, 'as long as nothing has read it')
  read!()
  await stopped
})
