import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { newJobId } from '../../src/contracts/ids.ts'
import type { JobEnding, JobError, JobFacts } from '../../src/contracts/jobs.ts'
import { linkEndOf } from '../../src/gateway/jobs/results.ts'
import { entryAt } from '../support/gateway-rig.ts'
import { VirtualClock } from '../support/virtual-clock.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'
import { type JobsApi, startJobsApi } from './jobs-api.ts'

const PATH = '/v1/transcription/jobs'
/** Too long for the record of a job. */
const AUDIO = { audio: { base64: filledWav(80_044, 1).toString('base64') } }
const FACTS: JobFacts = {
  policy_version_id: 'pv_fedcba9876543210',
  lk_applied_purpose: 'calls',
  lk_purpose_source: 'body',
}
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const FIELDS = [
  ...['job_id', 'status', 'poll_url', 'created_at', 'started_at', 'completed_at', 'expires_at'],
  ...['cancel_requested', 'attempts', 'progress', 'error', 'result', 'result_url', 'result_url_expires_at'],
  ...['lk_requested_purpose', 'lk_applied_purpose', 'lk_purpose_source', 'policy_version_id'],
]

async function submit(api: JobsApi, body: object = AUDIO): Promise<string> {
  const { status, job, text } = await api.submit(body)
  if (status !== 202) throw new Error(text)
  return job.job_id
}

const show = (api: JobsApi, id: string, query = '') => api.ask('GET', `${PATH}/${id}${query}`)
const cancel = (api: JobsApi, id: string) => api.ask('DELETE', `${PATH}/${id}`)

async function succeed(api: JobsApi, id: string, json: string): Promise<void> {
  const { fence } = (await api.jobs.get(id))!
  const result = await api.dependencies.jobs.objects.keepResult(json, { id, workspace: 'acme' }, fence)
  await api.end(id, { state: 'succeeded', result, facts: FACTS })
}

/** JSON of exactly so many bytes, with characters of more than one byte and in an order of its own. */
function resultOf(bytes: number): string {
  const bare = Buffer.byteLength(JSON.stringify({ z: 1, content: '', a: 'é€' }))
  return JSON.stringify({ z: 1, content: 'x'.repeat(bytes - bare), a: 'é€' })
}

t.test('a transcript of hours is read in pages, however large it is', async (t) => {
  const api = await startJobsApi(t)
  const transcript = (segments: number) => ({
    content: 'the whole',
    segments: Array.from({ length: segments }, (_, id) => ({
      id,
      start: 10 * id,
      end: 10 * id + 9,
      text: ` s${id}`,
    })),
    words: Array.from({ length: 2 * segments }, (_, at) => ({
      word: `w${at}`,
      start: 5 * at,
      end: 5 * at + 4,
    })),
  })
  let large = ''
  for (const segments of [20, 3_000]) {
    const id = await submit(api)
    large = id
    await api.claim(id)
    await succeed(api, id, JSON.stringify(transcript(segments)))
    const page = async (query: string) =>
      (await show(api, id, query)).job.result as ReturnType<typeof transcript>
    t.match(await page('?from=20&to=40'), {
      content: 's2 s3',
      segments: [{ id: 2 }, { id: 3 }],
      words: [{ word: 'w4' }, { word: 'w5' }, { word: 'w6' }, { word: 'w7' }],
    })
    t.match(await page('?to=0.5'), { content: 's0', segments: { length: 1 }, words: { length: 1 } })
    const last = 10 * segments - 10
    t.match(await page(`?from=${last}`), { content: `s${segments - 1}`, words: { length: 2 } })
    t.same((await page('?from=1000000')).segments, [])
    const pages = []
    for (let from = 0; from < 10 * segments; from += 5_000)
      pages.push(...(await page(`?from=${from}&to=${from + 5_000}`)).segments)
    t.same(pages, transcript(segments).segments, 'pages add up to the whole')
  }
  t.match((await show(api, large)).job, { result: null, result_url: String }, 'the whole is at a URL')
  for (const query of ['from=-1', 'from=1s', 'from=', 'from=1&from=2', 'to=0', 'from=5&to=5', 'from=1e3'])
    t.match(await show(api, large, `?${query}`), { status: 400, error: { code: 'INVALID_REQUEST' } }, query)
  const spoken = await submit(api)
  await api.claim(spoken)
  await succeed(api, spoken, JSON.stringify({ ...transcript(20), segments: [] }))
  t.match((await show(api, spoken, '?from=20&to=30')).job.result, {
    content: 'w4 w5',
    segments: [],
    words: [{ word: 'w4' }, { word: 'w5' }],
  })
  const timeless = await submit(api)
  await api.claim(timeless)
  await succeed(api, timeless, JSON.stringify({ content: 'said', segments: [], words: [] }))
  t.match(await show(api, timeless, '?from=0'), { status: 400, error: { param: 'from' } })
  const waiting = await submit(api)
  t.match((await show(api, waiting, '?from=0')).job, { status: 'queued', result: null })
})

t.test('a job from its submission to its result', async (t) => {
  const api = await startJobsApi(t)
  const id = await submit(api, { ...AUDIO, purpose: 'calls' })
  const queued = await show(api, id)
  t.equal(queued.status, 200)
  t.same(Object.keys(queued.job), FIELDS)
  t.equal(queued.headers.get('retry-after'), '2')
  t.same(
    { ...queued.job, created_at: null },
    {
      ...Object.fromEntries(FIELDS.map((field) => [field, null])),
      job_id: id,
      status: 'queued',
      poll_url: `${PATH}/${id}`,
      cancel_requested: false,
      attempts: 0,
      progress: null,
      lk_requested_purpose: 'calls',
    },
    'what is not there yet is null',
  )

  await api.claim(id)
  const processing = await show(api, id)
  t.match(processing.job, { status: 'processing', attempts: 1, started_at: TIMESTAMP, completed_at: null })
  t.equal(processing.headers.get('retry-after'), '2')

  await succeed(api, id, '{"id":"req_1","content":"the lark","words":[]}')
  const { job, headers, text } = await show(api, id)
  t.same(Object.keys(job), FIELDS)
  t.match(job, {
    status: 'succeeded',
    attempts: 1,
    progress: null,
    completed_at: TIMESTAMP,
    error: null,
    result: { content: 'the lark' },
    result_url: null,
    lk_requested_purpose: 'calls',
    lk_applied_purpose: 'calls',
    lk_purpose_source: 'body',
    policy_version_id: 'pv_fedcba9876543210',
  })
  t.ok(text.includes('"result":{"id":"req_1","content":"the lark","words":[]}'), 'the very text')
  t.equal(headers.get('retry-after'), null)
  t.equal(headers.get('x-lk-policy-version-id'), 'pv_fedcba9876543210')
  const ttlMs = Date.parse(String(job.expires_at)) - Date.parse(String(job.completed_at))
  t.equal(ttlMs, 259_200_000, '72 hours')
  const head = await fetch(`${api.origin}${PATH}/${id}`, {
    method: 'HEAD',
    headers: { authorization: api.authorization },
  })
  t.same([head.status, await head.text()], [200, ''])
})

t.test('results up to 256 KiB stand in the job, larger ones behind a URL', async (t) => {
  const api = await startJobsApi(t)
  for (const bytes of [1_000, 16_385, 262_143, 262_144]) {
    const id = await submit(api)
    await api.claim(id)
    const json = resultOf(bytes)
    await succeed(api, id, json)
    const { text, job } = await show(api, id)
    t.ok(text.includes(`"result":${json},"result_url":null,"result_url_expires_at":null`), `${bytes} bytes`)
    t.same(job.result, JSON.parse(json))
  }
  t.ok(await waitUntil(() => api.dependencies.services.budget.used === 0), 'no memory is held')

  const id = await submit(api)
  await api.claim(id)
  const json = resultOf(262_145)
  await succeed(api, id, json)
  const beforeMs = Date.now()
  const { job } = await show(api, id)
  t.equal(job.result, null)
  const expiresMs = Date.parse(String(job.result_url_expires_at))
  t.ok(expiresMs > beforeMs + 890_000 && expiresMs <= Date.now() + 900_000, String(job.result_url_expires_at))
  const opened = await fetch(api.origin + String(job.result_url))
  t.match([opened.status, opened.headers.get('content-type')], [200, 'application/json'])
  t.equal(await opened.text(), json, 'without an API key')
  const again = await waitUntil(async () => (await show(api, id)).job.result_url !== job.result_url, 5_000)
  t.ok(again, 'minted anew at each read')
})

t.test('no URL outlives its job, and each lives as long as it', async (t) => {
  const nowMs = Date.parse('2026-11-20T09:00:00.700Z')
  const secondsLeft = (ms: number | null) => {
    const expiresAtMs = ms === null ? null : nowMs + ms
    const endsMs = Math.round(linkEndOf({ expiresAtMs }, nowMs) * 1000)
    return (endsMs - Math.floor(nowMs / 1000) * 1000) / 1000
  }
  t.same([null, 3_600_000, 900_300].map(secondsLeft), [900, 900, 900])
  t.same([900_200, 60_000, 1_299, 300, 1].map(secondsLeft), [900, 60.7, 1.999, 1, 0.701])
  for (const ms of [0, -5_000]) t.throws(() => secondsLeft(ms), { code: 'JOB_NOT_FOUND' }, `${ms} ms`)
})

t.test('at its expiry a job is gone, with its URL, before anybody purges it', async (t) => {
  const api = await startJobsApi(t, { limits: { stt_job_result_ttl_seconds: 3 } })
  const key = { 'idempotency-key': 'k-gone' }
  const { job: submitted } = await api.submit(AUDIO, key)
  const id = submitted.job_id
  await api.claim(id)
  await succeed(api, id, resultOf(300_000))
  const { job } = await show(api, id)
  const expiresMs = Date.parse(String(job.expires_at))
  t.ok(Date.parse(String(job.result_url_expires_at)) <= expiresMs, `${job.result_url_expires_at}`)
  const url = api.origin + String(job.result_url)
  const opened = await fetch(url)
  t.equal(opened.status, 200)
  const cachedSeconds = Number(/max-age=(\d+)$/.exec(String(opened.headers.get('cache-control')))?.[1])
  t.ok(cachedSeconds <= 3, `a browser keeps it for ${cachedSeconds} s`)

  await waitUntil(() => Date.now() >= expiresMs, 5_000)
  t.equal((await fetch(url)).status, 404, 'no grace')
  for (const method of ['GET', 'DELETE'])
    t.match(await api.ask(method, `${PATH}/${id}`), { status: 404, error: { code: 'JOB_NOT_FOUND' } })
  t.match(await api.ask('GET', `${PATH}/${id}?wait=5`), { status: 404, error: { code: 'JOB_NOT_FOUND' } })
  const replay = await api.submit(AUDIO, key)
  t.equal(replay.headers.get('x-lk-idempotent-replay'), 'true')
  t.match(replay, { status: 200, job: { job_id: id, status: null } }, 'the key was used, and its job is over')
  t.same([...(await api.jobs.known([id])).keys()], [id], 'nobody has purged it')
})

t.test('a purged job is not there any more, nor is what its URL opened', async (t) => {
  const api = await startJobsApi(t, { limits: { stt_job_result_ttl_seconds: 2 } })
  const id = await submit(api)
  await api.claim(id)
  await succeed(api, id, resultOf(300_000))
  const { job } = await show(api, id)
  const url = api.origin + String(job.result_url)
  t.equal((await fetch(url)).status, 200)
  const marked = async () => {
    const jobs = await api.jobs.takeExpired(10)
    for (const one of jobs) await api.dependencies.jobs.objects.removeAll(one)
    return jobs.length > 0
  }
  t.ok(await waitUntil(marked))
  t.match(await show(api, id), { status: 404, error: { code: 'JOB_NOT_FOUND' } })
  t.match(await cancel(api, id), { status: 404, error: { code: 'JOB_NOT_FOUND' } })
  t.equal((await fetch(url)).status, 404)
})

t.test('a failed job says why, as the envelope of an error does', async (t) => {
  const api = await startJobsApi(t)
  const id = await submit(api)
  await api.claim(id)
  const attempts = [{ provider: 'ears', model: 'm', status: 500, milliseconds: 12, reason: 'status 500' }]
  const error: JobError = {
    code: 'UPSTREAM_ERROR',
    message: 'every eligible provider failed',
    param: null,
    details: { attempts },
  }
  await api.end(id, { state: 'failed', error, facts: { ...FACTS, lk_applied_purpose: null } })
  const { status, job, headers } = await show(api, id)
  t.equal(status, 200)
  t.match(job, { status: 'failed', result: null, result_url: null, lk_applied_purpose: null })
  t.same(job.error, {
    code: 'UPSTREAM_ERROR',
    category: 'upstream',
    retryable: true,
    message: 'every eligible provider failed',
    param: null,
    type: 'upstream',
    request_id: (await api.jobs.get(id))?.requestId,
    details: { attempts },
  })
  t.equal(headers.get('x-should-retry'), null)

  const named = await submit(api)
  await api.claim(named)
  const rejected: JobError = { ...error, code: 'AUDIO_URL_REJECTED', param: 'audio.url', details: {} }
  await api.end(named, { state: 'failed', error: rejected, facts: FACTS })
  t.match((await show(api, named)).job.error, { param: 'audio.url', category: 'request', retryable: false })
})

t.test('cancelling in every state', async (t) => {
  const api = await startJobsApi(t)
  const queued = await submit(api)
  t.equal((await api.kept()).length, 1)
  const cancelled = await cancel(api, queued)
  t.equal(cancelled.status, 200)
  t.same(Object.keys(cancelled.job), FIELDS)
  t.match(cancelled.job, { status: 'cancelled', started_at: null, completed_at: TIMESTAMP, attempts: 0 })
  t.equal(cancelled.headers.get('retry-after'), null)
  t.ok(await waitUntil(async () => (await api.kept()).length === 0), 'its audio is gone')

  const running = await submit(api)
  await api.claim(running)
  const asked = await cancel(api, running)
  t.match(asked.job, { status: 'processing', cancel_requested: true, completed_at: null })
  t.equal(asked.headers.get('retry-after'), '2')
  t.equal((await api.kept()).length, 1, 'its audio is the worker’s to remove')
  t.match((await cancel(api, running)).job, { status: 'processing', cancel_requested: true })
  await api.end(running, { state: 'cancelled', facts: null })
  t.match((await show(api, running)).job, { status: 'cancelled', cancel_requested: true })

  const late = await submit(api)
  await api.claim(late)
  await succeed(api, late, '{"content":"in time"}')
  const lost = await cancel(api, late)
  t.match(lost.job, { status: 'succeeded', cancel_requested: false, result: { content: 'in time' } })

  const asTheEndCame = await submit(api)
  await api.claim(asTheEndCame)
  await cancel(api, asTheEndCame)
  await succeed(api, asTheEndCame, '{"content":"too late"}')
  t.match((await show(api, asTheEndCame)).job, { status: 'cancelled', cancel_requested: true, result: null })

  const failed = await submit(api)
  await api.claim(failed)
  const ending: JobEnding = { state: 'failed', error: POISON, facts: FACTS }
  await api.end(failed, ending)
  for (const [id, status] of [
    [queued, 'cancelled'],
    [running, 'cancelled'],
    [late, 'succeeded'],
    [failed, 'failed'],
  ] as const) {
    const before = await show(api, id)
    t.match(before.job, { status })
    t.equal((await cancel(api, id)).text, before.text, `${status} is final`)
  }
})

const POISON: JobError = { code: 'INTERNAL', message: 'internal error', param: null, details: {} }

/** Resolves when so many callers wait for so long. */
async function waiting(clock: VirtualClock, ms: number, count: number): Promise<void> {
  while (clock.dueInMs.filter((due) => due === ms).length !== count) await new Promise(setImmediate)
}

t.test('a wait ends with the next status, told or not', async (t) => {
  const clock = new VirtualClock()
  const api = await startJobsApi(t, { clock })
  const id = await submit(api)
  const first = show(api, id, '?wait=30')
  await waiting(clock, 30_000, 1)
  await api.claim(id)
  t.match((await first).job, { status: 'processing' }, 'no time has passed')

  const many = Array.from({ length: 40 }, () => show(api, id, '?wait=30'))
  await waiting(clock, 30_000, 40)
  // As another process does it: without a word to this one.
  await api.jobs.end(id, 1, { state: 'failed', error: POISON, facts: FACTS }, KEEP)
  await clock.advance(500)
  for (const { job } of await Promise.all(many)) t.match(job, { status: 'failed' })
  t.match(
    (await show(api, id, '?wait=30')).job,
    { status: 'failed' },
    'a job that has ended is not waited for',
  )

  const still = await submit(api)
  const short = show(api, still, '?wait=1')
  await waiting(clock, 1_000, 1)
  await clock.advance(1_000)
  const { status, job, headers } = await short
  t.match([status, job.status, headers.get('retry-after')], [200, 'queued', '2'])
  const stopping = show(api, still, '?wait=30')
  await waiting(clock, 30_000, 1)
  await cancel(api, still)
  t.match((await stopping).job, { status: 'cancelled' })
})

t.test('a wait may be longer than uWebSockets.js leaves a silent connection alone', async (t) => {
  const api = await startJobsApi(t)
  const id = await submit(api)
  const fromMs = performance.now()
  t.match((await show(api, id, '?wait=14')).job, { status: 'queued' })
  t.ok(performance.now() - fromMs >= 13_900)
})

const KEEP = { transcriptionMs: 259_200_000, queueMs: 86_400_000, deadMs: 604_800_000 }

t.test('a wait ends when its client leaves', async (t) => {
  let looks = 0
  const clock = new VirtualClock()
  const api = await startJobsApi(t, {
    clock,
    between: (jobs) => ({
      ...jobs,
      get(id) {
        looks += 1
        return jobs.get(id)
      },
    }),
  })
  const id = await submit(api)
  const clients = Array.from({ length: 20 }, () => {
    const leaving = new AbortController()
    const left = api.ask('GET', `${PATH}/${id}?wait=30`, { signal: leaving.signal }).catch(() => 'left')
    return { leaving, left }
  })
  await waiting(clock, 30_000, 20)
  looks = 0
  for (let halves = 1; halves <= 4; halves += 1) {
    await clock.armed(500)
    await clock.advance(500)
    t.equal(looks, halves, 'twenty who wait cost one look each half second')
  }
  for (const { leaving } of clients) leaving.abort()
  t.same(new Set(await Promise.all(clients.map(({ left }) => left))), new Set(['left']))
  await waiting(clock, 28_000, 0)
  looks = 0
  await clock.advance(5_000)
  t.equal(looks, 0, 'no one looks any more')
})

t.test('a wait is whole seconds from 1 to 30', async (t) => {
  const api = await startJobsApi(t)
  const id = await submit(api)
  for (const wait of ['0', '31', '-1', '1.5', '', 'x', '1e1', '007', '5&wait=6', '%31%30%30', '99999']) {
    const { status, error, headers } = await show(api, id, `?wait=${wait}`)
    t.equal(status, 400, wait)
    t.match(error, { code: 'INVALID_REQUEST', param: 'wait', retryable: false })
    t.ok(headers.get('x-ratelimit-remaining-requests'))
  }
})

t.test('a job that is not there, and one that is somebody else’s, are the same', async (t) => {
  const api = await startJobsApi(t)
  const id = await submit(api)
  const { key, route } = api.dependencies.services.snapshot().keys.values().next().value!
  const workspace = { id: 'other', name: 'Other', plan: null, includes: null }
  const terms = { grant: null, trial: null, budgetMicros: null }
  const strangers = {
    'another app': api.admit({ app: { id: 'phone' } }),
    'another workspace, an app of the same name': api.admit({ workspace: { ...workspace, terms } }),
  }
  const queueJob = newJobId('qj', 'acme')
  await api.jobs.submit({ spec: { ...(await specOf(api, id)), id: queueJob, kind: 'queue' }, slot: null })
  const rows: [string, string, string][] = [
    ...Object.entries(strangers).map(([what, who]): [string, string, string] => [what, id, who]),
    ['unknown', newJobId('tj', 'acme'), api.authorization],
    ['a job of the queue', queueJob, api.authorization],
    ['malformed', 'tj_1', api.authorization],
    ['in capitals', id.toUpperCase(), api.authorization],
    ['too long', `${id}0`, api.authorization],
    ['another prefix', id.replace('tj_', 'req_'), api.authorization],
    ['encoded', encodeURIComponent('tj_../../x\u0000é'), api.authorization],
    ['a proto', '__proto__', api.authorization],
  ]
  const answers = new Set<string>()
  for (const method of ['GET', 'DELETE']) {
    for (const [what, path, authorization] of rows) {
      const headers = { authorization, 'x-lk-request-id': 'given' }
      for (const query of method === 'GET' ? ['', '?wait=5'] : ['']) {
        const answer = await api.ask(method, `${PATH}/${path}${query}`, { headers })
        t.equal(answer.status, 404, `${method} ${what}`)
        t.equal(answer.headers.get('cache-control'), method === 'GET' ? 'no-store' : null)
        const bare = [...answer.headers].filter(([name]) => !/^(date|cache-control|x-ratelimit-)/.test(name))
        answers.add(answer.text + JSON.stringify(bare))
      }
    }
  }
  t.equal(answers.size, 1, [...answers].join('\n'))
  t.match([...answers][0], /"code":"JOB_NOT_FOUND"/)
  t.match(await api.jobs.get(id), { status: 'queued' }, 'nobody has cancelled it')
  t.match(await api.jobs.get(queueJob), { status: 'queued' })

  const second = api.admit({ key: { ...key, id: 'key_second' }, route })
  const seen = await api.ask('GET', `${PATH}/${id}`, { headers: { authorization: second } })
  t.equal(seen.status, 200, 'any key of the same app sees it')
})

async function specOf({ jobs }: JobsApi, id: string) {
  return (await jobs.get(id))!
}

t.test('who may: keys with the scope jobs, within their rate', async (t) => {
  const api = await startJobsApi(t)
  const id = await submit(api)
  const { key } = api.dependencies.services.snapshot().keys.values().next().value!
  const calls = [
    ['POST', PATH],
    ['GET', `${PATH}/${id}`],
    ['DELETE', `${PATH}/${id}`],
  ] as const
  const type = { 'content-type': 'audio/wav' }
  const audio = { body: filledWav(1_044) }
  const scopeless = api.admit({ key: { ...key, id: 'key_sync', scopes: ['inference', 'queue', 'admin'] } })
  const slow = api.admit({ key: { ...key, id: 'key_slow', rateLimit: { requestsPerMinute: 1, burst: 3 } } })
  for (const [method, path] of calls) {
    const asked = method === 'POST' ? audio : {}
    const as = (authorization: string) =>
      api.ask(method, path, { ...asked, headers: { ...type, authorization } })
    const refused = await as(scopeless)
    t.match(refused, { status: 403, error: { code: 'PERMISSION_DENIED', details: { scope: 'jobs' } } })
    t.match(await as('Bearer lk_live_x'), { status: 401, error: { code: 'UNAUTHENTICATED' } })
    t.ok((await as(slow)).status < 400, method)
  }
  for (const [method, path] of calls) {
    const headers = { authorization: slow }
    const limited = await api.ask(method, path, { ...(method === 'POST' ? audio : {}), headers })
    t.match(limited, { status: 429, error: { code: 'RATE_LIMITED', retryable: true } })
    t.ok(Number(limited.headers.get('retry-after')) > 0)
  }
  const both = api.admit({ key: { ...key, id: 'key_jobs', scopes: ['jobs'] } })
  t.equal((await api.ask('GET', `${PATH}/${id}`, { headers: { authorization: both } })).status, 200)
  const patch = await fetch(`${api.origin}${PATH}/${id}`, { method: 'PUT', body: 'x' })
  t.same([patch.status, patch.headers.get('allow')], [405, 'DELETE, GET, HEAD'])
})

t.test('a result waits for memory, and is refused in time when there is none', async (t) => {
  const api = await startJobsApi(t)
  const id = await submit(api)
  await api.claim(id)
  await succeed(api, id, resultOf(200_000))
  const { budget } = api.dependencies.services
  budget.charge(budget.limit)
  const waiting = show(api, id)
  await sleep(300)
  budget.refund(budget.limit)
  t.match(await waiting, { status: 200, job: { status: 'succeeded' } })
  budget.charge(budget.limit)
  t.match(await show(api, id), { status: 503, error: { code: 'OVERLOADED', retryable: true } })
  budget.refund(budget.limit)
  t.ok(await waitUntil(() => budget.used === 0))
})

t.test('the version of the route that would serve stands on every answer', async (t: Test) => {
  const api = await startJobsApi(t, { entries: [entryAt('http://127.0.0.1:1')] })
  const id = await submit(api)
  for (const answer of [await show(api, id), await show(api, newJobId('tj', 'acme')), await cancel(api, id)])
    t.equal(answer.headers.get('x-lk-policy-version-id'), 'pv_0123456789abcdef')
})
