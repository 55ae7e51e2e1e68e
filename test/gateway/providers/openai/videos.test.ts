import t from 'tap'
import type { VideoCall, VideoResult } from '../../../../src/contracts/generation.ts'
import type { Step } from '../../../../src/contracts/provider.ts'
import { openai } from '../../../../src/gateway/providers/openai/provider.ts'
import { openaiCompatible } from '../../../../src/gateway/providers/openai-compatible.ts'
import { bytesOf, requestOf } from '../../../support/form-of.ts'
import { fixture, reply } from '../../../support/replies.ts'

const TARGET = { model: 'sora-2', baseUrl: 'https://videos.example.com/v1', credential: 'sk', options: {} }
const CALL: VideoCall = { prompt: 'A calico cat', duration_seconds: null, size: null, seed: null }
const ID = 'video_68d7512d07848190b3e45da0ecbebcde'

const video = openaiCompatible.video!
const jobs = (await fixture('openai/videos.json')) as Record<string, Record<string, unknown>>

/** As the gateway does it: the state goes through JSON. */
function next(state: unknown, body: unknown, status = 200, headers = {}): Step<VideoResult> {
  return video.next(JSON.parse(JSON.stringify(state)), reply(body, status, headers), CALL, TARGET)
}

function waiting(step: Step<VideoResult>) {
  if (step.kind === 'wait') return step
  throw new Error(`the step is ${step.kind}`)
}

t.test('the order', async (t) => {
  const request = requestOf(video.start(CALL, TARGET))
  t.match(request, { method: 'POST', url: 'https://videos.example.com/v1/videos' })
  t.same(JSON.parse(bytesOf(request).toString()), { model: 'sora-2', prompt: 'A calico cat' })
  const full = { ...CALL, duration_seconds: 8, size: '1280x720', seed: 4 }
  const sent = JSON.parse(bytesOf(requestOf(video.start(full, TARGET))).toString())
  t.same(sent, { model: 'sora-2', prompt: 'A calico cat', seconds: '8', size: '1280x720' })
  t.equal(video.createsOnce, true)
  t.notOk(video.takesSeed)
  t.equal(openai.video, undefined, 'OpenAI’s own was shut down')
})

t.test('polled ever more slowly, then fetched with the credential', async (t) => {
  let step = waiting(next(null, jobs.queued))
  const waits = [step.waitMs]
  for (let polls = 0; polls < 6; polls += 1) {
    t.match(step.request, { method: 'GET', url: `https://videos.example.com/v1/videos/${ID}`, body: [] })
    step = waiting(next(step.state, jobs.in_progress))
    waits.push(step.waitMs)
  }
  t.same(waits, [2000, 3000, 4500, 6750, 10_000, 10_000, 10_000])
  t.equal(next(step.state, { ...jobs.in_progress, status: 'processing' }).kind, 'wait', 'a word of its own')
  const done = next(step.state, jobs.completed)
  t.match(done, { kind: 'done', result: { seconds: 8, credits: null, videos: [{ kind: 'fetch' }] } })
  for (const seconds of ['1e308', -1, 0, 'long', null])
    t.match(next(step.state, { ...jobs.completed, seconds }), { kind: 'done', result: { seconds: null } })
  t.match(done.kind === 'done' ? done.result.videos[0] : null, {
    media_type: 'video/mp4',
    request: {
      method: 'GET',
      url: `https://videos.example.com/v1/videos/${ID}/content?variant=video`,
      headers: { authorization: 'Bearer sk' },
    },
  })
})

t.test('a job that failed has failed, and says why', async (t) => {
  const { state } = waiting(next(null, jobs.queued))
  t.match(next(state, jobs.failed), { kind: 'failed', failure: { kind: 'content', status: 200 } })
  const rows: [unknown, string][] = [
    [{ code: 'server_error', message: 'x' }, 'server'],
    [{ code: 'rate_limit_exceeded', message: 'x' }, 'rate'],
    [null, 'server'],
  ]
  for (const [error, kind] of rows) {
    t.match(
      next(state, { ...jobs.failed, error }),
      { kind: 'failed', failure: { kind } },
      JSON.stringify(error),
    )
  }
})

t.test('an order that may have gone through is never known to have failed', async (t) => {
  const lost = { kind: 'failed', failure: { kind: 'ambiguous' } }
  t.match(next(null, 'Bad gateway', 502), lost)
  t.match(next(null, '', 504), lost)
  t.match(next(null, { object: 'video' }), lost, 'accepted, without a name')
  t.match(next(null, 'OK'), lost)
  t.match(next(null, { ...jobs.queued, id: '..' }), lost, 'a name that would be a path')
  const { state } = waiting(next(null, jobs.queued))
  t.match(next(state, { id: ID }), lost)
  t.match(next(state, { error: { message: 'gone' } }, 404), lost)
  t.match(next(state, { error: { message: 'no', code: 'invalid_api_key' } }, 401), lost)

  const refusal = { error: { message: 'x', type: 'invalid_request_error', param: 'seconds' } }
  t.match(next(null, refusal, 400), { kind: 'failed', failure: { kind: 'caller' } })
  t.match(next(null, refusal, 500), { kind: 'failed', failure: { kind: 'server' } })
  const blocked = { error: { message: 'x', code: 'moderation_blocked' } }
  t.match(next(null, blocked), { kind: 'failed', failure: { kind: 'content' } }, 'a refusal with status 200')
  t.match(next(null, { error: { message: 'x' } }, 429), { kind: 'failed', failure: { kind: 'rate' } })
})

t.test('passing troubles of a poll are waited out', async (t) => {
  let step = waiting(next(null, jobs.queued))
  for (const status of [500, 502, 429, 503, 504]) {
    step = waiting(next(step.state, { error: { message: 'x' } }, status, { 'retry-after': '30' }))
    t.equal(step.waitMs, 30_000)
    t.match(step.request.url, /\/videos\/video_/)
  }
  t.match(next(step.state, {}, 500), { kind: 'failed', failure: { kind: 'ambiguous' } }, 'but not for ever')
  step = waiting(next(step.state, jobs.in_progress))
  t.equal(waiting(next(step.state, {}, 500)).kind, 'wait', 'a good answer begins the count anew')
})

t.test('a video that nobody waits for is deleted', async (t) => {
  const { state } = waiting(next(null, jobs.queued))
  t.match(video.abandon!(state, TARGET), {
    method: 'DELETE',
    url: `https://videos.example.com/v1/videos/${ID}`,
  })
  t.equal(video.abandon!(null, TARGET), null, 'there is no job yet')
  const odd = waiting(next(null, { ...jobs.queued, id: 'a/../b?c' }))
  t.match(odd.request.url, /\/videos\/a%2F\.\.%2Fb%3Fc$/)
})
