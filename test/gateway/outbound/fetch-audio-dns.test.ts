import { networkInterfaces } from 'node:os'
import t, { type Test } from 'tap'
import { createAudioFetcher } from '../../../src/gateway/outbound/fetch-audio.ts'
import { createResolver } from '../../../src/gateway/outbound/public-host.ts'
import { AUTHORITY, fetched, fetchOptions, headOf, URL_OF_AUDIO } from '../../support/audio-fetch.ts'
import { type DnsAnswer, type DnsQuestion, serveDns } from '../../support/dns-server.ts'
import {
  a,
  aaaa,
  coded,
  DNS_ANSWERS,
  NOT_PUBLIC,
  PUBLIC,
  PUBLIC_SIX,
  UNRESOLVABLE,
  zone,
} from '../../support/guard-dns.ts'
import { dialInto, type Internet, serveTcp, serveTls } from '../../support/tls-host.ts'

t.setTimeout(60_000)

const AUDIO = `${headOf(5)}hello`

const loopbacks = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? [])
const HAS_IPV6 = loopbacks.some(({ address }) => address === '::1')

/**
 * A host under the public addresses, and a sentinel under the private ones: what the fetcher would reach if it went
 * there.
 */
async function internet(t: Test, answer = () => AUDIO) {
  const certificate = AUTHORITY.issue(['good.example'])
  const host = await serveTls(t, certificate, (socket) => socket.end(answer()))
  const four = await serveTcp(t)
  const six = HAS_IPV6 ? await serveTcp(t, '::1') : null
  const places: Internet = {
    [PUBLIC]: host,
    [PUBLIC_SIX]: host,
    '127.0.0.1': four,
    ...(six === null ? {} : { '::1': { port: six.port, host: '::1' } }),
  }
  const sentinels = () => four.connections.made + (six?.connections.made ?? 0)
  return { host, sentinels, ...dialInto(places) }
}

t.test('answers of the DNS', async (t) => {
  let answer: (question: DnsQuestion) => DnsAnswer | null = () => null
  const dns = await serveDns(t, (question) => answer(question))
  const { dial, sentinels } = await internet(t)
  const resolve = createResolver({ servers: [dns.server] })
  const fetchAudio = createAudioFetcher({ resolve, dial, ca: AUTHORITY.cert })
  for (const [name, [zone, outcome]] of Object.entries(DNS_ANSWERS)) {
    answer = zone
    const beganMs = performance.now()
    t.equal(await fetched(fetchAudio), outcome === 'heard' ? 'hello' : outcome, name)
    t.ok(performance.now() - beganMs < 2_900, 'sooner than a resolver that is silent')
  }
  t.equal(sentinels(), 0, 'nothing private is reached')
  t.same(
    [...new Set(dns.asked)].sort(),
    ['good.example A', 'good.example AAAA'],
    'no other name is asked for',
  )
})

t.test('a resolver that is silent', async (t) => {
  const dns = await serveDns(t, () => null)
  const { dial, dialled } = await internet(t)
  const resolve = createResolver({ servers: [dns.server] })
  const fetchAudio = createAudioFetcher({ resolve, dial, ca: AUTHORITY.cert })
  const beganMs = performance.now()
  t.equal(await fetched(fetchAudio), UNRESOLVABLE)
  const tookMs = performance.now() - beganMs
  t.ok(tookMs > 2_900 && tookMs < 10_000, `after 3 s: ${Math.round(tookMs)} ms`)
  t.same(dialled, [])

  const reason = new Error('the caller left')
  const leaving = new AbortController()
  const fetching = fetchAudio(URL_OF_AUDIO, fetchOptions({ signal: leaving.signal }))
  setTimeout(() => leaving.abort(reason), 50)
  const leftMs = performance.now()
  await t.rejects(fetching, reason)
  t.ok(performance.now() - leftMs < 2_900, 'a caller who leaves does not wait for the 3 s')
})

t.test('a family that is silent costs time, and no more', async (t) => {
  const dns = await serveDns(t, ({ type }) => (type === 'A' ? { records: [a(PUBLIC)] } : null))
  const { dial } = await internet(t)
  const resolve = createResolver({ servers: [dns.server], timeoutMs: 200 })
  t.equal(await fetched(createAudioFetcher({ resolve, dial, ca: AUTHORITY.cert })), 'hello')
})

t.test('a name server that is silent leaves time for the next, and so do two', async (t) => {
  const [one, other] = [await serveDns(t, () => null), await serveDns(t, () => null)]
  const dns = await serveDns(t, zone(a(PUBLIC)))
  const resolveWith = (...silent: (typeof dns)[]) =>
    createResolver({ servers: [...silent, dns].map(({ server }) => server) })
  const signal = new AbortController().signal
  t.same(await resolveWith(one)('good.example', signal), [PUBLIC])
  t.same(await resolveWith(one, other)('good.example', signal), [PUBLIC])
  t.ok(one.asked.length > 0 && other.asked.length > 0)
})

t.test('addresses come in turns of the families', async (t) => {
  const six = [PUBLIC_SIX, '2606:4700:4700::1001', '2001:4860:4860::8888']
  const dns = await serveDns(t, zone(a('8.8.8.8'), ...six.map(aaaa)))
  const resolve = createResolver({ servers: [dns.server] })
  t.same(await resolve('good.example', new AbortController().signal), ['8.8.8.8', ...six])
})

t.test('the system knows names that the DNS does not', async (t) => {
  const dns = await serveDns(t, coded('NXDOMAIN'))
  const resolve = createResolver({ servers: [dns.server] })
  await t.rejects(resolve('localhost', new AbortController().signal), { code: 'ENOTFOUND' })
})

t.test('a name that is bound again between two looks at it', async (t) => {
  const TRIES = 1_000
  let asked = 0
  let redirects = false
  let turn = 0
  // Every second answer leads inside, and the families take turns with it.
  const dns = await serveDns(t, ({ type }) => {
    const inside = asked++ % 4 >= 2
    if (type === 'A') return { records: [a(inside ? '127.0.0.1' : PUBLIC)] }
    return inside && HAS_IPV6 ? { records: [aaaa('::1')] } : {}
  })
  const { dial, dialled, sentinels } = await internet(t, () =>
    redirects && turn++ % 2 === 0 ? 'HTTP/1.1 302 Found\r\nLocation: /again\r\n\r\n' : AUDIO,
  )
  const resolve = createResolver({ servers: [dns.server] })
  const fetchAudio = createAudioFetcher({ resolve, dial, ca: AUTHORITY.cert })
  const outcomes: Record<string, number> = {}
  for (let done = 0; done < TRIES; done++) {
    redirects = done % 10 === 0
    turn = 0
    const outcome = await fetched(fetchAudio)
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
  }
  t.equal(sentinels(), 0, 'the sentinels saw no connection')
  t.same([...new Set(dialled)], [`${PUBLIC} 443`], 'only what was checked is dialled')
  t.ok(outcomes.hello! > 100 && outcomes[NOT_PUBLIC]! > 100, JSON.stringify(outcomes))
  t.ok(outcomes['AUDIO_URL_REJECTED redirect_rejected']! > 0, 'a redirect is resolved anew')
  t.equal(
    Object.values(outcomes).reduce((sum, count) => sum + count, 0),
    outcomes.hello! + outcomes[NOT_PUBLIC]! + outcomes['AUDIO_URL_REJECTED redirect_rejected']!,
  )
})
