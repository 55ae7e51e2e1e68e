import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { AudioRef } from '../../../src/contracts/audio.ts'
import { toAbortSignal } from '../../../src/contracts/cancellation.ts'
import { DEFAULT_LIMITS, type Limits } from '../../../src/contracts/limits.ts'
import { receiveAudio } from '../../../src/gateway/edge/body.ts'
import { readJson } from '../../../src/gateway/edge/json-body.ts'
import type { EdgeRoute } from '../../../src/gateway/edge/server.ts'
import { createAudioReader } from '../../../src/gateway/storage/audio-reader.ts'
import { decodeBase64 } from '../../../src/gateway/workers/base64.ts'
import { multipart, noise, slices } from '../../support/bodies.ts'
import { startEdge } from '../../support/edge.ts'
import { RawClient } from '../../support/raw-client.ts'
import { createRig, keysOf, MIB, type RigOptions } from '../storage/rig.ts'

/** The real edge, spool, store and reader; a route that answers with what a provider would be sent. */
async function startReceiver(t: Test, options: RigOptions & { limits?: Partial<Limits> } = {}) {
  const rig = await createRig(t, options)
  const reader = createAudioReader({ objects: rig.objects, decoder: { decode: decodeBase64 } })
  const digest = async (audio: AudioRef, signal: AbortSignal) => {
    const hash = createHash('sha256')
    for await (const chunk of reader.bytes(audio, signal)) hash.update(chunk)
    return hash.digest('hex')
  }
  const limits = { ...DEFAULT_LIMITS, ...options.limits }
  const transcription: EdgeRoute = {
    method: 'POST',
    path: '/v1/transcription',
    async handle(exchange) {
      const received = await receiveAudio(exchange, { spool: rig.spool, limits, workspace: 'acme' })
      try {
        const { fields, source } = received
        const audio = source.kind === 'audio' ? source.audio : null
        const body = {
          fields: fields.kind === 'json' ? fields.value : Object.fromEntries(fields.values),
          kept: audio?.source.kind ?? null,
          sha256: audio && (await digest(audio, toAbortSignal(exchange.signal))),
          decodedBytes: audio?.decodedBytes,
        }
        exchange.reply({ status: 200, body: JSON.stringify(body) })
      } finally {
        received.release()
      }
    },
  }
  const speech: EdgeRoute = {
    method: 'POST',
    path: '/v1/speech',
    async handle(exchange) {
      const maxBytes = limits.max_request_body_bytes
      const body = await readJson(
        exchange,
        { budget: rig.budget, maxBytes, workspace: 'acme' },
        JSON.stringify,
      )
      exchange.reply({ status: 200, body })
    },
  }
  const edge = await startEdge(t, [transcription, speech])
  /** Asserts that no memory, object or upload of any request is left. */
  async function settles(t: Test, message: string) {
    const left = async () => {
      const { arriving, uploading } = rig.spool.stats()
      const keys = await keysOf(rig.objects)
      return {
        used: rig.budget.used,
        early: edge.budget.used,
        open: edge.server.inFlight,
        arriving,
        uploading,
        keys,
      }
    }
    const nothing = { used: 0, early: 0, open: 0, arriving: 0, uploading: 0, keys: [] }
    for (let tries = 0; tries < 100 && JSON.stringify(await left()) !== JSON.stringify(nothing); tries++)
      await sleep(20)
    t.strictSame(await left(), nothing, message)
  }
  return { ...rig, ...edge, settles }
}

interface Sent {
  readonly path?: string
  readonly contentType: string
  readonly pieces: readonly Buffer[]
  readonly chunked?: boolean
}

async function post(
  client: RawClient,
  { path = '/v1/transcription', contentType, pieces, chunked = false }: Sent,
) {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  const framing = chunked ? 'transfer-encoding: chunked' : `content-length: ${length}`
  const head = `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: ${contentType}\r\n${framing}\r\n\r\n`
  const framed = pieces.map((piece) =>
    chunked
      ? Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')])
      : piece,
  )
  await client.send(head, ...framed, chunked ? '0\r\n\r\n' : '')
  const response = await client.response({ timeoutMs: 20_000 })
  if (response === null) throw new Error('no answer')
  return { status: response.status, json: JSON.parse(response.body.toString()) }
}

/** One audio in every kind of body. */
function bodiesOf(audio: Buffer): (Sent & { name: string; body: Buffer; fields: object })[] {
  const form = multipart([
    { name: 'language', body: 'de' },
    { name: 'file', filename: 'a.wav', type: 'audio/wav', body: audio },
    { name: 'prompt', body: 'Grüße' },
  ])
  const base64 = audio.toString('base64')
  const json = (name: string, text: string, fields: object) => {
    const body = Buffer.from(text)
    return { name, contentType: 'application/json', body, pieces: [body], fields }
  }
  return [
    {
      name: 'multipart',
      contentType: form.contentType,
      body: form.body,
      pieces: [form.body],
      fields: { language: ['de'], prompt: ['Grüße'] },
    },
    {
      name: 'raw',
      path: '/v1/transcription?seed=1',
      contentType: 'audio/wav',
      body: audio,
      pieces: [audio],
      fields: { seed: ['1'] },
    },
    json('base64', `{"seed":1,"audio":{"base64":"${base64}"},"language":"de"}`, { seed: 1, language: 'de' }),
    json('data URL', `{"audio":{"data":"data:audio/wav;base64,${base64}"}}`, {}),
    json('escaped as PHP does', `{"audio":"${base64.replace(/\//g, '\\/')}"}`, {}),
    json(
      'escaped as .NET and Gson do',
      `{"audio_base64":"${base64.replace(/\+/g, '\\u002B').replace(/=/g, '\\u003d')}"}`,
      {},
    ),
    json('in lines', `{"audio":"${base64.replace(/.{76}/g, '$&\\r\\n')}"}`, {}),
    json('for URLs, bare', `{"audio":"${audio.toString('base64url')}"}`, {}),
  ]
}

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

t.test('every kind of body comes out as the audio that went in', async (t) => {
  for (const [kept, budgetBytes] of Object.entries({ memory: 64 * MIB, object: 0 })) {
    const receiver = await startReceiver(t, { budgetBytes, timing: { memoryWaitMs: 10 } })
    for (const length of [1, 2, 3, 100_001]) {
      const audio = noise(length, length)
      const client = await RawClient.connect(receiver.port)
      for (const { name, body, fields, ...request } of bodiesOf(audio)) {
        for (const pieces of [[body], slices(body, 20_011)]) {
          const { status, json } = await post(client, { ...request, pieces })
          t.equal(status, 200, `${name}, ${length} bytes in ${pieces.length}: ${JSON.stringify(json.error)}`)
          t.same(json, { fields, kept, sha256: sha256(audio), decodedBytes: length })
        }
        const other = await RawClient.connect(receiver.port)
        const { json } = await post(other, { ...request, pieces: slices(body, 40_009), chunked: true })
        t.equal(json.sha256, sha256(audio), `${name}, chunked`)
        other.destroy()
      }
      client.destroy()
    }
    await receiver.settles(t, `kept in ${kept}`)
  }
})

t.test('a file of exactly the limit passes, one byte more is 413', async (t) => {
  const limit = 50_000
  const receiver = await startReceiver(t, { limits: { max_audio_bytes: limit } })
  const exact = bodiesOf(noise(limit))
  for (const [index, { name, body, fields: _, ...request }] of bodiesOf(noise(limit + 1)).entries()) {
    for (const chunked of [false, true]) {
      const client = await RawClient.connect(receiver.port)
      const pieces = slices(exact[index]!.body, 30_000)
      t.equal((await post(client, { ...request, pieces, chunked })).status, 200, name)
      const over = chunked ? await RawClient.connect(receiver.port) : client
      const { status, json } = await post(over, { ...request, pieces: slices(body, 30_000), chunked })
      t.match(
        { status, json },
        { status: 413, json: { error: { code: 'AUDIO_TOO_LARGE', retryable: false } } },
        name,
      )
      t.same(json.error.details, { limit: 'max_audio_bytes', limit_bytes: limit, received_bytes: limit + 1 })
      client.destroy()
      over.destroy()
    }
  }
  await receiver.settles(t, 'after the refusals')
})

t.test('an oversized body is refused while it is still being sent', async (t) => {
  const limits = { max_audio_bytes: 20 * MIB, max_request_body_bytes: 300_000 }
  const receiver = await startReceiver(t, { limits })
  const form = multipart([{ name: 'file', body: noise(400_000) }])
  for (const chunked of [false, true]) {
    const client = await RawClient.connect(receiver.port)
    const { status, json } = await post(client, {
      contentType: form.contentType,
      pieces: slices(form.body, 100_000),
      chunked,
    })
    t.equal(status, 413)
    t.match(json.error, {
      code: 'REQUEST_TOO_LARGE',
      details: { limit: 'max_request_body_bytes', limit_bytes: 300_000 },
    })
    client.destroy()
  }
  await receiver.settles(t, 'after the refusals')
})

t.test('clients that leave at any point leave nothing behind', async (t) => {
  for (const budgetBytes of [64 * MIB, 0]) {
    const receiver = await startReceiver(t, { budgetBytes, timing: { memoryWaitMs: 10 } })
    const audio = noise(300_000)
    for (const { body, contentType } of bodiesOf(audio).slice(0, 3)) {
      for (const part of [0, 1, 200, 150_000, body.length - 1]) {
        const client = await RawClient.connect(receiver.port)
        const head = `POST /v1/transcription HTTP/1.1\r\nhost: x\r\ncontent-type: ${contentType}\r\n`
        await client.send(`${head}content-length: ${body.length}\r\n\r\n`, body.subarray(0, part))
        await sleep(5)
        client.destroy()
      }
    }
    await receiver.settles(t, `budget ${budgetBytes}`)
    t.same(receiver.logged, [], 'nothing is worth a warning')
  }
})

t.test('the largest file passes in multipart and fails one byte later', async (t) => {
  const receiver = await startReceiver(t)
  const limit = DEFAULT_LIMITS.max_audio_bytes
  for (const length of [limit, limit + 1]) {
    const audio = noise(length)
    const form = multipart([{ name: 'file', body: audio }])
    const client = await RawClient.connect(receiver.port)
    const { status, json } = await post(client, { contentType: form.contentType, pieces: [form.body] })
    if (length === limit)
      t.match({ status, json }, { status: 200, json: { sha256: sha256(audio), decodedBytes: limit } })
    else t.match({ status, json }, { status: 413, json: { error: { code: 'AUDIO_TOO_LARGE' } } })
    client.destroy()
  }
  await receiver.settles(t, 'after both')
})

t.test('small JSON is read whole', async (t) => {
  const receiver = await startReceiver(t)
  const client = await RawClient.connect(receiver.port)
  const speech = (text: string) => ({
    path: '/v1/speech',
    contentType: 'application/json',
    pieces: slices(Buffer.from(text), 5),
  })
  t.same(await post(client, speech('{"input":"Grüße"}')), { status: 200, json: { input: 'Grüße' } })
  t.match(await post(client, speech('{"input":')), {
    status: 400,
    json: { error: { code: 'INVALID_REQUEST' } },
  })
  client.destroy()
  await receiver.settles(t, 'after both')
})
