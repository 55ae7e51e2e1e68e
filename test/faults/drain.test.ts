import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { answerOf, uploadsOf } from '../support/audio-upload.ts'
import { type DemoProcess, startDemoProcess } from '../support/demo-route.ts'
import { RawClient } from '../support/raw-client.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

t.setTimeout(120_000)
// They wait more than they work.
t.jobs = 5

const AUDIO = filledWav(400_000, 4)
const GET_HEALTH = 'GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n'
/** An upload at 8 KiB/s is slow, and not too slow. */
const PIECE_BYTES = 4_096
const PIECE_MS = 500

const start = (t: Test, config: object = {}, drainSeconds = '2') =>
  startDemoProcess(t, { config: { ...config }, env: { LARKWAY_DRAIN_SECONDS: drainSeconds } })

const said = ({ log }: DemoProcess, message: string) => log.some(({ msg }) => msg === message)

const ask = ({ url, authorization }: DemoProcess, path: string) =>
  fetch(`${url}${path}`, { headers: { ...authorization, connection: 'keep-alive' } })

/** Tells it to stop, and waits until it has heard; `ended` resolves with its exit code. */
async function tell(
  gateway: DemoProcess,
  signal: NodeJS.Signals,
): Promise<{ ended: Promise<number | null> }> {
  const ended = gateway.signal(signal)
  await waitUntil(() => said(gateway, 'stopping'))
  return { ended }
}

const refuses = async (gateway: DemoProcess) =>
  RawClient.connect(gateway.port).then(
    (client) => void client.destroy(),
    (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED',
  )

t.test('it listens on while balancers leave it', { buffered: true }, async (t) => {
  const gateway = await start(t)
  const early = await RawClient.connect(gateway.port)
  const { ended } = await tell(gateway, 'SIGTERM')
  const startMs = performance.now()
  const ready = await ask(gateway, '/readyz')
  t.same([ready.status, await ready.json()], [503, { status: 'stopping' }], 'it says so at once')
  t.equal((await ask(gateway, '/healthz')).status, 200, 'and is not restarted for it')
  const me = await ask(gateway, '/v1/me')
  t.same([me.status, me.headers.get('connection')], [200, 'close'], 'a new connection is served, and closed')
  await early.send(GET_HEALTH)
  t.match(await early.response(), { status: 200, headers: { connection: 'close' } }, 'so is an old one')
  t.ok(await early.closes())
  t.ok(await waitUntil(() => said(gateway, 'not listening'), 20_000))
  const listenedMs = performance.now() - startMs
  t.ok(listenedMs > 2_500, `3 s after the last request, having listened for ${Math.round(listenedMs)} ms`)
  t.ok(await refuses(gateway), 'then it refuses connections')
  t.equal(await ended, 0)
})

t.test('while requests keep coming it listens longer, and not for ever', { buffered: true }, async (t) => {
  const gateway = await start(t, {}, '1')
  const startMs = performance.now()
  const { ended } = await tell(gateway, 'SIGTERM')
  const statuses = new Set<number>()
  while (!said(gateway, 'not listening')) {
    const answer = await ask(gateway, '/v1/me').catch(() => null)
    if (answer !== null) statuses.add(answer.status)
    await sleep(50)
  }
  const listenedMs = performance.now() - startMs
  t.ok(listenedMs > 10_500, `for ${Math.round(listenedMs)} ms`)
  t.same(statuses, new Set([200]), 'all of them are answered')
  t.equal(await ended, 0)
})

t.test('probes are no requests', { buffered: true }, async (t) => {
  const gateway = await start(t, {}, '1')
  const startMs = performance.now()
  const { ended } = await tell(gateway, 'SIGTERM')
  while (!said(gateway, 'not listening')) {
    await Promise.allSettled([ask(gateway, '/readyz'), ask(gateway, '/healthz')])
    await sleep(50)
  }
  t.ok(performance.now() - startMs < 10_000, 'it does not listen on for them')
  t.equal(await ended, 0)
})

t.test('a person does not wait', { buffered: true }, async (t) => {
  const gateway = await start(t, {}, '30')
  const idle = await RawClient.connect(gateway.port)
  const { ended } = await tell(gateway, 'SIGINT')
  t.equal(await Promise.race([ended, sleep(15_000, 'still there', { ref: false })]), 0)
  t.ok(await idle.closes())
})

t.test('a second signal ends it while it drains', { buffered: true }, async (t) => {
  const gateway = await start(t, {}, '30')
  await tell(gateway, 'SIGTERM')
  t.equal(await gateway.signal('SIGTERM'), 1)
})

t.test('what was begun is answered, on whichever connection', { buffered: true }, async (t) => {
  const gateway = await start(t)
  const { raw, multipart } = uploadsOf(AUDIO, gateway.authorization.authorization)
  const [half, late, kept] = await Promise.all([
    RawClient.connect(gateway.port),
    RawClient.connect(gateway.port),
    RawClient.connect(gateway.port),
  ])
  await half.send(raw.head, raw.body.subarray(0, 100_000))
  const { ended } = await tell(gateway, 'SIGTERM')
  await late.send(multipart.head, multipart.body.subarray(0, 100_000))
  t.ok(await waitUntil(() => said(gateway, 'not listening'), 30_000))
  await Promise.all([half.send(raw.body.subarray(100_000)), late.send(multipart.body.subarray(100_000))])
  t.match(await Promise.all([answerOf(half), answerOf(late)]), [{ status: 200 }, { status: 200 }])
  // Nobody told this one to go, and its next request may be on the way at any time.
  await kept.send(raw.head, raw.body)
  t.match(await answerOf(kept), { status: 200 }, 'a connection that was there before is served to its end')
  t.equal(await ended, 0)
  t.match(gateway.log.at(-1), { msg: 'stopped', held_bytes: 0 })
})

t.test('an upload that takes too long is refused, and not cut', { buffered: true }, async (t) => {
  const gateway = await start(t, { deadline_seconds: 1, video_deadline_seconds: 1 }, '1')
  const { raw } = uploadsOf(AUDIO, gateway.authorization.authorization)
  const client = await RawClient.connect(gateway.port)
  await client.send(raw.head)
  let answered = false
  const answer = answerOf(client).finally(() => {
    answered = true
  })
  const { ended } = await tell(gateway, 'SIGTERM')
  for (let sent = 0; !answered; sent += PIECE_BYTES) {
    await client.send(raw.body.subarray(sent, sent + PIECE_BYTES))
    await sleep(PIECE_MS)
  }
  t.match(await answer, { status: 503, code: 'OVERLOADED' })
  t.equal(await ended, 0)
})
