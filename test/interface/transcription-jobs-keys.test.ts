import t, { type Test } from 'tap'
import { GatewayError } from '../../src/contracts/errors.ts'
import type { Job, Jobs } from '../../src/contracts/jobs.ts'
import { multipart } from '../support/bodies.ts'
import { entryAt } from '../support/gateway-rig.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'
import { type Answered, type JobsApi, startJobsApi } from './jobs-api.ts'

const PATH = '/v1/transcription/jobs'
const SYNC = '/v1/transcription'
/** Too long for the record of a job. */
const WAV = filledWav(44 + 80_000, 1)

type Fields = Readonly<Record<string, string>>

interface Sent {
  readonly form?: 'multipart' | 'json' | 'raw'
  readonly fields?: Fields
  readonly wav?: Buffer
  readonly path?: string
  readonly headers?: Fields
}

/** The same request in any form that a body can have. */
function send(api: JobsApi, key: string, sent: Sent = {}): Promise<Answered> {
  const { form = 'multipart', fields = {}, wav = WAV, path = PATH, headers = {} } = sent
  const keyed = (type: string) => ({ 'content-type': type, 'idempotency-key': key, ...headers })
  if (form === 'raw') {
    const query = new URLSearchParams(fields)
    return api.ask('POST', `${path}?${query}`, { headers: keyed('audio/wav'), body: wav })
  }
  if (form === 'json') {
    const body = JSON.stringify({ audio: { base64: wav.toString('base64') }, ...fields })
    return api.ask('POST', path, { headers: keyed('application/json'), body })
  }
  const boundary = `b${Math.random()}`
  const parts = Object.entries(fields).map(([name, body]) => ({ name, body }))
  const { contentType, body } = multipart(
    [{ name: 'file', filename: `${boundary}.wav`, body: wav }, ...parts],
    { boundary },
  )
  return api.ask('POST', path, { headers: keyed(contentType), body })
}

function assertReplay(t: Test, again: Answered, first: Answered, status: string, what: string) {
  t.equal(again.status, 200, `${what}: ${again.text}`)
  t.equal(again.headers.get('x-lk-idempotent-replay'), 'true')
  t.equal(again.headers.get('location'), first.headers.get('location'))
  t.same(again.job, { ...first.job, status }, what)
}

for (const [tier, memoryMib, wav, objects] of [
  ['record', 64, filledWav(32_044, 1), 0],
  ['memory', 64, WAV, 1],
  ['store', 2, filledWav(3_000_044, 1), 1],
] as const) {
  t.test(`a key makes one job, whatever form its request has, ${tier} tier`, async (t) => {
    const api = await startJobsApi(t, { memoryMib })
    const fields = { language: 'en' }
    const first = await send(api, 'k', { fields, wav })
    t.equal(first.status, 202, first.text)
    t.equal(first.headers.get('x-lk-idempotent-replay'), null)
    const kept = await api.kept()
    for (const form of ['multipart', 'json', 'raw'] as const)
      assertReplay(t, await send(api, 'k', { form, fields, wav }), first, 'queued', form)
    assertReplay(t, await send(api, '"k"', { fields, wav }), first, 'queued', 'a quoted key')
    const sync = { ...fields, mode: 'async' }
    assertReplay(t, await send(api, 'k', { fields: sync, wav }), first, 'queued', 'mode: async')
    assertReplay(
      t,
      await send(api, 'k', { fields: sync, wav, path: SYNC }),
      first,
      'queued',
      'the other path',
    )
    const flipped = Buffer.from(wav)
    flipped[30_000]! ^= 1
    for (const other of [
      { fields, wav: flipped },
      { wav },
      { fields: { ...fields, diarization: 'true' }, wav },
      { fields: { ...fields, purpose: 'calls' }, wav },
    ]) {
      const { status, error, headers } = await send(api, 'k', other)
      t.match({ status, error }, { status: 409, error: { code: 'IDEMPOTENCY_KEY_REUSED', retryable: false } })
      t.equal(headers.get('x-should-retry'), 'false')
    }
    t.ok(await waitUntil(async () => (await api.kept()).length === objects), 'losers leave no object')
    t.same(await api.kept(), kept)
    t.equal(await api.jobs.waiting(), 1)

    const id = first.job.job_id
    await api.claim(id)
    const processing = await send(api, 'k', { fields, wav })
    assertReplay(t, processing, first, 'processing', 'as it stands')
    t.equal(processing.headers.get('retry-after'), '2')
    const facts = { policy_version_id: null, lk_applied_purpose: null, lk_purpose_source: null }
    await api.end(id, { state: 'succeeded', result: { text: '{}' }, facts })
    const ended = await send(api, 'k', { fields, wav })
    assertReplay(t, ended, first, 'succeeded', 'when it has ended')
    t.equal(ended.headers.get('retry-after'), null)
    t.ok(await waitUntil(() => api.budgetUsed() === 0), 'no memory is held')
  })
}

t.test('keys belong to the app and to jobs; a URL stands for its audio', async (t) => {
  const upstream = await startUpstream(t)
  const entries = [entryAt(upstream.url.replace(/\/v1$/, ''))]
  const api = await startJobsApi(t, { entries, domains: ['cdn.example.com'] })
  const first = await send(api, 'k')
  const authorization = api.admit({ app: { id: 'phone' } })
  const other = await send(api, 'k', { headers: { authorization } })
  t.equal(other.status, 202)
  t.not(other.job.job_id, first.job.job_id)

  const whole = await send(api, 'k', { path: SYNC })
  t.match(whole, { status: 200, job: { content: 'the lark at break of day' } }, 'another operation')
  for (const mode of ['async', 'batch']) {
    const { status, headers } = await send(api, 'k', { path: SYNC, fields: { mode } })
    if (mode === 'batch') t.same([status, headers.get('x-lk-idempotent-replay')], [200, 'true'])
    else t.equal(status, 409, 'the key holds an answer; nothing of the body was kept')
  }
  t.match(await send(api, 'k-async', { path: SYNC, fields: { mode: 'async' } }), { status: 202 })
  t.match(await send(api, 'k-async', { path: SYNC, fields: { mode: 'async' } }), { status: 200 })
  t.match(await send(api, 'k-async', { path: SYNC }), { status: 200, job: { content: /lark/ } })

  const headers = { 'idempotency-key': 'k-url' }
  const url = 'https://cdn.example.com/a.wav'
  const remote = await api.submit({ audio: { url } }, headers)
  t.equal(remote.status, 202)
  assertReplay(t, await api.submit({ audio: { url, filename: 'b' } }, headers), remote, 'queued', 'a URL')
  t.equal((await api.submit({ audio: { url: `${url}?v=2` } }, headers)).status, 409)

  for (const key of ['x'.repeat(257), 'with space', 'ü']) {
    const refused = await api
      .submit({ audio: { url } }, { 'idempotency-key': key })
      .catch(() => ({ status: 400, error: { param: 'Idempotency-Key' } }))
    t.match(refused, { status: 400, error: { param: 'Idempotency-Key' } })
  }
  t.equal((await send(api, 'x'.repeat(256))).status, 202)
})

t.test('fifty at once with one key make one job', async (t) => {
  const api = await startJobsApi(t)
  const answers = await Promise.all(Array.from({ length: 50 }, () => send(api, 'k-race')))
  t.equal(new Set(answers.map(({ job }) => job.job_id)).size, 1)
  t.equal(answers.filter(({ status }) => status === 202).length, 1)
  t.equal(answers.filter(({ status }) => status === 200).length, 49)
  t.ok(await waitUntil(async () => (await api.kept()).length === 1))
  const { work } = (await api.jobs.get(answers[0]!.job.job_id))!
  const audio = 'audio' in work && !('url' in work.audio) ? work.audio.source : null
  t.same(await api.kept(), [audio?.kind === 'object' ? audio.key : ''], 'the audio of the job that there is')
})

t.test('the key of a job that is purged names it all the same', async (t) => {
  const api = await startJobsApi(t, { limits: { stt_job_result_ttl_seconds: 1 } })
  const first = await send(api, 'k')
  const id = first.job.job_id
  await api.ask('DELETE', `${PATH}/${id}`)
  const purged = async () => {
    const jobs = await api.jobs.takeExpired(10)
    for (const job of jobs) await api.jobs.forget(job.id)
    return jobs.length > 0
  }
  t.ok(await waitUntil(purged))
  const again = await send(api, 'k')
  t.same([again.status, again.headers.get('x-lk-idempotent-replay')], [200, 'true'])
  t.same(again.job, { job_id: id, status: null, poll_url: `${PATH}/${id}`, created_at: null })
  t.equal((await api.ask('GET', `${PATH}/${id}`)).status, 404)
})

/** A state whose answers to submissions get lost, after the deed or before it. */
function losing(times: number, behind: boolean, jobs: Jobs): Jobs & { tries: number } {
  const away = () => new GatewayError('DEPENDENCY_UNAVAILABLE')
  return {
    ...jobs,
    tries: 0,
    async submit(submission) {
      this.tries += 1
      if (this.tries > times) return jobs.submit(submission)
      if (behind) await jobs.submit(submission)
      throw away()
    },
  }
}

t.test('a submission whose answer is lost is made once, and its audio stays', async (t) => {
  for (const behind of [true, false]) {
    for (const memoryMib of [64, 2]) {
      const wav = memoryMib === 2 ? filledWav(3_000_044, 1) : WAV
      const api = await startJobsApi(t, { memoryMib, between: (jobs) => losing(2, behind, jobs) })
      for (const key of ['k', undefined]) {
        const headers: Fields = key === undefined ? {} : { 'idempotency-key': key }
        const answer = await api.ask('POST', PATH, {
          headers: { 'content-type': 'audio/wav', ...headers },
          body: wav,
        })
        t.equal(answer.status, 202, answer.text)
        t.equal(answer.headers.get('x-lk-idempotent-replay'), null)
        const job = (await api.jobs.get(answer.job.job_id)) as Job
        const audio = 'audio' in job.work && !('url' in job.work.audio) ? job.work.audio.source : null
        t.ok((await api.kept()).includes(audio?.kind === 'object' ? audio.key : ''), 'its audio is there')
      }
      t.equal((await api.kept()).length, 2)
      t.equal(await api.jobs.waiting(), 2)
    }
  }
})

t.test('when nobody knows whether there is a job its audio is left to the sweep', async (t) => {
  for (const memoryMib of [64, 2]) {
    const wav = memoryMib === 2 ? filledWav(3_000_044, 1) : WAV
    const api = await startJobsApi(t, { memoryMib, between: (jobs) => losing(Infinity, true, jobs) })
    const startMs = performance.now()
    const { status, error, headers } = await send(api, 'k', { wav })
    t.match({ status, error }, { status: 503, error: { code: 'DEPENDENCY_UNAVAILABLE', retryable: true } })
    t.ok(headers.get('retry-after'))
    const tookMs = performance.now() - startMs
    t.ok(tookMs > 3_000 && tookMs < 15_000, `${tookMs} ms`)
    t.equal((await api.kept()).length, 1, 'the job may be there, as it is here')
    t.ok(await waitUntil(() => api.budgetUsed() === 0), 'no memory is held')
  }
})
