import { Socket } from 'node:net'
import type { TlsOptions } from 'node:tls'
import t, { type Test } from 'tap'
import { createAudioFetcher, type FetchDependencies } from '../../../src/gateway/outbound/fetch-audio.ts'
import { AUTHORITY, answerWith, failureOf, fetched, headOf } from '../../support/audio-fetch.ts'
import { TLS_HOSTS } from '../../support/guard-hosts.ts'
import { dialInto, serveTcp, serveTls } from '../../support/tls-host.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'

t.setTimeout(60_000)

const AUDIO = `${headOf(5)}hello`
const FAILED = 'AUDIO_URL_FETCH_FAILED'
/** A fetcher whose only host, at 8.8.8.8, is this one. */
async function fetchOver(t: Test, options: TlsOptions, parts: FetchDependencies = {}) {
  const host = await serveTls(t, options, answerWith(AUDIO))
  const { dial } = dialInto({ '8.8.8.8': host })
  const fetchAudio = createAudioFetcher({
    resolve: async () => ['8.8.8.8'],
    dial,
    ca: AUTHORITY.cert,
    ...parts,
  })
  return { fetchAudio, host }
}

t.test('certificates and versions of TLS', async (t) => {
  // Makes Node take any certificate elsewhere.
  const { NODE_TLS_REJECT_UNAUTHORIZED: before } = process.env
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  t.teardown(() => {
    if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
    else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before
  })
  for (const [name, [options, isFetched]] of Object.entries(TLS_HOSTS)) {
    const { fetchAudio, host } = await fetchOver(t, options())
    if (isFetched) {
      t.equal(await fetched(fetchAudio), 'hello', name)
    } else {
      const failure = await failureOf(fetchAudio)
      t.equal(failure.code, FAILED, name)
      t.equal(
        failure.message,
        'the host of audio.url cannot be connected to',
        'the caller sees no certificate',
      )
      t.type(failure.cause, Error)
      t.equal(host.requests.length, 0, 'and the host no request')
    }
    t.ok(await waitUntil(() => host.connections.open === 0), 'no connection stays')
  }
})

t.test('without an authority of the test, that of the test is unknown', async (t) => {
  const host = await serveTls(t, AUTHORITY.issue(['good.example']), answerWith(AUDIO))
  const { dial } = dialInto({ '8.8.8.8': host })
  t.equal(await fetched(createAudioFetcher({ resolve: async () => ['8.8.8.8'], dial })), FAILED)
})

t.test('the certificate of a redirect is that of its own host', async (t) => {
  const moved = 'HTTP/1.1 302 Found\r\nLocation: https://other.example/\r\n\r\n'
  const good = await serveTls(t, AUTHORITY.issue(['good.example']), answerWith(moved))
  const { dial } = dialInto({ '8.8.8.8': good })
  const fetchAudio = createAudioFetcher({ resolve: async () => ['8.8.8.8'], dial, ca: AUTHORITY.cert })
  t.equal(await fetched(fetchAudio), FAILED)
  t.equal(good.requests.length, 1)
})

t.test('the next address is tried when there is no TCP connection', async (t) => {
  const host = await serveTls(t, AUTHORITY.issue(['good.example']), answerWith(AUDIO))
  const silent = await serveTcp(t)
  const clock = new VirtualClock()
  const { dial, dialled } = dialInto({ '8.8.8.8': host, '8.8.4.4': silent })
  const over = (...addresses: string[]) => {
    dialled.length = 0
    const resolve = async () => addresses
    return fetched(createAudioFetcher({ resolve, dial, ca: AUTHORITY.cert, clock }))
  }
  t.equal(await over('1.1.1.1', '8.8.8.8'), 'hello')
  t.same(dialled, ['1.1.1.1 443', '8.8.8.8 443'])
  t.equal(await over('8.8.8.8', '1.1.1.1'), 'hello')
  t.same(dialled, ['8.8.8.8 443'])
  t.equal(await over('1.1.1.1', '1.0.0.1', '9.9.9.9', '8.8.8.8'), FAILED)
  t.equal(dialled.length, 3, 'three at most')
  const silence = over('8.8.4.4', '8.8.8.8')
  t.ok(await waitUntil(() => silent.connections.open === 1))
  await clock.advance(5_000)
  t.equal(await silence, FAILED)
  t.same(dialled, ['8.8.4.4 443'], 'TLS is tried once')
  t.ok(await waitUntil(() => silent.connections.open + host.connections.open === 0), 'no connection stays')
})

t.test('an address that swallows packets leaves time for the next', async (t) => {
  const host = await serveTls(t, AUTHORITY.issue(['good.example']), answerWith(AUDIO))
  const into = dialInto({ '8.8.8.8': host })
  const clock = new VirtualClock()
  const swallowed: Socket[] = []
  const fetchAudio = createAudioFetcher({
    resolve: async () => ['8.8.4.4', '8.8.8.8'],
    dial(address, port) {
      if (address === '8.8.8.8') return into.dial(address, port)
      const socket = new Socket()
      swallowed.push(socket)
      return socket
    },
    ca: AUTHORITY.cert,
    clock,
  })
  const fetching = fetched(fetchAudio)
  t.ok(await waitUntil(() => swallowed.length === 1))
  await clock.advance(2_500)
  t.equal(await fetching, 'hello')
  t.same(
    swallowed.map(({ destroyed }) => destroyed),
    [true],
  )
})
