import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import t from 'tap'
import { UPLOAD_URL_PREFIX } from '../../src/contracts/uploads.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { speak } from '../../src/sandbox/speak.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'

const keys = { web: makeKey(), widget: makeKey(), beta: makeKey(), reader: makeKey() }
type Caller = keyof typeof keys

const AUDIO_BYTES_MAX = 3_000_000
const QUOTA = 10_000_000
const WAV = speak('it is me', 600, 1)
const WORDS = 'it is me'
const PRICE = {
  per_hour_usd: 0.1,
  per_1k_characters_usd: 1,
  per_1m_input_tokens_usd: 1,
  per_1m_output_tokens_usd: 1,
  per_image_usd: 1,
  per_video_second_usd: 1,
}

function configuration() {
  const entry = { provider: 'sandbox', model: 'morse-1', price: PRICE }
  const key = (name: Caller, app: string, more = {}) => ({
    ...{ id: `key_${name}`, app, sha256: hashKey(keys[name]) },
    rate_limit: { requests_per_minute: 600_000, burst: 100_000 },
    ...more,
  })
  const credits = { credits_usd: 100, grant_id: 'first' }
  return {
    limits: { max_audio_bytes: AUDIO_BYTES_MAX, max_upload_bytes_per_workspace: QUOTA },
    providers: { sandbox: { kind: 'sandbox', access: 'platform' } },
    routes: { acme: { workspace: 'acme', entries: [entry] }, beta: { workspace: 'beta', entries: [entry] } },
    workspaces: {
      acme: {
        ...credits,
        apps: { web: { route: 'acme' }, widget: { route: 'acme' } },
        keys: [key('web', 'web'), key('widget', 'widget'), key('reader', 'web', { scopes: ['inference'] })],
      },
      beta: { ...credits, apps: { web: { route: 'beta' } }, keys: [key('beta', 'web')] },
    },
  }
}

const TUS = { 'tus-resumable': '1.0.0' }
const OCTETS = { 'content-type': 'application/offset+octet-stream' }

interface Ask {
  /** Of a key, or what stands for one; null: none. */
  readonly as?: Caller | { readonly token: string } | null
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Buffer | string
}

function asker({ url }: Gateway) {
  return (method: string, path: string, { as = 'web', headers = {}, body }: Ask = {}) => {
    const bearer = as === null ? null : typeof as === 'string' ? keys[as] : as.token
    const authorization = bearer === null ? {} : { authorization: `Bearer ${bearer}` }
    const init = { method, headers: { ...authorization, ...TUS, ...headers } }
    return fetch(url + path, body === undefined ? init : { ...init, body })
  }
}

type Asker = ReturnType<typeof asker>

async function create(ask: Asker, length: number, { headers = {}, ...more }: Ask = {}): Promise<string> {
  const response = await ask('POST', '/v1/uploads', {
    headers: { 'upload-length': String(length), ...headers },
    ...more,
  })
  if (response.status !== 201) throw new Error(`${response.status} ${await response.text()}`)
  return ((await response.json()) as { upload_id: string }).upload_id
}

const patch = (ask: Asker, id: string, offset: number, body: Buffer, { headers = {}, ...more }: Ask = {}) =>
  ask('PATCH', `/v1/uploads/${id}`, {
    headers: { ...OCTETS, 'upload-offset': String(offset), ...headers },
    body,
    ...more,
  })

const codeOf = async (response: Response) => {
  const { error } = (await response.json().catch(() => ({}))) as { error?: { code: string } }
  return `${response.status} ${error?.code ?? 'done'}`
}

async function uploaded(ask: Asker, bytes: Buffer): Promise<string> {
  const id = await create(ask, bytes.length)
  const response = await patch(ask, id, 0, bytes)
  if (response.status !== 204) throw new Error(await response.text())
  return id
}

t.test('an upload begins, goes on from where it is, and is a source of audio', async (t) => {
  const ask = asker(await startGateway(t, { config: configuration() }))
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  const metadata = `filename ${base64('hello.wav')},filetype ${base64('audio/wav')}`
  const made = await ask('POST', '/v1/uploads', {
    headers: { 'upload-length': String(WAV.length), 'upload-metadata': metadata },
  })
  t.equal(made.status, 201)
  const location = made.headers.get('location')!
  t.match(location, /^\/v1\/uploads\/upl_/)
  const first = await ask('PATCH', location, {
    headers: { ...OCTETS, 'upload-offset': '0' },
    body: WAV.subarray(0, 1_000),
  })
  t.equal(first.status, 204)
  t.equal(first.headers.get('upload-offset'), '1000')
  const head = await ask('HEAD', location)
  t.equal(head.status, 200)
  const told = Object.fromEntries(head.headers)
  t.match(told, {
    'upload-offset': '1000',
    'upload-length': String(WAV.length),
    'upload-metadata': metadata,
    'tus-resumable': '1.0.0',
    'cache-control': 'no-store',
  })
  const leftMs = Date.parse(told['upload-expires']!) - Date.now()
  t.ok(leftMs > 23 * 3_600_000 && leftMs <= 24 * 3_600_000, 'it ends a day after it began')
  const id = location.split('/').at(-1)!
  const use = (body: object) =>
    ask('POST', '/v1/transcription', {
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  t.equal(await codeOf(await use({ audio: { upload_id: id } })), '400 INVALID_REQUEST', 'not finished')
  const rest = await ask('PATCH', location, {
    headers: { ...OCTETS, 'upload-offset': '1000' },
    body: WAV.subarray(1_000),
  })
  t.equal(rest.headers.get('upload-offset'), String(WAV.length))
  t.match(await (await ask('GET', location)).json(), {
    upload_id: id,
    offset: WAV.length,
    length: WAV.length,
  })
  for (let times = 0; times < 2; times += 1)
    t.match(
      await (await use({ audio: { upload_id: id } })).json(),
      { content: WORDS },
      'as often as it is wanted',
    )
  t.equal((await ask('DELETE', location)).status, 204)
  t.equal((await ask('HEAD', location)).status, 404)
  t.equal(await codeOf(await use({ audio: { upload_id: id } })), '400 INVALID_REQUEST')
})

t.test('every door, the jobs and the queue take it', async (t) => {
  const gateway = await startGateway(t, { config: configuration() })
  const ask = asker(gateway)
  const id = await uploaded(ask, WAV)
  const audio = { upload_id: id }
  const url = UPLOAD_URL_PREFIX + id
  const json = { 'content-type': 'application/json' }
  const post = async (path: string, body: object, headers = {}) => {
    const response = await ask('POST', path, { headers: { ...json, ...headers }, body: JSON.stringify(body) })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
  t.match(await post('/v1/translation', { audio }), { status: 200, body: { content: WORDS } })
  t.match(await post('/v1/audio', { audio, task: 'transcription' }), {
    status: 200,
    body: { content: WORDS },
  })
  t.match(await post('/deepgram/v1/listen', { url }), {
    status: 200,
    body: { results: { channels: [{ alternatives: [{ transcript: WORDS }] }] } },
  })
  const keyed = { 'idempotency-key': 'one' }
  const once = await post('/v1/transcription', { audio }, keyed)
  t.match(await post('/v1/transcription', { audio }, keyed), { status: 200, body: { id: once.body.id } })

  const ended = async (path: string, done: (body: Record<string, unknown>) => boolean) => {
    for (;;) {
      const body = (await (await ask('GET', path)).json()) as Record<string, unknown>
      if (done(body)) return body
    }
  }
  const job = await post('/v1/transcription/jobs', { audio }, { 'idempotency-key': 'two' })
  t.equal(job.status, 202)
  const again = await post('/v1/transcription/jobs', { audio }, { 'idempotency-key': 'two' })
  t.match(again, { status: 200, body: { job_id: job.body.job_id } })
  t.match(await ended(`${job.body.poll_url}?wait=30`, ({ completed_at }) => completed_at !== null), {
    status: 'succeeded',
    result: { content: WORDS },
  })
  const transcript = await post('/assemblyai/v2/transcript', { audio_url: url })
  t.match(
    await ended(`/assemblyai/v2/transcript/${transcript.body.id}`, ({ status }) =>
      /completed|error/.test(String(status)),
    ),
    { status: 'completed', text: WORDS },
  )
  t.match(await post('/v1/queue', { endpoint: 'transcription', payload: { audio } }), { status: 202 })
  await ask('DELETE', `/v1/uploads/${id}`)
  t.equal((await post('/v1/queue', { endpoint: 'transcription', payload: { audio } })).status, 400)
})

t.test('a body is kept whole or not at all where it has a checksum', async (t) => {
  const ask = asker(await startGateway(t, { config: configuration() }))
  const bytes = Buffer.alloc(2_000_000, 7)
  const sum = (name: string) => createHash(name).update(bytes).digest('base64')
  const crc = Buffer.alloc(4)
  crc.writeUInt32BE(crc32(bytes))
  const id = await create(ask, bytes.length)
  const wrong = await patch(ask, id, 0, bytes, { headers: { 'upload-checksum': `sha1 ${sum('md5')}` } })
  t.equal(await codeOf(wrong), '460 CHECKSUM_MISMATCH')
  t.equal((await ask('HEAD', `/v1/uploads/${id}`)).headers.get('upload-offset'), '0')
  for (const checksum of [
    `sha1 ${sum('sha1')}`,
    `sha256 ${sum('sha256')}`,
    `md5 ${sum('md5')}`,
    `crc32 ${crc.toString('base64')}`,
  ]) {
    const other = await create(ask, bytes.length)
    t.equal(
      (await patch(ask, other, 0, bytes, { headers: { 'upload-checksum': checksum } })).status,
      204,
      checksum,
    )
    await ask('DELETE', `/v1/uploads/${other}`)
  }
})

t.test('a token makes one upload, goes on with it, and opens nothing else', async (t) => {
  const gateway = await startGateway(t, { config: configuration() })
  const ask = asker(gateway)
  const json = { 'content-type': 'application/json' }
  const body = JSON.stringify({ max_bytes: WAV.length, expires_after: 60 })
  const made = await ask('POST', '/v1/uploads/tokens', { headers: json, body })
  t.match(made.headers.get('x-lk-warnings'), /expires_after: unknown field/)
  const { token, upload_id: id } = (await made.json()) as { token: string; upload_id: string }
  const as = { token }
  const other = await uploaded(ask, WAV)
  const tooLong = await ask('POST', '/v1/uploads', {
    as,
    headers: { 'upload-length': String(WAV.length + 1) },
  })
  t.equal(await codeOf(tooLong), '413 AUDIO_TOO_LARGE')
  t.equal(await create(ask, WAV.length, { as }), id)
  const second = await ask('POST', '/v1/uploads', { as, headers: { 'upload-length': '1' } })
  t.equal(await codeOf(second), '409 CONFLICT')
  t.equal((await patch(ask, id, 0, WAV, { as })).status, 204)
  for (const [method, path] of [
    ['GET', `/v1/uploads/${other}`],
    ['DELETE', `/v1/uploads/${other}`],
  ] as const)
    t.equal(await codeOf(await ask(method, path, { as })), '404 NOT_FOUND', `${method} of another`)
  for (const [method, path] of [
    ['GET', '/v1/me'],
    ['POST', '/v1/uploads/tokens'],
    ['POST', '/v1/transcription'],
    ['GET', '/v1/usage'],
  ] as const)
    t.equal(await codeOf(await ask(method, path, { as })), '401 UNAUTHENTICATED', path)
  const forged = { token: token.replace(/.(?=.{8}$)/, (one) => (one === 'A' ? 'B' : 'A')) }
  t.equal(await codeOf(await ask('GET', `/v1/uploads/${id}`, { as: forged })), '401 UNAUTHENTICATED')
  t.equal((await ask('DELETE', `/v1/uploads/${id}`, { as })).status, 204)
})

t.test('pages of any origin may upload', async (t) => {
  const ask = asker(await startGateway(t, { config: configuration() }))
  for (const path of ['/v1/uploads', '/v1/uploads/upl_1']) {
    const response = await ask('OPTIONS', path, { as: null })
    t.equal(response.status, 204)
    t.match(Object.fromEntries(response.headers), {
      'access-control-allow-origin': '*',
      'access-control-allow-methods': /PATCH/,
      'access-control-allow-headers': /upload-offset/,
      'tus-version': '1.0.0',
      'tus-extension': /creation-with-upload.*concatenation/,
      'tus-checksum-algorithm': /sha1/,
    })
  }
  const refused = await ask('PATCH', '/v1/uploads/upl_1', { as: null })
  t.equal(refused.status, 401)
  t.equal(refused.headers.get('access-control-allow-origin'), '*', 'a refusal can be read, too')
})

t.test('hostile requests are refused, and leave the upload as it is', async (t) => {
  const gateway = await startGateway(t, { config: configuration() })
  const ask = asker(gateway)
  const bytes = Buffer.alloc(1_000, 1)
  const id = await create(ask, bytes.length)
  await patch(ask, id, 0, bytes.subarray(0, 400))
  const partial = await create(ask, 10, { headers: { 'upload-concat': 'partial' } })
  await patch(ask, partial, 0, bytes.subarray(0, 10))
  const final = await create(ask, 1, {
    headers: { 'upload-length': '', 'upload-concat': `final;/v1/uploads/${partial}` },
  }).catch(() => '')
  const made = await ask('POST', '/v1/uploads', {
    headers: { 'upload-concat': `final;/v1/uploads/${partial}` },
  })
  const whole = ((await made.json()) as { upload_id: string }).upload_id
  t.equal(final, '', 'a final upload has no length of its own')
  const one = `/v1/uploads/${id}`
  const go = { ...OCTETS, 'upload-offset': '400' }
  const post = (headers: Record<string, string>, body?: Buffer): [string, string, Ask] => [
    'POST',
    '/v1/uploads',
    { headers, ...(body === undefined ? {} : { body }) },
  ]
  const put = (
    headers: Record<string, string>,
    body: Buffer = bytes.subarray(400),
  ): [string, string, Ask] => ['PATCH', one, { headers, body }]
  const length = { 'upload-length': '10' }
  const many = Array.from({ length: 101 }, () => `/v1/uploads/${partial}`).join(' ')
  const malformed = (
    name: string,
    values: readonly string[],
    row: (value: string) => [string, string, Ask],
  ) =>
    Object.fromEntries(
      values.map((value) => [`${name}: ${value.slice(0, 40)}`, ['400 INVALID_REQUEST', row(value)] as const]),
    )
  const hear = (audio: unknown, more: Ask = {}): [string, string, Ask] => [
    'POST',
    '/v1/transcription',
    { ...more, headers: { 'content-type': 'application/json' }, body: JSON.stringify({ audio }) },
  ]
  const numbers = [
    ...['', ' ', '-1', '+1', '0x10', '1.0', '1e3', '1 0', '10, 20', '10;20', '٣', 'ten', 'NaN', 'Infinity'],
    '9'.repeat(16),
  ].filter((value) => !/[^\x20-\x7e]/.test(value))
  const rows: Record<string, readonly [expected: string, asked: [string, string, Ask]]> = {
    ...malformed('length', [...numbers, '0', '000'], (value) => post({ 'upload-length': value })),
    ...malformed('offset', numbers, (value) => put({ ...go, 'upload-offset': value })),
    ...malformed(
      'metadata',
      [
        ...['name %%%', 'a YQ==,a YQ==', ',', 'a YQ==,', 'a  YQ==', 'a YQ== b', 'a YQ==='],
        `a ${'YQAA'.repeat(1_100)}`,
      ],
      (value) => post({ ...length, 'upload-metadata': value }),
    ),
    ...malformed(
      'concatenation',
      [
        ...['whole', 'Partial', 'partial;', 'final', 'final;', 'final; ', 'final;/etc/passwd', 'final;upl_'],
        `final;${many}`,
      ],
      (value) => post({ 'upload-concat': value }),
    ),
    ...malformed('parts', [`${partial}/..`, `${partial}?a`, `${partial},${partial}`], (value) =>
      post({ 'upload-concat': `final;/v1/uploads/${value}` }),
    ),
    ...malformed(
      'checksum',
      [
        ...['', 'sha1', 'sha1 ', 'sha512 AAAA', 'SHA1 AAAA', 'sha1  AAAA', 'sha1 %%%', 'constructor AAAA'],
        'sha1 AAAA, md5 AA==',
      ],
      (value) => put({ ...go, 'upload-checksum': value }),
    ),
    ...malformed('method', ['', 'DELETE', 'patch', 'PUT'], (value) => [
      'POST',
      one,
      { headers: { ...go, 'x-http-method-override': value }, body: bytes.subarray(400) },
    ]),
    ...Object.fromEntries(
      [
        1,
        '',
        'upl_',
        [whole],
        { id: whole },
        true,
        `${whole}x`,
        `../${whole}`,
        whole.toUpperCase(),
        `upl_${'0'.repeat(26)}`,
      ].map((value) => [
        `audio: ${JSON.stringify(value)}`,
        ['400 INVALID_REQUEST', hear({ upload_id: value })] as const,
      ]),
    ),
    'audio of an upload that is not finished': ['400 INVALID_REQUEST', hear({ upload_id: id })],
    'audio of a partial one': ['400 INVALID_REQUEST', hear({ upload_id: partial })],
    'audio of two sources': [
      '400 INVALID_REQUEST',
      hear({ upload_id: whole, url: 'https://a.example/a.mp3' }),
    ],
    'audio of another app': ['400 INVALID_REQUEST', hear({ upload_id: whole }, { as: 'widget' })],
    'audio of another workspace': ['400 INVALID_REQUEST', hear({ upload_id: whole }, { as: 'beta' })],
    'audio that is none': ['415 UNSUPPORTED_AUDIO_FORMAT', hear({ upload_id: whole })],
    'no version': ['412 PRECONDITION_FAILED', post({ ...length, 'tus-resumable': '' })],
    'another version': ['412 PRECONDITION_FAILED', post({ ...length, 'tus-resumable': '0.2.2' })],
    'a version of PATCH': ['412 PRECONDITION_FAILED', put({ ...go, 'tus-resumable': '2.0.0' })],
    'a version of DELETE': [
      '412 PRECONDITION_FAILED',
      ['DELETE', one, { headers: { 'tus-resumable': '2' } }],
    ],
    'no length': ['400 INVALID_REQUEST', post({})],
    'a deferred length': ['400 INVALID_REQUEST', post({ 'upload-defer-length': '1' })],
    'a length over the limit': [
      '413 AUDIO_TOO_LARGE',
      post({ 'upload-length': String(AUDIO_BYTES_MAX + 1) }),
    ],
    'final of one that is not there': [
      '404 NOT_FOUND',
      post({ 'upload-concat': `final;/v1/uploads/upl_${'0'.repeat(26)}` }),
    ],
    'final of one that is not partial': [
      '409 CONFLICT',
      post({ 'upload-concat': `final;/v1/uploads/${id}` }),
    ],
    'final of a final one': ['409 CONFLICT', post({ 'upload-concat': `final;/v1/uploads/${whole}` })],
    'a body of another type': [
      '415 UNSUPPORTED_MEDIA_TYPE',
      post({ ...length, 'content-type': 'audio/wav' }, bytes),
    ],
    'a body that is longer': ['413 REQUEST_TOO_LARGE', post({ ...length, ...OCTETS }, bytes)],
    'no offset': ['400 INVALID_REQUEST', put(OCTETS)],
    'an offset behind': ['409 CONFLICT', put({ ...go, 'upload-offset': '399' })],
    'an offset ahead': ['409 CONFLICT', put({ ...go, 'upload-offset': '401' })],
    'PATCH of another type': [
      '415 UNSUPPORTED_MEDIA_TYPE',
      put({ ...go, 'content-type': 'application/json' }),
    ],
    'PATCH compressed': ['415 UNSUPPORTED_MEDIA_TYPE', put({ ...go, 'content-encoding': 'gzip' })],
    'PATCH past the end': ['413 REQUEST_TOO_LARGE', put(go, bytes)],
    'PATCH of a final one': [
      '403 PERMISSION_DENIED',
      ['PATCH', `/v1/uploads/${whole}`, { headers: { ...go, 'upload-offset': '10' }, body: bytes }],
    ],
    'a checksum of other bytes': ['460 CHECKSUM_MISMATCH', put({ ...go, 'upload-checksum': 'sha1 AAAA' })],
    'no key': ['401 UNAUTHENTICATED', ['PATCH', one, { as: null, headers: go, body: bytes }]],
    'a key of another app': ['404 NOT_FOUND', ['PATCH', one, { as: 'widget', headers: go, body: bytes }]],
    'a key of another workspace': ['404 NOT_FOUND', ['PATCH', one, { as: 'beta', headers: go, body: bytes }]],
    'another workspace looks': ['404 NOT_FOUND', ['GET', one, { as: 'beta' }]],
    'another app looks': ['404 NOT_FOUND', ['GET', one, { as: 'widget' }]],
    'another workspace deletes': ['404 NOT_FOUND', ['DELETE', one, { as: 'beta' }]],
    'another app deletes': ['404 NOT_FOUND', ['DELETE', one, { as: 'widget' }]],
    'another app makes it final': [
      '404 NOT_FOUND',
      ['POST', '/v1/uploads', { as: 'widget', headers: { 'upload-concat': `final;/v1/uploads/${partial}` } }],
    ],
    'a key without the scope': ['403 PERMISSION_DENIED', ['GET', one, { as: 'reader' }]],
    'an id with a path': ['404 NOT_FOUND', ['GET', `/v1/uploads/${encodeURIComponent(`../acme/${id}`)}`, {}]],
    'an id of nothing': ['404 NOT_FOUND', ['GET', '/v1/uploads/upl_', {}]],
    'a method that is none': ['405 METHOD_NOT_ALLOWED', ['PUT', one, { body: bytes }]],
    'what demands that nothing is kept': [
      '422 REQUIRED_FEATURE_UNAVAILABLE',
      post({ ...length, 'x-lk-require': 'retention=zero' }),
    ],
  }
  const countOf = async () => (await readdir(join(gateway.dataFolder, 'resumable', 'acme'))).length
  const before = await countOf()
  for (const [name, [expected, [method, path, sent]]] of Object.entries(rows))
    t.equal(await codeOf(await ask(method, path, sent)), expected, name)
  t.equal(await countOf(), before, 'none of them has left an upload')
  t.ok(Object.keys(rows).length >= 100, `${Object.keys(rows).length} rows`)
  t.match(await (await ask('GET', one)).json(), { offset: 400, length: 1_000 })
  t.equal((await patch(ask, id, 400, bytes.subarray(400))).status, 204, 'its owner goes on')
})

t.test('the uploads of a workspace have their room, and no more', async (t) => {
  const ask = asker(await startGateway(t, { config: configuration() }))
  const ids: string[] = []
  for (let count = 0; count < 3; count += 1) ids.push(await create(ask, AUDIO_BYTES_MAX))
  const refused = await ask('POST', '/v1/uploads', { headers: { 'upload-length': String(AUDIO_BYTES_MAX) } })
  t.equal(await codeOf(refused), '413 REQUEST_TOO_LARGE')
  t.ok(await create(ask, AUDIO_BYTES_MAX, { as: 'beta' }), 'another workspace has its own')
  await ask('DELETE', `/v1/uploads/${ids[0]}`)
  t.ok(await create(ask, AUDIO_BYTES_MAX))
})
