import t, { type Test } from 'tap'
import { ERRORS, type ErrorCode } from '../../src/contracts/errors.ts'
import type { Operation } from '../../src/gateway/api/openapi/operation.ts'
import { ENDPOINTS } from '../../src/gateway/api/table.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { startGateway } from '../support/gateway.ts'
import { DocumentUnderTest, type OpenApi } from '../support/openapi-document.ts'
import { type DocumentedCall, send } from './openapi-calls.ts'

const SCOPES = ['inference', 'jobs', 'queue', 'admin']

const PRICE = {
  per_1m_input_tokens_usd: 1,
  per_1m_output_tokens_usd: 1,
  per_hour_usd: 1,
  per_1k_characters_usd: 1,
  per_image_usd: 1,
  per_video_second_usd: 1,
}

/** Faults that the route of each app meets at the sandbox. */
const FATES = {
  ok: {},
  failing: { options: { status: 500 } },
  refusing: { options: { status: 400 } },
  hanging: { options: { hang: true } },
  breaking: { options: { piece_delay_ms: 1, cut: true } },
  writing: { capabilities: ['text'] },
  planned: { plans: ['pro'] },
  priced: { price: PRICE },
} as const

type Fate = keyof typeof FATES
type KeyName = Fate | 'scopeless' | 'limited' | 'poor' | 'tried' | 'capped'

interface FatefulNode {
  readonly url: string
  readonly keys: Readonly<Record<KeyName, string>>
}

/** A gateway process with a key for each way in which a call may fail, in the workspaces `acme`, `poor` and `tried`. */
async function startFatefulNode(t: Test): Promise<FatefulNode> {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const names = [
    ...(Object.keys(FATES) as Fate[]),
    'scopeless',
    'limited',
    'poor',
    'tried',
    'capped',
  ] as const
  const keys = Object.fromEntries(names.map((name) => [name, makeKey()])) as FatefulNode['keys']
  const { url } = await startGateway(t, { config: configuration(`${sandbox.url}`, keys) })
  return { url, keys }
}

function configuration(sandboxUrl: string, keys: FatefulNode['keys']): object {
  const base = `${new URL(sandboxUrl).origin}/v1`
  const key = (name: KeyName, app: string, more: object = {}) => {
    return { id: `key_${name}`, app, sha256: hashKey(keys[name]), scopes: SCOPES, ...more }
  }
  const dear = (workspace: string) => ({
    workspace,
    entries: [{ provider: 'dear', model: 'morse-1', price: PRICE }],
  })
  const fates = Object.entries(FATES).map(([name, more]) => [
    name,
    { workspace: 'acme', entries: [{ provider: 'own', model: 'morse-1', ...more }] },
  ])
  return {
    deadline_seconds: 2,
    video_deadline_seconds: 2,
    rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
    limits: {
      max_request_body_bytes: 1_000_000,
      max_audio_bytes: 500_000,
      max_audio_seconds: 2,
      queue_max_payload_bytes: 10_000,
    },
    plans: { pro: { includes: ['text', 'audio_input', 'audio_output'] } },
    providers: {
      own: { kind: 'sandbox', access: 'byok', workspace: 'acme', base_url: base },
      dear: { kind: 'sandbox', access: 'platform', base_url: base },
    },
    routes: { ...Object.fromEntries(fates), poor: dear('poor'), tried: dear('tried') },
    workspaces: {
      acme: {
        apps: Object.fromEntries(Object.keys(FATES).map((name) => [name, { route: name }])),
        keys: [
          ...(Object.keys(FATES) as Fate[]).map((name) => key(name, name)),
          key('scopeless', 'ok', { scopes: ['admin'] }),
          key('limited', 'ok', { rate_limit: { requests_per_minute: 1, burst: 1 } }),
          key('capped', 'priced', { budget_usd: { per_month: 0 } }),
        ],
      },
      poor: { apps: { web: { route: 'poor' } }, keys: [key('poor', 'web')] },
      tried: {
        trial: { allowance_usd: 0, expires_at: '2099-01-01T00:00:00Z' },
        apps: { web: { route: 'tried' } },
        keys: [key('tried', 'web')],
      },
    },
  }
}

interface Rig {
  readonly node: FatefulNode
  readonly documented: DocumentUnderTest
  readonly seen: Set<ErrorCode>
}

type Asked = Omit<DocumentedCall, 'summary' | 'status'>

/** Sends what is refused, and holds the refusal against the document. @returns the body of it */
async function refused(
  t: Test,
  { node, documented, seen }: Rig,
  key: KeyName | null,
  code: ErrorCode,
  asked: Asked,
) {
  const call = { ...asked, summary: code, status: ERRORS[code].status }
  const answered = await send({ url: node.url, key: key === null ? '' : node.keys[key] }, call)
  const name = `${asked.id}: ${code}`
  const body = JSON.parse(answered.body.toString()) as Readonly<Record<string, unknown>>
  t.match(typeof body.error === 'string' ? body : body.error, { code }, name)
  t.same(documented.faultsOf(asked.id, answered), [], `${name} is as documented`)
  const documentedCodes = ENDPOINTS.find(({ id }) => id === asked.id)?.errors
  t.ok(documentedCodes?.includes(code), `${name} is among its codes`)
  seen.add(code)
  return answered.body.toString()
}

/** The path of an operation with something for its parameters. */
function pathOf({ path }: Operation): string {
  return path.replace(':tenant_id', 'acme').replace(':job_id', 'tj_x').replace(/:\w+/, 'x')
}

const asking = (operation: Operation): Asked => ({
  id: operation.id,
  method: operation.method,
  path: pathOf(operation),
})

/** A WebSocket refuses everything that is no handshake alike; what it refuses of handshakes its own tests hold. */
const isSocket = ({ answers }: Operation) => answers.some(({ status }) => status === 101)
const keyed = ENDPOINTS.filter((operation) => operation.scope !== null && !isSocket(operation))
/** Bodies of resumable uploads, which are refused by their headers first, have tests of their own. */
const isTus = ({ body = [] }: Operation) =>
  body.some(({ type }) => type === 'application/offset+octet-stream')
const bodied = keyed.filter((operation) => operation.body !== undefined && !isTus(operation))

t.test('refusals are as documented, whatever the operation', { timeout: 120_000 }, async (t) => {
  const node = await startFatefulNode(t)
  const document = (await (await fetch(`${node.url}/openapi.json`)).json()) as OpenApi
  const rig: Rig = { node, documented: new DocumentUnderTest(document), seen: new Set() }

  await t.test('without a key, without the scope, too often', async (t) => {
    for (const operation of keyed) {
      await refused(t, rig, null, 'UNAUTHENTICATED', bodiedCall(operation))
      const lacking: KeyName | null = operation.scope === 'admin' ? null : 'scopeless'
      if (lacking !== null) await refused(t, rig, lacking, 'PERMISSION_DENIED', bodiedCall(operation))
    }
    const limited = keyed.filter((operation) => operation.limited === true)
    await send(
      { url: node.url, key: node.keys.limited },
      { ...bodiedCall(limited[0]!), summary: '', status: 0 },
    )
    for (const operation of limited) await refused(t, rig, 'limited', 'RATE_LIMITED', bodiedCall(operation))
  })

  await t.test('heads at fault', async (t) => {
    const headers = { 'x-lk-end-user': 'a'.repeat(129) }
    for (const operation of keyed)
      await refused(t, rig, 'ok', 'INVALID_REQUEST', { ...bodiedCall(operation), headers })
    const requiring = ENDPOINTS.filter(({ parameters }) => parameters.includes('Require'))
    t.ok(requiring.length > 20)
    for (const { id, errors } of requiring) t.ok(errors.includes('REQUIRED_FEATURE_UNAVAILABLE'), id)
  })

  await t.test('bodies that are none', async (t) => {
    for (const operation of bodied) {
      const asked = asking(operation)
      const type = (name: string) => ({ 'content-type': name })
      const json = { ...asked, headers: type('application/json') }
      const isForm = operation.body?.every(({ type: taken }) => taken === 'multipart/form-data')
      const none = isForm ? 'UNSUPPORTED_MEDIA_TYPE' : 'INVALID_REQUEST'
      await refused(t, rig, 'ok', none, { ...json, body: Buffer.from('{') })
      // All members of that one may be left out.
      if (operation.id !== 'uploadToken')
        await refused(t, rig, 'ok', none, { ...json, body: Buffer.from('{}') })
      await refused(t, rig, 'ok', 'REQUEST_TOO_LARGE', { ...json, body: Buffer.alloc(1_000_001, ' ') })
      const other = { ...asked, headers: type('text/plain'), body: Buffer.from('a') }
      const isAnything = operation.body?.some(({ type: taken }) => taken === '*/*')
      await refused(t, rig, 'ok', isAnything ? 'UNSUPPORTED_AUDIO_FORMAT' : 'UNSUPPORTED_MEDIA_TYPE', other)
    }
  })

  await t.test('what is not there', async (t) => {
    const ofJobs = keyed.filter(({ path, errors }) => /:/.test(path) && errors.includes('JOB_NOT_FOUND'))
    for (const operation of ofJobs) await refused(t, rig, 'ok', 'JOB_NOT_FOUND', asking(operation))
    for (const operation of keyed.filter(({ path }) => path.startsWith('/workspace/')))
      await refused(t, rig, 'poor', 'NOT_FOUND', bodiedCall(operation))
    await refused(t, rig, 'ok', 'NOT_FOUND', { id: 'openaiModel', path: '/openai/v1/models/none' })
    await refused(t, rig, null, 'NOT_FOUND', { id: 'docsFile', path: '/docs/..%2fpage.css' })
    await refused(t, rig, null, 'NOT_FOUND', { id: 'result', path: '/results/forged' })
  })

  await t.test('calls that nobody serves', async (t) => seeCalls(t, rig))
  await t.test('what is wrong with audio', async (t) => seeAudio(t, rig))
  await t.test('keys that are in use', async (t) => seeKeys(t, rig))
  t.ok(rig.seen.size > 20, 'many codes were seen')
  t.comment(`seen: ${[...rig.seen].sort().join(', ')}`)
})

/** A call with a body that is as small as one can be. */
function bodiedCall(operation: Operation): Asked {
  return operation.body === undefined ? asking(operation) : { ...asking(operation), json: {} }
}

const CHAT = { id: 'chat', path: '/v1/chat', json: { messages: [{ role: 'user', content: 'e' }] } }
const SPEECH = { id: 'speech', path: '/v1/speech', json: { input: 'e' } }

async function seeCalls(t: Test, rig: Rig): Promise<void> {
  const { documented, node } = rig
  const openai = { ...CHAT, id: 'openaiChat', path: '/openai/v1/chat/completions' }
  const response = { id: 'openaiResponse', path: '/openai/v1/responses', json: { input: 'e' } }
  for (const call of [CHAT, SPEECH, openai, response]) {
    await refused(t, rig, 'failing', 'UPSTREAM_ERROR', call)
    const demanding = { ...call, headers: { 'x-lk-require': 'retention=zero' } }
    await refused(t, rig, 'ok', 'REQUIRED_FEATURE_UNAVAILABLE', demanding)
    await refused(t, rig, 'refusing', 'UPSTREAM_REJECTED', call)
    await refused(t, rig, 'hanging', 'UPSTREAM_TIMEOUT', call)
    await refused(t, rig, 'poor', 'INSUFFICIENT_CREDITS', call)
    await refused(t, rig, 'tried', 'TRIAL_EXHAUSTED', call)
    await refused(t, rig, 'capped', 'BUDGET_EXCEEDED', call)
    await refused(t, rig, 'planned', 'PLAN_NOT_ENTITLED', call)
  }
  const figures = { ...response, json: { input: 'e', top_logprobs: 2 } }
  const figured = await refused(t, rig, 'ok', 'REQUIRED_FEATURE_UNAVAILABLE', figures)
  t.match(figured, /feature: top_logprobs"/, 'a feature that is asked for by two options stands once')
  await refused(t, rig, 'writing', 'NO_HEALTHY_PROVIDER', SPEECH)
  await refused(t, rig, 'writing', 'NO_HEALTHY_PROVIDER', {
    ...SPEECH,
    id: 'queue',
    path: '/v1/queue',
    json: { endpoint: 'speech', payload: SPEECH.json },
  })
  const streamed = {
    ...CHAT,
    json: { ...CHAT.json, messages: [{ role: 'user', content: 'sos sos' }], stream: true },
  }
  for (const call of [streamed, { ...response, json: { input: 'sos sos', stream: true } }]) {
    const broken = await send(
      { url: node.url, key: node.keys.breaking },
      { ...call, summary: '', status: 200 },
    )
    t.match(broken.body.toString(), /"type":"error"/)
    t.same(documented.faultsOf(call.id, broken), [], 'a stream that breaks off')
  }
}

/** Every operation that hears, with the audio as the body and the gateway's own fields. */
const HEARING = ENDPOINTS.filter(
  ({ body = [], tag }) =>
    (tag === 'Speech' || tag === 'Jobs' || tag === 'OpenAI') &&
    body.some(({ type }) => type === 'application/octet-stream'),
)

async function spoken({ node }: Rig, text: string): Promise<string> {
  const { body } = await send(
    { url: node.url, key: node.keys.ok },
    { ...SPEECH, summary: '', status: 200, json: { input: text } },
  )
  const { content_blocks: blocks } = JSON.parse(body.toString()) as { content_blocks: { base64: string }[] }
  return blocks[0]?.base64 ?? ''
}

async function seeAudio(t: Test, rig: Rig): Promise<void> {
  const [short, long] = [await spoken(rig, 'e'), await spoken(rig, 'hello')]
  for (const operation of HEARING) {
    const asked = asking(operation)
    const json = (fields: object): Asked => ({ ...asked, json: { audio: { base64: short }, ...fields } })
    const raw = (body: Buffer): Asked => ({ ...asked, headers: { 'content-type': 'audio/wav' }, body })
    await refused(t, rig, 'ok', 'REQUIRED_FEATURE_UNAVAILABLE', json({ multichannel: true }))
    await refused(t, rig, 'ok', 'AUDIO_URL_REJECTED', json({ audio: { url: 'http://a.example/a.mp3' } }))
    await refused(t, rig, 'ok', 'AUDIO_TOO_LONG', json({ audio: { base64: long } }))
    await refused(t, rig, 'ok', 'AUDIO_TOO_LARGE', raw(Buffer.alloc(500_001)))
    await refused(t, rig, 'ok', 'UNSUPPORTED_AUDIO_FORMAT', raw(Buffer.from('no audio at all')))
    await refused(t, rig, 'ok', 'ROUTE_CONTROL_NOT_ALLOWED', json({ provider: 'own' }))
  }
  const path = '/deepgram/v1/listen'
  const file = (body: Buffer, query = ''): Asked => ({
    ...{ id: 'deepgramListenFile', path: path + query, body },
    headers: { 'content-type': 'audio/wav' },
  })
  const spokenBytes = Buffer.from(short, 'base64')
  await refused(t, rig, 'ok', 'REQUIRED_FEATURE_UNAVAILABLE', file(spokenBytes, '?redact=pci'))
  await refused(t, rig, 'ok', 'INVALID_REQUEST', file(spokenBytes, '?search=lark'))
  await refused(t, rig, 'ok', 'AUDIO_TOO_LONG', file(Buffer.from(long, 'base64')))
  await refused(t, rig, 'ok', 'AUDIO_TOO_LARGE', file(Buffer.alloc(500_001)))
  const byUrl = { id: 'deepgramListenFile', path, json: { url: 'http://a.example/a.mp3' } }
  await refused(t, rig, 'ok', 'AUDIO_URL_REJECTED', byUrl)
  const form = (fields: Readonly<Record<string, string>>, bytes?: Buffer): Asked => {
    const body = new FormData()
    for (const [name, value] of Object.entries({ model_id: 'scribe_v2', ...fields })) body.append(name, value)
    if (bytes !== undefined) body.append('file', new Blob([new Uint8Array(bytes)]), 'a.wav')
    return { id: 'elevenlabsSpeechToText', path: '/elevenlabs/v1/speech-to-text', body }
  }
  await refused(t, rig, 'ok', 'INVALID_REQUEST', form({}))
  await refused(t, rig, 'ok', 'REQUIRED_FEATURE_UNAVAILABLE', form({ entity_redaction: 'pci' }, spokenBytes))
  await refused(t, rig, 'ok', 'AUDIO_TOO_LONG', form({}, Buffer.from(long, 'base64')))
  await refused(t, rig, 'ok', 'UNSUPPORTED_AUDIO_FORMAT', form({}, Buffer.from('no audio at all')))
  await refused(t, rig, 'ok', 'AUDIO_URL_REJECTED', form({ source_url: 'http://a.example/a.mp3' }))
}

const KEYED = HEARING.filter(({ errors }) => errors.includes('IDEMPOTENCY_REPLAY_IN_PROGRESS'))

async function seeKeys(t: Test, rig: Rig): Promise<void> {
  const audio = { base64: await spoken(rig, 'e') }
  for (const operation of KEYED) {
    const headers = { 'idempotency-key': `k-${operation.id}` }
    const asked: Asked = { ...asking(operation), headers, json: { audio } }
    const other: Asked = { ...asked, json: { audio, seed: 1 } }
    await send({ url: rig.node.url, key: rig.node.keys.ok }, { ...asked, summary: '', status: 200 })
    await refused(t, rig, 'ok', 'IDEMPOTENCY_KEY_REUSED', other)
    const lost = refused(t, rig, 'hanging', 'UPSTREAM_OUTCOME_UNKNOWN', asked)
    await new Promise((resolve) => setTimeout(resolve, 500))
    await refused(t, rig, 'hanging', 'IDEMPOTENCY_REPLAY_IN_PROGRESS', asked)
    await lost
    await refused(t, rig, 'hanging', 'IDEMPOTENT_RESULT_UNAVAILABLE', asked)
  }
}
