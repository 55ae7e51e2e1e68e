import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startSandbox } from '../../src/sandbox/server.ts'
import { speak } from '../../src/sandbox/speak.ts'

const AUDIO = speak('sos', 600, 1)

async function start(t: Test) {
  const { url, port, close } = await startSandbox()
  t.teardown(close)
  const call = (faults: Record<string, string>, audio: Buffer = AUDIO, signal?: AbortSignal) => {
    const body = new FormData()
    body.append('model', 'morse-1')
    body.append('file', new Blob([Uint8Array.from(audio)]), 'sos.wav')
    const headers = Object.fromEntries(
      Object.entries(faults).map(([name, value]) => [`x-sandbox-${name}`, value]),
    )
    return fetch(`${url}/audio/transcriptions`, { method: 'POST', body, headers, signal: signal ?? null })
  }
  const calls = async () => {
    const reply = await fetch(new URL('/sandbox/calls', url))
    return ((await reply.json()) as { calls: { status: number | null; bytes: number | null }[] }).calls
  }
  return { call, calls, port, url }
}

async function timed<T>(work: Promise<T>): Promise<[T, number]> {
  const startedMs = performance.now()
  return [await work, performance.now() - startedMs]
}

t.test('none', async (t) => {
  const { call } = await start(t)
  t.match(await (await call({})).json(), { text: 'sos' })
  t.match(await (await call({ hang: 'false', 'delay-ms': '0' })).json(), { text: 'sos' })
})

t.test('delay', async (t) => {
  const { call } = await start(t)
  const [reply, elapsedMs] = await timed(call({ 'delay-ms': '400' }))
  t.match(await reply.json(), { text: 'sos' })
  t.ok(elapsedMs >= 395, `took ${elapsedMs} ms`)
})

t.test('status, code and Retry-After', async (t) => {
  const { call } = await start(t)
  const rows: [Record<string, string>, number, object][] = [
    [{ status: '500' }, 500, { code: null, type: 'server_error' }],
    [{ status: '503' }, 503, { code: 'server_is_overloaded' }],
    [{ status: '429' }, 429, { code: 'rate_limit_exceeded', type: 'requests' }],
    [
      { status: '429', code: 'insufficient_quota' },
      429,
      { code: 'insufficient_quota', type: 'insufficient_quota' },
    ],
    [{ status: '401' }, 401, { code: 'invalid_api_key' }],
    [{ status: '404' }, 404, { code: 'model_not_found' }],
    [{ status: '400' }, 400, { code: null, type: 'invalid_request_error' }],
  ]
  for (const [faults, status, error] of rows) {
    const reply = await call(faults)
    t.equal(reply.status, status)
    t.match(await reply.json(), { error }, JSON.stringify(faults))
    t.equal(reply.headers.get('retry-after'), null)
  }
  t.equal((await call({ status: '503', 'retry-after': '7' })).headers.get('retry-after'), '7')
  const date = 'Fri, 20 Nov 2026 10:00:00 GMT'
  t.equal((await call({ status: '429', 'retry-after': date })).headers.get('retry-after'), date)
})

t.test('hang ends with the caller, and with the sandbox', async (t) => {
  const { call, calls } = await start(t)
  await t.rejects(call({ hang: 'true' }, AUDIO, AbortSignal.timeout(300)), { name: 'TimeoutError' })
  t.match((await calls())[0], { status: null, bytes: AUDIO.length }, 'read, and never answered')
  const own = await startSandbox()
  const body = new FormData()
  body.append('file', new Blob(['x']), 'x.wav')
  const headers = { 'x-sandbox-hang': 'true' }
  const hanging = fetch(`${own.url}/audio/transcriptions`, { method: 'POST', body, headers })
  hanging.catch(() => undefined)
  await sleep(200)
  await own.close()
  await t.rejects(hanging)
})

t.test('cut', async (t) => {
  const { call } = await start(t)
  const reply = await call({ cut: 'true' })
  t.equal(reply.status, 200)
  await t.rejects(reply.text(), 'half of what content-length promised')
})

t.test('a streamed answer in pieces: speech as it is made', async (t) => {
  const { url } = await start(t)
  const speech = (headers: Record<string, string> = {}) =>
    fetch(`${url}/audio/speech`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model: 'morse-1', input: 'sos sos' }),
    })
  const whole = Buffer.from(await (await speech()).arrayBuffer())
  const pieces = Math.ceil(whole.length / 16_000)
  t.ok(pieces > 2, `${pieces} pieces`)
  const [bytes, elapsedMs] = await timed(
    speech({ 'x-sandbox-piece-delay-ms': '200' }).then((reply) => reply.arrayBuffer()),
  )
  t.ok(whole.equals(Buffer.from(bytes)))
  t.ok(elapsedMs >= pieces * 195, `${pieces} pieces took ${elapsedMs} ms`)
  const cut = await speech({ 'x-sandbox-cut': 'true' })
  await t.rejects(cut.arrayBuffer(), 'no last chunk comes')
  t.equal((await speech({ 'x-sandbox-piece-delay-ms': '60001' })).status, 400)
})

t.test('empty', async (t) => {
  const { call } = await start(t)
  t.match(await (await call({ empty: 'true' })).json(), { text: '' })
})

t.test('early: the answer is out while the body still comes', async (t) => {
  const { call, calls, port } = await start(t)
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  const head = [
    'POST /v1/audio/transcriptions HTTP/1.1',
    'host: sandbox',
    'content-type: multipart/form-data; boundary=x',
    'content-length: 1000000',
    'x-sandbox-early: true',
    'x-sandbox-status: 503',
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\nonly this`)
  const [first] = (await once(socket, 'data')) as [Buffer]
  t.match(first.toString(), /^HTTP\/1\.1 503 /)
  t.match(first.toString(), /connection: keep-alive/i, 'the connection may be used again')
  t.match((await calls())[0], { status: 503, bytes: null })
  t.equal((await call({ early: 'true' })).status, 200)
})

t.test('a slow reader', async (t) => {
  const { call } = await start(t)
  const audio = Buffer.concat([Buffer.from('fLaC'), Buffer.alloc(500_000)])
  const [reply, elapsedMs] = await timed(call({ 'read-bytes-per-second': '1000000' }, audio))
  t.equal(reply.status, 200)
  t.ok(elapsedMs >= 480, `500 kB at 1 MB/s took ${elapsedMs} ms`)
})

t.test('only so many times, by key', async (t) => {
  const { call } = await start(t)
  const statuses = async (faults: Record<string, string>, times: number) => {
    const seen: number[] = []
    for (let index = 0; index < times; index += 1) seen.push((await call(faults)).status)
    return seen
  }
  t.same(await statuses({ 'fail-times': '2', key: 'a' }, 4), [500, 500, 200, 200])
  t.same(await statuses({ 'fail-times': '1', key: 'b', status: '429' }, 3), [429, 200, 200])
  t.same(await statuses({ 'fail-times': '1' }, 2), [500, 200])
  for (const slow of [{ 'piece-delay-ms': '1' }, { 'read-bytes-per-second': '100000000' }])
    t.same(await statuses({ 'fail-times': '1', key: Object.keys(slow)[0]!, ...slow }, 2), [200, 200])
  t.same(await statuses({ 'fail-times': '0', key: 'c', status: '500' }, 1), [200])
  t.match(await (await call({ 'fail-times': '1', key: 'd', empty: 'true' })).json(), { text: '' })
  t.match(await (await call({ 'fail-times': '1', key: 'd', empty: 'true' })).json(), { text: 'sos' })
})

t.test('orders in the query and at the beginning of the path', async (t) => {
  const { url } = await start(t)
  const statusOf = async (address: string) => (await fetch(address)).status
  t.equal(await statusOf(`${url}/models`), 200)
  t.equal(await statusOf(`${url}/models?x-sandbox-status=503`), 503)
  const base = url.replace('/v1', '/x-sandbox/status=429,fail-times=1,key=path/v1')
  t.equal(await statusOf(`${base}/models`), 429)
  t.equal(await statusOf(`${base}/models`), 200)
  const later = '/models?x-sandbox-status=500&x-sandbox-fail-after=1&x-sandbox-key=later'
  t.equal(await statusOf(url + later), 200)
  t.equal(await statusOf(url + later), 500)
})

t.test('headers that are not as documented are refused', async (t) => {
  const { call } = await start(t)
  const rows: [string, string][] = [
    ['delay-ms', 'soon'],
    ['delay-ms', '-1'],
    ['delay-ms', '600001'],
    ['status', '200'],
    ['hang', 'yes'],
    ['read-bytes-per-second', '0'],
    ['fail-times', '1.5'],
  ]
  for (const [name, value] of rows) {
    const reply = await call({ [name]: value })
    t.equal(reply.status, 400)
    t.match(await reply.json(), { error: { param: `x-sandbox-${name}` } }, `${name}: ${value}`)
  }
})
