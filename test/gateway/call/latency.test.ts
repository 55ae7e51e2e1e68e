import t from 'tap'
import { systemClock } from '../../../src/contracts/time.ts'
import { createLatencyTracker } from '../../../src/gateway/call/select/health.ts'
import { entry, principal, route } from '../../support/catalog.ts'
import { chatCall, entryAt, gatewayRig, runWhole, upstream } from '../../support/gateway-rig.ts'
import { waitUntil } from '../../support/wait-until.ts'

t.test('the median of the newest answers', async (t) => {
  const [book, one] = [createLatencyTracker(), entry()]
  t.equal(book.medianMs(one, 0), 0, 'none yet')
  book.note(one, 300, 0)
  t.equal(book.medianMs(one, 0), 300)
  for (const milliseconds of [10, 20]) book.note(one, milliseconds, 0)
  t.equal(book.medianMs(one, 0), 20, 'one that is far off does not count for more than another')
  for (let count = 0; count < 31; count += 1) book.note(one, 700, 0)
  t.equal(book.medianMs(one, 0), 700, 'only the newest 31 are looked at')
  t.equal(book.medianMs(entry(), 0), 0, 'entries do not share them')
})

t.test('answers are forgotten after five minutes, one by one', async (t) => {
  const [book, one] = [createLatencyTracker(), entry()]
  book.note(one, 900, 0)
  book.note(one, 100, 200_000)
  t.equal(book.medianMs(one, 299_999), 900)
  t.equal(book.medianMs(one, 300_000), 100)
  t.equal(book.medianMs(one, 499_999), 100)
  t.equal(book.medianMs(one, 500_000), 0, 'so that an entry that was slow once is tried again')
})

t.test('an entry that is tried for the first time draws no more calls than its answer takes', async (t) => {
  const [book, one] = [createLatencyTracker(), entry()]
  book.began(one, 1_000)
  book.began(one, 3_000)
  t.equal(book.medianMs(one, 1_000), 0)
  t.equal(book.medianMs(one, 5_000), 4_000, 'it takes that long at least')
  t.equal(book.medianMs(one, 301_000), 0, 'and is tried again')
  book.began(one, 301_000)
  t.equal(book.medianMs(one, 302_000), 1_000)
  book.note(one, 20, 302_000)
  t.equal(book.medianMs(one, 302_000), 20)
})

t.test('an entry without answers is no quick one, whether it refuses or its callers leave', async (t) => {
  const message = { role: 'assistant', content: 'well' }
  const good = await upstream(t, (response) => void response.end(JSON.stringify({ choices: [{ message }] })))
  for (const status of [413, 401, null]) {
    const bad = await upstream(t, (response) => void (status && response.writeHead(status).end()))
    const entries = [entryAt(bad.origin), entryAt(good.origin)]
    const caller = principal({ route: route(entries, { strategy: 'lowest_latency' }) })
    let aheadMs = 0
    const clock = { ...systemClock, now: () => systemClock.now() + aheadMs }
    const { services, request } = gatewayRig(t, { entries, caller, clock })
    const leaving = new AbortController()
    const first = runWhole(services, request('chat', chatCall(), leaving.signal))
    if (status === null) {
      t.ok(await waitUntil(() => bad.requests.length === 1))
      aheadMs = 5_000
      leaving.abort(new Error('left'))
      await t.rejects(first, { message: 'left' })
      services.latency.note(entries[1]!, 4_000, clock.now())
    } else (await first).release()
    for (let calls = 0; calls < 3; calls += 1)
      (await runWhole(services, request('chat', chatCall()))).release()
    t.equal(bad.requests.length, 1, `${status}`)
  }
})
