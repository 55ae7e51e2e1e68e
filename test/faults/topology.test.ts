import { createHash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { type ErrorCode, errorReply, GatewayError } from '../../src/contracts/errors.ts'
import { type ReceivedCall, startSandbox } from '../../src/sandbox/server.ts'

import { uploadsOf } from '../support/audio-upload.ts'
import { readEvents } from '../support/event-source.ts'
import { startFleet } from '../support/fleet.ts'
import { serveHttp } from '../support/http-server.ts'
import { RawClient } from '../support/raw-client.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

const AUDIO_BYTES_MAX = 26_214_400
const JSON_TYPE = { 'content-type': 'application/json' }

/** A provider of chat that answers in events, each only when it is told to. */
async function openStreaming(t: Test) {
  let response: ServerResponse | null = null
  const origin = await serveHttp(t, (request, answer) => {
    response = answer
    request.resume()
    answer.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
  })
  const write = (event: string) => void response?.write(`data: ${event}\n\n`)
  return {
    base_url: `${origin}/v1`,
    isAsked: () => response !== null,
    say: (content: string) => write(JSON.stringify({ choices: [{ index: 0, delta: { content } }] })),
    end: () => {
      write(JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }))
      write('[DONE]')
      response?.end()
    },
  }
}

/**
 * Routes to a sandbox of the test's own: `plain`, and one that is `slow` to answer; and one to a provider that streams
 * `piecewise`.
 */
async function start(t: Test) {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const streaming = await openStreaming(t)
  const entry = (options: object) => ({ entries: [{ provider: 'sandbox', model: 'morse-1', options }] })
  const fleet = await startFleet(t, {
    ...{ nodes: 3, nginx: true, redis: { durable: true }, s3: 'shared' },
    providers: {
      sandbox: { kind: 'sandbox', access: 'platform', base_url: sandbox.url },
      streaming: {
        ...{ kind: 'openai-compatible', access: 'platform', base_url: streaming.base_url },
        ...{ capabilities: ['text'], price: { per_1m_input_tokens_usd: 0, per_1m_output_tokens_usd: 0 } },
      },
    },
    workspaces: {
      plain: entry({}),
      slow: entry({ delay_ms: 3_000 }),
      piecewise: { entries: [{ provider: 'streaming', model: 'any' }] },
    },
  })
  const { origin } = new URL(sandbox.url)
  return {
    ...fleet,
    streaming,
    authorization: (route: string) => ({ authorization: fleet.authorizationOf(route) }),
    /** What the provider was asked since `forget`. */
    calls: async () =>
      ((await (await fetch(`${origin}/sandbox/calls`)).json()) as { calls: ReceivedCall[] }).calls,
    forget: async () => void (await fetch(`${origin}/sandbox/calls`, { method: 'DELETE' })),
  }
}

/** The answer of nginx: its sentence is its own, everything else is as a node would have it. */
function assertEnvelope(t: Test, code: ErrorCode, answer: Answer | null): void {
  const { status, headers = {}, body } = answer ?? {}
  const requestId = headers['x-lk-request-id'] ?? ''
  const due = errorReply(new GatewayError(code), requestId)
  const { message, ...error } = (body as typeof due.body).error
  const { message: _, ...expected } = due.body.error
  t.equal(status, due.status)
  t.same(error, expected)
  t.match(message, /^[a-z].{10,}$/)
  t.match(headers, { ...due.headers, 'content-type': 'application/json' })
  t.match(requestId, /^[A-Za-z0-9._-]{1,128}$/)
}

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
}

async function answerOf(response: Response): Promise<Answer> {
  return {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    body: await response.json(),
  }
}

/** A connection's next answer, its body read as JSON; null when it ends without one. */
async function jsonOf(client: RawClient): Promise<Answer | null> {
  const answer = await client.response({ timeoutMs: 20_000 })
  client.destroy()
  return answer && { ...answer, body: JSON.parse(answer.body.toString()) }
}

t.test('three nodes behind nginx', { skip: withoutServers, timeout: 300_000 }, async (t) => {
  const rig = await start(t)
  const { nginx, node, authorization } = rig

  t.test('the largest audio goes through in every form', async (t) => {
    const audio = filledWav(AUDIO_BYTES_MAX, 5)
    const sha256 = createHash('sha256').update(audio).digest('hex')
    const forms = uploadsOf(audio, authorization('plain').authorization)
    for (const [form, { head, body }] of Object.entries(forms)) {
      const client = await RawClient.connect(nginx.port)
      await client.send(head, body)
      const answer = await client.response({ timeoutMs: 60_000 })
      t.equal(answer?.status, 200, form)
      client.destroy()
    }
    const calls = await rig.calls()
    t.same(
      calls.map((call) => call.sha256),
      Object.keys(forms).map(() => sha256),
      'each arrived whole, and once',
    )
  })

  t.test('a body over the limit meets the 413 of the gateway, not one of nginx', async (t) => {
    await rig.forget()
    const { multipart } = uploadsOf(filledWav(AUDIO_BYTES_MAX + 1, 5), authorization('plain').authorization)
    const client = await RawClient.connect(nginx.port)
    await client.send(multipart.head, multipart.body)
    const answer = await client.response({ timeoutMs: 60_000 })
    t.equal(answer?.status, 413)
    t.match(JSON.parse(answer?.body.toString() ?? ''), {
      error: { code: 'AUDIO_TOO_LARGE', details: { limit: 'max_audio_bytes', limit_bytes: AUDIO_BYTES_MAX } },
    })
    t.same(await rig.calls(), [], 'nobody was asked')
  })

  t.test('the caller’s request id stays, on the way in and back', async (t) => {
    const headers = { ...authorization('plain'), 'x-lk-request-id': 'mine-1.2_3' }
    const response = await fetch(`${nginx.url}/v1/me`, { headers })
    t.equal(response.headers.get('x-lk-request-id'), 'mine-1.2_3')
    const missing = await fetch(`${nginx.url}/nowhere`, { headers })
    t.match(await answerOf(missing), { body: { error: { code: 'NOT_FOUND', request_id: 'mine-1.2_3' } } })
    const foreign = await fetch(`${nginx.url}/v1/me`, {
      headers: { ...headers, 'x-lk-request-id': 'not an id' },
    })
    const made = foreign.headers.get('x-lk-request-id') ?? ''
    t.match(made, /^req_[0-9a-f]{32}$/)
    t.ok(await waitUntil(async () => (await nginx.log()).includes(`"request_id":"${made}"`)))
    t.match(await answerOf(await fetch(`${nginx.url}/v1/me`)), { status: 401 })
  })

  t.test('a key in ElevenLabs’ header is passed on', async (t) => {
    const key = authorization('plain').authorization.replace('Bearer ', '')
    const response = await fetch(`${nginx.url}/elevenlabs/v1/models`, { headers: { 'xi-api-key': key } })
    t.equal(response.status, 200)
  })

  t.test('events come one by one', async (t) => {
    const asked = fetch(`${nginx.url}/v1/chat`, {
      method: 'POST',
      headers: { ...authorization('piecewise'), ...JSON_TYPE },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], stream: true }),
    })
    t.ok(await waitUntil(() => rig.streaming.isAsked()))
    // Each comes through with nothing behind it.
    rig.streaming.say('one')
    const response = await asked
    t.equal(response.headers.get('content-type'), 'text/event-stream')
    if (response.body === null) throw new Error('no body')
    const events = readEvents(response.body)
    const until = async (piece: string) => {
      for (;;) {
        const { value } = await events.next()
        if (!value) throw new Error(`the answer ended before "${piece}"`)
        if (value.data.includes(`"${piece}"`)) return
      }
    }
    await until('one')
    for (const piece of ['two', 'three', 'four']) {
      rig.streaming.say(piece)
      await until(piece)
    }
    rig.streaming.end()
    const rest: string[] = []
    for await (const { data } of events) rest.push(data)
    t.ok(rest.length > 0)
  })

  t.test('spoken audio comes whole', async (t) => {
    const ask = (url: string) =>
      fetch(`${url}/v1/speech`, {
        method: 'POST',
        headers: { ...authorization('plain'), ...JSON_TYPE, accept: 'audio/wav' },
        body: JSON.stringify({ input: 'paris '.repeat(24).trim() }),
      }).then(async (response) => Buffer.from(await response.arrayBuffer()))
    const [direct, proxied] = await Promise.all([ask(node().url), ask(nginx.url)])
    t.ok(direct.length > 500_000)
    t.ok(direct.equals(proxied))
  })

  t.test('what is stored is there for every node, and its URL for everybody', async (t) => {
    const response = await fetch(`${nginx.url}/v1/video`, {
      method: 'POST',
      headers: { ...authorization('plain'), ...JSON_TYPE },
      body: JSON.stringify({ prompt: 'sos', duration_seconds: 4, size: '32x18' }),
    })
    const { status, body } = await answerOf(response)
    t.equal(status, 200)
    const [block] = (body as { content_blocks: { url: string }[] }).content_blocks
    const film = await fetch(block?.url ?? '')
    t.equal(film.status, 200)
    t.ok((await film.arrayBuffer()).byteLength > 1_000)
  })

  t.test('what nginx answers itself is in the gateway’s own form', async (t) => {
    const raw = async (bytes: string) => {
      const client = await RawClient.connect(nginx.port)
      await client.send(bytes)
      return jsonOf(client)
    }
    const head = 'GET / HTTP/1.1\r\nHost: a\r\n'
    assertEnvelope(t, 'INVALID_REQUEST', await raw('GET / HTTP/1.1\r\n\r\n'))
    assertEnvelope(t, 'INVALID_REQUEST', await raw(`GET /${'x'.repeat(20_000)} HTTP/1.1\r\nHost: a\r\n\r\n`))
    assertEnvelope(t, 'INVALID_REQUEST', await raw(`${head}X: ${'x'.repeat(20_000)}\r\n\r\n`))
    assertEnvelope(
      t,
      'INVALID_REQUEST',
      await raw('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n'),
    )
    assertEnvelope(t, 'METHOD_NOT_ALLOWED', await raw('TRACE / HTTP/1.1\r\nHost: a\r\n\r\n'))
    assertEnvelope(t, 'NOT_FOUND', await raw('GET /.larkway/internal HTTP/1.1\r\nHost: a\r\n\r\n'))
    t.match(await raw(`${head}X-LK-Request-ID: mine\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n`), {
      status: 400,
      headers: { 'x-lk-request-id': 'mine' },
      body: { error: { request_id: 'mine' } },
    })
  })

  t.test('a node is killed', async (t) => {
    await rig.forget()
    const audio = filledWav(100_000, 2)
    const post = () =>
      fetch(`${nginx.url}/v1/transcription`, {
        method: 'POST',
        headers: { ...authorization('slow'), 'content-type': 'audio/wav' },
        body: audio,
      }).then(answerOf)
    const posts = Array.from({ length: 12 }, post)
    t.ok(await waitUntil(async () => (await rig.calls()).length === 12), 'all are with the provider')
    const killed = node(2).signal('SIGKILL')
    const gets = await Promise.all(
      Array.from({ length: 100 }, () =>
        fetch(`${nginx.url}/v1/me`, { headers: authorization('plain') }).then(answerOf),
      ),
    )
    await killed
    t.same(
      new Set(gets.map(({ status }) => status)),
      new Set([200]),
      'another node answers what may be repeated',
    )
    const answers = await Promise.all(posts)
    const lost = answers.filter(({ status }) => status !== 200)
    t.ok(lost.length >= 1 && lost.length <= 6, `${lost.length} of 12 were with that node`)
    for (const answer of lost) assertEnvelope(t, 'UPSTREAM_OUTCOME_UNKNOWN', answer)
    t.equal((await rig.calls()).length, 12, 'nobody asked the provider twice')

    const later = await Promise.all(Array.from({ length: 12 }, post))
    t.same(new Set(later.map(({ status }) => status)), new Set([200]), 'a new POST goes to a node that lives')
    t.equal((await rig.calls()).length, 24)
  })

  t.test('a node that is told to stop loses nothing', async (t) => {
    const audio = filledWav(20_000, 2)
    let answered = 0
    const failed: Answer[] = []
    let over = false
    const ask = async (worker: number) => {
      while (!over) {
        const post = {
          method: 'POST',
          headers: { ...authorization('plain'), 'content-type': 'audio/wav' },
          body: audio,
        }
        const [path, init] =
          worker % 2 === 0 ? ['/v1/transcription', post] : ['/v1/me', { headers: authorization('plain') }]
        const answer = await answerOf(await fetch(nginx.url + path, init))
        answered += 1
        if (answer.status !== 200) failed.push(answer)
      }
    }
    const asked = Promise.all(Array.from({ length: 16 }, (_, worker) => ask(worker)))
    t.ok(await waitUntil(() => answered > 100))
    t.equal(await node(1).signal('SIGTERM'), 0)
    const answeredBefore = answered
    t.ok(await waitUntil(() => answered > answeredBefore + 100))
    over = true
    await asked
    t.same(failed, [])
  })

  t.test('no node is left', async (t) => {
    await node().signal('SIGTERM')
    const get = await fetch(`${nginx.url}/v1/me`, { headers: authorization('plain') })
    assertEnvelope(t, 'OVERLOADED', await answerOf(get))
    const { raw } = uploadsOf(filledWav(5_000_000, 2), authorization('plain').authorization)
    const client = await RawClient.connect(nginx.port)
    await client.send(raw.head, raw.body)
    assertEnvelope(t, 'OVERLOADED', await jsonOf(client))
  })

  t.test('nothing was said that is secret', async (t) => {
    const log = await nginx.log()
    t.notMatch(log, /Bearer|lk_live_/)
    t.notMatch(log, /\[(emerg|alert|crit)\]/)
    t.ok(
      log
        .split('\n')
        .filter((line) => line.startsWith('{'))
        .every((line) => JSON.parse(line).status >= 200),
    )
  })
})
