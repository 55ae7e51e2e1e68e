import t, { type Test } from 'tap'
import { serveHttp } from '../../support/http-server.ts'
import { secret, startRouteGateway } from '../../support/route-gateway.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

// A node that is given a clock lives by it alone: however long a test takes, nothing is due before the test says so.

const CHAT = { messages: [{ role: 'user', content: 'hello' }] }
/** Failures in a row that open a breaker, and how long it stays open. */
const FAILURES = 5
const OPEN_MS = 10_000

/** A provider of OpenAI's format that fails until it is told to answer, and counts how often it was asked. */
async function startProvider(t: Test, isWell: boolean) {
  const seen = { asked: 0, isWell }
  const url = await serveHttp(t, (request, response) => {
    seen.asked += 1
    request.resume().on('end', () => {
      response.writeHead(seen.isWell ? 200 : 500, { 'content-type': 'application/json' })
      const choices = [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'ok' } }]
      const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
      response.end(
        JSON.stringify(seen.isWell ? { model: 'm', choices, usage } : { error: { message: 'no' } }),
      )
    })
  })
  return { seen, url }
}

async function start(t: Test, clock: VirtualClock, config: Readonly<Record<string, unknown>> = {}) {
  const [first, spare] = [await startProvider(t, false), await startProvider(t, true)]
  const provider = (url: string) => ({
    ...{ kind: 'openai-compatible', base_url: `${url}/v1`, api_key: secret('OWN_KEY') },
  })
  const gateway = await startRouteGateway(t, {
    providers: { first: provider(first.url), spare: provider(spare.url) },
    entries: ['first', 'spare'].map((name) => ({ provider: name, model: 'm', capabilities: ['text'] })),
    env: { OWN_KEY: 'sk-own' },
    config,
    clock,
  })
  const chat = async () => {
    const { status, headers } = await gateway.post('/v1/chat', CHAT)
    return { status, retryAfter: headers.get('retry-after') }
  }
  return { seen: first.seen, chat }
}

t.test('a rate limit fills up again by the clock of the node', async (t) => {
  const clock = new VirtualClock(Date.now())
  const { chat } = await start(t, clock, { rate_limit: { requests_per_minute: 6, burst: 2 } })
  const statuses = async (calls: number) => {
    const found: number[] = []
    for (let i = 0; i < calls; i += 1) found.push((await chat()).status)
    return found
  }
  t.same(await statuses(3), [200, 200, 429])
  t.same(await chat(), { status: 429, retryAfter: '10' })
  await clock.advance(9_999)
  t.same(await statuses(1), [429], 'a millisecond too early')
  await clock.advance(1)
  t.same(await statuses(2), [200, 429], 'one more each ten seconds')
})

t.test('a breaker asks its provider again when the clock of the node says so', async (t) => {
  const clock = new VirtualClock(Date.now())
  const { seen, chat } = await start(t, clock)
  for (let i = 0; i < FAILURES; i += 1) await chat()
  t.equal(seen.asked, FAILURES)
  seen.isWell = true
  await clock.advance(OPEN_MS - 1)
  await chat()
  t.equal(seen.asked, FAILURES, 'the breaker is open')
  await clock.advance(1)
  await chat()
  t.equal(seen.asked, FAILURES + 1)
})
