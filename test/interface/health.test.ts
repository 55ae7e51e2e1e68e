import t from 'tap'
import { type DemoRoute, startDemoRoute } from '../support/demo-route.ts'
import { filledWav } from '../support/wav.ts'

const WAV = filledWav(32_044, 1)

async function transcribe({ url, authorization }: DemoRoute) {
  const headers = { ...authorization, 'content-type': 'audio/wav' }
  const response = await fetch(`${url}/v1/transcription`, { method: 'POST', headers, body: WAV })
  const { error } = (await response.json()) as { error?: { code: string; details: Record<string, unknown> } }
  return { status: response.status, headers: response.headers, error }
}

t.test('a provider that asked to be left alone is, and the caller is told for how long', async (t) => {
  const gateway = await startDemoRoute(t, {
    entries: [
      { status: 429, retry_after: 60 },
      { status: 503, retry_after: 90 },
    ],
  })
  const first = await transcribe(gateway)
  t.equal(first.status, 502, 'both were tried')
  t.equal(first.error?.code, 'UPSTREAM_ERROR')
  t.equal(first.headers.get('retry-after'), '60', 'the sooner of the two')
  t.equal(first.headers.get('x-should-retry'), 'true')
  t.match(first.error, { retryable: true, details: { retry_after_ms: 60_000 } })
  t.equal((await gateway.calls()).length, 2)

  const second = await transcribe(gateway)
  t.equal(second.status, 503)
  t.match(second.error, { code: 'PROVIDERS_COOLING_DOWN', category: 'upstream', retryable: true })
  const seconds = Number(second.headers.get('retry-after'))
  t.ok(seconds > 30 && seconds <= 60, `Retry-After: ${seconds}, the sooner of the two`)
  t.equal(second.headers.get('x-should-retry'), 'true')
  const { details = {} } = second.error ?? {}
  t.equal(Math.ceil(Number(details.retry_after_ms) / 1000), seconds)
  t.match(details, { policy_version_id: /^pv_/, entries: [{ left: 'cooling' }, { left: 'cooling' }] })
  t.equal((await gateway.calls()).length, 2, 'no one was called')
})

t.test('an entry that keeps failing is passed over, unless every other fails as well', async (t) => {
  const failing = await startDemoRoute(t, { entries: [{ status: 500 }, {}] })
  for (let call = 0; call < 8; call += 1) t.equal((await transcribe(failing)).status, 200)
  t.equal((await failing.calls()).length, 5 + 8, 'the first was tried five times')

  const hopeless = await startDemoRoute(t, { entries: [{ status: 500 }, { status: 502 }] })
  for (let call = 0; call < 8; call += 1) {
    const { status, error } = await transcribe(hopeless)
    t.equal(status, 502)
    t.equal(
      ((error?.details.attempts ?? []) as object[]).length,
      call < 5 ? 2 : 1,
      'each call is tried, at last once only',
    )
  }
  t.equal((await hopeless.calls()).length, 5 * 2 + 3)
})
