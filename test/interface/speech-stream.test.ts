import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startSandbox } from '../../src/sandbox/server.ts'
import { noise } from '../support/bodies.ts'
import { sha256 } from '../support/digests.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { MemoryWatch, residentMiB } from '../support/process-load.ts'
import { type RouteGateway, secret, startRouteGateway, startRouteProcess } from '../support/route-gateway.ts'
import { geminiDialect } from '../support/upstream/gemini.ts'
import { startUpstream, type Upstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'

const MIB = 1024 * 1024
const LISTENERS = 4
const PRICE = { per_1k_characters_usd: 0.05 }
const entry = (model: string, more: object = {}) => ({
  provider: 'voices',
  model,
  capabilities: ['audio_output'],
  price: PRICE,
  ...more,
})

const providersAt = (base_url: string) => ({ voices: { kind: 'openai-compatible', base_url } })

async function start(t: Test, entries: readonly Readonly<Record<string, unknown>>[]) {
  const upstream = await startUpstream(t)
  const gateway = await startRouteGateway(t, { providers: providersAt(upstream.url), entries })
  return { upstream, gateway }
}

const JSON_BODY = { 'content-type': 'application/json' }
const ask = (gateway: RouteGateway, accept = 'audio/*', fields: object = {}) =>
  gateway.post('/v1/speech', { input: 'hello', ...fields }, { accept })
const idOf = (response: Response) => response.headers.get('x-lk-request-id')

t.test('who asks for audio gets the audio, and the facts in headers', async (t) => {
  const { gateway, upstream } = await start(t, [entry('lark')])
  const pieces = [noise(700), noise(64_000, 2), noise(3, 3)]
  upstream.behave('lark', { chunks: pieces, contentType: 'audio/wav; charset=binary' })
  const accepts: Readonly<Record<string, string>> = {
    'audio/wav': 'audio/wav',
    'audio/*': 'audio/wav',
    'AUDIO/MPEG': 'audio/mpeg',
    'application/json, audio/mpeg;q=0.5': 'audio/mpeg',
    'text/html,audio/*': 'audio/wav',
  }
  for (const [accept, type] of Object.entries(accepts)) {
    const response = await ask(gateway, accept, { input: 'Grüße 🐦' })
    t.equal(response.status, 200, accept)
    const { date: _, ...headers } = Object.fromEntries(response.headers)
    t.match(headers, {
      'content-type': type,
      'transfer-encoding': 'chunked',
      'x-content-type-options': 'nosniff',
      'x-lk-provider': 'voices',
      'x-lk-model': 'lark',
      'x-lk-purpose-source': 'none',
      'x-lk-usage-audio-output-characters': '7',
      'x-lk-usage-total-tokens': '0',
      'x-lk-cost-usd': '0.00035',
      'x-lk-request-id': /^req_/,
      'x-lk-policy-version-id': /^pv_/,
      'x-ratelimit-remaining-requests': /^\d+$/,
    })
    t.equal(headers['content-length'], undefined)
    t.equal(sha256(new Uint8Array(await response.arrayBuffer())), sha256(Buffer.concat(pieces)))
    t.match(await gateway.logLine(idOf(response)), {
      status: 200,
      usage: { audio_output_characters: 7, total_tokens: 0 },
      cost_usd: 0.00035,
      attempts: [{ provider: 'voices', model: 'lark', status: 200, reason: 'ok' }],
      error: undefined,
    })
  }
  for (const accept of [
    '*/*',
    'application/json',
    'audio/wav;q=0',
    'audio/*; q=0.0, */*',
    'x-audio/wav',
    '',
  ]) {
    const response = await ask(gateway, accept)
    t.equal(response.headers.get('content-type'), 'application/json', accept)
    const { content_blocks: blocks } = (await response.json()) as { content_blocks: { base64: string }[] }
    t.equal(sha256(Buffer.from(blocks[0]?.base64 ?? '', 'base64')), sha256(Buffer.concat(pieces)))
  }
  const purposeful = await ask(gateway, 'audio/wav', { purpose: 'Zwölf' })
  t.equal(purposeful.headers.get('x-lk-purpose-source'), 'purpose_unknown')
  await purposeful.arrayBuffer()
  await assertStopsClean(t, gateway)
})

t.test(
  'what the entry cannot make is refused by name, or replaced with a warning where anything does',
  async (t) => {
    const formats = (list: readonly string[]) => ({ limits: { speech_formats: list } })
    const { gateway, upstream } = await start(t, [entry('lark', formats(['mp3', 'wav', 'opus_48000_96']))])
    upstream.behave('lark', { chunks: [noise(700)], contentType: 'audio/mpeg' })
    const rows: [accept: string, format: string | null, asked: string | null, warned: boolean][] = [
      ['audio/mpeg', null, 'mp3', false],
      ['audio/wav; codecs=1', null, 'wav', false],
      ['audio/x-wav', null, 'wav', false],
      ['audio/ogg', null, 'opus_48000_96', false],
      ['audio/flac, audio/wav;q=0.2, audio/mpeg;q=0.3', null, 'mp3', false],
      ['audio/mpeg;q=0.1, audio/wav', null, 'wav', false],
      ['audio/*', null, null, false],
      ['audio/*', 'wav', 'wav', false],
      ['audio/wav', 'wav', 'wav', false],
      ['audio/mpeg, */*;q=0.1', 'wav', 'wav', false],
      ['audio/flac, audio/*;q=0.1', null, null, true],
      ['audio/x-lark, */*', null, null, true],
    ]
    for (const [accept, response_format, asked, warned] of rows) {
      const name = `${accept}, ${response_format}`
      const response = await ask(gateway, accept, response_format === null ? {} : { response_format })
      t.equal(response.status, 200, `${name}: ${response.ok ? '' : await response.clone().text()}`)
      t.match(response.headers.get('content-type'), /^audio\//, name)
      t.equal(response.headers.get('x-lk-warnings') !== null, warned, name)
      await response.arrayBuffer()
      t.equal(upstream.received.at(-1)?.body?.response_format ?? null, asked, name)
    }
    const before = upstream.received.length
    const refused: [accept: string, format: string | null, param: string, message: RegExp][] = [
      ['audio/flac', null, 'Accept', /audio\/flac cannot be made here: .*mp3, wav, opus_48000_96/],
      ['audio/flac, audio/aac', null, 'Accept', /audio\/flac or audio\/aac/],
      ['audio/x-lark', null, 'Accept', /mp3, wav, opus_48000_96/],
      ['audio/flac, text/html', null, 'Accept', /mp3/],
      ['audio/mpeg', 'wav', 'response_format', /audio\/mpeg/],
      ['audio/flac', 'flac', 'response_format', /mp3, wav, opus_48000_96/],
    ]
    for (const [accept, response_format, param, message] of refused) {
      const response = await ask(gateway, accept, response_format === null ? {} : { response_format })
      const { error } = (await response.json()) as { error: object }
      t.match(
        { status: response.status, error },
        { status: 400, error: { code: 'INVALID_REQUEST', param, message } },
      )
    }
    t.equal(upstream.received.length, before, 'no provider was asked for any of these')
  },
)

t.test('it is heard while it is still being made', { timeout: 60_000 }, async (t) => {
  const { gateway, upstream } = await start(t, [entry('lark')])
  const heard = Promise.withResolvers<void>()
  // The second piece is not made before the first has been heard.
  upstream.behave('lark', { chunks: [Buffer.from('one'), Buffer.from('two')], before: () => heard.promise })
  const response = await ask(gateway)
  const reader = response.body!.getReader()
  let text = ''
  while (text.length < 3) text += Buffer.from((await reader.read()).value ?? []).toString()
  t.equal(text, 'one')
  t.equal(upstream.received[0]?.state, 'answering')
  heard.resolve()
  for (let step = await reader.read(); !step.done; step = await reader.read())
    text += Buffer.from(step.value).toString()
  t.equal(text, 'onetwo')
})

t.test('the sandbox speaks as slowly as it is told', { timeout: 60_000 }, async (t) => {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const providers = { sandbox: { kind: 'sandbox', base_url: sandbox.url } }
  const entries = [{ provider: 'sandbox', model: 'morse-1', options: { piece_delay_ms: 400 } }]
  const gateway = await startRouteGateway(t, { providers, entries })
  const response = await ask(gateway, 'audio/wav', { input: 'paris paris' })
  const times: number[] = []
  const bytes: Uint8Array[] = []
  for await (const chunk of response.body!) {
    times.push(performance.now())
    bytes.push(chunk)
  }
  t.ok(times.at(-1)! - times[0]! > 800, `${times.map((ms) => Math.round(ms - times[0]!))}`)
  t.equal(Buffer.concat(bytes).toString('latin1', 0, 4), 'RIFF')
  await assertStopsClean(t, gateway)
})

t.test('an entry that speaks only as a whole', async (t) => {
  const samples = noise(3_000_000)
  const inlineData = { mimeType: 'audio/L16;codec=pcm;rate=24000', data: samples.toString('base64') }
  const json = { candidates: [{ content: { role: 'model', parts: [{ inlineData }] }, finishReason: 'STOP' }] }
  const model = 'gemini-3.8-flash-tts'
  const upstream = await startUpstream(t, {
    dialect: geminiDialect({ [`POST /models/${model}:generateContent`]: [{ json }] }),
  })
  const gateway = await startRouteGateway(t, {
    providers: { gemini: { kind: 'gemini', base_url: upstream.url, api_key: secret('GEMINI_KEY') } },
    entries: [{ provider: 'gemini', model }],
    env: { GEMINI_KEY: 'AIza-good' },
  })
  const response = await ask(gateway, 'audio/*', { response_format: 'pcm' })
  t.equal(response.headers.get('content-type'), 'audio/pcm')
  t.ok(Number(response.headers.get('x-lk-cost-usd')) > 0, 'its tokens are estimated')
  t.equal(sha256(new Uint8Array(await response.arrayBuffer())), sha256(samples))
  await assertStopsClean(t, gateway)
})

t.test('before the first byte another entry takes over, or the error is plain JSON', async (t) => {
  const { gateway, upstream } = await start(t, [entry('first'), entry('second')])
  upstream.behave('second', { chunks: [Buffer.from('second')] })
  const troubles = [
    { status: 500 },
    { status: 429 },
    { status: 401 },
    { cutAfter: 0, chunks: [noise(9)] },
    { chunks: [] },
    { contentType: 'text/html', chunks: [Buffer.from('<p>proxy</p>')] },
    { contentType: 'application/json', chunks: [Buffer.from('{"error":{}}')] },
  ]
  for (const trouble of troubles) {
    const rig = await start(t, [entry('first'), entry('second')])
    rig.upstream.behave('second', { chunks: [Buffer.from('second')] })
    rig.upstream.behave('first', trouble)
    const response = await ask(rig.gateway)
    const label = JSON.stringify(trouble).slice(0, 60)
    t.equal(await response.text(), 'second', label)
    t.equal(response.headers.get('x-lk-model'), 'second', label)
    t.equal((await rig.gateway.logLine(idOf(response))).error, undefined, label)
  }
  upstream.behave('first', { status: 500 })
  upstream.behave('second', { cutAfter: 0, chunks: [noise(9)] })
  const failed = await ask(gateway)
  t.equal(failed.status, 502)
  t.equal(failed.headers.get('content-type'), 'application/json')
  t.match(await failed.json(), { error: { code: 'UPSTREAM_ERROR', retryable: true } })
  upstream.behave('first', { status: 400 })
  const rejected = await ask(gateway)
  t.equal(rejected.status, 422)
  t.match(await rejected.json(), { error: { code: 'UPSTREAM_REJECTED' } })
  await assertStopsClean(t, gateway)
})

t.test(
  'what breaks off later is cut, so that no one takes it for the whole',
  { timeout: 60_000 },
  async (t) => {
    const { gateway, upstream } = await start(t, [entry('first'), entry('second')])
    upstream.behave('first', {
      chunks: [noise(5_000), noise(5_000, 2)],
      cutAfter: 1,
      before: () => sleep(100),
    })
    const client = await gateway.send('/v1/speech', {
      headers: { ...JSON_BODY, accept: 'audio/*' },
      body: '{"input":"hello"}',
    })
    t.ok(await client.closes(10_000))
    const answer = await client.rest(0)
    t.match(answer, /^HTTP\/1\.1 200 OK\r\n/)
    t.notMatch(answer, /\r\n0\r\n\r\n$/, 'there is no last chunk')
    const id = /x-lk-request-id: (\S+)/.exec(answer)?.[1]
    t.match(await gateway.logLine(id), {
      status: 200,
      error: 'UPSTREAM_ERROR',
      usage: { audio_output_characters: 5 },
      attempts: [{ model: 'first', status: null }],
    })
    t.equal(upstream.received.length, 1, 'the second is not asked')
    await t.rejects((await ask(gateway)).arrayBuffer(), 'fetch sees it as well')
    t.equal(await gateway.signal('SIGTERM'), 0)
    t.match(gateway.log.at(-1), { msg: 'stopped', held_bytes: 0 })
  },
)

t.test('who leaves is not spoken to any more', { timeout: 60_000 }, async (t) => {
  const { gateway, upstream } = await start(t, [entry('lark')])
  upstream.behave('lark', { chunks: Array(500).fill(noise(1_000)), before: () => sleep(20) })
  const body = { headers: { ...JSON_BODY, accept: 'audio/*' }, body: '{"input":"hello"}' }
  const early = await gateway.send('/v1/speech', body)
  t.ok(await early.receives(10_000))
  early.destroy()
  t.ok(await waitUntil(() => upstream.received[0]?.state === 'left'), 'the provider is left')
  const line = () => gateway.log.find(({ msg, error }) => msg === 'request' && error === 'CLIENT_CLOSED')
  t.ok(await waitUntil(() => line() !== undefined), 'the log says so')
  t.match(line(), { usage: { audio_output_characters: 5 }, cost_usd: 0.00025 })

  // Before there is an answer at all.
  upstream.behave('lark', {
    chunks: [noise(10), noise(10)],
    status: 200,
    before: () => once(process, 'never'),
  })
  const silent = await gateway.send('/v1/speech', body)
  t.ok(await waitUntil(() => upstream.received.length === 2))
  silent.destroy()
  t.ok(await waitUntil(() => upstream.received[1]?.state === 'left'))
  await assertStopsClean(t, gateway)
})

t.test('a slow listener holds the provider back, not the memory', { timeout: 120_000 }, async (t) => {
  const upstream = await startUpstream(t)
  const gateway = await startRouteProcess(t, {
    providers: providersAt(upstream.url),
    entries: [entry('lark')],
    env: { LARKWAY_MEMORY_MIB: '16' },
  })
  const piece = noise(256 * 1024)
  const count = 200
  upstream.behave('lark', { chunks: Array(count).fill(piece) })
  const beforeMiB = residentMiB(gateway.pid)
  const memory = new MemoryWatch(gateway.pid)
  const listeners = await Promise.all(Array.from({ length: LISTENERS }, () => openAnswer(gateway)))
  t.ok(await waitUntil(() => settled(upstream), 30_000), 'nothing moves any more')
  const most = Math.max(...upstream.received.map(({ written }) => written))
  const size = count * piece.length
  // The sockets between hold some megabytes on either side.
  t.ok(most < 24 * MIB, `the provider was held at ${Math.round(most / MIB)} of ${size / MIB} MiB`)
  const whole = sha256(Buffer.concat(Array(count).fill(piece)))
  const heard = await Promise.all(
    listeners.map(async (answer) => {
      const digest = createHash('sha256')
      for await (const chunk of answer) digest.update(chunk as Buffer)
      return digest.digest('hex')
    }),
  )
  t.same(heard, Array(LISTENERS).fill(whole))
  const grownMiB = memory.stop() - beforeMiB
  t.ok(grownMiB < 80, `the gateway grew by ${Math.round(grownMiB)} MiB`)
  await assertStopsClean(t, gateway)
})

/** An answer of which nothing is read yet. */
async function openAnswer(gateway: RouteGateway): Promise<IncomingMessage> {
  const headers = { ...gateway.authorization, ...JSON_BODY, accept: 'audio/*' }
  const sent = request(`${gateway.url}/v1/speech`, { method: 'POST', headers, agent: false })
  sent.end('{"input":"hello"}')
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  return response
}

/** True where no answer of an upstream has moved for half a second. */
async function settled({ received }: Upstream): Promise<boolean> {
  const written = () => received.map((request) => request.written).join()
  const before = written()
  await sleep(500)
  return received.length === LISTENERS && written() === before
}
