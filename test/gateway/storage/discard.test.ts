import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { toAbortSignal } from '../../../src/contracts/cancellation.ts'
import { DEFAULT_LIMITS, type Limits } from '../../../src/contracts/limits.ts'
import { receiveAudio } from '../../../src/gateway/edge/body.ts'
import type { EdgeRoute } from '../../../src/gateway/edge/server.ts'
import type { EdgeTiming } from '../../../src/gateway/edge/timing.ts'
import { createAudioDigester } from '../../../src/gateway/storage/audio-digest.ts'
import { createAudioReader } from '../../../src/gateway/storage/audio-reader.ts'
import { createDiscardingSpool } from '../../../src/gateway/storage/spool.ts'
import { createWorkers } from '../../../src/gateway/workers/pool.ts'
import { uploadsOf } from '../../support/audio-upload.ts'
import { multipart } from '../../support/bodies.ts'
import { digestOf } from '../../support/digests.ts'
import { startEdge } from '../../support/edge.ts'
import { RawClient } from '../../support/raw-client.ts'
import { createRig, keysOf, MIB, noise } from './rig.ts'

interface Setting {
  readonly limits?: Partial<Limits>
  readonly timing?: Partial<EdgeTiming>
}

/** A real edge with two routes that answer the digest of the audio: of one that keeps it, and of one that does not. */
async function startEdges(t: Test, { limits = {}, timing }: Setting = {}) {
  const rig = await createRig(t)
  const workers = createWorkers()
  t.teardown(() => workers.close())
  const { budget, blocks, objects } = rig
  const reader = createAudioReader({ objects, decoder: workers.decoder, memory: rig })
  const digester = createAudioDigester({ reader, hasher: workers.hasher, blocks, budget })
  const options = { limits: { ...DEFAULT_LIMITS, ...limits }, workspace: 'acme' }
  const routeOf = (path: string, keeps: boolean): EdgeRoute => ({
    method: 'POST',
    path,
    async handle(exchange) {
      const passing = digester.passing()
      const unneeded = { spool: createDiscardingSpool(), passing, unless: null }
      const received = await receiveAudio(exchange, {
        ...options,
        spool: rig.spool,
        ...(keeps ? {} : { unneeded }),
      })
      const { source, body, release } = received
      if (source.kind !== 'audio') throw new Error('no audio')
      const digest = keeps
        ? await digester.digest(source.audio, toAbortSignal(exchange.signal))
        : passing.finish()
      const { decodedBytes } = source.audio
      release()
      exchange.reply({ status: 200, body: JSON.stringify({ digest, decodedBytes, length: body?.length }) })
    },
  })
  const edge = await startEdge(
    t,
    [routeOf('/v1/transcription', false), routeOf('/kept', true)],
    timing === undefined ? {} : { timing },
  )
  return { ...rig, edge }
}

async function post(port: number, head: Buffer, body: Uint8Array, timeoutMs = 60_000) {
  const client = await RawClient.connect(port)
  void client.send(head, body)
  const response = await client.response({ timeoutMs })
  client.destroy()
  if (response === null) throw new Error('no answer')
  return { status: response.status, json: JSON.parse(response.body.toString()) }
}

t.test(
  '16 uploads of 25 MiB at a time: the right digests, and nothing held',
  { timeout: 180_000 },
  async (t) => {
    const { edge, budget, blocks, objects, spool } = await startEdges(t)
    const audio = noise(25 * MIB)
    const expected = digestOf(audio)
    const uploads = Object.entries(uploadsOf(audio, 'Bearer x'))
    let peak = 0
    const watch = setInterval(() => {
      peak = Math.max(peak, budget.used, blocks.allocatedBytes)
    }, 5)
    const answers = await Promise.all(
      Array.from({ length: 16 }, async (_, i) => {
        const [form, { head, body }] = uploads[i % uploads.length]!
        return { form, ...(await post(edge.port, head, body)) }
      }),
    )
    clearInterval(watch)
    for (const { form, status, json } of answers)
      t.match({ status, json }, { status: 200, json: { digest: expected, decodedBytes: 25 * MIB } }, form)
    t.equal(peak, 0, 'no memory was taken')
    t.same(await keysOf(objects), [], 'no object was stored')
    t.match(spool.stats(), { held: 0, stored: 0, arriving: 0, uploading: 0 })
    t.same(edge.logged, [])
  },
)

t.test('a body that may still be needed takes no more than any other', { timeout: 180_000 }, async (t) => {
  const rig = await createRig(t, { budgetBytes: 64 * MIB })
  const workers = createWorkers()
  t.teardown(() => workers.close())
  const { budget, blocks, objects, spool } = rig
  const reader = createAudioReader({ objects, decoder: workers.decoder, memory: rig })
  const digester = createAudioDigester({ reader, hasher: workers.hasher, blocks, budget })
  const edge = await startEdge(t, [
    {
      method: 'POST',
      path: '/v1/transcription',
      async handle(exchange) {
        const unneeded = { spool: createDiscardingSpool(), passing: digester.passing(), unless: 'stream' }
        const options = { limits: DEFAULT_LIMITS, workspace: 'acme', app: 'web', spool, unneeded }
        const { source, release, kept } = await receiveAudio(exchange, options)
        if (source.kind !== 'audio') throw new Error('no audio')
        const digest = await digester.digest(source.audio, toAbortSignal(exchange.signal))
        release()
        exchange.reply({ status: 200, body: JSON.stringify({ digest, kept }) })
      },
    },
  ])
  const audio = noise(25 * MIB)
  const { multipart: form, json } = uploadsOf(audio, 'Bearer x')
  let peak = 0
  const watch = setInterval(() => {
    peak = Math.max(peak, budget.used, blocks.allocatedBytes)
  }, 5)
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, i) => {
      const { head, body } = i % 2 === 0 ? form : json
      return post(edge.port, head, body)
    }),
  )
  clearInterval(watch)
  const expected = digestOf(audio)
  for (const { status, json } of answers) t.match([status, json], [200, { digest: expected, kept: true }])
  t.comment(`12 × 25 MiB at a budget of 64 MiB: at most ${Math.round(peak / MIB)} MiB`)
  // A paused sender's kernel still hands over what it has received: twice the budget is where bodies are refused.
  t.ok(peak <= 3 * budget.limit, `the peak was ${peak} bytes`)
  await rig.spool.close()
  t.same(await keysOf(objects), [], 'no object is left')
})

/** Faulty bodies, and the answers to them. */
function brokenBodies(): Record<string, { contentType: string; body: Buffer; code: string | null }> {
  const json = (text: string) => ({ contentType: 'application/json', body: Buffer.from(text) })
  const form = multipart([{ name: 'file', body: noise(1_000) }])
  const open = multipart([{ name: 'file', body: noise(1_000) }], { closed: false })
  const large = multipart([{ name: 'file', body: noise(3_001) }])
  const empty = multipart([{ name: 'file', body: '' }])
  const wordy = multipart([
    { name: 'prompt', body: 'x'.repeat(10_000) },
    { name: 'file', body: noise(10) },
  ])
  const two = multipart([
    { name: 'file', body: noise(10) },
    { name: 'audio', body: noise(10) },
  ])
  const text = noise(1_000).toString('base64')
  return {
    'audio over the limit': { ...large, code: 'AUDIO_TOO_LARGE' },
    'audio over the limit, base64': {
      ...json(`{"audio":"${noise(3_001).toString('base64')}"}`),
      code: 'AUDIO_TOO_LARGE',
    },
    'a body over the limit': { ...wordy, code: 'REQUEST_TOO_LARGE' },
    'a form that is cut short': { ...open, code: 'INVALID_REQUEST' },
    'two files': { ...two, code: 'INVALID_REQUEST' },
    'no fault': { ...form, code: null },
    'an empty file': { ...empty, code: 'INVALID_REQUEST' },
    'no audio': { ...json('{"prompt":"x"}'), code: 'INVALID_REQUEST' },
    'no JSON': { ...json(`{"audio":"${text}"`), code: 'INVALID_REQUEST' },
    'no base64': { ...json(`{"audio":"${text.slice(0, 900)}.${text.slice(901)}"}`), code: 'INVALID_REQUEST' },
    'another type': { contentType: 'text/plain', body: noise(10), code: 'UNSUPPORTED_MEDIA_TYPE' },
  }
}

t.test('a body that is not kept is refused like one that is', async (t: Test) => {
  const limits = { max_audio_bytes: 3_000, max_request_body_bytes: 10_000 }
  const { edge, budget, objects } = await startEdges(t, { limits })
  for (const [name, { contentType, body, code }] of Object.entries(brokenBodies())) {
    for (const chunked of [false, true]) {
      const framing = chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`
      const framed = chunked
        ? Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n0\r\n\r\n')])
        : body
      const send = (path: string) =>
        post(
          edge.port,
          Buffer.from(
            `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: ${contentType}\r\n${framing}\r\n\r\n`,
          ),
          framed,
        )
      const [passed, kept] = [await send('/v1/transcription'), await send('/kept')]
      const plain = ({ status, json }: typeof kept) => {
        const { request_id, ...error } = json.error ?? {}
        return { status, ...error, digest: json.digest }
      }
      t.same(plain(passed), plain(kept), name)
      t.equal(passed.json.error?.code ?? null, code, name)
    }
  }
  t.equal(budget.used, 0)
  t.same(await keysOf(objects), [])
})

t.test('a body that comes too slowly is 408, and one whose sender leaves is nothing', async (t: Test) => {
  const timing = { sweepMs: 50, graceMs: 300, windowMs: 300 }
  const { edge } = await startEdges(t, { timing })
  const head =
    'POST /v1/transcription HTTP/1.1\r\nHost: a\r\nContent-Type: audio/wav\r\nContent-Length: 100000\r\n\r\n'
  const slow = await post(edge.port, Buffer.from(head), noise(1_000))
  t.match(slow, { status: 408, json: { error: { code: 'REQUEST_TIMEOUT', retryable: true } } })
  const client = await RawClient.connect(edge.port)
  await client.send(head, noise(1_000))
  client.destroy()
  for (let left = 100; left > 0 && edge.server.inFlight > 0; left -= 1) await sleep(20)
  t.equal(edge.server.inFlight, 0)
  t.same(edge.logged, [])
})

t.test('a writer takes everything, at any time, and holds nothing', async (t: Test) => {
  const writer = createDiscardingSpool().open({ workspace: 'acme', id: 'x', contentLength: null })
  t.equal(writer.ready, true, 'before its start already')
  writer.write(noise(10))
  await writer.start()
  writer.write(noise(MIB))
  t.equal(writer.ready, true)
  const body = await writer.finish()
  t.same(
    { ...body, release: null },
    { source: { kind: 'memory', blocks: [] }, length: MIB + 10, release: null },
  )
  body.release()
  body.release()
  await writer.abort()
})
