import { once } from 'node:events'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { startGateway } from '../support/gateway.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

/** A demo whose time stands still until a test moves it. */
async function start(t: Test) {
  const clock = new VirtualClock()
  const { url, key } = await startGateway(t, { clock })
  const post = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const answer = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    return (await answer.json()) as Record<string, unknown>
  }
  const connect = (path: string, bearer = key) =>
    new WebSocket(`${url.replace('http', 'ws')}${path}`, { headers: { authorization: `Bearer ${bearer}` } })
  return { clock, post, connect }
}

/** Moves the time on to just before the close of a socket, and then to it. */
async function closesAfter(socket: WebSocket, clock: VirtualClock, ms: number): Promise<number> {
  let code = 0
  socket.on('close', (closed) => {
    code = closed
  })
  await clock.armed(ms)
  await clock.advance(ms - 1)
  if (code !== 0) return 0
  const closed = once(socket, 'close')
  await clock.advance(1)
  await closed
  return code
}

t.test('a socket without a first message is closed after ten seconds', async (t) => {
  const { clock, connect } = await start(t)
  const socket = connect('/v1/transcription/stream')
  await once(socket, 'open')
  const told = once(socket, 'message')
  t.equal(await closesAfter(socket, clock, 10_000), 4408)
  t.match(JSON.parse(String((await told)[0])), { type: 'error', error: { code: 'REQUEST_TIMEOUT' } })
})

t.test('a session of OpenAI’s without audio is closed after its idle time', async (t) => {
  const { clock, connect } = await start(t)
  const socket = connect('/openai/v1/realtime?intent=transcription')
  await once(socket, 'message')
  t.equal(await closesAfter(socket, clock, 60_000), 1008)
})

t.test('answers have the moment of the node, and client secrets expire by it', async (t) => {
  const { clock, post, connect } = await start(t)
  const nowSeconds = () => Math.floor(clock.wallNow() / 1000)
  const chat = { messages: [{ role: 'user', content: 'sos' }] }
  t.equal((await post('/openai/v1/chat/completions', chat)).created, nowSeconds())
  const secret = await post('/openai/v1/realtime/client_secrets', { session: { type: 'transcription' } })
  t.equal(secret.expires_at, nowSeconds() + 600)
  const opened = connect('/openai/v1/realtime', String(secret.value))
  t.match(JSON.parse(String((await once(opened, 'message'))[0])), { type: 'session.created' })
  opened.terminate()
  await clock.advance(600_000)
  const late = connect('/openai/v1/realtime', String(secret.value))
  const [, response] = await once(late, 'unexpected-response')
  t.equal(response.statusCode, 401)
  late.on('error', () => {})
  late.terminate()
  t.equal((await post('/openai/v1/chat/completions', chat)).created, nowSeconds(), 'ten minutes later')
})
