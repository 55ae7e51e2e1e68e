import t, { type Test } from 'tap'
import { createResolver } from '../../src/gateway/outbound/public-host.ts'
import { type DnsAnswer, type DnsQuestion, type DnsRecord, serveDns } from '../support/dns-server.ts'
import { redirect } from '../support/guard-answers.ts'
import { a, aaaa, NOT_PUBLIC, PUBLIC } from '../support/guard-dns.ts'
import type { Answering } from '../support/tls-host.ts'
import { good, startGuardRig } from './guard-rig.ts'

t.setTimeout(120_000)

const TRIES = 180
const AT_A_TIME = 12
const HOOKS = 'hooks.example'

const SOUND = [a(PUBLIC)]
const INSIDE = [a('127.0.0.1'), aaaa('::1')]

interface Case {
  /** The answers to the first look at the name, and to all later ones. */
  readonly looks: readonly [first: readonly DnsRecord[], later: readonly DnsRecord[]]
  /** Answer of the host to the first request; audio comes after that. */
  readonly first: Answering
  readonly outcome: string
}

const CASES: readonly Case[] = [
  { looks: [SOUND, INSIDE], first: good, outcome: 'heard' },
  // Each of these has a reason to look again.
  {
    looks: [SOUND, INSIDE],
    first: (socket) => socket.end(redirect('/again')),
    outcome: 'failed: AUDIO_URL_REJECTED redirect_rejected',
  },
  { looks: [SOUND, INSIDE], first: (socket) => socket.end(), outcome: `failed: ${NOT_PUBLIC}` },
  { looks: [[a(PUBLIC), aaaa('::1')], SOUND], first: good, outcome: `failed: ${NOT_PUBLIC}` },
  { looks: [[a(PUBLIC), a('10.0.0.1')], SOUND], first: good, outcome: `failed: ${NOT_PUBLIC}` },
  { looks: [INSIDE, SOUND], first: good, outcome: `failed: ${NOT_PUBLIC}` },
]

/** Counts by name. */
class Tally {
  readonly #counts = new Map<string, number>()

  /** @returns how often it was counted before */
  count(name: string): number {
    const before = this.#counts.get(name) ?? 0
    this.#counts.set(name, before + 1)
    return before
  }

  of(name: string): number {
    return this.#counts.get(name) ?? 0
  }
}

/** Names `t17.good.example` have an answer for the first look; the target of webhooks has another each time. */
function zoneOf(looks: Tally): (question: DnsQuestion) => DnsAnswer {
  const hooks = [SOUND, INSIDE, SOUND, [a(PUBLIC), a('10.0.0.1')], SOUND, [a(PUBLIC), aaaa('::1')]]
  return ({ name, type }) => {
    const look = looks.count(`${name} ${type}`)
    const records = name === HOOKS ? hooks[look % hooks.length]! : caseOf(name).looks[look === 0 ? 0 : 1]
    return { records: records.filter((record) => record.type === type) }
  }
}

function caseOf(name: string): Case {
  return CASES[Number(/^t(\d+)\./.exec(name)![1]) % CASES.length]!
}

async function start(t: Test) {
  const looks = new Tally()
  const requests = new Tally()
  const dns = await serveDns(t, zoneOf(looks))
  const rig = await startGuardRig(t, {
    domains: ['*.good.example'],
    resolve: createResolver({ servers: [dns.server], timeoutMs: 20_000 }),
    pausesMs: [10, 10, 10, 10],
    places: AT_A_TIME,
  })
  rig.answer = (socket, head, index) => {
    const [, host = ''] = /\r\nhost: (\S+)/.exec(head) ?? []
    const [, event = ''] = /\r\nwebhook-id: (\S+)/.exec(head) ?? []
    // Every other event has to be delivered twice, with a look at the name for each time.
    if (host === HOOKS && requests.count(event) === 0 && index % 2 === 0)
      return socket.end('HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n')
    if (host === HOOKS) return good(socket, head, index)
    return (requests.count(host) === 0 ? caseOf(host).first : good)(socket, head, index)
  }
  t.equal(await rig.putWebhook(`https://${HOOKS}/`), 200)
  return { rig, looks, requests }
}

t.test('names that are bound again, for the audio of jobs and for the target of their events', async (t) => {
  const { rig, looks, requests } = await start(t)
  const wrong: string[] = []
  const events: Record<string, number> = {}
  let next = 0
  const tryOn = async () => {
    for (let index = next++; index < TRIES; index = next++) {
      const name = `t${index}.good.example`
      const { outcome, first } = caseOf(name)
      const { id, word } = await rig.run(`https://${name}/a.wav`)
      const event = await rig.delivery(id!)
      events[event] = (events[event] ?? 0) + 1
      const isAsked = outcome === 'heard' || first !== good ? 1 : 0
      const lookedUp = isAsked === 1 && first !== good ? 2 : 1
      const was = [word, looks.of(`${name} A`), looks.of(`${name} AAAA`), requests.of(name)].join()
      const expected = [outcome, lookedUp, lookedUp, isAsked].join()
      if (was !== expected) wrong.push(`${index}: ${was} in place of ${expected}`)
    }
  }
  await Promise.all(Array.from({ length: AT_A_TIME }, tryOn))
  t.same(wrong, [], 'no wrong verdict, and no look-up but one for each connection')
  t.same([...new Set(rig.dialled)], [`${PUBLIC} 443`], 'only what was checked is dialled')
  t.equal(rig.sentinels(), 0, 'the sentinels saw no connection')

  const { delivered = 0, 'the host has an address that is not public': refused = 0 } = events
  t.equal(delivered + refused, TRIES, JSON.stringify(events))
  t.ok(delivered > 20 && refused > 20, JSON.stringify(events))
  t.ok(looks.of(`${HOOKS} A`) > TRIES, 'a second delivery looks the name up anew')
})
