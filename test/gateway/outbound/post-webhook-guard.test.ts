import { networkInterfaces } from 'node:os'
import t, { type Test } from 'tap'
import type { Posted, WebhookMessage } from '../../../src/contracts/webhooks.ts'
import { createWebhookPoster } from '../../../src/gateway/outbound/post-webhook.ts'
import { createResolver } from '../../../src/gateway/outbound/public-host.ts'
import { type DnsAnswer, type DnsQuestion, serveDns } from '../../support/dns-server.ts'
import { OTHER_ADDRESSES, PUBLIC_ADDRESSES } from '../../support/guard-addresses.ts'
import {
  a,
  aaaa,
  DNS_ANSWERS,
  NOT_PUBLIC,
  PUBLIC,
  PUBLIC_SIX,
  UNRESOLVABLE,
} from '../../support/guard-dns.ts'
import { shown, URLS_REFUSED_TO_HOOKS } from '../../support/guard-urls.ts'
import { dialInto, type Internet, serveTcp } from '../../support/tls-host.ts'
import { answering, HOOKS_AUTHORITY, startReceiver } from '../../support/webhook-receiver.ts'

t.setTimeout(60_000)

const MESSAGE: WebhookMessage = { headers: { 'content-type': 'application/json' }, body: '{}' }
const URL_OF_HOOK = 'https://hooks.example/'

const loopbacks = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? [])
const HAS_IPV6 = loopbacks.some(({ address }) => address === '::1')

/**
 * A target under the public addresses, and a sentinel under the private ones: what the poster would reach if it went
 * there.
 */
async function internet(t: Test) {
  const names = ['hooks.example', 'xn--bcher-kva.example']
  const receiver = await startReceiver(t, answering(200), { names })
  const four = await serveTcp(t)
  const six = HAS_IPV6 ? await serveTcp(t, '::1') : null
  const places: Internet = {
    [PUBLIC]: receiver,
    [PUBLIC_SIX]: receiver,
    '127.0.0.1': four,
    '10.0.0.1': four,
    '169.254.169.254': four,
    ...(six === null ? {} : { '::1': { port: six.port, host: '::1' } }),
  }
  const sentinels = () => four.connections.made + (six?.connections.made ?? 0)
  return { receiver, sentinels, ...dialInto(places) }
}

/** A delivery in a word: its status, or how it came to none. */
const inAWord = (posted: Posted) => (posted.kind === 'answered' ? String(posted.status) : posted.kind)

t.test('addresses: those that are not public are never dialled, whatever is beside them', async (t) => {
  const { dial, dialled, sentinels } = await internet(t)
  let addresses: readonly string[] = []
  const post = createWebhookPoster({
    insecure: true,
    resolve: async () => addresses,
    dial,
    ca: HOOKS_AUTHORITY.cert,
  })
  for (const address of OTHER_ADDRESSES) {
    for (addresses of [
      [address],
      [PUBLIC, address],
      [address, PUBLIC],
      [...Array(20).fill(PUBLIC), address],
    ]) {
      t.same(
        await post(URL_OF_HOOK, MESSAGE),
        { kind: 'refused', reason: 'the host has an address that is not public' },
        `${addresses.length}, ${address}`,
      )
    }
  }
  t.same([dialled, sentinels()], [[], 0])

  for (const address of PUBLIC_ADDRESSES) {
    addresses = [address]
    const outcome = inAWord(await post(URL_OF_HOOK, MESSAGE))
    t.equal(outcome, address === PUBLIC || address === PUBLIC_SIX ? '200' : 'failed', address)
    t.equal(dialled.at(-1), `${address} 443`)
  }
})

t.test('URLs that are refused as a text', async (t) => {
  const { dial, dialled, sentinels } = await internet(t)
  const resolved: string[] = []
  const post = createWebhookPoster({
    insecure: false,
    resolve: async (host) => {
      resolved.push(host)
      return [PUBLIC]
    },
    dial,
    ca: HOOKS_AUTHORITY.cert,
  })
  for (const url of URLS_REFUSED_TO_HOOKS) {
    const posted = await post(url, MESSAGE)
    t.match(posted, { kind: 'refused', reason: /^the URL (must|is over)/ }, shown(url))
  }
  t.same([resolved, dialled, sentinels()], [[], [], 0])

  // `@` of its own path, and what only looks like another host.
  for (const url of [
    'https://hooks.example/@evil.test/:22',
    'HTTPS://Hooks.Example:443/',
    'https://bücher.example/',
  ])
    t.equal(inAWord(await post(url, MESSAGE)), '200', url)
  t.same(resolved, ['hooks.example', 'hooks.example', 'xn--bcher-kva.example'])
})

t.test(
  'an address for a host: public ones only, and the certificate has to be of that address',
  async (t) => {
    const { dial, dialled } = await internet(t)
    const resolve = () => Promise.reject(new Error('an address is not looked up'))
    const post = createWebhookPoster({ insecure: false, resolve, dial, ca: HOOKS_AUTHORITY.cert })
    for (const [url, address] of [
      ['https://8.8.8.8/', '8.8.8.8 443'],
      ['https://0x08080808/', '8.8.8.8 443'],
      [`https://[${PUBLIC_SIX}]:8443/`, `${PUBLIC_SIX} 8443`],
    ] as const) {
      t.match(await post(url, MESSAGE), { kind: 'failed', reason: /ERR_TLS_CERT_ALTNAME_INVALID/ }, url)
      t.equal(dialled.at(-1), address)
    }
  },
)

t.test('answers of the DNS: what is not public is given up, what is not there may be later', async (t) => {
  let answer: (question: DnsQuestion) => DnsAnswer | null = () => null
  const dns = await serveDns(t, (question) => answer(question))
  const { dial, sentinels } = await internet(t)
  const resolve = createResolver({ servers: [dns.server], timeoutMs: 2_000 })
  const post = createWebhookPoster({ insecure: false, resolve, dial, ca: HOOKS_AUTHORITY.cert })
  const words: Record<string, string> = { heard: '200', [NOT_PUBLIC]: 'refused', [UNRESOLVABLE]: 'failed' }
  const silence = { silence: [() => null, UNRESOLVABLE] } as const
  for (const [name, [zone, outcome]] of Object.entries({ ...DNS_ANSWERS, ...silence })) {
    answer = zone
    const posted = await post(URL_OF_HOOK, MESSAGE)
    t.equal(inAWord(posted), words[outcome], name)
    if (posted.kind === 'failed') t.equal(posted.reason, 'the host has no address in the DNS')
  }
  t.equal(sentinels(), 0)
})

t.test('a name that is bound again between two looks at it', async (t) => {
  const TRIES = 300
  let asked = 0
  const dns = await serveDns(t, ({ type }) => {
    const inside = asked++ % 4 >= 2
    if (type === 'A') return { records: [a(inside ? '127.0.0.1' : PUBLIC)] }
    return inside && HAS_IPV6 ? { records: [aaaa('::1')] } : {}
  })
  const { dial, dialled, sentinels } = await internet(t)
  const resolve = createResolver({ servers: [dns.server] })
  const post = createWebhookPoster({ insecure: false, resolve, dial, ca: HOOKS_AUTHORITY.cert })
  const outcomes: Record<string, number> = {}
  for (let done = 0; done < TRIES; done += 1) {
    const outcome = inAWord(await post(URL_OF_HOOK, MESSAGE))
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
  }
  t.equal(sentinels(), 0, 'the sentinels saw no connection')
  t.same([...new Set(dialled)], [`${PUBLIC} 443`], 'only what was checked is dialled')
  t.same(Object.keys(outcomes).sort(), ['200', 'refused'], JSON.stringify(outcomes))
})
