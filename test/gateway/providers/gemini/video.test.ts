import t from 'tap'
import type { VideoCall, VideoResult } from '../../../../src/contracts/generation.ts'
import type { Step } from '../../../../src/contracts/provider.ts'
import type { UpstreamReply } from '../../../../src/contracts/upstream.ts'
import { factsOf } from '../../../../src/gateway/providers/facts.ts'
import { gemini } from '../../../../src/gateway/providers/gemini/provider.ts'
import { bytesOf, requestOf } from '../../../support/form-of.ts'
import { fixture, reply } from '../../../support/replies.ts'
import { done } from '../step-result.ts'

const BASE = 'https://generativelanguage.googleapis.com/v1beta'
const TARGET = { model: 'gemini-omni-1.1-flash', baseUrl: BASE, credential: 'AIza-secret', options: {} }
const ID = 'v1_ChdUZXN0SW50ZXJhY3Rpb24'
const JOB = { id: ID, everyMs: 5000, troubles: 0 }
const video = gemini.video!

function call(overrides: Partial<VideoCall> = {}): VideoCall {
  return { prompt: 'a paper boat', duration_seconds: null, size: null, seed: null, ...overrides }
}

function sent(overrides: Partial<VideoCall> = {}) {
  return JSON.parse(bytesOf(requestOf(video.start(call(overrides), TARGET))).toString())
}

function next(state: unknown, answer: UpstreamReply, baseUrl = BASE, overrides: Partial<VideoCall> = {}) {
  const kept = JSON.parse(JSON.stringify(state))
  return video.next(kept, answer, call(overrides), { ...TARGET, baseUrl })
}

const running = (status: string) => reply({ id: ID, status })
const made = (...contents: unknown[]) =>
  reply({ id: ID, status: 'completed', steps: [{ type: 'model_output', content: contents }] })

const videosOf = (step: Step<VideoResult>) => done(step).videos

t.test('the order', async (t) => {
  const request = requestOf(video.start(call(), TARGET))
  t.equal(request.method, 'POST')
  t.equal(request.url, `${BASE}/interactions`)
  t.same(request.headers, { 'x-goog-api-key': 'AIza-secret', 'content-type': 'application/json' })
  t.same(sent(), {
    model: 'gemini-omni-1.1-flash',
    input: 'a paper boat',
    background: true,
    response_format: { type: 'video', delivery: 'uri' },
  })
  t.match(sent({ duration_seconds: 8 }).response_format, { duration: '8s' })
  t.ok(video.createsOnce)
  t.notOk(video.takesSeed)
  t.same(sent({ seed: 1 }), sent())
})

t.test('sizes and lengths are those of the table, and no others', async (t) => {
  const { video_sizes: sizes = [], video_seconds: lengths = [] } = factsOf('gemini', TARGET.model)!.limits
  const rows: Record<string, [string, string]> = {
    '640x360': ['16:9', '360p'],
    '360x640': ['9:16', '360p'],
    '1280x720': ['16:9', '720p'],
    '720x1280': ['9:16', '720p'],
    '1920x1080': ['16:9', '1080p'],
    '1080x1920': ['9:16', '1080p'],
    '3840x2160': ['16:9', '4k'],
    '2160x3840': ['9:16', '4k'],
  }
  t.same([...sizes].sort(), Object.keys(rows).sort())
  for (const [size, [aspect_ratio, resolution]] of Object.entries(rows)) {
    const expected = { type: 'video', delivery: 'uri', aspect_ratio, resolution }
    t.same(sent({ size }).response_format, expected, size)
  }
  t.same(lengths, [3, 4, 5, 6, 7, 8, 9, 10])
  for (const duration_seconds of lengths)
    t.equal(video.start(call({ duration_seconds }), TARGET).kind, 'send')
  const refusals: Partial<VideoCall>[] = [
    { size: '1024x1024' },
    { size: '720p' },
    { size: 'constructor' },
    { duration_seconds: 2 },
    { duration_seconds: 11 },
    { duration_seconds: 4.5 },
  ]
  for (const overrides of refusals) {
    const step = video.start(call(overrides), TARGET)
    t.match(step, { kind: 'failed', failure: { kind: 'model', status: null } }, JSON.stringify(overrides))
  }
})

t.test('it is asked for until it is made', async (t) => {
  const poll = {
    kind: 'wait',
    waitMs: 5000,
    request: {
      method: 'GET',
      url: `${BASE}/interactions/${ID}`,
      headers: { 'x-goog-api-key': 'AIza-secret' },
    },
    state: JOB,
  }
  t.match(next(null, running('queued')), poll)
  t.match(next(null, running('in_progress')), poll)
  t.match(next({ ...JOB, troubles: 3 }, running('in_progress')), poll, 'a good answer ends a row of troubles')
  t.match(next(JOB, running('a_newer_word')), poll, 'a word that is not known is no end')
  const odd = next(null, reply({ id: 'a/../b?c', status: 'queued' }))
  t.match(odd, { request: { url: `${BASE}/interactions/a%2F..%2Fb%3Fc` } })
  const finished = next(JOB, reply(await fixture('gemini/video.completed.json')), BASE, {
    duration_seconds: 8,
  })
  t.match(finished, {
    kind: 'done',
    result: {
      videos: [
        {
          kind: 'fetch',
          media_type: 'video/mp4',
          request: {
            method: 'GET',
            url: `${BASE}/files/abc-123:download?alt=media`,
            headers: { 'x-goog-api-key': 'AIza-secret' },
            body: [],
          },
        },
      ],
      seconds: 8,
      credits: null,
    },
  })
  t.match(next(null, reply(await fixture('gemini/video.completed.json'))), {
    kind: 'done',
    result: { seconds: null },
  })
})

t.test('the key goes to nobody but the provider', async (t) => {
  const at = (uri: string, baseUrl = BASE) =>
    videosOf(next(JOB, made({ type: 'video', uri, mime_type: 'video/webm' }), baseUrl))
  const own = at('https://proxy.example/files/1?x=1', 'https://proxy.example/gemini')
  t.match(own, [{ kind: 'fetch', request: { url: 'https://proxy.example/files/1?x=1&alt=media' } }])
  const foreign = [
    'https://storage.googleapis.com/a/b.mp4?sig=1',
    'https://generativelanguage.googleapis.com.evil.example/v1beta/files/1',
    'https://generativelanguage.googleapis.com:8443/v1beta/files/1',
  ]
  for (const uri of foreign) t.same(at(uri), [{ kind: 'url', url: uri, media_type: 'video/webm' }], uri)
  const unfit = [
    'http://generativelanguage.googleapis.com/v1beta/files/1',
    'https://user:pass@generativelanguage.googleapis.com/v1beta/files/1',
    'file:///etc/passwd',
    'files/1',
    '',
    7,
  ]
  for (const uri of unfit) {
    const step = next(JOB, made({ type: 'video', uri }))
    t.match(step, { kind: 'failed', failure: { kind: 'ambiguous' } }, String(uri))
  }
  const inline = made(
    { type: 'video', data: 'AAAA', mime_type: 'text/html' },
    { type: 'text', text: 'Here.' },
  )
  t.same(videosOf(next(JOB, inline)), [{ kind: 'base64', base64: 'AAAA', media_type: 'video/mp4' }])
})

t.test('how it ends otherwise', async (t) => {
  const refused = next(JOB, reply(await fixture('gemini/video.refused.json')))
  t.match(refused, { kind: 'failed', failure: { kind: 'content', providerMessage: null } })
  t.match(next(JOB, reply(await fixture('gemini/video.failed.json'))), {
    failure: { kind: 'server', status: 200 },
  })
  const safety = { id: ID, status: 'failed', error: { code: 'prohibited_content', message: 'blocked' } }
  t.match(next(JOB, reply(safety)), { failure: { kind: 'content' } })
  const busy = { id: ID, status: 'failed', errors: [{ code: 'RESOURCE_EXHAUSTED' }] }
  t.match(next(JOB, reply(busy)), { failure: { kind: 'rate' } })
  for (const status of ['failed', 'cancelled', 'incomplete', 'requires_action', 'requires_continuation']) {
    t.match(next(JOB, running(status)), { kind: 'failed', failure: { kind: 'server' } }, status)
  }
  t.match(next(JOB, running('budget_exceeded')), { kind: 'failed', failure: { kind: 'credential' } })
  t.match(next(JOB, made()), { kind: 'failed', failure: { kind: 'ambiguous' } }, 'made, but nowhere')
})

t.test('an order whose outcome is not known is never made again', async (t) => {
  const rows: [UpstreamReply, string][] = [
    [reply('<html>bad gateway', 502), 'ambiguous'],
    [reply('', 504), 'ambiguous'],
    [reply('{"id":"v1_cut', 200), 'ambiguous'],
    [reply({ status: 'queued' }), 'ambiguous'],
    [reply({ id: '', status: 'queued' }), 'ambiguous'],
    [reply({ id: 'x'.repeat(5000), status: 'queued' }), 'ambiguous'],
    [reply({ id: ID }), 'ambiguous'],
    [reply({ error: { code: 429, status: 'RESOURCE_EXHAUSTED' } }), 'rate'],
    [reply(await fixture('gemini/error.rate.json'), 429), 'rate'],
    [reply(await fixture('gemini/error.key.json'), 400), 'credential'],
    [reply(await fixture('gemini/error.model.json'), 404), 'model'],
    [reply(await fixture('gemini/error.argument.json'), 400), 'caller'],
    [reply({ error: { code: 'invalid_request', message: 'no' } }, 400), 'caller'],
    [reply({ error: { code: 503, status: 'UNAVAILABLE' } }, 503), 'rate'],
  ]
  for (const [answer, kind] of rows) {
    const step = next(null, answer)
    t.match(step, { kind: 'failed', failure: { kind } }, `${kind} ${answer.status}`)
  }
})

t.test('a poll that goes wrong is made again, for a while', async (t) => {
  let state: unknown = JOB
  const rate = await fixture('gemini/error.rate.json')
  for (let trouble = 0; trouble < 5; trouble++) {
    const step = next(state, reply(rate, 429))
    t.match(step, { kind: 'wait', waitMs: 30_000, state: { id: ID, troubles: trouble + 1 } })
    if (step.kind === 'wait') state = step.state
  }
  t.match(next(state, reply(rate, 429)), { kind: 'failed', failure: { kind: 'ambiguous' } })
  t.match(next(JOB, reply('nonsense')), { kind: 'failed', failure: { kind: 'ambiguous' } })
  t.match(next(JOB, reply({}, 404)), { kind: 'failed', failure: { kind: 'ambiguous' } })
})

t.test('what nobody waits for is cancelled', async (t) => {
  t.equal(video.abandon!(null, TARGET), null)
  t.same(video.abandon!(JOB, TARGET), {
    method: 'POST',
    url: `${BASE}/interactions/${ID}/cancel`,
    headers: { 'x-goog-api-key': 'AIza-secret' },
    body: [],
  })
})
