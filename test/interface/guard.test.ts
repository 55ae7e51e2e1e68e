import { once } from 'node:events'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { dialAddress } from '../../src/gateway/outbound/connect-address.ts'
import { createResolver } from '../../src/gateway/outbound/public-host.ts'
import { headOf } from '../support/audio-fetch.ts'
import { type DnsAnswer, type DnsQuestion, serveDns } from '../support/dns-server.ts'
import { OTHER_ADDRESSES, PUBLIC_ADDRESSES } from '../support/guard-addresses.ts'
import {
  ANSWERS,
  good as audioWith,
  FAILED,
  LENGTH,
  NOT_DELIVERED,
  redirect,
  SOUND,
  TARGETS,
  TYPE,
} from '../support/guard-answers.ts'
import { DNS_ANSWERS, NOT_PUBLIC, PUBLIC, UNRESOLVABLE } from '../support/guard-dns.ts'
import { TLS_HOSTS } from '../support/guard-hosts.ts'
import {
  ALLOWED_URLS,
  DOMAINS,
  REFUSED_URLS,
  shown,
  URLS_OF_HOOKS,
  URLS_OF_HOOKS_ALONE,
  URLS_REFUSED_TO_HOOKS,
} from '../support/guard-urls.ts'
import { type Answering, serveTcp, serveTls } from '../support/tls-host.ts'
import { type GuardRigOptions, good, HAS_IPV6, startGuardRig } from './guard-rig.ts'

// The matrices of addresses, answers, names, certificates, times and URLs are held by the tests of src/outbound. Here
// some of each are sent by the three ways in which a caller's URL becomes a connection: a call, a job, and its event.

t.setTimeout(120_000)

const URL_OF_AUDIO = 'https://good.example/a.mp3'
const URL_OF_HOOK = 'https://hooks.example/'
const NOT_DIALLED = 'the host has an address that is not public'

/** A rig, with the ways in a row. */
async function start(t: Test, options: Partial<GuardRigOptions> = {}) {
  const rig = await startGuardRig(t, { domains: ['good.example'], ...options })
  t.equal(await rig.putWebhook(URL_OF_HOOK), 200)
  /** @returns the end of the event */
  const throughAll = async (t: Test, name: string, outcome: string, url = URL_OF_AUDIO): Promise<string> => {
    t.equal(await rig.transcribe(url), outcome, name)
    const { id, word } = await rig.run(url)
    t.equal(word, outcome === 'heard' ? 'heard' : `failed: ${outcome}`, 'by a job')
    return rig.delivery(id!)
  }
  return { rig, throughAll }
}

/** Every nth of a list, the last one too. */
const sample = <Item>(items: readonly Item[], n: number): Item[] =>
  items.filter((_, index) => index % n === 0 || index === items.length - 1)

t.test('addresses that are not public are not dialled, public ones are', async (t) => {
  let addresses: readonly string[] = []
  const { rig, throughAll } = await start(t, { resolve: async () => addresses })
  for (const [index, address] of sample(OTHER_ADDRESSES, 8).entries()) {
    addresses = [[address], [PUBLIC, address], [address, PUBLIC], [...Array(8).fill(PUBLIC), address]][
      index % 4
    ]!
    t.equal(await throughAll(t, `${address}, ${addresses.length}`, NOT_PUBLIC), NOT_DIALLED)
  }
  t.same([rig.dialled, rig.sentinels(), rig.heard()], [[], 0, 0])
  for (const address of sample(PUBLIC_ADDRESSES, 4)) {
    addresses = [address]
    rig.dialled.length = 0
    t.equal(await throughAll(t, address, 'heard'), 'delivered')
    t.same(rig.dialled, Array(3).fill(`${address} 443`))
  }
  t.equal(rig.sentinels(), 0)
  for (const address of sample(OTHER_ADDRESSES, 8)) await once(rig.dial(address, 443), 'connect')
  t.ok(rig.dialled.length > 3, 'a guard that let them through would reach the sentinels')
})

t.test('listeners on this machine hear nothing when the kernel itself is dialled', async (t) => {
  const four = await serveTcp(t, '0.0.0.0')
  const six = HAS_IPV6 ? await serveTcp(t, '::1') : null
  const made = () => four.connections.made + (six?.connections.made ?? 0)
  // Port 443 of this machine may be another's.
  const dial = (address: string) => dialAddress(address, address.startsWith('::1') ? six!.port : four.port)
  let address = ''
  const { throughAll } = await start(t, { resolve: async () => [address], dial })
  for (address of ['127.0.0.1', '::ffff:127.0.0.1', ...(HAS_IPV6 ? ['::1'] : [])]) {
    const socket = dial(address)
    await once(socket, 'connect')
    socket.destroy()
    const before = made()
    t.equal(await throughAll(t, address, NOT_PUBLIC), NOT_DIALLED)
    t.equal(made(), before)
  }
})

t.test('answers of hosts', async (t) => {
  const { rig, throughAll } = await start(t)
  let hearings = 0
  for (const [name, [answer, outcome]] of sample(Object.entries(ANSWERS), 9)) {
    rig.answer = (socket) => socket.end(answer, 'latin1')
    rig.dialled.length = 0
    t.equal(await throughAll(t, name, outcome), NOT_DELIVERED[name] ?? 'delivered', 'its event')
    // A host that failed is asked again by the job, one that has answered is not.
    t.equal(rig.dialled.length, outcome.startsWith(FAILED) ? 5 : 3)
    if (outcome === 'heard') hearings += 2
  }
  t.equal(rig.heard(), hearings, 'nothing else reaches a provider')
  for (const [name, expected] of Object.entries(NOT_DELIVERED)) {
    rig.answer = (socket) => socket.end(ANSWERS[name]![0], 'latin1')
    t.equal(await rig.deliver(), expected, `${name}, to a webhook`)
  }
})

t.test('redirects are followed to hosts of the list, three times at most, and by no webhook', async (t) => {
  const resolve = async (name: string) => (name === 'inner.example' ? ['10.0.0.1'] : [PUBLIC])
  const domains = ['good.example', 'other.example', 'inner.example']
  const { rig, throughAll } = await start(t, { domains, resolve })
  for (const name of [
    'another host that is listed',
    'cloud metadata',
    'a host that is not public',
    'itself',
  ]) {
    const [location, outcome] = TARGETS[name]!
    rig.answer = (socket, head) =>
      socket.end(head.startsWith('GET /there ') ? SOUND : redirect(location), 'latin1')
    t.equal(await throughAll(t, name, outcome), 'status 302')
  }
  const posted = rig.requests.filter((head) => head.startsWith('POST '))
  t.ok(posted.every((head) => head.startsWith('POST / HTTP/1.1\r\nhost: hooks.example\r\n')))
  t.equal(posted.length, 4)
  t.equal(rig.sentinels(), 0)
})

const BODIES: Record<string, [answer: Answering, outcome: string]> = {
  'half of what is declared': [
    (socket) => socket.write(headOf(1000) + 'x'.repeat(500), () => socket.destroy()),
    FAILED,
  ],
  'more than is declared': [(socket) => socket.write(headOf(10) + 'x'.repeat(5_000_000)), FAILED],
  '10 KB of gzip, 10 MB in fact': [
    (socket) => {
      const bomb = gzipSync(Buffer.alloc(10_000_000))
      socket.write(headOf(bomb.length, 'Content-Encoding: gzip'))
      socket.end(bomb)
    },
    'AUDIO_URL_REJECTED unsupported_content_type',
  ],
  'a byte more than may be': [(socket) => socket.write(headOf(25 * 1024 ** 2 + 1)), 'AUDIO_TOO_LARGE'],
}

t.test('bodies that are not sound reach no provider, and are not read by webhooks', async (t) => {
  const { rig, throughAll } = await start(t)
  for (const [name, [answer, outcome]] of Object.entries(BODIES)) {
    rig.answer = (socket, head, index) =>
      head.startsWith('POST ') ? socket.end(audioWith(TYPE, LENGTH), 'latin1') : answer(socket, head, index)
    t.equal(await throughAll(t, name, outcome), 'delivered')
    rig.answer = answer
    t.equal(await rig.deliver(), 'delivered', name)
  }
  t.equal(rig.heard(), Object.keys(BODIES).length, 'the audio that came with the jobs')
})

t.test('answers of the DNS', async (t) => {
  let zone: (question: DnsQuestion) => DnsAnswer | null = () => null
  const dns = await serveDns(t, (question) => zone(question))
  // None of them is silent: on a busy machine an answer may be late.
  const resolve = createResolver({ servers: [dns.server], timeoutMs: 20_000 })
  const { rig, throughAll } = await start(t, { resolve })
  const deliveries: Readonly<Record<string, string>> = {
    heard: 'delivered',
    [NOT_PUBLIC]: NOT_DIALLED,
    [UNRESOLVABLE]: 'the host has no address in the DNS',
  }
  for (const [name, [answer, outcome]] of sample(Object.entries(DNS_ANSWERS), 5)) {
    zone = answer
    rig.dialled.length = 0
    t.equal(await throughAll(t, name, outcome), deliveries[outcome], 'its event')
    t.equal(rig.dialled.length, outcome === 'heard' ? 3 : 0)
  }
  t.equal(rig.sentinels(), 0)
})

t.test('certificates', async (t) => {
  // This variable would make Node take any certificate.
  const { NODE_TLS_REJECT_UNAUTHORIZED: before } = process.env
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  t.teardown(() => {
    if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
    else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before
  })
  const { rig, throughAll } = await start(t)
  t.equal(await rig.putWebhook('https://good.example/hook'), 200)
  for (const name of ['a good certificate', 'another name', 'self-signed', 'TLS 1.1']) {
    const [options, isSound] = TLS_HOSTS[name]!
    const host = await serveTls(t, options(), good)
    rig.places[PUBLIC] = host
    const delivery = await throughAll(t, name, isSound ? 'heard' : FAILED)
    t.match(delivery, isSound ? /^delivered$/ : /^no connection(?: \([A-Z_0-9]+\))?$/)
    t.equal(host.requests.length, isSound ? 3 : 0, 'a host that is another sees no request')
  }
})

t.test('a host that takes connections and says nothing', async (t) => {
  // All limits, of the machine's time; the tests of the fetcher wait for the true ones.
  const limitMs = 300
  const { rig, throughAll } = await start(t, {
    fetchTiming: { connectMs: 30_000, headMs: limitMs, bodyMs: 30_000 },
    postTiming: { totalMs: limitMs, bodyMs: limitMs },
    jobTiming: { fetchAgainMs: [20] },
  })
  rig.answer = () => {}
  t.match(await throughAll(t, 'no answer', FAILED), /^no answer within 300 ms$/)
  t.equal(rig.heard(), 0)
})

t.test('URLs of audio', async (t) => {
  let resolved = 0
  const resolve = async () => {
    resolved += 1
    return [PUBLIC]
  }
  const { rig } = await start(t, { domains: DOMAINS, resolve })
  resolved = 0
  for (const [reason, texts] of Object.entries(REFUSED_URLS))
    for (const text of sample(texts, 10)) {
      // An empty field is none: the guard is not asked.
      const word = text === '' ? 'INVALID_REQUEST' : `AUDIO_URL_REJECTED ${reason}`
      t.equal(await rig.transcribe(text), word, shown(text))
      t.same(await rig.run(text), { id: null, word: `refused: ${word}` }, 'before there is a job')
    }
  t.same([resolved, rig.dialled, rig.sentinels(), rig.heard()], [0, [], 0, 0])
  const gets = () => rig.requests.filter((request) => request.startsWith('GET ')).slice(-2)
  for (const [text, href] of sample(ALLOWED_URLS, 5)) {
    t.equal(await rig.transcribe(text), 'heard', shown(text))
    t.equal((await rig.run(text)).word, 'heard', 'by a job')
    const { pathname, search, host } = new URL(href)
    const head = `GET ${pathname + search} HTTP/1.1\r\nhost: ${host}\r\n`
    t.ok(
      gets().every((request) => request.startsWith(head)),
      'as it was parsed',
    )
  }
  const { port } = rig.sentinel
  for (const host of ['127.0.0.1', '2130706433', '[::ffff:127.0.0.1]']) {
    const url = `https://${host}:${port}/`
    t.match(await rig.transcribe(url), /^AUDIO_URL_REJECTED /, url)
    t.equal(await rig.putWebhook(url), 400)
  }
  t.equal(rig.sentinels(), 0, 'this machine is not reached by its own port')
})

t.test('URLs of webhooks, when they are set and when they are there all the same', async (t) => {
  const { rig } = await start(t, { domains: DOMAINS })
  for (const text of sample([...URLS_REFUSED_TO_HOOKS], 6)) {
    t.equal(await rig.putWebhook(text), 400, shown(text))
    // SQLite reads a text up to its first NUL, so that another URL would be back.
    if (text.includes('\0')) continue
    await rig.keepWebhook(text)
    t.match(await rig.deliver(), /^the URL (?:must|is over) /, 'its event is given up')
  }
  t.same([rig.dialled, rig.sentinels()], [[], 0])
  for (const [text, connection] of sample(Object.entries(URLS_OF_HOOKS), 4)) {
    rig.dialled.length = 0
    t.equal(await rig.putWebhook(text), 200, shown(text))
    const outcome = await rig.deliver()
    t.same(rig.dialled, [connection])
    // The host has no certificate for the others.
    if (text in URLS_OF_HOOKS_ALONE) t.match(outcome, /^delivered$|ALTNAME_INVALID/)
    else t.equal(outcome, 'delivered')
  }
})
