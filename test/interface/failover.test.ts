import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { DEFAULT_LIMITS } from '../../src/limits.ts'
import { speak } from '../../src/sandbox/speak.ts'
import { multipart } from '../support/bodies.ts'
import { type DemoRoute, startDemoRoute } from '../support/demo-route.ts'
import { serveHttp } from '../support/http-server.ts'
import { RawClient } from '../support/raw-client.ts'
import { assertStopsClean } from '../support/stopped.ts'
import { waitUntil } from '../support/wait-until.ts'
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
    await gateway.signal('SIGTERM')
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
    await gateway.signal('SIGTERM')
  }
})

t.test(
  'a limit of one provider is no limit of the next; over all of them the call is the caller’s',
  async (t) => {
    const gateway = await startDemoRoute(t, { entries: [{ status: 413 }, {}] })
    const { status } = await transcribe(gateway)
    t.same([status, (await gateway.calls()).length], [200, 2])
    await gateway.signal('SIGTERM')
    const small = await startDemoRoute(t, { entries: [{ status: 413 }, { status: 413 }] })
    const { body } = await transcribe(small)
    t.match(body.error, { code: 'UPSTREAM_REJECTED', retryable: false, details: { reason: 'too_large' } })
    await small.signal('SIGTERM')
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

/** Some 130 MiB at rest, the 64 of the budget, and room for what is not collected yet. */
const PEAK_MAX_MIB = 260
const LARGEST = DEFAULT_LIMITS.max_audio_bytes
const TEXT = 'the lark at break of day arising'

/** Speech of as many bytes as audio may have: words, then silence. */
function largestSpeech(): Buffer {
  const wav = Buffer.concat([speak(TEXT, 600, 1)], LARGEST)
  wav.writeUInt32LE(LARGEST - 8, 4)
  wav.writeUInt32LE(LARGEST - 44, 40)
  return wav
}

/** The fields stand behind the file: whoever sends on what has arrived so far would not know them. */
function bodiesOf(wav: Buffer): Record<'multipart' | 'base64', { type: string; body: Buffer }> {
  const form = multipart([
    { name: 'file', filename: 'a.wav', type: 'audio/wav', body: wav },
    { name: 'response_format', body: 'verbose_json' },
  ])
  const json = JSON.stringify({ audio: { base64: wav.toString('base64') }, response_format: 'verbose_json' })
  return {
    multipart: { type: form.contentType, body: form.body },
    base64: { type: 'application/json', body: Buffer.from(json) },
  }
}

for (const [tier, memory] of [
  ['memory', '64'],
  ['store', '16'],
] as const) {
  t.test(
    `25 MiB, sent whole to the first, answered by the second: ${tier} tier`,
    { timeout: 300_000 },
    async (t) => {
      const wav = largestSpeech()
      const env = { LARKWAY_MEMORY_MIB: memory }
      const gateway = await startDemoRoute(t, { entries: [{ status: 500 }, {}], env })
      const peaks: number[] = []
      for (const [kind, { type, body }] of Object.entries(bodiesOf(wav))) {
        // Fewer than open the breaker of the first.
        for (let times = 0; times < 2; times += 1) {
          await gateway.forget()
          const headers = { ...gateway.authorization, 'content-type': type }
          const response = await fetch(`${gateway.url}/v1/transcription`, { method: 'POST', headers, body })
          const answer = (await response.json()) as { content: string; segments: unknown[] }
          t.equal(response.status, 200, kind)
          t.equal(answer.content, TEXT, kind)
          t.ok(answer.segments.length > 0, `${kind}: the field behind the audio is heeded`)
          const calls = await gateway.calls()
          t.same(
            calls.map(({ status, bytes }) => [status, bytes]),
            [
              [500, LARGEST],
              [200, LARGEST],
            ],
            `${kind}: both were sent all of it`,
          )
          t.equal(new Set(calls.map(({ sha256 }) => sha256)).size, 1)
          peaks.push(await gateway.peakRssMiB())
        }
      }
      const [form = 0, formAgain = 0, text = 0, textAgain = 0] = peaks
      const shown = `peaks of memory: ${peaks.map(Math.round).join(', ')} MiB`
      t.ok(formAgain - form < 24 && textAgain - text < 24, `${shown}: the same again takes no more`)
      t.ok(textAgain < PEAK_MAX_MIB, shown)
      await assertStopsClean(t, gateway)
      t.match(gateway.log.at(-1), { bodies: tier === 'memory' ? { stored: 0 } : { held: 0 } })
    },
  )
}

t.test('who leaves is not waited for', { timeout: 120_000 }, async (t) => {
  const seen = { received: 0, gone: 0 }
  const origin = await serveHttp(t, (request, response) => {
    request.resume().on('end', () => {
      seen.received += 1
    })
    response.on('close', () => {
      seen.gone += 1
    })
  })
  const gateway = await startDemoRoute(t, { entries: [{}, {}], upstreamUrl: `${origin}/v1` })
  const { type, body } = bodiesOf(largestSpeech()).multipart
  const client = await RawClient.connect(gateway.port)
  await client.send(
    `POST /v1/transcription HTTP/1.1\r\nHost: a\r\nAuthorization: ${gateway.authorization.authorization}\r\n` +
      `Content-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n`,
    body,
  )
  t.ok(await waitUntil(() => seen.received === 1), 'the provider works')
  client.destroy()
  t.ok(await waitUntil(() => seen.gone === 1), 'the provider is left')
  const line = () => gateway.log.find(({ status }) => status === 499)
  t.ok(await waitUntil(() => line() !== undefined))
  t.match(line(), {
    error: 'CLIENT_CLOSED',
    policy_version_id: /^pv_/,
    attempts: [{ provider: 'sandbox', status: null, reason: 'not finished' }],
    usage: { audio_seconds: Number },
    cost_usd: Number,
    estimated: true,
  })
  t.equal(seen.received, 1, 'the second is not asked')
  await assertStopsClean(t, gateway)
})
