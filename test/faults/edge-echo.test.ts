import { createServer } from 'node:net'
import t, { type Test } from 'tap'
import { multipart, type Part } from '../support/bodies.ts'
import { startFleet } from '../support/fleet.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { listen } from '../support/http-server.ts'
import type { Larkway } from '../support/larkway.ts'
import { RawClient } from '../support/raw-client.ts'
import { filledWav } from '../support/wav.ts'
import { PLANTED_HEADER } from './edge-mutator.ts'

/** A provider that answers any request with the bytes that it was given. */
interface RawUpstream {
  /** As a provider's `base_url`. */
  readonly url: string
  /** Every request as it came, as text of latin1. */
  readonly received: string[]
  /** What it answers, as text of latin1; the connection is closed behind it. */
  answer: string
}

const LAST_CHUNK = /(?:^|\r\n)0\r\n\r\n$/

async function startRawUpstream(t: Test, answer: string): Promise<RawUpstream> {
  const upstream = { url: '', received: [] as string[], answer }
  const server = createServer((socket) => {
    let text = ''
    socket.on('error', () => socket.destroy())
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1')
      if (!isWhole(text)) return
      upstream.received.push(text)
      text = ''
      socket.end(upstream.answer, 'latin1')
    })
  })
  upstream.url = `${await listen(t, server)}/v1`
  return upstream
}

function isWhole(text: string): boolean {
  const headEnd = text.indexOf('\r\n\r\n') + 4
  if (headEnd < 4) return false
  const head = text.slice(0, headEnd)
  const length = /\r\ncontent-length: *(\d+)\r\n/i.exec(head)?.[1]
  if (length !== undefined) return text.length >= headEnd + Number(length)
  return !/\r\ntransfer-encoding:/i.test(head) || LAST_CHUNK.test(text.slice(headEnd))
}

t.setTimeout(120_000)

const PLANT = `${PLANTED_HEADER}: 1`
/** Line ends, what becomes one when a character is cut to a byte, and what may be taken for one. */
const PLANTS: readonly string[] = [
  ...['\r\n', '\n', '\r', '\r\n\r\nHTTP/1.1 200 OK\r\n', '\r\n ', '\0\r\n', '\u010d\u010a', '\u560d\u560a'],
  ...['\u2028', '\x85', '\x0b', '%0d%0a', '%250d%250a', '\\r\\n', '\ud800\r\n', '"\r\n', "';\r\n", '=\r\n'],
].map((end) => `a${end}${PLANT}\r\nb: c`)
/** What can stand in a header that a client sends; its parser would end the header at anything else. */
const HEADER_PLANTS = PLANTS.filter((plant) => !/[\r\n\0]/.test(plant)).map((plant) =>
  plant.replace(/\r\n/g, ''),
)

const HEADER_LINE = /^[a-z0-9-]+: [\t\x20-\x7e\x80-\xff]*$/i
const WAV = filledWav(3_000)
const TRANSCRIPT = JSON.stringify({ text: `a\r\n${PLANT}`, language: `en\r\n${PLANT}`, duration: 1 })

interface Rig {
  readonly gateway: Larkway
  readonly upstream: RawUpstream
  readonly authorization: string
  /** Requests that came through to the provider. */
  reached: number
}

async function start(t: Test): Promise<Rig> {
  const upstream = await startRawUpstream(t, answered('audio/wav', 'RIFF'))
  const fleet = await startFleet(t, {
    providers: { odd: { kind: 'sandbox', access: 'byok', workspace: 'acme', base_url: upstream.url } },
    workspaces: { acme: { entries: [{ provider: 'odd', model: 'morse-1' }] } },
    config: { deadline_seconds: 5 },
  })
  return { gateway: fleet.node(), upstream, authorization: fleet.authorizationOf('acme'), reached: 0 }
}

function answered(type: string, body: string, status = '200 OK', ...headers: readonly string[]): string {
  const lines = [`HTTP/1.1 ${status}`, `Content-Type: ${type}`, ...headers, `Content-Length: ${body.length}`]
  return `${lines.join('\r\n')}\r\n\r\n${body}`
}

/** Everything that comes back on a connection for one request, to its end. */
async function exchanged(rig: Rig, line: string, headers: readonly string[], body: Buffer): Promise<string> {
  const client = await RawClient.connect(rig.gateway.port)
  const head = [`${line} HTTP/1.1`, 'Host: a', 'Connection: close', `Authorization: ${rig.authorization}`]
  const bytes = [...head, ...headers, `Content-Length: ${body.length}`].join('\r\n')
  await client.send(`${bytes}\r\n\r\n`, body)
  await client.closes(10_000)
  const text = await client.rest(0)
  client.destroy()
  return text
}

/** What is wrong with an answer or a request as bytes; null: every line of its head is a header of ours. */
function faultOf(text: string, first: RegExp): string | null {
  const headEnd = text.indexOf('\r\n\r\n')
  if (headEnd < 0) return `no head: ${JSON.stringify(text)}`
  const [line = '', ...lines] = text.slice(0, headEnd).split('\r\n')
  const odd = lines.filter(
    (header) => !HEADER_LINE.test(header) || header.toLowerCase().startsWith(PLANTED_HEADER),
  )
  if (!first.test(line) || odd.length > 0) return JSON.stringify([line, ...odd])
  return partFaultOf(text, headEnd)
}

/** The heads of the parts of a form: what stands between a boundary and an empty line. */
function partFaultOf(text: string, headEnd: number): string | null {
  const boundary = /boundary="?([^"\r\n]+)/i.exec(text.slice(0, headEnd))?.[1]
  if (boundary === undefined) return null
  const heads = text.slice(headEnd).split(`--${boundary}`).slice(1, -1)
  const odd = heads.map((part) => part.split('\r\n\r\n')[0] ?? '').filter((head) => /^x-planted/im.test(head))
  return odd.length > 0 ? JSON.stringify(odd) : null
}

async function assertWhole(t: Test, rig: Rig, name: string, request: Request): Promise<void> {
  rig.upstream.received.length = 0
  const { line, headers = [], body = '' } = request
  const text = await exchanged(rig, line, headers, Buffer.from(body as string))
  rig.reached += rig.upstream.received.length
  const faults = [
    faultOf(text, /^HTTP\/1\.1 [2345]\d\d [A-Z]/i),
    ...rig.upstream.received.map((sent) => faultOf(sent, /^(?:GET|POST) \/v1\/[\x21-\x7e]* HTTP\/1\.1$/)),
  ].filter((fault) => fault !== null)
  t.same(faults, [], name)
}

interface Request {
  readonly line: string
  readonly headers?: readonly string[]
  readonly body?: string | Buffer
}

const JSON_TYPE = 'Content-Type: application/json'

function json(path: string, fields: object, ...headers: string[]): Request {
  return { line: `POST ${path}`, headers: [JSON_TYPE, ...headers], body: JSON.stringify(fields) }
}

function form(path: string, parts: readonly Part[]): Request {
  const { contentType, body } = multipart(parts)
  return { line: `POST ${path}`, headers: [`Content-Type: ${contentType}`], body }
}

/** In ASCII: a test's name is one line. */
function shown(text: string): string {
  return JSON.stringify(text).replace(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Every place in a body from which something could get into a head. */
function inBodies(plant: string): Record<string, Request> {
  const base64 = WAV.toString('base64')
  const quoted = plant.replaceAll('"', '\\"')
  const file = (disposition: string): Part => ({
    headers: [`Content-Disposition: form-data; ${disposition}`, `Content-Type: audio/wav`],
    body: WAV,
  })
  const percent = encodeURIComponent(plant.toWellFormed())
  return {
    'purpose of speech': json('/v1/speech', { input: 'e', purpose: plant }, 'Accept: audio/wav'),
    'unknown field of speech': json('/v1/speech', { input: 'e', [plant]: plant }, 'Accept: audio/wav'),
    'voice and format': json('/v1/speech', { input: plant, voice: plant, response_format: plant }),
    'fields of a transcription': json('/v1/transcription', {
      ...{ audio: { base64, filename: plant, media_type: plant }, purpose: plant, prompt: plant },
      ...{ language: plant, response_format: 'text', [plant]: 1 },
    }),
    'file name of JSON': json('/v1/transcription', {
      ...{ audio: { base64, filename: plant, media_type: 'audio/wav' }, response_format: 'text' },
    }),
    'media type of JSON': json('/v1/transcription', {
      audio: { base64, media_type: `audio/wav;x="${plant}"` },
    }),
    'data URL': json('/v1/transcription', { audio: { data: `data:audio/wav;a=${plant};base64,${base64}` } }),
    'file name': form('/v1/transcription', [file(`name="file"; filename="${quoted}"`)]),
    'file name, extended': form('/v1/transcription', [file(`name="file"; filename*=utf-8''${percent}`)]),
    'fields of a form': form('/v1/transcription', [
      ...[
        { name: 'purpose', body: plant },
        { name: percent, body: plant },
        { name: 'prompt', body: plant },
      ],
      ...[{ name: 'response_format', body: 'text' }, file('name="file"; filename="a.wav"')],
    ]),
    'query of a raw body': {
      line: `POST /v1/transcription?response_format=text&purpose=${percent}&${percent}=1&prompt=${percent}`,
      headers: ['Content-Type: audio/wav'],
      body: WAV,
    },
    queue: json('/v1/queue', {
      ...{ endpoint: 'chat', mode: plant, idempotency_key: plant },
      payload: { messages: [{ role: 'user', content: plant }], purpose: plant },
    }),
    chat: json('/v1/chat', { messages: [{ role: plant, content: plant }], user: plant, purpose: plant }),
    'model of the OpenAI door': json('/openai/v1/audio/speech', { model: plant, input: 'e', voice: 'alloy' }),
    'form of the OpenAI door': form('/openai/v1/audio/transcriptions', [
      ...[
        { name: 'model', body: plant },
        { name: 'response_format', body: 'text' },
      ],
      file(`name="file"; filename="${quoted}"`),
    ]),
    path: { line: `GET /v1/${percent}?${percent}` },
    result: { line: `GET /results/${percent}` },
    job: { line: `GET /v1/transcription/jobs/${percent}` },
  }
}

function inHeaders(plant: string): Record<string, Request> {
  const names = [
    'X-LK-Request-ID',
    'X-LK-Purpose',
    'Idempotency-Key',
    'Traceparent',
    'Tracestate',
    'Accept',
    'Range',
  ]
  const body = JSON.stringify({ input: 'e' })
  const value = Buffer.from(plant).toString('latin1')
  const each = names.map((name): [string, Request] => [
    name,
    { line: 'POST /v1/speech', headers: [JSON_TYPE, 'Accept: audio/wav', `${name}: ${value}`], body },
  ])
  const typed = {
    line: 'POST /v1/transcription',
    headers: [`Content-Type: audio/wav; x="${value}"`],
    body: WAV,
  }
  return { ...Object.fromEntries(each), 'Content-Type': typed }
}

t.test('nothing that a caller sends gets out of its place in a head', async (t) => {
  const rig = await start(t)
  for (const plant of PLANTS) {
    for (const [name, request] of Object.entries(inBodies(plant))) {
      rig.upstream.answer = answered(
        /trans/.test(request.line) ? 'application/json' : 'audio/wav',
        TRANSCRIPT,
      )
      await assertWhole(t, rig, `${name}: ${shown(plant)}`, request)
    }
  }
  rig.upstream.answer = answered('audio/wav', 'RIFF')
  for (const plant of HEADER_PLANTS) {
    for (const [name, request] of Object.entries(inHeaders(plant))) {
      await assertWhole(t, rig, `header ${name}: ${shown(plant)}`, request)
    }
  }
  t.ok(rig.reached > 100, `${rig.reached} of them came through to the provider`)
  await assertStopsClean(t, rig.gateway)
})

t.test('nothing that a provider sends does', async (t) => {
  const rig = await start(t)
  const odd = PLANTS.map((plant) => Buffer.from(plant).toString('latin1'))
  const values = [
    ...odd,
    'audio/wav\r\n folded',
    'audio/\xff\xfe',
    'audio/wav; x="\t\x7f"',
    '',
    '\x85',
    `a, ${PLANT}`,
  ]
  const speech = json('/v1/speech', { input: 'e' }, 'Accept: audio/wav')
  const text = json('/v1/transcription', { audio: WAV.toString('base64'), response_format: 'text' })
  for (const value of values) {
    const told = shown(value)
    rig.upstream.answer = answered(`audio/wav; x=${value}`, 'RIFF')
    await assertWhole(t, rig, `media type with ${told}`, speech)
    rig.upstream.answer = answered(value, 'RIFF')
    await assertWhole(t, rig, `media type ${told}`, speech)
    await assertWhole(t, rig, `media type ${shown} of what was heard`, text)
    rig.upstream.answer = answered('application/json', '{}', '429 No', `Retry-After: ${value}`)
    await assertWhole(t, rig, `Retry-After ${told}`, speech)
    rig.upstream.answer = answered('application/json', '{}', '302 Found', `Location: ${value}`)
    await assertWhole(t, rig, `redirect to ${told}`, text)
    rig.upstream.answer = answered('application/json', TRANSCRIPT, `200 ${value}`, `X-Request-Id: ${value}`)
    await assertWhole(t, rig, `status and id ${told}`, text)
  }
  t.ok(rig.reached >= values.length, `${rig.reached} answers of the provider were read`)
  await assertStopsClean(t, rig.gateway)
})
