import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { uploadsOf } from '../support/audio-upload.ts'
import { multipart } from '../support/bodies.ts'
import { sha256 } from '../support/digests.ts'
import { assertStopsClean, type Gateway, startGateway } from '../support/gateway.ts'
import { RawClient } from '../support/raw-client.ts'
import { openBucket } from '../support/s3-server.ts'
import { withoutServers } from '../support/servers.ts'
import { sharedS3 } from '../support/shared-s3.ts'
import { answer, answerTranscript, type EarOptions, startEar } from '../support/slow-ear.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

/** How long nothing must come where nothing may come. */
const QUIET_MS = 200
const WAV = filledWav(1_000_000, 3)
/** As the price of the model is in `configOf`: one USD for an hour. */
const WAV_USD = Number((((WAV.length - 44) / 32_000 / 3_600) * 1).toFixed(6))

interface Options {
  /** Behaviour of each provider in turn; default: a single one that answers. */
  readonly ears?: readonly EarOptions[]
  readonly entry?: object
  /** More of each provider's entry. */
  readonly entries?: readonly object[]
  readonly workspace?: object
  readonly limits?: object
  readonly env?: Readonly<Record<string, string>>
  readonly access?: 'byok' | 'platform'
}

async function start(t: Test, options: Options = {}) {
  const { entry = { cut_through: true }, workspace = {}, limits, env = {}, access = 'byok' } = options
  const key = makeKey()
  const ears = await Promise.all((options.ears ?? [{}]).map((ear) => startEar(t, ear)))
  const owner = access === 'byok' ? { workspace: 'acme' } : {}
  const price = { per_hour_usd: 1 }
  const config = {
    ...(limits === undefined ? {} : { limits }),
    providers: Object.fromEntries(
      ears.map(({ url }, i) => [
        `ear${i}`,
        { kind: 'deepgram', access, ...owner, api_key: `\${EAR_KEY}`, base_url: url },
      ]),
    ),
    routes: {
      voice: {
        workspace: 'acme',
        entries: ears.map((_, i) => ({
          provider: `ear${i}`,
          model: 'nova-3',
          price,
          ...entry,
          ...options.entries?.[i],
        })),
      },
    },
    workspaces: {
      acme: {
        apps: { web: { route: 'voice' } },
        keys: [{ id: 'key_web', app: 'web', sha256: hashKey(key) }],
        ...workspace,
      },
    },
  }
  const gateway = await startGateway(t, { key, env: { EAR_KEY: 'ear', ...env }, config })
  return { gateway, key, ears, ear: ears[0]!, ...askingOf(gateway, key) }
}

function askingOf(gateway: Gateway, key: string) {
  const authorization = `Bearer ${key}`
  const headOf = (length: number, headers: readonly string[] = [], query = '') =>
    [
      `POST /v1/transcription${query} HTTP/1.1`,
      'Host: a',
      `Authorization: ${authorization}`,
      'Content-Type: audio/wav',
      `Content-Length: ${length}`,
      ...headers,
      '\r\n',
    ].join('\r\n')
  return {
    headOf,
    authorization,
    async begin(body: Buffer, sent: number, headers?: readonly string[], query?: string) {
      const client = await RawClient.connect(gateway.port)
      await client.send(headOf(body.length, headers, query), body.subarray(0, sent))
      return client
    },
    async billing() {
      const response = await fetch(`${gateway.url}/v1/me`, { headers: { authorization } })
      return ((await response.json()) as { billing: { credits_usd: number; spent_usd: number } }).billing
    },
  }
}

async function read(client: RawClient) {
  const response = await client.response({ timeoutMs: 20_000 })
  client.destroy()
  const body = JSON.parse(response?.body.toString() ?? '{}') as {
    content?: string
    provider?: string
    cost_usd?: number
    error?: { code: string }
  }
  return { status: response?.status, body }
}

for (const memory of ['64', '8']) {
  t.test(`a provider gets what has come before the rest is sent, with ${memory} MiB`, async (t: Test) => {
    const { gateway, ear, begin } = await start(t, { env: { LARKWAY_MEMORY_MIB: memory } })
    const audio = filledWav(9_000_001, 5)
    const client = await begin(audio, 300_000)
    const isThere = (bytes: number) => () => ear.requests[0]?.received === bytes
    t.ok(await waitUntil(isThere(300_000)), 'all that was sent')
    // At the pace of the provider, which a body that is not held needs.
    for (let at = 300_000; at < audio.length - 1; at += 300_000) {
      const end = Math.min(at + 300_000, audio.length - 1)
      await client.send(audio.subarray(at, end))
      if (!(await waitUntil(isThere(end)))) t.fail(`${end} bytes`)
    }
    await client.send(audio.subarray(-1))
    const { status, body } = await read(client)
    t.equal(status, 200)
    t.match(body, { provider: 'ear0', content: `Heard ${sha256(audio)}` }, 'byte by byte')
    t.equal(ear.requests.length, 1)
    await assertStopsClean(t, gateway)
    t.match(
      gateway.log.filter(({ msg }) => msg === 'request'),
      [{ status: 200, cut_through: 'used', attempts: [{ provider: 'ear0', status: 200 }] }],
    )
    t.match(gateway.log.at(-1), { bodies: memory === '8' ? { held: 0, stored: 1 } : { held: 1, stored: 0 } })
  })
}

t.test('what must be whole before it is decided stays where it is until it is', async (t: Test) => {
  const { ear, begin, authorization, gateway } = await start(t)
  const { json, chunked } = uploadsOf(WAV, authorization)
  const raw = (headers?: readonly string[], query?: string) => begin(WAV, WAV.length - 1, headers, query)
  const framed = async ({ head, body }: { head: Buffer; body: Buffer }, left = 1) => {
    const client = await RawClient.connect(gateway.port)
    await client.send(head, body.subarray(0, -left))
    return { client, rest: body.subarray(-left) }
  }
  const rows = {
    'an idempotency key': { client: await raw(['Idempotency-Key: a']), rest: WAV.subarray(-1) },
    'a stream': { client: await raw([], '?stream=true'), rest: WAV.subarray(-1) },
    JSON: await framed(json),
    'no length': await framed(chunked, 8),
    'a short body': {
      client: await begin(WAV.subarray(0, 60_000), 59_999),
      rest: WAV.subarray(59_999, 60_000),
    },
  }
  await sleep(QUIET_MS)
  t.same(
    ear.requests.map(({ headers }) => headers),
    [],
    'the provider has seen none of them',
  )
  for (const [name, { client, rest }] of Object.entries(rows)) {
    await client.send(rest)
    const response = await client.response({ timeoutMs: 20_000 })
    t.equal(response?.status, 200, name)
    client.destroy()
  }
  t.equal(ear.requests.length, Object.keys(rows).length)
})

for (const store of ['folder', 's3'] as const) {
  const skip = store === 's3' ? withoutServers : false
  t.test(
    `a body on its way to the store is sent on, and whole for the next: ${store}`,
    { skip },
    async (t: Test) => {
      const bucket = store === 's3' ? await openBucket(t, await sharedS3(t)) : { env: {} }
      let died = false
      const onPart: EarOptions['onPart'] = ({ socket, received }) => {
        if (died || received < 3_000_000) return
        died = true
        socket.resetAndDestroy()
      }
      const { gateway, ears, begin } = await start(t, {
        ears: [{ onPart }, {}],
        env: { ...bucket.env, LARKWAY_MEMORY_MIB: '8' },
      })
      const audio = filledWav(9_000_001, 6)
      for (const [i, provider] of ['ear1', 'ear0'].entries()) {
        const client = await begin(audio, 0)
        for (let at = 0; at < audio.length; at += 300_000) {
          await client.send(audio.subarray(at, at + 300_000))
          const due = Math.min(at + 300_000, audio.length - 1)
          const isThere = () =>
            (ears[0]?.requests[i]?.received ?? 0) >= due || ears[0]?.requests[i]?.closed === true
          if (!(await waitUntil(isThere))) t.fail(`${due} bytes`)
        }
        t.match(await read(client), { status: 200, body: { provider, content: `Heard ${sha256(audio)}` } })
      }
      t.same(
        ears.map(({ requests }) => requests.length),
        [2, 1],
      )
      await assertStopsClean(t, gateway)
      t.match(gateway.log.at(-1), { bodies: { held: 0, stored: 2 } })
    },
  )
}

t.test('a form is sent on from where its file begins, if that is its last part', async (t: Test) => {
  const { ear, authorization, gateway } = await start(t)
  const file = { name: 'file', filename: 'a.wav', type: 'audio/wav', body: WAV }
  const language = { name: 'language', body: 'de' }
  const last = multipart([language, file])
  const headOf = ({ contentType }: { contentType: string }, length: number, path = '/v1/transcription') =>
    `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: ${authorization}\r\n` +
    `Content-Type: ${contentType}\r\nContent-Length: ${length}\r\n\r\n`
  const begins = last.body.indexOf(WAV)

  for (const path of ['/v1/transcription', '/openai/v1/audio/transcriptions']) {
    const client = await RawClient.connect(gateway.port)
    // As clients do that write each part by itself.
    await client.send(
      headOf(last, last.body.length, path),
      last.body.subarray(0, 40),
      last.body.subarray(40, begins),
    )
    await client.send(last.body.subarray(begins, begins + 400_000))
    t.ok(await waitUntil(() => ear.requests.at(-1)?.received === 400_000), path)
    await client.send(last.body.subarray(begins + 400_000, -30))
    t.ok(await waitUntil(() => ear.requests.at(-1)!.received > 900_000))
    t.equal(ear.requests.at(-1)?.sha256, null)
    await client.send(last.body.subarray(-30))
    t.equal((await client.response({ timeoutMs: 20_000 }))?.status, 200)
    client.destroy()
    t.match(ear.requests.at(-1), { sha256: sha256(WAV), headers: /language=de/ })
  }
  t.equal(ear.requests.length, 2, 'once each')

  const others = {
    'a field after the file': multipart([file, language]).body,
    'no line end after the form': last.body.subarray(0, -2),
    'more after the form': Buffer.concat([last.body, Buffer.from('\r\n')]),
  }
  for (const [name, body] of Object.entries(others)) {
    const before = ear.requests.length
    const client = await RawClient.connect(gateway.port)
    await client.send(headOf(last, body.length), body.subarray(0, 500_000))
    t.ok(await waitUntil(() => (ear.requests[before]?.received ?? 0) > 400_000), name)
    await client.send(body.subarray(500_000))
    t.match(await read(client), { status: 200, body: { content: `Heard ${sha256(WAV)}` } })
    const [begun, whole] = ear.requests.slice(before)
    t.ok(await waitUntil(() => begun?.closed === true))
    t.match([begun, whole], [{ sha256: null }, { sha256: sha256(WAV), headers: /language=de/ }], name)
  }
  const promising = await start(t, { ears: [{}, {}], entries: [{ cut_through: true }, { region: 'eu' }] })
  const demand = multipart([file, { name: 'require', body: 'region=eu' }])
  const late = await RawClient.connect(promising.gateway.port)
  const head = headOf(demand, demand.body.length).replace(authorization, promising.authorization)
  await late.send(head, demand.body.subarray(0, 500_000))
  t.ok(await waitUntil(() => (promising.ear.requests[0]?.received ?? 0) > 400_000))
  await late.send(demand.body.subarray(500_000))
  const refused = { code: 'INVALID_REQUEST', param: 'require' }
  t.match(
    await read(late),
    { status: 400, body: { error: refused } },
    'a demand that comes too late is no demand',
  )
  t.equal(promising.ears[1]?.requests.length, 0)
  const stray = multipart([file, { name: 'stream', body: 'true' }])
  const client = await RawClient.connect(gateway.port)
  await client.send(headOf(stray, stray.body.length), stray.body)
  const response = await client.response({ timeoutMs: 20_000 })
  t.match(
    response?.headers,
    { 'content-type': /^text\/event-stream/ },
    'a field that changes how it is answered',
  )
  client.destroy()
  await assertStopsClean(t, gateway)
})

t.test('an entry that does not ask for it gets whole bodies', async (t: Test) => {
  const { ear, begin } = await start(t, { entry: {} })
  const client = await begin(WAV, WAV.length - 1)
  await sleep(QUIET_MS)
  t.equal(ear.requests.length, 0)
  await client.send(WAV.subarray(-1))
  t.equal((await read(client)).status, 200)
})

t.test('bodies that turn out wrong are broken off, unbilled, and nobody is blamed', async (t: Test) => {
  const { gateway, ear, begin, billing, headOf } = await start(t, {
    access: 'platform',
    workspace: { credits_usd: 1, grant_id: 'first' },
    limits: { max_audio_seconds: 60, max_audio_bytes: 4_000_000 },
  })
  const brokenOff = async (count: number) =>
    (await waitUntil(() => ear.requests.filter(({ closed }) => closed).length === count)) &&
    ear.requests.every(({ sha256 }) => sha256 === null)

  // More of them than open a breaker.
  for (let times = 1; times <= 6; times += 1) {
    const client = await begin(WAV, 400_000)
    t.ok(await waitUntil(() => ear.requests[times - 1]?.received === 400_000))
    if (times % 2 === 0) client.socket.resetAndDestroy()
    else client.socket.end()
    t.ok(await brokenOff(times), times % 2 === 0 ? 'a client that left' : 'a body that ended short')
    client.destroy()
  }

  const long = filledWav(3_000_000)
  const client = await begin(long, 1_000_000)
  t.ok(await waitUntil(() => ear.requests[6]?.received === 1_000_000))
  await client.send(long.subarray(1_000_000))
  t.match(await read(client), { status: 413, body: { error: { code: 'AUDIO_TOO_LONG' } } })
  t.ok(await brokenOff(7), 'audio that is too long: its last byte was never sent')

  const over = await RawClient.connect(gateway.port)
  await over.send(headOf(5_000_000), filledWav(5_000_000))
  t.match(await read(over), { status: 413, body: { error: { code: 'AUDIO_TOO_LARGE' } } })
  const none = await begin(Buffer.alloc(WAV.length), WAV.length)
  t.match(await read(none), { body: { error: { code: 'UNSUPPORTED_AUDIO_FORMAT' } } })
  t.equal(ear.requests.length, 7, 'neither what is too large nor what is no audio is begun')

  t.match(await billing(), { credits_usd: 1, spent_usd: 0 })
  const { status, body } = await read(await begin(WAV, WAV.length))
  t.match({ status, body }, { status: 200, body: { content: `Heard ${sha256(WAV)}`, cost_usd: WAV_USD } })
  t.ok(await waitUntil(async () => (await billing()).credits_usd === 1 - WAV_USD), 'settled at its cost')
  const lines = gateway.log.filter(({ msg, path }) => msg === 'request' && path === '/v1/transcription')
  t.same(
    lines.map(({ cut_through, attempts }) => [cut_through, attempts === undefined]),
    [
      ...Array.from({ length: 7 }, () => ['dropped', true]),
      [undefined, true],
      [undefined, true],
      ['used', false],
    ],
    'what was broken off is no attempt',
  )
})

t.test('a provider gets no byte beyond the length that was declared', async (t: Test) => {
  const { ear, begin, headOf, gateway } = await start(t)
  const client = await RawClient.connect(gateway.port)
  await client.send(headOf(500_000), WAV)
  t.ok(await waitUntil(() => client.closed), 'a connection with more than that is closed, as ever')
  t.ok(
    await waitUntil(() => ear.requests.every((one) => one.received <= one.length && one.length === 500_000)),
  )
  client.destroy()
  t.equal((await read(await begin(WAV, WAV.length))).status, 200, 'and no entry is blamed')
})

t.test('a call without money is refused, and the provider gets no whole request', async (t: Test) => {
  const { ear, begin } = await start(t, {
    access: 'platform',
    workspace: { credits_usd: 0.000001, grant_id: 'first' },
  })
  const client = await begin(WAV, WAV.length - 1)
  t.ok(await waitUntil(() => ear.requests[0]?.received === WAV.length - 1))
  await client.send(WAV.subarray(-1))
  t.match(await read(client), { status: 402, body: { error: { code: 'INSUFFICIENT_CREDITS' } } })
  t.ok(await waitUntil(() => ear.requests[0]?.closed === true))
  t.match(ear.requests, [{ sha256: null, received: WAV.length - 1 }])
})

t.test('the format of the whole counts', async (t: Test) => {
  const { ear, begin } = await start(t)
  // A tag that is longer than the first look is followed by another format than such tags announce.
  const tag = Buffer.alloc(200_000)
  tag.write('ID3\x04', 'latin1')
  const size = tag.length - 10
  for (const [i, shift] of [21, 14, 7, 0].entries()) tag[6 + i] = (size >> shift) & 0x7f
  const audio = Buffer.concat([tag, Buffer.from('fLaC'), Buffer.alloc(300_000)])
  const client = await begin(audio, 300_000)
  t.ok(await waitUntil(() => ear.requests[0]?.received === 300_000))
  await client.send(audio.subarray(300_000))
  t.match(await read(client), { status: 200, body: { content: `Heard ${sha256(audio)}` } })
  t.match(
    ear.requests.map(({ headers, sha256 }) => [/content-type: (\S+)/.exec(headers)?.[1], sha256 !== null]),
    [
      ['audio/mpeg', false],
      ['audio/flac', true],
    ],
  )
})

t.test('a provider that dies, or answers, before the body is whole', async (t: Test) => {
  const half = (body: Buffer) => body.subarray(0, body.length / 2)
  const cases = {
    'dies: the next one gets the whole': { onPart: ({ socket }) => socket.resetAndDestroy(), seen: [1, 1] },
    'answers 401: the next one gets the whole': {
      onPart: (request) => answer(request, 401, { err_code: 'INVALID_AUTH', err_msg: 'no' }),
      seen: [1, 1],
    },
    'answers 400, which it may say of a part: it is asked with the whole': {
      onPart: (request) => answer(request, 400, { err_code: 'Bad Request', err_msg: 'corrupt' }),
      seen: [2, 0],
    },
    'answers 413: it is asked with the whole': {
      onPart: (request) => answer(request, 413, { err_msg: 'too large' }),
      seen: [2, 0],
    },
    'answers a part of it: it is asked with the whole': { onPart: answerTranscript, seen: [2, 0] },
  } satisfies Record<string, EarOptions & { readonly seen: readonly number[] }>
  for (const [name, { onPart, seen }] of Object.entries(cases) as [
    string,
    EarOptions & { readonly seen: readonly number[] },
  ][]) {
    await t.test(name, async (t: Test) => {
      let times = 0
      const once: EarOptions['onPart'] = (request) => {
        times += 1
        if (times === 1) onPart?.(request)
      }
      const { ears, gateway, begin } = await start(t, { ears: [{ onPart: once }, {}] })
      const client = await begin(WAV, half(WAV).length)
      t.ok(await waitUntil(() => ears[0]?.requests[0]?.closed === true), 'it has no more of it')
      t.notOk(client.closed, 'and the caller continues')
      await client.send(WAV.subarray(half(WAV).length))
      const { status, body } = await read(client)
      t.equal(status, 200)
      t.match(body, { content: `Heard ${sha256(WAV)}`, provider: seen[1] === 0 ? 'ear0' : 'ear1' })
      t.same(
        ears.map(({ requests }) => requests.length),
        seen,
      )
      await assertStopsClean(t, gateway)
    })
  }
})
