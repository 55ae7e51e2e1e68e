import type { LookupAddress } from 'node:dns'
import t, { type Test } from 'tap'
import { createHostLookup } from '../../../src/gateway/outbound/host-lookup.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const ONE: LookupAddress[] = [{ address: '192.0.2.1', family: 4 }]
const OTHER: LookupAddress[] = [{ address: '192.0.2.2', family: 4 }]
const failed = (code: string) => Object.assign(new Error(code), { code })

/** Look-ups that the test answers, oldest first. */
function resolverOf() {
  const clock = new VirtualClock()
  const waiting: { host: string; answer: PromiseWithResolvers<LookupAddress[]> }[] = []
  const lookUp = createHostLookup((host) => {
    const answer = Promise.withResolvers<LookupAddress[]>()
    waiting.push({ host, answer })
    return answer.promise
  }, clock)
  return {
    clock,
    waiting,
    find: (host: string, all = true) =>
      new Promise<unknown>((resolve) =>
        lookUp(host, { all }, (error, addresses) => resolve(error === null ? addresses : error.code)),
      ),
    answer: (outcome: LookupAddress[] | string) => {
      const { answer } = waiting.shift()!
      if (typeof outcome === 'string') answer.reject(failed(outcome))
      else answer.resolve(outcome)
    },
  }
}

t.test('a host is looked up once at a time, and keeps no other from being found', async (t: Test) => {
  const { find, answer, waiting } = resolverOf()
  const silent = Array.from({ length: 60 }, () => find('a.example'))
  const found = find('b.example', false)
  t.same(
    waiting.map(({ host }) => host),
    ['a.example', 'b.example'],
  )
  answer('EAI_AGAIN')
  answer(ONE)
  t.equal(await found, '192.0.2.1')
  t.same(new Set(await Promise.all(silent)), new Set(['EAI_AGAIN']))
  const next = find('a.example')
  answer(ONE)
  t.same(await next, ONE, 'it is looked up again for the next connection')
})

t.test('addresses from before are used while the resolver is silent, or fails', async (t: Test) => {
  const { find, answer, clock, waiting } = resolverOf()
  const first = find('a.example')
  answer(ONE)
  await first
  const next = find('a.example')
  answer(OTHER)
  t.same(await next, OTHER, 'a resolver that answers is believed')
  const waited = find('a.example')
  await clock.advance(250)
  t.same(await waited, OTHER)
  const notWaited = find('a.example')
  await clock.advance(0)
  t.same(await notWaited, OTHER, 'a look-up that is late already is not waited for')
  t.equal(waiting.length, 1)
  const again = find('a.example')
  answer('EAI_AGAIN')
  t.same(await again, OTHER)
})

t.test('but not those of a host that is gone, nor old ones', async (t: Test) => {
  const { find, answer, clock } = resolverOf()
  for (const [first, then] of [
    [ONE, 'ENOTFOUND'],
    ['EAI_AGAIN', 'EAI_AGAIN'],
  ] as const) {
    const before = find('a.example')
    answer(first)
    await before
    const gone = find('a.example')
    answer(then)
    t.equal(await gone, then)
  }
  const before = find('b.example')
  answer(ONE)
  await before
  await clock.advance(3_600_001)
  const old = find('b.example')
  answer('EAI_AGAIN')
  t.equal(await old, 'EAI_AGAIN')
})
