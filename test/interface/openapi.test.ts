import { readFile, writeFile } from 'node:fs/promises'
import { Validator } from '@seriousme/openapi-schema-validator'
import t, { type Test } from 'tap'
import type { Example } from '../../src/gateway/api/openapi/document.ts'
import { startGateway } from '../support/gateway.ts'
import { type Answered, DocumentUnderTest, type OpenApi } from '../support/openapi-document.ts'
import { type DocumentedCall, demoCalls, type Node, send } from './openapi-calls.ts'

const TEXT_LENGTH_MAX = 160
const TEXT_LENGTH_SHOWN = 64
const NUMBERS_MAX = 4

/** Values that differ from run to run, and their replacements. A secret in full would alarm scanners. */
const CHANGING: readonly (readonly [RegExp, string])[] = [
  [/(?<![a-z])req_[0-9a-z]{26}\b/g, 'req_01m7vpxmwhcxyhwv0c3a668m1h'],
  [/(?<="request_id":")[0-9a-f-]{36}(?=")/g, '01a1f76e-d391-677d-1e6c-0c1a8c645031'],
  [/\b(tj|qj)_[0-9a-z]{26,}\b/g, '$1_01m7vpxmwhcxyhwv0c3a668m1h'],
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, '2026-11-20T09:00:00.000Z'],
  [/"(created|created_at|completed_at)":\d{10}\b/g, '"$1":1795165200'],
  [/\bkey_[0-9a-z]{26}\b/g, 'key_01m7vpxmwhcxyhwv0c3a668m1h'],
  [/"month":"\d{4}-\d\d"/g, '"month":"2026-11"'],
  [/whsec_[A-Za-z0-9+/=]+/g, 'whsec_…'],
  [/lk_live_\w+/g, 'lk_live_xxxx'],
  [/\bek_sealed1[\w.-]+/g, 'ek_…'],
  [/\bsess_[0-9a-z]{26}\b/g, 'sess_01m7vpxmwhcxyhwv0c3a668m1h'],
  [/"expires_at":\d{10}\b/g, '"expires_at":1795165800'],
  [/\/results\/[^"]+/g, '/results/xxxx'],
]

/** A call and its answer as the document shows them. */
function exampleOf({ summary, json }: DocumentedCall, { status, headers, body }: Answered): Example {
  const type = (headers.get('content-type') ?? '').split(';')[0] ?? ''
  const text = body.toString()
  return {
    summary,
    request: json === undefined ? null : (shown(json) as Example['request']),
    status,
    type,
    answer: type === 'application/json' ? shown(JSON.parse(still(text))) : still(text),
  }
}

/** JSON with its long texts and lists cut. */
function shown(value: unknown): unknown {
  if (typeof value === 'string') return cut(value)
  if (Array.isArray(value)) return numbersCut(value).map(shown)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, shown(part)]))
}

function still(text: string): string {
  return CHANGING.reduce((told, [pattern, instead]) => told.replaceAll(pattern, instead), text)
}

function cut(text: string): string {
  return text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_SHOWN)}…` : text
}

function numbersCut(list: unknown[]): unknown[] {
  return list.every((item) => typeof item === 'number') ? list.slice(0, NUMBERS_MAX) : list
}

const EXAMPLES = new URL('../../src/gateway/api/openapi/examples.json', import.meta.url)
/** Writes the examples of the document anew, for whoever has changed an answer. */
const WRITES_EXAMPLES = process.env.LARKWAY_TEST_WRITE_EXAMPLES === '1'

async function documentOf({ url }: Node): Promise<OpenApi> {
  return (await (await fetch(`${url}/openapi.json`)).json()) as OpenApi
}

/** Sends the call, and holds request and answer against the document. */
async function hold(
  t: Test,
  node: Node,
  call: DocumentedCall,
  documented: DocumentUnderTest,
): Promise<Answered> {
  const name = `${call.id}, ${call.summary}`
  if (call.json !== undefined && call.status < 300)
    t.same(documented.requestFaults(call.id, call.json), [], `${name}, request`)
  const answered = await send(node, call)
  t.equal(answered.status, call.status, name)
  t.same(documented.faultsOf(call.id, answered), [], `${name}, answer`)
  return answered
}

const jsonOf = ({ body }: Answered) => JSON.parse(body.toString()) as Record<string, unknown>
const base64Of = (answered: Answered) =>
  (jsonOf(answered) as { content_blocks: { base64: string }[] }).content_blocks[0]?.base64 ?? ''

t.test('what is not documented is found', async (t) => {
  const node = await startGateway(t)
  const documented = new DocumentUnderTest(await documentOf(node))
  const me = await send(node, { id: 'me', summary: '', status: 200, path: '/v1/me' })
  t.same(documented.faultsOf('me', me), [])
  const bent = (change: (body: Record<string, unknown>) => unknown): Answered => {
    return { ...me, body: Buffer.from(JSON.stringify(change(jsonOf(me)))) }
  }
  const faulty: readonly (readonly [Answered, RegExp])[] = [
    [{ ...me, status: 418 }, /status 418/],
    [{ ...me, headers: new Headers([...me.headers, ['x-lk-new', '1']]) }, /x-lk-new/],
    [{ ...me, headers: new Headers({ 'content-type': 'application/json' }) }, /no X-LK-Request-ID/],
    [
      { ...me, headers: new Headers({ ...Object.fromEntries(me.headers), 'content-type': 'text/x' }) },
      /content type/,
    ],
    [bent((body) => ({ ...body, more: 1 })), /"more"/],
    [bent(({ app: _, ...body }) => body), /"app"/],
    [bent((body) => ({ ...body, limits: { ...Object(body.limits), more: 1 } })), /limits .*"more"/],
    [
      bent((body) => ({ ...body, purposes: [{ purpose: 'a', description: 'b', is_enabled: 1 }] })),
      /is_enabled/,
    ],
  ]
  for (const [answered, fault] of faulty) t.match(documented.faultsOf('me', answered).join('; '), fault)
  t.match(documented.requestFaults('chat', { messages: [] }).join('; '), /fewer than 1/)
  t.match(documented.requestFaults('chat', { messages: [], mesages: [] }).join('; '), /"mesages"/)
})

t.test('what the demo really answers is what is documented, and what is shown', async (t) => {
  let node = await startGateway(t)
  const document = await documentOf(node)
  t.match(await new Validator().validate(document as never), { valid: true })
  const documented = new DocumentUnderTest(document)
  const generate = (path: string, json: object) =>
    send(node, { id: '', summary: '', status: 200, path, json: { ...json } })
  const recordings = {
    audio: Buffer.from(base64Of(await generate('/v1/speech', { input: 'hello world' })), 'base64'),
    picture: base64Of(await generate('/v1/image', { prompt: 'sos', size: '256x256' })),
  }

  const examples: Record<string, Example[]> = {}
  const called = new Set<string>()
  const see = async (call: DocumentedCall): Promise<Answered> => {
    const answered = await hold(t, node, call, documented)
    called.add(call.id)
    if (call.shown === true) {
      examples[call.id] ??= []
      examples[call.id]?.push(exampleOf(call, answered))
    }
    return answered
  }
  // The demo's key has only so many calls at once, and a quick machine makes more.
  for (const [at, call] of demoCalls(recordings).entries()) {
    if (at % 40 === 39) node = await startGateway(t)
    await see(call)
  }
  node = await startGateway(t)
  await seeJobs(see, recordings.audio)
  await seeTranscripts(see, recordings.audio)
  await seeUploads(see, recordings.audio)
  await seeResults(see)
  await seeManagement(see)
  for (const [id, path] of [
    ['transcriptionStream', '/v1/transcription/stream'],
    ['speechStream', '/v1/speech/stream'],
    ['openaiRealtime', '/openai/v1/realtime'],
    ['deepgramListen', '/deepgram/v1/listen'],
    ['deepgramListenTurns', '/deepgram/v2/listen'],
    ['deepgramSpeakLive', '/deepgram/v1/speak'],
  ] as const)
    await see({ id, path, summary: 'A request that is no handshake', status: 400 })
  t.same(
    [...documented.operations.keys()].filter((id) => !called.has(id)),
    [],
    'every operation was called',
  )

  if (WRITES_EXAMPLES) await writeFile(EXAMPLES, `${JSON.stringify(examples, null, 2)}\n`)
  t.same(JSON.parse(await readFile(EXAMPLES, 'utf8')), examples, 'the examples are what the demo answers')
})

type See = (call: DocumentedCall) => Promise<Answered>

async function seeJobs(see: See, audio: Buffer): Promise<void> {
  const jobs = '/v1/transcription/jobs'
  const json = { audio: { base64: audio.toString('base64'), media_type: 'audio/wav' } }
  const submit = { id: 'submitJob', path: jobs, headers: { 'idempotency-key': 'j' }, json }
  const submitted = await see({ ...submit, summary: 'Audio in JSON', status: 202, shown: true })
  await see({ ...submit, summary: 'The key again', status: 200 })
  const path = `${jobs}/${String(jsonOf(submitted).job_id)}`
  await untilEnded(see, String(jsonOf(submitted).job_id))
  await see({ id: 'showJob', path, summary: 'A job that has ended', status: 200, shown: true })
  await see({ id: 'cancelJob', path, method: 'DELETE', summary: 'A job that has ended', status: 200 })
}

async function untilEnded(see: See, id: string): Promise<void> {
  const path = `/v1/transcription/jobs/${id}?wait=30`
  for (let status = 'queued'; status !== 'succeeded'; ) {
    if (!/^(?:queued|processing)$/.test(status)) throw new Error(`${id} is ${status}`)
    const seen = await see({ id: 'showJob', path, summary: 'While it runs', status: 200 })
    status = String(jsonOf(seen).status)
  }
}

async function seeUploads(see: See, audio: Buffer): Promise<void> {
  const at = (id: string, method: string, path: string) => ({ id, method, path: `/v1/uploads${path}` })
  const tus = { 'tus-resumable': '1.0.0' }
  const bytes = { ...tus, 'content-type': 'application/offset+octet-stream' }
  await see({ ...at('uploadOptions', 'OPTIONS', ''), summary: 'Of all', status: 204 })
  const created = await see({
    ...at('createUpload', 'POST', ''),
    ...{ summary: 'An upload', status: 201, headers: { ...tus, 'upload-length': String(audio.length) } },
  })
  const path = `/${jsonOf(created).upload_id}`
  await see({ ...at('oneUploadOptions', 'OPTIONS', path), summary: 'Of one', status: 204 })
  const [half, rest] = [audio.subarray(0, 1_000), audio.subarray(1_000)]
  const added = { summary: 'Bytes', status: 204 }
  const from = (offset: number) => ({ ...bytes, 'upload-offset': String(offset) })
  await see({ ...at('appendUpload', 'PATCH', path), ...added, headers: from(0), body: half })
  const override = { ...from(1_000), 'x-http-method-override': 'PATCH' }
  await see({ ...at('appendUploadByPost', 'POST', path), ...added, headers: override, body: rest })
  await see({ ...at('showUpload', 'GET', path), summary: 'How far it is', status: 200 })
  const stale = { ...at('appendUpload', 'PATCH', path), summary: 'An offset behind', status: 409 }
  await see({ ...stale, headers: from(0), body: half })
  await see({ ...at('createUpload', 'POST', ''), summary: 'Without a version', status: 412, body: half })
  await see({ ...at('uploadToken', 'POST', '/tokens'), summary: 'A token', status: 200, json: {} })
  await see({ ...at('deleteUpload', 'DELETE', path), summary: 'Deleted', status: 204, headers: tus })
}

async function seeTranscripts(see: See, audio: Buffer): Promise<void> {
  const at = (id: string, path: string) => ({ id, path: `/assemblyai/v2${path}`, status: 200 })
  const headers = { 'content-type': 'application/octet-stream' }
  const uploaded = await see({ ...at('assemblyaiUpload', '/upload'), summary: 'Audio', headers, body: audio })
  const { upload_url: audio_url } = jsonOf(uploaded)
  const json = { audio_url, format_text: true, temperature: 0.5 }
  const submitted = await see({ ...at('assemblyaiSubmit', '/transcript'), summary: 'An upload', json })
  const id = String(jsonOf(submitted).id)
  await untilEnded(see, id)
  const path = `/transcript/${id}`
  await see({ ...at('assemblyaiTranscript', path), summary: 'A transcript' })
  await see({ ...at('assemblyaiSentences', `${path}/sentences`), summary: 'Sentences' })
  await see({ ...at('assemblyaiParagraphs', `${path}/paragraphs`), summary: 'Paragraphs' })
  await see({ ...at('assemblyaiSrt', `${path}/srt?chars_per_caption=20`), summary: 'SRT' })
  await see({ ...at('assemblyaiVtt', `${path}/vtt`), summary: 'WebVTT' })
  await see({ ...at('assemblyaiWordSearch', `${path}/word-search?words=hello`), summary: 'Words' })
  await see({ ...at('assemblyaiRedactedAudio', `${path}/redacted-audio`), summary: 'None', status: 404 })
  await see({ ...at('assemblyaiList', '/transcript?limit=1'), summary: 'The newest' })
  await see({ ...at('assemblyaiDelete', path), summary: 'Deleted' })
}

async function seeResults(see: See): Promise<void> {
  const made = await see({
    id: 'video',
    path: '/v1/video',
    summary: 'A lamp that blinks',
    status: 200,
    shown: true,
    json: { prompt: 'e' },
  })
  const [block] = (jsonOf(made) as { content_blocks: { url: string }[] }).content_blocks
  const result = { id: 'result', path: block?.url ?? '' }
  await see({ ...result, summary: 'The whole', status: 200 })
  await see({ ...result, summary: 'A part', status: 206, headers: { range: 'bytes=0-9' } })
  await see({ ...result, summary: 'A forged one', status: 404, path: '/results/x' })
}

const FIELDS = { entries: [{ provider: 'extra.own', model: 'nova-3' }] }

/** A workspace is made, filled, looked at and removed. */
async function seeManagement(see: See): Promise<void> {
  const W = '/workspaces/extra'
  const go = (name: string, method: string, path: string, over: Partial<DocumentedCall> = {}) =>
    see({ id: `admin${name}`, method, path: `/v1/admin${path}`, summary: 'In short', status: 200, ...over })
  const sent = (json: object, over: Partial<DocumentedCall> = {}) => ({
    json: { ...json },
    shown: true,
    ...over,
  })
  const shown = { shown: true }
  await go('PutWorkspace', 'PUT', W, sent({ name: 'Extra', budget_usd_per_month: 50 }))
  await go('ListWorkspaces', 'GET', '/workspaces', shown)
  await go('AddCredits', 'POST', `${W}/credits`, sent({ amount_usd: 5, grant_id: 'first' }))
  await go('PutContentShown', 'PUT', `${W}/content`, sent({ shown: false }))
  await go('PutPurpose', 'PUT', `${W}/purposes/calls`, sent({ description: 'Support calls', enabled: true }))
  await go(
    'PutProvider',
    'PUT',
    `${W}/providers/extra.own`,
    sent({ kind: 'deepgram', credential: 'sk-example' }),
  )
  await go('ListProviders', 'GET', `${W}/providers`)
  await go('GetProvider', 'GET', `${W}/providers/extra.own`)
  await go('CheckProvider', 'POST', `${W}/providers/none/check`, { status: 404, summary: 'None' })
  const drafted = await go(
    'PutDraft',
    'PUT',
    `${W}/routes/extra.voice/draft`,
    sent({ fields: FIELDS, revision: null }),
  )
  const { revision } = (jsonOf(drafted) as { draft: { revision: number } }).draft
  await go(
    'ExplainRoute',
    'POST',
    `${W}/explain`,
    sent({ route: 'extra.voice', endpoint: 'transcription', fields: FIELDS }),
  )
  await go('PublishRoute', 'POST', `${W}/routes/extra.voice/publish`, sent({ revision, note: 'Try Nova' }))
  await go('PutRoute', 'PUT', `${W}/routes/extra.voice`, sent({ fields: FIELDS, number: 1 }))
  await go('PreviewImpact', 'POST', `${W}/routes/extra.voice/impact`, sent({ fields: FIELDS }))
  await go('GetTraffic', 'GET', `${W}/routes/extra.voice/traffic`, shown)
  await go('GetRoute', 'GET', `${W}/routes/extra.voice`, shown)
  await go('ListRoutes', 'GET', `${W}/routes?limit=10`, shown)
  await go('ListVersions', 'GET', `${W}/routes/extra.voice/versions`, shown)
  await go('RollBackRoute', 'POST', `${W}/routes/extra.voice/rollback`, {
    ...sent({ number: 9 }),
    status: 404,
  })
  await go('DeleteDraft', 'DELETE', `${W}/routes/extra.voice/draft`)
  await go(
    'PutApp',
    'PUT',
    `${W}/apps/web`,
    sent({ route: 'extra.voice', purposes: { calls: 'extra.voice' } }),
  )
  await go('ListApps', 'GET', `${W}/apps`, shown)
  const made = await go(
    'CreateKey',
    'POST',
    `${W}/keys`,
    sent({ name: 'web-1', app: 'web' }, { status: 201 }),
  )
  await go('ListKeys', 'GET', `${W}/keys?search=web`)
  const id = String(jsonOf(made).id)
  await go('PutKey', 'PUT', `${W}/keys/${id}`, sent({ name: 'web-1', budget_usd_per_month: 20 }))
  await go('RotateKey', 'POST', `${W}/keys/${id}/rotation`, sent({ overlap_seconds: 3600 }, { status: 201 }))
  await go('RevokeKey', 'DELETE', `${W}/keys/${id}`)
  await go('PutDomains', 'PUT', `${W}/audio-url-domains`, sent({ domains: ['cdn.example.com'] }))
  await go('GetDomains', 'GET', `${W}/audio-url-domains`)
  await go('TestWebhook', 'POST', `${W}/webhook/test`, { status: 404, summary: 'None' })
  await go('PutWebhook', 'PUT', `${W}/webhook`, sent({ url: 'https://hooks.example.com/jobs' }))
  await go('GetWebhook', 'GET', `${W}/webhook`)
  await go('ListDeliveries', 'GET', `${W}/webhook/deliveries`)
  await go('DeleteWebhook', 'DELETE', `${W}/webhook`)
  const jobs = jsonOf(await go('ListJobs', 'GET', '/workspaces/demo/jobs?limit=1')) as {
    jobs: { id: string }[]
  }
  const job = `/workspaces/demo/jobs/${jobs.jobs[0]?.id}`
  await go('GetJob', 'GET', job)
  await go('CancelAnyJob', 'POST', `${job}/cancel`)
  await go('RetryJob', 'POST', `${job}/retry`, { status: 400, summary: 'One that has not failed' })
  await go('Redeliver', 'POST', `${W}/webhook/deliveries/none/redeliver`, { status: 404, summary: 'None' })
  await go('GetWorkspace', 'GET', W, shown)
  await go(
    'PutPlatformProvider',
    'PUT',
    '/providers/shared',
    sent({ kind: 'deepgram', credential: 'sk-example' }),
  )
  await go('ListPlatformProviders', 'GET', '/providers')
  await go('GetAnyProvider', 'GET', '/providers/shared')
  await go('CheckPlatformProvider', 'POST', '/providers/none/check', { status: 404, summary: 'None' })
  await go('DeletePlatformProvider', 'DELETE', '/providers/shared')
  await go('DeleteApp', 'DELETE', `${W}/apps/web`)
  await go('DeleteRoute', 'DELETE', `${W}/routes/extra.voice`)
  await go('DeletePurpose', 'DELETE', `${W}/purposes/calls`)
  await go('DeleteProvider', 'DELETE', `${W}/providers/extra.own`)
  await go('ListAudit', 'GET', '/audit?workspace=extra')
  for (const format of ['csv', 'json']) {
    await go('ListAudit', 'GET', `/audit?workspace=extra&format=${format}`)
    await go('ListLog', 'GET', `/log?format=${format}`)
  }
  await go('CompareBooks', 'GET', '/books?workspace=extra')
  await go('ListLog', 'GET', '/log?workspace=extra')
  await go('GetLogRecord', 'GET', '/log/none?workspace=extra', { status: 404, summary: 'None' })
  await go('DeleteWorkspace', 'DELETE', W)
}
