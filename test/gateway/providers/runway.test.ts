import t from 'tap'
import type { VideoCall, VideoResult } from '../../../src/contracts/generation.ts'
import type { Step, Target } from '../../../src/contracts/provider.ts'
import { runway } from '../../../src/gateway/providers/runway.ts'
import { bytesOf, requestOf } from '../../support/form-of.ts'
import { fixture, reply } from '../../support/replies.ts'

const ID = '17f20503-6c24-4c16-946b-35dbbce2af2f'
const URL_OF_TASK = `https://api.dev.runwayml.com/v1/tasks/${ID}`

const video = runway.video!
const tasks = (await fixture('runway/tasks.json')) as Record<string, Record<string, unknown>>

function target(model = 'gen4.5'): Target {
  return { model, baseUrl: runway.baseUrl!, credential: 'key_secret', options: {} }
}

function call(overrides: Partial<VideoCall> = {}): VideoCall {
  return { prompt: 'A calico cat', duration_seconds: null, size: null, seed: null, ...overrides }
}

function next(state: unknown, body: unknown, status = 200, given: Partial<VideoCall> = {}, model?: string) {
  return video.next(JSON.parse(JSON.stringify(state)), reply(body, status), call(given), target(model))
}

function waiting(step: Step<VideoResult>) {
  if (step.kind === 'wait') return step
  throw new Error(`the step is ${step.kind}`)
}

t.test('the order', async (t) => {
  const request = requestOf(video.start(call(), target()))
  t.match(request, {
    method: 'POST',
    url: 'https://api.dev.runwayml.com/v1/text_to_video',
    headers: { authorization: 'Bearer key_secret', 'x-runway-version': '2024-11-06' },
  })
  const rows: [Partial<VideoCall>, string, object][] = [
    [{}, 'gen4.5', { ratio: '1280:720', duration: 5 }],
    [
      { size: '720x1280', duration_seconds: 10, seed: 7 },
      'gen4.5',
      { ratio: '720:1280', duration: 10, seed: 7 },
    ],
    [{}, 'veo3.1', { ratio: '1280:720' }],
    [
      { size: '1920x1080', duration_seconds: 8, seed: 0 },
      'veo3.1',
      { ratio: '1920:1080', duration: 8, seed: 0 },
    ],
    [{}, 'seedance2', {}],
    [{ size: '1280x720', duration_seconds: 6, seed: 1 }, 'hailuo3', { ratio: '16:9', duration: 6 }],
    [{ size: '1080x1080' }, 'grok_imagine_1_5', { ratio: '1:1' }],
  ]
  for (const [given, model, expected] of rows) {
    const sent = JSON.parse(bytesOf(requestOf(video.start(call(given), target(model)))).toString())
    t.same(sent, { model, promptText: 'A calico cat', ...expected }, `${model} ${JSON.stringify(given)}`)
  }
})

t.test('what cannot be sent is refused', async (t) => {
  for (const given of [
    { size: '16:9' },
    { size: '1280X720' },
    { size: '0x720' },
    { seed: -1 },
    { seed: 2 ** 32 },
  ]) {
    t.match(video.start(call(given), target()), { kind: 'failed', failure: { kind: 'model' } })
  }
})

t.test('asked every five seconds until it is made', async (t) => {
  let step = waiting(next(null, tasks.created))
  for (const state of [tasks.pending, tasks.throttled, tasks.running, tasks.running]) {
    t.equal(step.waitMs, 5000)
    t.match(step.request, { method: 'GET', url: URL_OF_TASK, headers: { 'x-runway-version': '2024-11-06' } })
    step = waiting(next(step.state, state))
  }
  t.same(next(step.state, tasks.succeeded), {
    kind: 'done',
    result: {
      videos: [
        {
          kind: 'url',
          url: 'https://dnznrvs05pmza.cloudfront.net/video.mp4?_jwt=a.b.c',
          media_type: 'video/mp4',
        },
      ],
      seconds: null,
      credits: 60,
      warnings: [],
    },
  })
  const seeded = next(step.state, tasks.succeeded, 200, { seed: 4 }, 'hailuo3')
  t.match(seeded, { result: { warnings: ['seed: hailuo3 does not take it; it was left out'] } })
  t.match(next(step.state, tasks.succeeded, 200, { seed: 4 }), { result: { warnings: [] } })
})

t.test('failures of a task', async (t) => {
  const { state } = waiting(next(null, tasks.created))
  const rows: [unknown, string][] = [
    [tasks.failed, 'server'],
    [tasks.unsafe, 'content'],
    [{ ...tasks.failed, failureCode: 'SAFETY.OUTPUT.VIDEO' }, 'content'],
    [{ ...tasks.failed, failureCode: 'INPUT_PREPROCESSING.SAFETY.TEXT' }, 'content'],
    [{ ...tasks.failed, failureCode: 'INPUT_PREPROCESSING.INTERNAL' }, 'server'],
    [{ ...tasks.failed, failureCode: 'ASSET.INVALID' }, 'caller'],
    [{ ...tasks.failed, failureCode: undefined }, 'server'],
    [tasks.cancelled, 'server'],
  ]
  for (const [body, kind] of rows) {
    t.match(next(state, body), { kind: 'failed', failure: { kind, status: 200 } }, JSON.stringify(body))
  }
  t.match(next(state, tasks.unsafe), {
    failure: { providerMessage: 'SAFETY.INPUT.TEXT: The prompt was rejected.' },
  })
})

t.test('an order that may have gone through is never known to have failed', async (t) => {
  const lost = { kind: 'failed', failure: { kind: 'ambiguous' } }
  const { state } = waiting(next(null, tasks.created))
  for (const step of [
    next(null, '', 502),
    next(null, '', 504),
    next(null, '', 520),
    next(null, '', 524),
    next(null, {}),
    next(state, {}, 404),
    next(state, { error: 'x' }, 401),
    next(state, { ...tasks.succeeded, output: [] }),
    next(state, { ...tasks.succeeded, output: ['http://plain.example.com/a.mp4'] }),
    next(state, 'not JSON'),
  ]) {
    t.match(step, lost)
  }
  const rows: [number, string][] = [
    [400, 'caller'],
    [401, 'credential'],
    [429, 'rate'],
    [503, 'rate'],
  ]
  for (const [status, kind] of rows) {
    t.match(next(null, { error: 'x' }, status), { kind: 'failed', failure: { kind } }, String(status))
  }
  let step = waiting(next(null, tasks.created))
  for (let trouble = 0; trouble < 5; trouble += 1) step = waiting(next(step.state, {}, 500))
  t.match(next(step.state, {}, 500), lost)
})

t.test('a task that nobody waits for is cancelled', async (t) => {
  const { state } = waiting(next(null, tasks.created))
  t.match(video.abandon!(state, target()), { method: 'DELETE', url: URL_OF_TASK })
  t.equal(video.abandon!(null, target()), null)
})

t.test('the credential is looked at without a list of models', async (t) => {
  const request = requestOf(runway.models!.start(null, target()))
  t.match(request, { method: 'GET', url: 'https://api.dev.runwayml.com/v1/organization' })
  t.same(runway.models!.next(null, reply({ creditBalance: 4 }), null, target()), { kind: 'done', result: [] })
  t.match(runway.models!.next(null, reply({ error: 'no' }, 401), null, target()), {
    kind: 'failed',
    failure: { kind: 'credential' },
  })
})
