import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { type DemoRoute, startDemoRoute } from '../support/demo-route.ts'
import { filledWav } from '../support/wav.ts'

const WAV = filledWav(200_000, 1)

async function transcribe(gateway: DemoRoute, body: Uint8Array = WAV) {
  const headers = { ...gateway.authorization, 'content-type': 'audio/wav' }
  const response = await fetch(`${gateway.url}/v1/transcription`, { method: 'POST', headers, body })
  const parsed = (await response.json()) as Record<string, unknown> & { error?: Record<string, unknown> }
  const id = response.headers.get('x-lk-request-id')
  return { status: response.status, body: parsed, line: () => logLine(gateway, id) }
}

/** The log line of a request, which may come out after its answer. */
async function logLine(gateway: DemoRoute, id: string | null): Promise<Record<string, unknown>> {
  for (let waited = 0; waited < 5_000; waited += 20) {
    const line = gateway.log.find(({ request_id }) => request_id === id)
    if (line !== undefined) return line
    await sleep(20)
  }
  throw new Error(`no log line for ${id}`)
}

interface Attempt {
  readonly status: number | null
  readonly reason: string
}

t.test('failures that another entry cures', { timeout: 120_000 }, async (t) => {
  const rows: [string, Record<string, unknown>, number | null][] = [
    ['500', { status: 500 }, 500],
    ['503 with Retry-After', { status: 503, retry_after: 5 }, 503],
    ['429', { status: 429, retry_after: 1 }, 429],
    ['408', { status: 408 }, 408],
    ['a refused credential', { status: 401 }, 401],
    ['no quota', { status: 429, code: 'insufficient_quota' }, 429],
    ['an unknown model', { status: 404, code: 'model_not_found' }, 404],
    ['a connection cut in the answer', { cut: true }, null],
  ]
  for (const [name, fault, status] of rows) {
    const gateway = await startDemoRoute(t, { entries: [fault, {}] })
    const answer = await transcribe(gateway)
    t.equal(answer.status, 200, name)
    const attempts = (await answer.line()).attempts as Attempt[]
    t.same(
      attempts.map((one) => one.status),
      [status, 200],
      `${name}: ${attempts[0]?.reason}`,
    )
    const calls = await gateway.calls()
    t.equal(new Set(calls.map(({ sha256 }) => sha256)).size, 1, `${name}: both were sent the same bytes`)
  }
})

t.test('the caller’s own fault is not tried elsewhere', async (t) => {
  for (const status of [400, 415, 422]) {
    const gateway = await startDemoRoute(t, { entries: [{ status }, {}] })
    const answer = await transcribe(gateway)
    t.equal(answer.status, 422)
    t.match(answer.body.error, {
      code: 'UPSTREAM_REJECTED',
      details: { reason: /^(other|unsupported_format)$/ },
    })
    t.equal((await gateway.calls()).length, 1)
  }
})

t.test(
  'a limit of one provider is no limit of the next; over all of them the call is the caller’s',
  async (t) => {
    const gateway = await startDemoRoute(t, { entries: [{ status: 413 }, {}] })
    const { status } = await transcribe(gateway)
    t.same([status, (await gateway.calls()).length], [200, 2])
    const small = await startDemoRoute(t, { entries: [{ status: 413 }, { status: 413 }] })
    const { body } = await transcribe(small)
    t.match(body.error, { code: 'UPSTREAM_REJECTED', retryable: false, details: { reason: 'too_large' } })
  },
)

t.test('when every entry fails', async (t) => {
  const gateway = await startDemoRoute(t, { entries: [{ status: 500 }, { status: 502 }] })
  const { status, body } = await transcribe(gateway)
  t.equal(status, 502)
  t.match(body.error, { code: 'UPSTREAM_ERROR', retryable: true, details: { policy_version_id: /^pv_/ } })
  const { details = {} } = body.error ?? {}
  const { attempts } = details as { attempts: Attempt[] }
  t.same(
    attempts.map((one) => one.status),
    [500, 502],
  )
  t.same(Object.keys(attempts[0] ?? {}), ['provider', 'model', 'status', 'milliseconds', 'reason'])
})

t.test('one that hangs leaves the others half of the time', { timeout: 60_000 }, async (t) => {
  const gateway = await startDemoRoute(t, { entries: [{ hang: true }, {}], config: { deadline_seconds: 8 } })
  const before = performance.now()
  const answer = await transcribe(gateway)
  const seconds = (performance.now() - before) / 1000
  t.equal(answer.status, 200)
  t.ok(seconds > 3 && seconds < 8, `${seconds} s`)

  const hanging = await startDemoRoute(t, { entries: [{ hang: true }], config: { deadline_seconds: 2 } })
  const late = await transcribe(hanging)
  t.equal(late.status, 504)
  t.match(late.body.error, { code: 'UPSTREAM_TIMEOUT', retryable: true })
})

t.test('an empty transcript is a warning', async (t) => {
  const gateway = await startDemoRoute(t, { entries: [{ empty: true }] })
  const { status, body } = await transcribe(gateway)
  t.equal(status, 200)
  t.match(body.warnings, [/^empty_transcript/])
})

t.test('traceparent goes on to the provider', async (t) => {
  const gateway = await startDemoRoute(t)
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const headers = {
    ...gateway.authorization,
    'content-type': 'audio/wav',
    traceparent,
    'x-lk-request-id': 'mine-1',
  }
  const response = await fetch(`${gateway.url}/v1/transcription`, { method: 'POST', headers, body: WAV })
  t.equal(response.headers.get('x-lk-request-id'), 'mine-1')
  t.equal(((await response.json()) as { id: string }).id, 'mine-1')
  t.equal((await gateway.calls())[0]?.traceparent, traceparent)
})
