import type { IncomingMessage, ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { ERRORS } from '../../../src/contracts/errors.ts'
import type { VideoCall, VideoResult } from '../../../src/contracts/generation.ts'
import type { Operation, Provider, Step } from '../../../src/contracts/provider.ts'
import type { FailureKind, UpstreamReply } from '../../../src/contracts/upstream.ts'
import { classify } from '../../../src/gateway/providers/failure.ts'
import type { GatewayRig } from '../../support/gateway-rig.ts'
import { entryAt, gatewayRig, refusalOf, runWhole, upstream } from '../../support/gateway-rig.ts'
import { waitUntil } from '../../support/wait-until.ts'

t.setTimeout(60_000)

const PAYLOAD: VideoCall = { prompt: 'a lark', duration_seconds: null, size: null, seed: null }
const POLL_MS = 20

/** A protocol as those of video providers are, with polls fast enough for a test. */
const studioVideo: Operation<VideoCall, VideoResult> = {
  createsOnce: true,
  start: (_call, { baseUrl }) => ({
    kind: 'send',
    request: { method: 'POST', url: `${baseUrl}/videos`, headers: {}, body: [] },
    state: null,
  }),
  next(state, reply, _call, { baseUrl }): Step<VideoResult> {
    if (reply.status !== 200) return { kind: 'failed', failure: classify(reply) }
    const { id, failed, url } = JSON.parse(textOf(reply)) as {
      id: string
      failed?: FailureKind
      url?: string
    }
    if (failed !== undefined) {
      const failure = { kind: failed, status: 200, reason: 'the job failed' }
      return { kind: 'failed', failure: { ...failure, retryAfterMs: null, providerMessage: null } }
    }
    if (url !== undefined) {
      const videos = [{ kind: 'url', url, media_type: 'video/mp4' } as const]
      return { kind: 'done', result: { videos, seconds: 4, credits: null, warnings: [] } }
    }
    const request = { method: 'GET', url: `${baseUrl}/videos/${id}`, headers: {}, body: [] } as const
    return { kind: 'wait', waitMs: POLL_MS, request, state: { id, before: state } }
  },
  abandon(state, { baseUrl }) {
    const { id } = state as { id: string }
    return { method: 'DELETE', url: `${baseUrl}/videos/${id}`, headers: {}, body: [] }
  },
}
const studio: Provider = { kind: 'studio', baseUrl: null, needsCredential: false, video: studioVideo }

function textOf({ body }: UpstreamReply): string {
  return Buffer.concat(body).toString()
}

type Answer = (response: ServerResponse, poll: number) => void

const says = (body: object) => (response: ServerResponse) => void response.end(JSON.stringify(body))
const status = (code: number) => (response: ServerResponse) => void response.writeHead(code).end('{}')
const breaksOff = (response: ServerResponse) => void response.destroy()
const hangs = () => {}
const finished = says({ id: 'v1', url: 'https://cdn.example.com/v1.mp4' })
const running = says({ id: 'v1' })

/** Two studios: one as told, and a good one behind it. */
async function twoStudios(t: Test, answer: { create: Answer; poll?: Answer }, deadlineMs = 20_000) {
  let polls = 0
  const first = await upstream(t, (response, { method }: IncomingMessage) => {
    if (method === 'POST') answer.create(response, 0)
    else if (method === 'GET') {
      polls += 1
      answer.poll?.(response, polls)
    } else response.end('{}')
  })
  const second = await upstream(t, (response, { method }) =>
    (method === 'POST' ? running : finished)(response),
  )
  const entries = [entryAt(first.origin, { kind: 'studio' }), entryAt(second.origin, { kind: 'studio' })]
  const rig: GatewayRig = gatewayRig(t, { entries, providers: [studio], deadlineMs })
  const order = (signal?: AbortSignal) => runWhole(rig.services, rig.request('video', PAYLOAD, signal))
  return { first, second, rig, order }
}

t.test('an order that may have been taken is not made again', async (t) => {
  const rows: [string, { create: Answer; poll?: Answer }][] = [
    ['the connection broke', { create: breaksOff }],
    ['no answer in time', { create: hangs }],
    ['a 200 that cannot be read', { create: says({ id: 'v1', failed: 'ambiguous' }) }],
    ['a 200 that may be an order or not', { create: says({ id: 'v1', failed: 'server' }) }],
    ['the job is not known any more', { create: running, poll: status(404) }],
    ['the polls fail', { create: running, poll: status(500) }],
    ['it never ends', { create: running, poll: running }],
    ['the state cannot be read', { create: running, poll: says({ id: 'v1', failed: 'ambiguous' }) }],
  ]
  for (const [name, answer] of rows) {
    const { first, second, rig, order } = await twoStudios(t, answer, 1_000)
    const startedMs = performance.now()
    const refusal = await refusalOf(order())
    t.equal(refusal.code, 'UPSTREAM_OUTCOME_UNKNOWN', name)
    t.equal(first.requests.filter((line) => line.startsWith('POST')).length, 1, `${name}: ordered once`)
    t.equal(second.requests.length, 0, `${name}: and nowhere else`)
    t.equal(rig.services.budget.used, 0)
    const waits = answer.create === hangs || answer.poll === running
    if (waits) t.ok(performance.now() - startedMs > 900, `${name}: it has all of the time, not half`)
  }
  t.match(ERRORS.UPSTREAM_OUTCOME_UNKNOWN, { status: 504, category: 'upstream', retryable: false })
})

t.test('an order that was not taken is made elsewhere', async (t) => {
  const rows: [string, { create: Answer; poll?: Answer }][] = [
    ['500', { create: status(500) }],
    ['429', { create: status(429) }],
    ['401', { create: status(401) }],
    ['404', { create: status(404) }],
    [
      'the job failed for reasons of the provider',
      { create: running, poll: says({ id: 'v1', failed: 'server' }) },
    ],
  ]
  for (const [name, answer] of rows) {
    const { first, second, order } = await twoStudios(t, answer)
    const { envelope, release } = await order()
    release()
    t.same(first.requests[0], 'POST /v1/videos', name)
    t.same(second.requests, ['POST /v1/videos', 'GET /v1/videos/v1'], name)
    t.match(envelope.usage, { video_seconds: 4, total_tokens: 0 })
  }
  const { second, rig } = await twoStudios(t, { create: finished })
  const nowhere = entryAt('http://127.0.0.1:1', { kind: 'studio' })
  const unreachable = gatewayRig(t, {
    entries: [nowhere, entryAt(second.origin, { kind: 'studio' })],
    providers: [studio],
  })
  ;(await runWhole(unreachable.services, unreachable.request('video', PAYLOAD))).release()
  t.equal(second.requests.length, 2, 'no connection')
  t.equal(rig.services.budget.used, 0)
})

t.test('what the provider refuses is refused', async (t) => {
  const refused = says({ id: 'v1', failed: 'content' })
  for (const answer of [{ create: status(400) }, { create: refused }, { create: running, poll: refused }]) {
    const { second, order } = await twoStudios(t, answer)
    t.equal((await refusalOf(order())).code, 'UPSTREAM_REJECTED')
    t.equal(second.requests.length, 0)
  }
})

t.test('polls that break are made again, after 1 s, 2 s, 4 s', async (t) => {
  const poll: Answer = (response, count) => (count <= 3 ? breaksOff(response) : finished(response))
  const { first, second, order } = await twoStudios(t, { create: running, poll })
  const startedMs = performance.now()
  const { result, release } = await order()
  release()
  t.match(result.videos, [{ url: 'https://cdn.example.com/v1.mp4' }])
  t.same(first.requests, ['POST /v1/videos', ...Array.from({ length: 4 }, () => 'GET /v1/videos/v1')])
  t.equal(second.requests.length, 0)
  const seconds = (performance.now() - startedMs) / 1000
  t.ok(seconds > 6.9 && seconds < 15, `${seconds} s`)
})

t.test('who leaves, leaves no job behind', async (t) => {
  const { first, rig, order } = await twoStudios(t, { create: running, poll: running })
  const leaving = new AbortController()
  const ended = order(leaving.signal)
  t.ok(await waitUntil(() => first.requests.length > 2))
  leaving.abort(new Error('left'))
  await t.rejects(ended, { message: 'left' })
  t.ok(await waitUntil(() => first.requests.includes('DELETE /v1/videos/v1')), 'the provider is told')
  t.equal(rig.services.budget.used, 0)

  const late = await twoStudios(t, { create: running, poll: running }, 2_000)
  t.equal((await refusalOf(late.order())).code, 'UPSTREAM_OUTCOME_UNKNOWN')
  t.ok(await waitUntil(() => late.first.requests.includes('DELETE /v1/videos/v1')), 'also at the deadline')

  const early = await twoStudios(t, { create: hangs })
  const atOnce = new AbortController()
  const none = early.order(atOnce.signal)
  t.ok(await waitUntil(() => early.first.requests.length > 0))
  atOnce.abort(new Error('left'))
  await t.rejects(none, { message: 'left' })
  t.same(early.first.requests, ['POST /v1/videos'], 'nothing to end before there is a job')
})

t.test('the same with a provider that there is', async (t) => {
  const first = await upstream(t, (response, { method }) => {
    if (method === 'POST') response.destroy()
  })
  const second = await upstream(t, (response) => void response.end('{}'))
  const at = (origin: string) => entryAt(origin, { kind: 'runway', model: 'gen4.5' })
  const lost = gatewayRig(t, { entries: [at(first.origin), at(second.origin)] })
  const refusal = await refusalOf(runWhole(lost.services, lost.request('video', PAYLOAD)))
  t.equal(refusal.code, 'UPSTREAM_OUTCOME_UNKNOWN')
  t.same(first.requests, ['POST /v1/text_to_video'])
  t.same(second.requests, [])

  const slow = await upstream(t, (response) => void response.end('{"id":"task-1","status":"PENDING"}'))
  const rig = gatewayRig(t, { entries: [at(slow.origin)] })
  const leaving = new AbortController()
  const ended = runWhole(rig.services, rig.request('video', PAYLOAD, leaving.signal))
  t.ok(await waitUntil(() => slow.requests.length > 0))
  setTimeout(() => leaving.abort(new Error('left')), 100)
  await t.rejects(ended, { message: 'left' })
  t.ok(await waitUntil(() => slow.requests.includes('DELETE /v1/tasks/task-1')))
})
