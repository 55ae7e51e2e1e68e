import t from 'tap'
import { DEFAULT_LIMITS } from '../../src/contracts/limits.ts'
import { speak } from '../../src/sandbox/speak.ts'
import { multipart } from '../support/bodies.ts'
import { startDemoProcess, startDemoRoute } from '../support/demo-route.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { serveHttp } from '../support/http-server.ts'
import { RawClient } from '../support/raw-client.ts'
import { waitUntil } from '../support/wait-until.ts'

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

/** The fields come after the file: whoever sends on the bytes so far would not know them. */
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
      const gateway = await startDemoProcess(t, { entries: [{ status: 500 }, {}], env })
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
          t.ok(answer.segments.length > 0, `${kind}: the field after the audio is heeded`)
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
