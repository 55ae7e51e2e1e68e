import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { WebhookMessage } from '../../../src/contracts/webhooks.ts'
import { createWebhookPoster, type PosterDependencies } from '../../../src/gateway/outbound/post-webhook.ts'
import { createAuthority, selfSigned } from '../../support/certificates.ts'
import { dialInto } from '../../support/tls-host.ts'
import { waitUntil } from '../../support/wait-until.ts'
import {
  answering,
  type Behaviour,
  dripping,
  endless,
  HOOKS_AUTHORITY,
  hanging,
  type ReceiverOptions,
  resetting,
  sending,
  startReceiver,
} from '../../support/webhook-receiver.ts'

t.setTimeout(60_000)

const URL_OF_HOOK = 'https://hooks.example/stt?key=1'
const MESSAGE: WebhookMessage = {
  headers: { 'content-type': 'application/json', 'user-agent': 'Larkway', 'x-lk-webhook-id': 'evt_1' },
  body: '{"type":"webhook.test"}',
}
const LONG = { totalMs: 20_000, bodyMs: 500 }
/** For targets that let it pass. */
const SHORT = { totalMs: 600, bodyMs: 200 }
const DAY_MS = 86_400_000

/** A target at 8.8.8.8, and a poster for which this is the address of every name. */
async function startHook(
  t: Test,
  behave: Behaviour,
  parts: Partial<PosterDependencies> = {},
  options: ReceiverOptions = {},
) {
  const receiver = await startReceiver(t, behave, options)
  const { dial, dialled } = dialInto({ '8.8.8.8': receiver })
  const post = createWebhookPoster({
    insecure: false,
    resolve: async () => ['8.8.8.8'],
    dial,
    ca: HOOKS_AUTHORITY.cert,
    timing: LONG,
    ...parts,
  })
  return { receiver, dialled, post }
}

const answered = (status: number, retryAfterMs: number | null = null) => ({
  kind: 'answered',
  status,
  retryAfterMs,
})

t.test('a delivery as it is sent', async (t) => {
  const { receiver, dialled, post } = await startHook(t, answering(200))
  t.same(await post(URL_OF_HOOK, MESSAGE), answered(200))
  t.same(await post('https://hooks.example:8443/', { ...MESSAGE, body: '{"é":1}' }), answered(200))
  t.same(dialled, ['8.8.8.8 443', '8.8.8.8 8443'])
  const [first, second] = receiver.received
  t.match(first, { method: 'POST', path: '/stt?key=1', body: MESSAGE.body })
  t.same(first?.headers, {
    host: 'hooks.example',
    ...MESSAGE.headers,
    'accept-encoding': 'identity',
    connection: 'close',
    'content-length': '23',
  })
  t.match(second, { path: '/', headers: { host: 'hooks.example:8443', 'content-length': '8' } })
  t.equal(receiver.connections.made, 2, 'each on a connection of its own')
  t.ok(await waitUntil(() => receiver.connections.open === 0), 'none of which stays')
})

t.test('every status is an answer, and no redirect is followed', async (t) => {
  let status = 0
  const { receiver, post } = await startHook(t, (line, delivery) =>
    answering(status, 'Location: https://hooks.example/elsewhere')(line, delivery),
  )
  const statuses = [200, 201, 202, 204, 299, 301, 302, 303, 304, 307, 308, 400, 404, 410, 429, 500, 502, 599]
  for (status of statuses) t.same(await post(URL_OF_HOOK, MESSAGE), answered(status))
  t.same(new Set(receiver.received.map(({ path }) => path)), new Set(['/stt?key=1']))
  t.equal(receiver.received.length, statuses.length)
})

const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1000).toUTCString()

t.test('what a target asks for by Retry-After', async (t) => {
  let lines: string[] = []
  const { post } = await startHook(t, (line, delivery) => answering(429, ...lines)(line, delivery))
  const rows: readonly [lines: string[], ms: number | null][] = [
    [[], null],
    [['Retry-After: 0'], 0],
    [['Retry-After: 7'], 7_000],
    [['Retry-After: 86400'], 86_400_000],
    [['Date: Fri, 20 Nov 2026 10:00:00 GMT', 'Retry-After: Fri, 20 Nov 2026 10:02:00 GMT'], 120_000],
    [['Date: Fri, 20 Nov 2026 10:02:00 GMT', 'Retry-After: Fri, 20 Nov 2026 10:00:00 GMT'], 0],
    ...['-5', '1.5', 'soon', '2026-11-20', 'Fri, 20 Nov 2026 10:02:00', '99999999999', ''].map(
      (given): [string[], null] => [[`Retry-After: ${given}`], null],
    ),
  ]
  for (const [given, ms] of rows) {
    lines = given
    t.same(await post(URL_OF_HOOK, MESSAGE), answered(429, ms), given.join('; '))
  }
  lines = [`Retry-After: ${inSeconds(30)}`]
  const undated = await post(URL_OF_HOOK, MESSAGE)
  const ms = (undated.kind === 'answered' && undated.retryAfterMs) || 0
  t.ok(ms > 20_000 && ms <= 30_000, `by our own clock without a date: ${ms}`)
})

const UNREADABLE = 'the answer cannot be read'
const NOT_ANSWERS: Record<string, [behave: Behaviour, reason: RegExp | string]> = {
  silence: [hanging, 'no answer within 600 ms'],
  'one byte at a time': [dripping(50), 'no answer within 600 ms'],
  'a reset': [resetting, /^the connection broke \((ECONNRESET|EPIPE)\)$/],
  'the end of the connection': [sending(''), /^the connection broke \(ECONNRESET\)$/],
  'half a head': [sending('HTTP/1.1 200 OK\r\nContent-'), /^the connection broke|cannot be read/],
  'no HTTP': [sending('SSH-2.0-OpenSSH_9.2\r\n'), UNREADABLE],
  'HTTP/2': [sending('\0\0\x12\x04\0\0\0\0\0'), UNREADABLE],
  'two lengths': [sending('HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'), UNREADABLE],
  'a head over 16 KiB': [sending(`HTTP/1.1 200 OK\r\nA: ${'x'.repeat(17_000)}\r\n\r\n`), UNREADABLE],
  'another protocol': [
    sending('HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n'),
    /^the connection/,
  ],
  'nothing but 100': [({ socket }) => socket.write('HTTP/1.1 100 Continue\r\n\r\n'), /^no answer within/],
}

t.test('what is no answer', async (t) => {
  for (const [name, [behave, reason]] of Object.entries(NOT_ANSWERS)) {
    const timing = String(reason).includes('no answer within') ? SHORT : LONG
    const { receiver, post } = await startHook(t, behave, { timing })
    const beganMs = performance.now()
    const posted = await post(URL_OF_HOOK, MESSAGE)
    t.match(posted, { kind: 'failed', reason }, name)
    t.ok(performance.now() - beganMs < 10_000, `${name}: in time`)
    t.ok(await waitUntil(() => receiver.connections.open === 0), `${name}: no connection stays`)
  }
})

t.test('what comes after a good head changes nothing', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\n'
  const behaviours: Record<string, Behaviour> = {
    'a body that is cut': sending(`${head}Content-Length: 10\r\n\r\nabc`),
    'a body that stops': ({ socket }) => socket.write(`${head}Content-Length: 10\r\n\r\nabc`),
    'a body in bad chunks': sending(`${head}Transfer-Encoding: chunked\r\n\r\nnonsense`),
    'a body without a length': sending(`${head}\r\nabc`),
    'a compressed body': sending(`${head}Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc`),
  }
  for (const [name, behave] of Object.entries(behaviours)) {
    const { receiver, post } = await startHook(t, behave)
    t.same(await post(URL_OF_HOOK, MESSAGE), answered(200), name)
    t.ok(await waitUntil(() => receiver.connections.open === 0), `${name}: no connection stays`)
  }
})

t.test('an answer of 10 GB is left after 64 KiB', async (t) => {
  const sent = { bytes: 0 }
  const { receiver, post } = await startHook(t, endless(sent), {
    timing: { totalMs: 20_000, bodyMs: 20_000 },
  })
  t.same(await post(URL_OF_HOOK, MESSAGE), answered(200), 'once, to have everything loaded')
  const before = process.memoryUsage()
  sent.bytes = 0
  const beganMs = performance.now()
  const DELIVERIES = 40
  for (let done = 0; done < DELIVERIES; done += 1) await post(URL_OF_HOOK, MESSAGE)
  t.ok(performance.now() - beganMs < 20_000, 'none of them is waited for')
  t.ok(await waitUntil(() => receiver.connections.open === 0))
  const perDelivery = sent.bytes / DELIVERIES
  // The buffers of the system on both sides take that much; receiving takes up to 6 MiB of them by default.
  t.ok(perDelivery < 16 * 1024 * 1024, `${Math.round(perDelivery / 1024)} KiB went into the socket`)
  await sleep(50)
  const grownMib = (process.memoryUsage().rss - before.rss) / 1024 / 1024
  t.ok(grownMib < 100, `memory grew by ${Math.round(grownMib)} MiB, the receiver's own buffers included`)
})

t.test('certificates', async (t) => {
  const valid = (from: number, to: number) => ({
    from: new Date(Date.now() + from * DAY_MS),
    to: new Date(Date.now() + to * DAY_MS),
  })
  const issue = HOOKS_AUTHORITY.issue
  const rows: Record<string, [ReceiverOptions, reason: RegExp | null]> = {
    good: [{}, null],
    'of another name': [{ names: ['other.example'] }, /ERR_TLS_CERT_ALTNAME_INVALID/],
    expired: [{ certificate: issue(['hooks.example'], valid(-30, -1)) }, /CERT_HAS_EXPIRED/],
    'not yet valid': [{ certificate: issue(['hooks.example'], valid(1, 30)) }, /CERT_NOT_YET_VALID/],
    'self-signed': [{ certificate: selfSigned(['hooks.example']) }, /DEPTH_ZERO_SELF_SIGNED_CERT/],
    'of an unknown authority': [{ certificate: createAuthority().issue(['hooks.example']) }, /UNABLE_TO/],
    'none at all: plain HTTP': [{ names: null }, /no answer within/],
  }
  for (const [name, [options, reason]] of Object.entries(rows)) {
    const timing = options.names === null ? SHORT : LONG
    const { receiver, post } = await startHook(t, answering(200), { timing }, options)
    const posted = await post(URL_OF_HOOK, MESSAGE)
    if (reason === null) t.same(posted, answered(200), name)
    else {
      t.match(posted, { kind: 'failed', reason }, name)
      t.equal(receiver.received.length, 0, `${name}: nothing is sent`)
    }
    t.ok(await waitUntil(() => receiver.connections.open === 0), `${name}: no connection stays`)
  }
})

t.test('without an authority of the test, that of the test is unknown', async (t) => {
  const receiver = await startReceiver(t, answering(200))
  const { dial } = dialInto({ '8.8.8.8': receiver })
  const post = createWebhookPoster({ insecure: false, resolve: async () => ['8.8.8.8'], dial })
  t.match(await post(URL_OF_HOOK, MESSAGE), { kind: 'failed', reason: /no connection/ })
})

t.test('no listener, and the next address', async (t) => {
  const { post, dialled } = await startHook(t, answering(200), { resolve: async () => ['1.1.1.1'] })
  t.same(await post(URL_OF_HOOK, MESSAGE), { kind: 'failed', reason: 'no connection (ECONNREFUSED)' })
  t.same(dialled, ['1.1.1.1 443'])

  const many = ['1.1.1.1', '8.8.8.8', '9.9.9.9', '4.4.4.4']
  const next = await startHook(t, answering(200), { resolve: async () => many })
  t.same(await next.post(URL_OF_HOOK, MESSAGE), answered(200))
  t.same(next.dialled, ['1.1.1.1 443', '8.8.8.8 443'])
})

t.test('for development http goes to this machine, and nowhere else', async (t) => {
  const receiver = await startReceiver(t, answering(204), { names: null })
  const resolved: string[] = []
  const resolve = async (host: string) => {
    resolved.push(host)
    return ['127.0.0.1']
  }
  const insecure = createWebhookPoster({ insecure: true, resolve, timing: LONG })
  const secure = createWebhookPoster({ insecure: false, resolve, timing: LONG })
  for (const host of ['127.0.0.1', 'localhost']) {
    const url = `http://${host}:${receiver.port}/a?b`
    t.same(await insecure(url, MESSAGE), answered(204), host)
    t.match(receiver.received.at(-1), { path: '/a?b', headers: { host: `${host}:${receiver.port}` } })
    t.match(await secure(url, MESSAGE), { kind: 'refused', reason: 'the URL must begin with https://' })
  }
  t.same(resolved, [], 'no resolver is asked where this machine is')
  const count = receiver.received.length
  for (const host of ['127.0.0.2', '[::1]', 'hooks.example', 'a.localhost', '0.0.0.0', '10.0.0.1'])
    t.match(await insecure(`http://${host}:${receiver.port}/`, MESSAGE), { kind: 'refused' }, host)
  t.match(await insecure(`https://127.0.0.1:${receiver.port}/`, MESSAGE), { kind: 'refused' })
  t.match(await insecure(`https://hooks.example:${receiver.port}/`, MESSAGE), {
    kind: 'refused',
    reason: 'the host has an address that is not public',
  })
  t.equal(receiver.received.length, count)
})
