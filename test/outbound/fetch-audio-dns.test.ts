import { networkInterfaces } from 'node:os'
import t, { type Test } from 'tap'
import { createAudioFetcher } from '../../src/outbound/fetch-audio.ts'
import { createResolver } from '../../src/outbound/resolve-host.ts'
import { AUTHORITY, fetched, fetchOptions, headOf, URL_OF_AUDIO } from '../support/audio-fetch.ts'
import { type DnsAnswer, type DnsQuestion, type DnsRecord, serveDns } from '../support/dns-server.ts'
import { dialInto, type Internet, serveTcp, serveTls } from '../support/tls-host.ts'

t.setTimeout(60_000)

const PUBLIC = '8.8.8.8'
const AUDIO = `${headOf(5)}hello`
const NOT_PUBLIC = 'AUDIO_URL_REJECTED address_not_public'
const UNRESOLVABLE = 'AUDIO_URL_REJECTED unresolvable'

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
    '2606:4700:4700::1111': host,
    '127.0.0.1': four,
    ...(six === null ? {} : { '::1': { port: six.port, host: '::1' } }),
  }
  const sentinels = () => four.connections.made + (six?.connections.made ?? 0)
  return { host, sentinels, ...dialInto(places) }
}

const a = (data: string): DnsRecord => ({ type: 'A', data })
const aaaa = (data: string): DnsRecord => ({ type: 'AAAA', data })
const alias = (data: string, name?: string): DnsRecord => ({
  type: 'CNAME',
  data,
  ...(name === undefined ? {} : { name }),
})

/** Records of the type asked for, with the aliases that lead to them. */
const zone =
  (...records: DnsRecord[]) =>
  ({ type }: DnsQuestion): DnsAnswer => ({
    records: records.filter((record) => record.type === type || record.type === 'CNAME'),
  })

const coded =
  (code: NonNullable<DnsAnswer['code']>, otherwise: DnsRecord | null = null) =>
  ({ type }: DnsQuestion): DnsAnswer =>
    otherwise?.type === type ? { records: [otherwise] } : { code }

const many = (count: number, last = PUBLIC) =>
  Array.from({ length: count }, (_, index) => a(index === count - 1 ? last : PUBLIC))

const ANSWERS: Record<string, [answer: (question: DnsQuestion) => DnsAnswer | null, outcome: string]> = {
  'one public address': [zone(a(PUBLIC)), 'hello'],
  'a public address of each family': [zone(a(PUBLIC), aaaa('2606:4700:4700::1111')), 'hello'],
  'IPv6 only': [zone(aaaa('2606:4700:4700::1111')), 'hello'],
  'a private address': [zone(a('10.0.0.1')), NOT_PUBLIC],
  'a public and a loopback address': [zone(a(PUBLIC), a('127.0.0.1')), NOT_PUBLIC],
  'a loopback and a public address': [zone(a('127.0.0.1'), a(PUBLIC)), NOT_PUBLIC],
  'a public address and ::1': [zone(a(PUBLIC), aaaa('::1')), NOT_PUBLIC],
  'NAT64 of cloud metadata': [zone(aaaa('64:ff9b::a9fe:a9fe')), NOT_PUBLIC],
  'mapped IPv4, though public': [zone(aaaa('::ffff:8.8.8.8')), NOT_PUBLIC],
  'an alias to metadata': [
    zone(alias('metadata.google.internal'), { ...a('169.254.169.254'), name: 'metadata.google.internal' }),
    NOT_PUBLIC,
  ],
  'an alias to nowhere': [zone(alias('gone.example')), UNRESOLVABLE],
  'an alias to a public address': [
    zone(alias('cdn.example'), { ...a(PUBLIC), name: 'cdn.example' }),
    'hello',
  ],
  'aliases in a circle': [zone(alias('b.example'), alias('good.example', 'b.example')), UNRESOLVABLE],
  NXDOMAIN: [coded('NXDOMAIN'), UNRESOLVABLE],
  SERVFAIL: [coded('SERVFAIL'), UNRESOLVABLE],
  REFUSED: [coded('REFUSED'), UNRESOLVABLE],
  'an empty answer': [zone(), UNRESOLVABLE],
  'NXDOMAIN for IPv6': [coded('NXDOMAIN', a(PUBLIC)), 'hello'],
  'NXDOMAIN for IPv4': [coded('NXDOMAIN', aaaa('2606:4700:4700::1111')), 'hello'],
  'SERVFAIL for IPv6': [coded('SERVFAIL', a(PUBLIC)), 'hello'],
  '200 addresses': [zone(...many(200)), 'hello'],
  '200 addresses, the last one private': [zone(...many(200, '192.168.0.1')), NOT_PUBLIC],
  '9 addresses, the last one loopback': [zone(...many(9, '127.0.0.1')), NOT_PUBLIC],
}

t.test('answers of the DNS', async (t) => {
  let answer: (question: DnsQuestion) => DnsAnswer | null = () => null
  const dns = await serveDns(t, (question) => answer(question))
  const { dial, sentinels } = await internet(t)
  const resolve = createResolver({ servers: [dns.server] })
  const fetchAudio = createAudioFetcher({ resolve, dial, ca: AUTHORITY.cert })
  for (const [name, [zone, outcome]] of Object.entries(ANSWERS)) {
    answer = zone
    const beganMs = performance.now()
    t.equal(await fetched(fetchAudio), outcome, name)
    t.ok(performance.now() - beganMs < 2_000, 'at once')
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
  t.ok(tookMs > 2_900 && tookMs < 5_000, `after 3 s: ${Math.round(tookMs)} ms`)
  t.same(dialled, [])

  const reason = new Error('the caller left')
  const leaving = new AbortController()
  const fetching = fetchAudio(URL_OF_AUDIO, fetchOptions({ signal: leaving.signal }))
  setTimeout(() => leaving.abort(reason), 50)
  const leftMs = performance.now()
  await t.rejects(fetching, reason)
  t.ok(performance.now() - leftMs < 1_000, 'a caller who leaves waits no longer')
})

t.test('a family that is silent costs time, and no more', async (t) => {
  const dns = await serveDns(t, ({ type }) => (type === 'A' ? { records: [a(PUBLIC)] } : null))
  const { dial } = await internet(t)
  const resolve = createResolver({ servers: [dns.server], timeoutMs: 200 })
  t.equal(await fetched(createAudioFetcher({ resolve, dial, ca: AUTHORITY.cert })), 'hello')
})

t.test('a name server that is silent leaves time for the next', async (t) => {
  const silent = await serveDns(t, () => null)
  const dns = await serveDns(t, zone(a(PUBLIC)))
  const resolve = createResolver({ servers: [silent.server, dns.server], timeoutMs: 2_000 })
  t.same(await resolve('good.example', new AbortController().signal), [PUBLIC])
  t.ok(silent.asked.length > 0)
})

t.test('addresses come in turns of the families', async (t) => {
  const six = ['2606:4700:4700::1111', '2606:4700:4700::1001', '2001:4860:4860::8888']
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
