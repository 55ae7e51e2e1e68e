import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { type DemoProcess, type DemoRouteOptions, startDemoProcess } from '../support/demo-route.ts'
import { section } from '../support/manual.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../support/otlp-receiver.ts'
import type { ReceivedSpan } from '../support/otlp-spans.ts'
import type { Program } from '../support/program.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

const WAV = filledWav(64_000, 1)
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const CALLER = '00f067aa0ba902b7'
/** In every place where a caller can put a text. */
const CANARY = 'canary-7f3a91'

interface Traced {
  readonly gateway: DemoProcess
  readonly receiver: OtlpReceiver
}

const receivers: OtlpReceiver[] = []

async function traced(t: Test, options: DemoRouteOptions = {}, program?: Program): Promise<Traced> {
  const receiver = await startOtlpReceiver(t)
  receivers.push(receiver)
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, OTEL_BSP_SCHEDULE_DELAY: '20', ...options.env }
  return { receiver, gateway: await startDemoProcess(t, { ...options, env }, program) }
}

/** Gateway of the tests whose routes have one entry without faults: spans of those before are forgotten. */
let plain: Traced | undefined

async function tracedPlainly(): Promise<Traced> {
  plain ??= await traced(t)
  plain.receiver.forget()
  await plain.gateway.forget()
  return plain
}

type Headers = Readonly<Record<string, string>>

async function transcribe(gateway: DemoProcess, headers: Headers = {}, signal: AbortSignal | null = null) {
  const response = await fetch(`${gateway.url}/v1/transcription?${CANARY}=${CANARY}`, {
    method: 'POST',
    headers: { ...gateway.authorization, 'content-type': 'audio/wav', 'user-agent': CANARY, ...headers },
    body: WAV,
    signal,
  })
  return { status: response.status, id: response.headers.get('x-lk-request-id'), text: await response.text() }
}

function chat(gateway: DemoProcess, body: object, headers: Headers = {}): Promise<Response> {
  return fetch(`${gateway.url}/v1/chat`, {
    method: 'POST',
    headers: { ...gateway.authorization, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ messages: [{ role: 'user', content: CANARY }], ...body }),
  })
}

const isRequest = ({ kind }: ReceivedSpan) => kind === 'SERVER'
const names = (spans: readonly ReceivedSpan[]) => spans.map(({ name }) => name)
const millisecondsOf = ({ startNs, endNs }: ReceivedSpan) => Number(endNs - startNs) / 1e6
const spanIdOf = (traceparent: string | null | undefined) => traceparent?.split('-')[2]

t.test('a transcription that fails over', async (t) => {
  const { gateway, receiver } = await traced(t, { entries: [{ status: 503 }, {}] })
  const answer = await transcribe(gateway, { traceparent: `00-${TRACE}-${CALLER}-01` })
  t.equal(answer.status, 200)
  const { root, children } = await receiver.tree(isRequest, 6)
  t.match(root, {
    name: 'POST /v1/transcription',
    traceId: TRACE,
    parentSpanId: CALLER,
    status: 'UNSET',
    scope: 'larkway',
    attributes: {
      'http.request.method': 'POST',
      'http.route': '/v1/transcription',
      'http.response.status_code': 200,
      'http.request.body.size': WAV.length,
      'larkway.request_id': String(answer.id),
      'larkway.workspace': 'acme',
      'larkway.app': 'web',
      'larkway.key_id': 'key_web',
      'larkway.route': 'voice',
      'larkway.policy_version_id': /^pv_/,
      'larkway.attempts': 2,
      'larkway.cost_usd': 0,
    },
  })
  t.same(names(children), [
    'admit',
    'body',
    'reserve',
    'transcription morse-1',
    'transcription morse-1',
    'settle',
  ])
  t.ok(
    children.every(
      ({ startNs, endNs }) => startNs >= root.startNs && startNs <= endNs && endNs <= root.endNs,
    ),
    'all of it is within the request',
  )
  const attempts = children.filter(({ kind }) => kind === 'CLIENT')
  t.match(attempts, [
    {
      status: 'ERROR',
      attributes: { 'larkway.attempt': 1, 'http.response.status_code': 503, 'error.type': 'rate' },
    },
    {
      status: 'UNSET',
      attributes: {
        'gen_ai.operation.name': 'transcription',
        'gen_ai.provider.name': 'sandbox',
        'gen_ai.request.model': 'morse-1',
        'server.address': '127.0.0.1',
        'larkway.provider': 'sandbox',
        'larkway.attempt': 2,
        'http.response.status_code': 200,
        'larkway.usage.audio_seconds': 1.999,
      },
    },
  ])
  t.notOk('error.type' in attempts[1]!.attributes)
  const sent = (await gateway.calls()).map(({ traceparent }) => traceparent)
  t.same(
    sent,
    attempts.map(({ spanId }) => `00-${TRACE}-${spanId}-01`),
    'each provider is told the span of its attempt',
  )
  const line = () => gateway.log.find(({ request_id }) => request_id === answer.id)
  await waitUntil(() => line() !== undefined)
  t.equal(line()?.trace_id, TRACE, 'the line of the log leads to the trace')
  await gateway.signal('SIGTERM')
})

t.test('the attempt of a streamed answer lasts until its end', async (t) => {
  const upstream = await startUpstream(t)
  const { gateway, receiver } = await traced(t, { upstreamUrl: upstream.url })
  upstream.behave('morse-1', { chunkMs: 150 })
  const tracestate = 'vendor=opaque,other=1'
  const headers = { traceparent: `00-${TRACE}-${CALLER}-01`, tracestate }
  const response = await chat(gateway, { stream: true }, headers)
  t.match(await response.text(), /\[DONE\]/)
  const { root, children } = await receiver.tree(isRequest, 5)
  t.same(names(children), ['admit', 'body', 'reserve', 'chat morse-1', 'settle'])
  const attempt = children[3]!
  const first = Number(attempt.attributes['gen_ai.response.time_to_first_chunk'])
  t.ok(first > 0.1 && first * 1000 < millisecondsOf(attempt), `the first piece is noted: ${first} s`)
  t.ok(millisecondsOf(attempt) > 400, `three pieces took ${millisecondsOf(attempt)} ms`)
  t.match(attempt.attributes, {
    'gen_ai.operation.name': 'chat',
    'gen_ai.usage.input_tokens': 11,
    'gen_ai.usage.output_tokens': 7,
    'http.response.status_code': 200,
  })
  t.match(upstream.received[0]?.headers, { traceparent: `00-${TRACE}-${attempt.spanId}-01`, tracestate })
  t.ok(Number(root.attributes['http.response.body.size']) > 100)
  t.notOk(receiver.holds('opaque'), 'what is in tracestate is the caller’s, and is passed on only')

  receiver.forget()
  upstream.behave('morse-1', { chunkMs: 20, cutAfter: 2 })
  t.match(await (await chat(gateway, { stream: true })).text(), /UPSTREAM_ERROR/)
  const broken = await receiver.tree(isRequest, 5)
  t.match(broken.root, {
    status: 'ERROR',
    attributes: { 'http.response.status_code': 200, 'error.type': 'UPSTREAM_ERROR' },
  })
  const cut = broken.children.find(({ kind }) => kind === 'CLIENT')
  t.match(cut, { status: 'ERROR', attributes: { 'error.type': 'ambiguous' } })
  await gateway.signal('SIGTERM')
})

t.test('an answer that is given again', async (t) => {
  const { gateway, receiver } = await tracedPlainly()
  const headers = { 'idempotency-key': CANARY }
  await transcribe(gateway, headers)
  const first = await receiver.tree(isRequest, 5)
  t.notOk('larkway.replayed' in first.root.attributes)
  receiver.forget()
  t.equal((await transcribe(gateway, headers)).status, 200)
  const { root, children } = await receiver.tree(isRequest, 2)
  t.equal(root.attributes['larkway.replayed'], true)
  t.notOk('larkway.attempts' in root.attributes)
  t.same(names(children), ['admit', 'body'])
  t.not(root.traceId, first.root.traceId)
  t.notOk(receiver.holds(CANARY))
})

t.test('what is refused, and what fails', async (t) => {
  const { gateway, receiver } = await traced(t, { entries: [{ status: 500 }, { status: 429 }] })
  const wrong = `lk_live_${CANARY}`
  await transcribe(gateway, { authorization: `Bearer ${wrong}` })
  const refused = await receiver.tree(isRequest, 1)
  t.equal(refused.root.status, 'UNSET', 'what the caller did wrong is no error of a server')
  const { 'larkway.request_id': _, 'http.response.body.size': __, ...rest } = refused.root.attributes
  t.same(rest, {
    'http.request.method': 'POST',
    'http.route': '/v1/transcription',
    'http.response.status_code': 401,
    'http.request.body.size': WAV.length,
    'larkway.error': 'UNAUTHENTICATED',
  })
  t.match(refused.children, [{ name: 'admit', attributes: { 'larkway.error': 'UNAUTHENTICATED' } }])

  receiver.forget()
  await fetch(`${gateway.url}/v1/transcription`, {
    method: 'POST',
    headers: { ...gateway.authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ audio: { url: `https://example.com/${CANARY}` } }),
  })
  const unfetched = await receiver.tree(isRequest, 3)
  t.same(names(unfetched.children), ['admit', 'body', 'fetch'])
  t.equal(unfetched.children[2]?.attributes['larkway.error'], 'AUDIO_URL_REJECTED')

  receiver.forget()
  t.equal((await transcribe(gateway)).status, 502)
  const failed = await receiver.tree(isRequest, 6)
  t.match(failed.root, {
    status: 'ERROR',
    statusMessage: '',
    attributes: {
      'http.response.status_code': 502,
      'error.type': 'UPSTREAM_ERROR',
      'larkway.error': 'UPSTREAM_ERROR',
      'larkway.attempts': 2,
    },
  })
  const kinds = failed.children
    .filter(({ kind }) => kind === 'CLIENT')
    .map((span) => span.attributes['error.type'])
  t.same(kinds, ['server', 'rate'])
  t.ok(
    [refused, failed].every(({ root, children }) => [root, ...children].every(({ events }) => events === 0)),
    'no span has an event, such as an exception with its text',
  )
  t.notOk(receiver.holds(CANARY))
  t.notOk(receiver.holds(gateway.key))
  t.notOk(receiver.holds('of silence'), 'no transcript')
  await gateway.signal('SIGTERM')
})

t.test('a client that leaves', async (t) => {
  const { gateway, receiver } = await traced(t, { entries: [{ delay_ms: 2_000 }] })
  const leave = async (headers: Headers) => {
    await gateway.forget()
    const leaving = new AbortController()
    const asked = transcribe(gateway, headers, leaving.signal).catch(() => 'left')
    await waitUntil(async () => (await gateway.calls()).length > 0)
    leaving.abort()
    t.equal(await asked, 'left')
  }
  await leave({})
  const left = await receiver.tree(isRequest, 5)
  t.match(left.root, {
    status: 'UNSET',
    attributes: {
      'http.response.status_code': 499,
      'larkway.error': 'CLIENT_CLOSED',
      'larkway.attempts': 1,
      'larkway.estimated': true,
    },
  })
  t.match(left.children[3], { kind: 'CLIENT', status: 'UNSET', attributes: { 'error.type': 'abandoned' } })

  receiver.forget()
  await leave({ 'idempotency-key': 'k' })
  const { root, children } = await receiver.tree(isRequest, 5)
  const attempt = children[3]!
  t.match(attempt.attributes, { 'http.response.status_code': 200, 'larkway.usage.audio_seconds': 1.999 })
  t.ok(attempt.endNs > root.endNs, 'with a key the call continues, and so does its span')
  t.equal(children[4]?.name, 'settle')
  await gateway.signal('SIGTERM')
})

t.test('a caller who does not sample', async (t) => {
  const { gateway, receiver } = await tracedPlainly()
  await transcribe(gateway, { traceparent: `00-${TRACE}-${CALLER}-00` })
  await transcribe(gateway, { traceparent: `00-${TRACE}-${CALLER}-01` })
  const [unsampled, sampled] = (await gateway.calls()).map(({ traceparent }) => traceparent)
  t.match(unsampled, new RegExp(`^00-${TRACE}-[0-9a-f]{16}-00$`))
  t.not(spanIdOf(unsampled), CALLER)
  const { root } = await receiver.tree(isRequest, 5)
  t.ok(receiver.spans.some(({ spanId }) => spanId === spanIdOf(sampled)))
  t.notOk(receiver.spans.some(({ spanId }) => spanId === spanIdOf(unsampled)))
  t.equal(receiver.spans.filter(isRequest).length, 1, root.name)
})

t.test('a job is a trace of its own that leads to the request it came by', async (t) => {
  const { gateway, receiver } = await tracedPlainly()
  const response = await fetch(`${gateway.url}/v1/transcription/jobs`, {
    method: 'POST',
    headers: {
      ...gateway.authorization,
      'content-type': 'audio/wav',
      traceparent: `00-${TRACE}-${CALLER}-01`,
    },
    body: WAV,
  })
  t.equal(response.status, 202)
  const { job_id: id } = (await response.json()) as { job_id: string }
  const submission = await receiver.tree(isRequest, 2)
  t.equal(submission.root.traceId, TRACE)
  t.equal(submission.root.attributes['larkway.job.id'], id)
  t.same(names(submission.children), ['admit', 'body'])
  const { root, children } = await receiver.tree(({ kind }) => kind === 'CONSUMER', 3)
  t.match(root, {
    name: 'job transcription',
    parentSpanId: '',
    links: [{ traceId: TRACE, spanId: submission.root.spanId }],
    attributes: {
      'larkway.job.id': id,
      'larkway.job.claim': 1,
      'larkway.job.status': 'succeeded',
      'larkway.workspace': 'acme',
      'larkway.attempts': 1,
      'larkway.request_id': String(response.headers.get('x-lk-request-id')),
    },
  })
  t.not(root.traceId, TRACE)
  t.same(names(children), ['reserve', 'transcription morse-1', 'settle'])
  const [call] = await gateway.calls()
  t.equal(call?.traceparent, `00-${root.traceId}-${children[1]?.spanId}-01`)
})

t.test('contexts that are none begin a new trace', async (t) => {
  const { gateway, receiver } = await tracedPlainly()
  const broken = [
    `00-${'0'.repeat(32)}-${CALLER}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `ff-${TRACE}-${CALLER}-01`,
    `00-${TRACE}-${CALLER}-01-${CANARY}`,
    `00-${TRACE.toUpperCase()}-${CALLER}-01`,
    `00-${TRACE}-${CALLER}-01, 00-${TRACE}-${CALLER}-01`,
    `00-${TRACE}-${CALLER}`,
    CANARY,
    '-'.repeat(2_000),
  ]
  for (const traceparent of broken) {
    const { status } = await transcribe(gateway, { traceparent, tracestate: `${CANARY}=${CANARY}` })
    t.equal(status, 200, traceparent.slice(0, 80))
  }
  t.ok(await waitUntil(() => receiver.spans.filter(isRequest).length === broken.length))
  const roots = receiver.spans.filter(isRequest)
  t.equal(new Set(roots.map(({ traceId }) => traceId)).size, broken.length)
  t.ok(roots.every(({ traceId, parentSpanId }) => traceId !== TRACE && parentSpanId === ''))
  t.notOk(receiver.holds(CANARY))
})

/** Writes down which files of OpenTelemetry are loaded: only the sources load each package from its place. */
const WATCH_IMPORTS = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module'
  registerHooks({ load(url, context, next) {
    const [name] = url.match(/node_modules\\/@opentelemetry\\/[^/]+/) ?? []
    if (name !== undefined) process.stdout.write(JSON.stringify({ msg: 'loads', name }) + '\\n')
    return next(url, context)
  } })`)}`
const WATCHED: Program = {
  args: [fileURLToPath(new URL('../../src/main.ts', import.meta.url))],
  env: { NODE_OPTIONS: `--import ${WATCH_IMPORTS}` },
}

const loads = ({ log }: DemoProcess) => log.filter(({ msg }) => msg === 'loads').length

t.test('what the environment says of the receiver, the service and the sampling', async (t) => {
  const env = {
    OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=lark%20one,authorization=Basic%20abc',
    OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
    OTEL_SERVICE_NAME: 'voice',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test,service.version=9',
    OTEL_TRACES_SAMPLER: 'parentbased_always_off',
  }
  const { gateway, receiver } = await traced(t, { env }, WATCHED)
  t.ok(loads(gateway) > 3, 'its packages are loaded')
  await transcribe(gateway)
  await transcribe(gateway, { traceparent: `00-${TRACE}-${CALLER}-01` })
  const { root } = await receiver.tree(isRequest, 5)
  t.equal(root.traceId, TRACE, 'only what the caller samples is sent')
  t.equal(receiver.spans.filter(isRequest).length, 1)
  t.match(root.resource, {
    'service.name': 'voice',
    'service.version': '9',
    'deployment.environment.name': 'test',
    'service.instance.id': /^[0-9a-f-]{36}$/,
  })
  t.match(receiver.requests[0], {
    path: '/v1/traces',
    headers: {
      'content-type': 'application/x-protobuf',
      'content-encoding': 'gzip',
      'x-tenant': 'lark one',
      authorization: 'Basic abc',
    },
  })
  await gateway.signal('SIGTERM')
})

t.test('when nobody asks for traces', async (t) => {
  const receiver = await startOtlpReceiver(t)
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url }
  const grpc = { ...endpoint, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }
  for (const [env, warnings] of [
    [{}, []],
    [grpc, [/^OTEL_EXPORTER_OTLP_PROTOCOL: only http\/protobuf is known, tracing stays off$/]],
  ] as const) {
    const gateway = await startDemoProcess(t, { env }, WATCHED)
    const traceparent = `00-${TRACE}-${CALLER}-01`
    t.equal((await transcribe(gateway, { traceparent })).status, 200)
    t.equal(
      (await gateway.calls())[0]?.traceparent,
      traceparent,
      'the caller’s context is passed on as it is',
    )
    t.equal(loads(gateway), 0, 'and no package of OpenTelemetry is loaded')
    t.match(
      gateway.log.map(({ msg }) => String(msg)).filter((msg) => msg.startsWith('OTEL_')),
      warnings,
    )
    await gateway.signal('SIGTERM')
  }
  t.equal(receiver.requests.length, 0)
})

t.test('what spans say is documented, and nothing else', async (t) => {
  const words = [...section('Tracing').matchAll(/`((?:[a-z_]+\.)+[a-z_*]+)`/g)].map(([, word = '']) => word)
  const documented = new Set(words.filter((word) => /^(?:http|server|gen_ai|larkway|error)\./.test(word)))
  const said = receivers.flatMap(({ attributeNames }) => [...attributeNames])
  const known = new Set(said.map((name) => name.replace(/^(larkway\.usage)\..*/, '$1.*')))
  t.same([...known].filter((name) => !documented.has(name)).sort(), [], 'nothing else is said')
  // These need what the routes in here do not have, and live sessions.
  const live = ['end', 'lost_seconds', 'replayed_seconds', 'switches'].map((name) => `larkway.live.${name}`)
  const others = ['larkway.cache', ...live, 'larkway.purpose']
  t.same([...documented].filter((name) => !known.has(name)).sort(), others, 'and all of that is')
})
