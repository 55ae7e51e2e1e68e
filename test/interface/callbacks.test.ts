import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DeepgramClient } from '@deepgram/sdk'
import { ElevenLabsClient } from '@elevenlabs/elevenlabs-js'
import { AssemblyAI } from 'assemblyai'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { secret, startRouteGateway } from '../support/route-gateway.ts'
import { DEEPGRAM_KEY, deepgramDialect } from '../support/upstream/deepgram.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'
import { answering, type Delivery, type Receiver, startReceiver } from '../support/webhook-receiver.ts'

t.setTimeout(120_000)

const WAV = filledWav(64_000)
const FILE = new Blob([new Uint8Array(WAV)], { type: 'audio/wav' })
const FAST = { schedule: { pausesMs: [20, 20, 20], retryAfterMaxMs: 0 } }
/** Secrets of callers, each of which may stand nowhere but in a delivery. */
const SECRETS = {
  password: 'cAnAryPassw0rd',
  header: 'cAnAryHeaderValue',
  path: 'cAnAryPath',
  extra: 'cAnAryExtra',
}

/** The three vendors' own clients, changed in nothing but address and key, and a target of callbacks. */
async function start(t: Test, statuses: number[] = []) {
  const upstream = await startUpstream(t, { dialect: deepgramDialect() })
  const receiver = await startReceiver(t, (...args) => answering(statuses.shift() ?? 200)(...args), {
    names: null,
  })
  const keys = { all: makeKey(), admin: makeKey(), inference: makeKey() }
  const workspace = {
    apps: { web: { route: 'main' } },
    keys: [
      { id: 'key_all', app: 'web', sha256: hashKey(keys.all) },
      { id: 'key_admin', app: 'web', sha256: hashKey(keys.admin), scopes: ['admin'] },
      { id: 'key_inference', app: 'web', sha256: hashKey(keys.inference), scopes: ['inference'] },
    ],
  }
  const gateway = await startRouteGateway(t, {
    providers: { deepgram: { kind: 'deepgram', base_url: upstream.url, api_key: secret('DG_KEY') } },
    entries: [{ provider: 'deepgram', model: 'nova-3' }],
    env: { DG_KEY: DEEPGRAM_KEY, LARKWAY_INSECURE_WEBHOOKS: 'true' },
    timing: { deliveries: FAST },
    config: { workspaces: { acme: workspace } },
  })
  const { url } = gateway
  return {
    upstream,
    receiver,
    gateway,
    keys,
    here: `127.0.0.1:${receiver.port}`,
    deepgram: (key = keys.all) =>
      new DeepgramClient({ apiKey: key, baseUrl: `${url}/deepgram`, maxRetries: 0 }).listen.v1.media,
    elevenlabs: new ElevenLabsClient({ apiKey: keys.all, baseUrl: `${url}/elevenlabs`, maxRetries: 0 }),
    assemblyai: new AssemblyAI({ apiKey: keys.all, baseUrl: `${url}/assemblyai` }).transcripts,
  }
}

async function deliveries(t: Test, { received }: Receiver, count: number): Promise<readonly Delivery[]> {
  t.ok(await waitUntil(() => received.length >= count, 20_000), `${count} deliveries`)
  return received.splice(0)
}

async function thrown(
  call: Promise<unknown>,
): Promise<{ statusCode?: number; body?: unknown; message: string }> {
  const error = await call.then(
    () => null,
    (reason: unknown) => reason,
  )
  if (error instanceof Error) return error
  throw new Error('nothing was thrown')
}

/** An answer of Deepgram's without what no two answers share: bytes, but for an id and a moment. */
function plain(body: string): string {
  const [, id = '', own = ''] = /"request_id":"(([^"]{24})[^"]+)"/.exec(body) ?? []
  return body
    .replace(id, '')
    .replaceAll(`"id":"${own}`, '"id":"')
    .replace(/"created":"[^"]+"/, '"created":""')
}

async function assertKeptSecret(t: Test, folder: string, output: readonly string[]): Promise<void> {
  const names = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = names.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  t.ok(files.some((file) => file.endsWith('.sqlite')))
  const places = [...(await Promise.all(files.map((file) => readFile(file)))), Buffer.from(output.join('\n'))]
  for (const [name, text] of Object.entries(SECRETS)) {
    t.notOk(
      places.some((bytes) => bytes.includes(text)),
      `the ${name} is on no disk and in no line`,
    )
  }
}

t.test("Deepgram's callback is the synchronous answer, until it is taken", async (t) => {
  const { deepgram, receiver, gateway, keys, here, upstream } = await start(t, [500, 503, 200])
  const sync = async (options: Readonly<Record<string, boolean | string>>) => {
    const search = new URLSearchParams(
      Object.entries(options).map(([name, value]): [string, string] => [name, String(value)]),
    )
    const headers = { authorization: `Token ${keys.all}`, 'content-type': 'audio/wav' }
    const init = { method: 'POST', headers, body: new Uint8Array(WAV) }
    return (await fetch(`${gateway.url}/deepgram/v1/listen?${search}`, init)).text()
  }
  const options = {
    diarize: true,
    utterances: true,
    paragraphs: true,
    tag: 'night',
    extra: `s:${SECRETS.extra}`,
  }
  const callback = `http://lark:${SECRETS.password}%3A@${here}/${SECRETS.path}?a=1`
  const asked = { ...options, callback, callback_method: 'PUT' }
  const { data, rawResponse } = await deepgram().transcribeFile(WAV, asked).withRawResponse()
  t.same(Object.keys(data), ['request_id'])
  t.equal(rawResponse.status, 200)
  t.match(rawResponse.headers.get('location'), /^\/v1\/transcription\/jobs\/tj_/)

  const tries = await deliveries(t, receiver, 3)
  t.equal(new Set(tries.map(({ body }) => body)).size, 1, 'the same bytes at every attempt')
  t.equal(new Set(tries.map(({ headers }) => headers['x-lk-webhook-id'])).size, 1, 'under one id')
  const [first] = tries
  t.match(first, {
    method: 'PUT',
    path: `/${SECRETS.path}?a=1`,
    headers: {
      'content-type': 'application/json',
      authorization: `Basic ${Buffer.from(`lark:${SECRETS.password}:`).toString('base64')}`,
      'dg-token': 'key_all',
      'x-lk-webhook-id': /^cbk_/,
      'x-lk-provider': 'deepgram',
    },
  })
  const body = first?.body ?? ''
  t.equal(JSON.parse(body).metadata.request_id, (data as { request_id: string }).request_id)
  t.equal(plain(body), plain(await sync(options)), 'byte for byte')
  await assertKeptSecret(t, gateway.dataFolder, gateway.output)

  const channels = { multichannel: true, detect_language: true, utterances: true }
  await deepgram().transcribeFile(WAV, { ...channels, callback: `http://${here}/two` })
  const [two] = await deliveries(t, receiver, 1)
  t.equal(two?.method, 'POST')
  t.equal(plain(two?.body ?? ''), plain(await sync(channels)), 'so with channels of their own')

  upstream.behaveAll({ status: 400 })
  const failing = await deepgram().transcribeFile(WAV, { callback: `http://${here}/failed` })
  const [failed] = await deliveries(t, receiver, 1)
  const refusal = JSON.parse(await sync({})) as { request_id: string }
  t.match(JSON.parse(failed?.body ?? ''), {
    ...failing,
    err_code: 'UPSTREAM_REJECTED',
    error: { status: undefined },
  })
  t.same(
    Object.keys(JSON.parse(failed?.body ?? '')),
    Object.keys(refusal),
    'a failure as it would have been answered',
  )
})

t.test('a transcript of hours', async (t) => {
  const { deepgram, receiver, gateway, keys, here, upstream } = await start(t, [500])
  const words = Array.from({ length: 20_000 }, (_, index) => {
    const times = { start: index / 2, end: index / 2 + 0.25, confidence: 0.75 }
    return { word: `lärche${index}`, punctuated_word: `Lärche${index}.`, ...times }
  })
  const transcript = words.map((word) => word.punctuated_word).join(' ')
  const channels = [{ alternatives: [{ transcript, confidence: 0.75, words }] }]
  const metadata = { request_id: 'r1', duration: 10_000, channels: 1, model_info: {} }
  upstream.behaveAll({ body: JSON.stringify({ metadata, results: { channels } }) })
  const query = 'paragraphs=true&utterances=true'
  const sync = await fetch(`${gateway.url}/deepgram/v1/listen?${query}`, {
    method: 'POST',
    headers: { authorization: `Token ${keys.all}`, 'content-type': 'audio/wav' },
    body: new Uint8Array(WAV),
  })
  const asked = { paragraphs: true, utterances: true, callback: `http://${here}/` }
  await deepgram().transcribeFile(WAV, asked)
  const [, whole] = await deliveries(t, receiver, 2)
  const body = Buffer.from(whole?.body ?? '', 'latin1').toString()
  t.ok(body.length > 5_000_000, `${body.length} characters`)
  t.ok(plain(body) === plain(await sync.text()), 'byte for byte')
  await assertStopsClean(t, gateway)
})

t.test('what cannot be a callback is refused, and names its option', async (t) => {
  const { deepgram, receiver, gateway, keys, here } = await start(t)
  const url = `https://hooks.example.com/`
  for (const [options, param, word] of [
    [{ callback: 'ftp://hooks.example.com/' }, 'callback', /must be an absolute https URL/],
    [{ callback: 'http://hooks.example.com/' }, 'callback', /must begin with https/],
    [{ callback: 'https://10.0.0.1/' }, 'callback', /must have a public host/],
    [{ callback: 'https://u:p@[::1]/' }, 'callback', /must have a public host/],
    [{ callback: `${url}#part` }, 'callback', /must not have a fragment/],
    [{ callback: `${url}${'a'.repeat(2_048)}` }, 'callback', /at most 2048 characters/],
    [{ callback: url, callback_method: 'GET' }, 'callback_method', /must be one of `POST`, `PUT`/],
    [{ callback_method: 'PUT' }, 'callback_method', /must be left out/],
  ] as const) {
    const { statusCode, body, message } = await thrown(deepgram().transcribeFile(WAV, options))
    t.match({ statusCode, body }, { statusCode: 400, body: { err_msg: word, error: { param } } }, message)
  }
  const callback = `http://${here}/dg`
  const unscoped = await thrown(deepgram(keys.inference).transcribeFile(WAV, { callback }))
  t.match(unscoped, { statusCode: 403, body: { err_code: 'PERMISSION_DENIED' } })
  const ask = (query: Record<string, string>, headers: Record<string, string>) =>
    fetch(`${gateway.url}/deepgram/v1/listen?${new URLSearchParams(query)}`, {
      method: 'POST',
      headers: { authorization: `Token ${keys.all}`, 'content-type': 'audio/wav', ...headers },
      body: new Uint8Array(WAV),
    })
  t.equal((await ask({ callback }, { 'x-lk-require': 'retention=zero' })).status, 422, 'nothing may be kept')
  t.equal(receiver.received.length, 0)

  const key = { 'idempotency-key': 'once' }
  const [one, again] = [await ask({ callback }, key), await ask({ callback }, key)]
  t.same(await again.json(), await one.json(), 'the same request once more')
  t.equal(again.headers.get('x-lk-idempotent-replay'), 'true')
  t.equal((await ask({ callback: `${callback}2` }, key)).status, 409, 'another callback is another request')
  await deliveries(t, receiver, 1)
})

t.test(
  "AssemblyAI's webhook tells that a transcript has ended, with the header that was asked for",
  async (t) => {
    const { assemblyai, receiver, gateway, here, upstream } = await start(t, [200, 404])
    const asked = {
      audio: WAV,
      webhook_url: `http://${here}/${SECRETS.path}`,
      webhook_auth_header_name: 'X-Receiver',
      webhook_auth_header_value: SECRETS.header,
    }
    const { id, webhook_url, webhook_auth } = await assemblyai.submit(asked)
    t.same([webhook_url, webhook_auth], [asked.webhook_url, true])
    const [completed] = await deliveries(t, receiver, 1)
    t.match(completed, {
      method: 'POST',
      path: `/${SECRETS.path}`,
      headers: { 'x-receiver': SECRETS.header },
    })
    t.equal(completed?.body, JSON.stringify({ transcript_id: id, status: 'completed' }))
    t.match(await assemblyai.get(id), {
      status: 'completed',
      webhook_url: asked.webhook_url,
      webhook_auth: true,
    })

    upstream.behaveAll({ status: 400 })
    const failing = await assemblyai.submit({ audio: WAV, webhook_url: asked.webhook_url })
    t.equal(failing.webhook_auth, false)
    const [failed] = await deliveries(t, receiver, 1)
    t.equal(failed?.body, JSON.stringify({ transcript_id: failing.id, status: 'error' }))
    const ended = () => gateway.log.find(({ msg, job_id }) => msg === 'webhook' && job_id === failing.id)
    t.ok(await waitUntil(() => ended() !== undefined))
    t.match(ended(), { outcome: 'given_up', status: 404, attempt: 1 }, 'a 4xx ends it')
    await assertKeptSecret(t, gateway.dataFolder, gateway.output)

    for (const [options, param] of [
      [{ webhook_url: 'http://hooks.example.com' }, 'webhook_url'],
      [{ webhook_auth_header_name: 'a', webhook_auth_header_value: 'b' }, 'webhook_auth_header_name'],
      [{ ...asked, webhook_auth_header_name: 'Content-Length' }, 'webhook_auth_header_name'],
      [{ ...asked, webhook_auth_header_name: 'a b' }, 'webhook_auth_header_name'],
      [{ ...asked, webhook_auth_header_value: 'a\r\nb: c' }, 'webhook_auth_header_value'],
      [{ ...asked, webhook_auth_header_value: null }, 'webhook_auth_header_value'],
    ] as const) {
      const { message } = await thrown(assemblyai.submit({ audio: WAV, ...options } as never))
      t.ok(message.startsWith(`INVALID_REQUEST: \`${param}\` `), message)
    }
  },
)

t.test("ElevenLabs' event goes to the webhook of the workspace, and its client verifies it", async (t) => {
  const { elevenlabs, receiver, gateway, keys, here, upstream } = await start(t, [500])
  const ask = { file: FILE, modelId: 'scribe_v2', diarize: true }
  const announced = { ...ask, webhook: true, webhookMetadata: { call: { id: 7 } } }
  const none = await thrown(elevenlabs.speechToText.convert(announced))
  t.match(none, { statusCode: 400, body: { detail: { param: 'webhook', message: /has no webhook/ } } })
  const set = await fetch(`${gateway.url}/workspace/acme/stt-webhook`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${keys.admin}`, 'content-type': 'application/json' },
    body: JSON.stringify({ url: `http://${here}/events` }),
  })
  const { signing_secret: signingSecret } = (await set.json()) as { signing_secret: string }
  const { data, rawResponse } = await elevenlabs.speechToText
    .convert({ ...announced, webhookId: 'w1' })
    .withRawResponse()
  t.equal(rawResponse.status, 202)
  t.match(data, { message: String, requestId: /^req_/, transcriptionId: /^req_/ })
  t.equal(rawResponse.headers.get('x-lk-warnings'), '["webhook_id: a workspace has one webhook"]')
  const tries = await deliveries(t, receiver, 2)
  for (const { method, path, headers, body } of tries) {
    t.same([method, path], ['POST', '/events'])
    const event = await elevenlabs.webhooks.constructEvent(
      body,
      headers['elevenlabs-signature'] ?? '',
      signingSecret,
    )
    t.match(event, { type: 'speech_to_text_transcription', event_timestamp: Number })
    t.ok(headers['webhook-signature'], 'and signed as any')
  }
  const id = rawResponse.headers.get('request-id') ?? ''
  const { transcription, ...others } = JSON.parse(tries[1]?.body ?? '').data
  t.same(others, { request_id: id, webhook_metadata: { call: { id: 7 } } })
  const form = new FormData()
  for (const [name, value] of Object.entries({ file: FILE, model_id: 'scribe_v2', diarize: 'true' }))
    form.append(name, value)
  const answer = await fetch(`${gateway.url}/elevenlabs/v1/speech-to-text`, {
    method: 'POST',
    headers: { 'xi-api-key': keys.all },
    body: form,
  })
  const sync = (await answer.json()) as { transcription_id: string }
  t.equal(JSON.stringify(transcription), JSON.stringify({ ...sync, transcription_id: id }), 'byte for byte')

  upstream.behaveAll({ status: 400 })
  await elevenlabs.speechToText.convert(announced)
  const [failed] = await deliveries(t, receiver, 1)
  const event = JSON.parse(failed?.body ?? '')
  t.match(event, {
    type: 'speech_to_text_transcription_failed',
    data: { detail: { code: 'UPSTREAM_REJECTED' } },
  })
  t.notOk('transcription' in event.data)

  for (const [fields, param] of [
    [{ webhookMetadata: { a: 1 } }, 'webhook_metadata'],
    [{ webhook: true, webhookMetadata: 'no JSON' }, 'webhook_metadata'],
    [{ webhook: true, webhookMetadata: { a: { b: { c: 1 } } } }, 'webhook_metadata'],
    [{ webhook: true, webhookMetadata: { a: 'a'.repeat(16_384) } }, 'webhook_metadata'],
  ] as const) {
    const { body } = await thrown(elevenlabs.speechToText.convert({ ...ask, ...fields }))
    t.match(body, { detail: { code: 'INVALID_REQUEST', param } }, param)
  }
})
