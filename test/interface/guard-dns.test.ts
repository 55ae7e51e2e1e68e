import t, { type Test } from 'tap'
import { createResolver } from '../../src/outbound/public-host.ts'
import { type DnsAnswer, type DnsQuestion, serveDns } from '../support/dns-server.ts'
import { DNS_ANSWERS, NOT_PUBLIC, UNRESOLVABLE } from '../support/guard-dns.ts'
import { startGuardRig } from '../support/guard-rig.ts'

t.setTimeout(120_000)

const URL_OF_AUDIO = 'https://good.example/a.wav'
const URL_OF_HOOK = 'https://good.example/hook'

/** What becomes of the event where audio ends so; a host that is not found may be there another time. */
const DELIVERIES: Readonly<Record<string, string>> = {
  heard: 'delivered',
  [NOT_PUBLIC]: 'the host has an address that is not public',
  [UNRESOLVABLE]: 'the host has no address in the DNS',
}

async function start(t: Test, timeoutMs: number) {
  const zone: { answer: (question: DnsQuestion) => DnsAnswer | null } = { answer: () => null }
  const dns = await serveDns(t, (question) => zone.answer(question))
  const resolve = createResolver({ servers: [dns.server], timeoutMs })
  const rig = await startGuardRig(t, { domains: ['good.example'], resolve })
  t.equal(await rig.putWebhook(URL_OF_HOOK), 200)
  return { rig, zone, dns }
}

t.test('answers of the DNS', async (t) => {
  // None of them is silent: on a busy machine an answer may be late.
  const { rig, zone, dns } = await start(t, 20_000)
  for (const [name, [answer, outcome]] of Object.entries(DNS_ANSWERS)) {
    zone.answer = answer
    rig.dialled.length = 0
    t.equal(await rig.transcribe(URL_OF_AUDIO), outcome, name)
    const { id, word } = await rig.run(URL_OF_AUDIO)
    t.equal(word, outcome === 'heard' ? 'heard' : `failed: ${outcome}`, 'by a job')
    t.equal(await rig.delivery(id!), DELIVERIES[outcome], 'its event')
    t.equal(rig.dialled.length, outcome === 'heard' ? 3 : 0)
  }
  t.equal(rig.sentinels(), 0, 'nothing private is reached')
  t.same(
    [...new Set(dns.asked)].sort(),
    ['good.example A', 'good.example AAAA'],
    'no other name is asked for',
  )
})

t.test('a resolver that is silent', async (t) => {
  const { rig } = await start(t, 3_000)
  const tookMs = async (ask: () => Promise<string>, outcome: string) => {
    const beganMs = performance.now()
    t.equal(await ask(), outcome)
    return performance.now() - beganMs
  }
  const [call, job, webhook] = await Promise.all([
    tookMs(() => rig.transcribe(URL_OF_AUDIO), UNRESOLVABLE),
    tookMs(async () => (await rig.run(URL_OF_AUDIO)).word, `failed: ${UNRESOLVABLE}`),
    tookMs(() => rig.deliver(), DELIVERIES[UNRESOLVABLE]!),
  ])
  const soon = [call, webhook]
  t.ok(
    soon.every((ms) => ms > 2_900 && ms < 8_000),
    `after 3 s: ${soon.map(Math.round)} ms`,
  )
  // It may be a bad moment of the resolver, and nobody waits for a job: it asks three times.
  t.ok(job > 8_700 && job < 20_000, `three times 3 s: ${Math.round(job)} ms`)
  t.same(rig.dialled, [])
})
