import t from 'tap'
import { GatewayError } from '../../src/contracts/errors.ts'
import type { JobEnding } from '../../src/contracts/jobs.ts'
import { sweepOrphans } from '../../src/gateway/storage/sweep.ts'
import { filledWav } from '../support/wav.ts'
import { type JobsApi, startJobsApi } from './jobs-api.ts'

const TRANSCRIPT = '/assemblyai/v2/transcript'
const NATIVE = '/v1/transcription/jobs'
const SECRET = 'a name that no one else may read'
const FACTS = { policy_version_id: null, lk_applied_purpose: null, lk_purpose_source: 'none' }

interface Transcript {
  readonly id: string
  readonly status: string
  readonly text: string | null
  readonly error?: string
}

async function upload(api: JobsApi): Promise<string> {
  const headers = { 'content-type': 'application/octet-stream' }
  const { text } = await api.ask('POST', '/assemblyai/v2/upload', { headers, body: filledWav(64_000) })
  return (JSON.parse(text) as { upload_url: string }).upload_url
}

async function submit(api: JobsApi, audio_url: string): Promise<string> {
  const body = JSON.stringify({
    audio_url,
    prompt: SECRET,
    keyterms_prompt: [SECRET],
    speech_models: [SECRET],
  })
  const headers = { 'content-type': 'application/json' }
  const { status, text } = await api.ask('POST', TRANSCRIPT, { headers, body })
  if (status !== 200) throw new Error(text)
  return (JSON.parse(text) as Transcript).id
}

const erase = async (api: JobsApi, id: string) => {
  const { text } = await api.ask('DELETE', `${TRANSCRIPT}/${id}`)
  return JSON.parse(text) as Transcript
}

/** A result too long for the record. */
async function succeed(api: JobsApi, id: string): Promise<JobEnding> {
  const { fence } = (await api.jobs.get(id))!
  const heard = { content: SECRET.repeat(9_000), words: [], warnings: [], model: 'm', language: 'en' }
  const whole = { ...heard, language_confidence: null, duration_seconds: 2 }
  const filed = { id, workspace: 'acme' }
  const result = await api.dependencies.jobs.objects.keepResult(JSON.stringify(whole), filed, fence)
  return { state: 'succeeded', result, facts: FACTS }
}

async function objectsOf(api: JobsApi): Promise<string[]> {
  const keys: string[] = []
  for (const kind of ['job/', 'result/', 'upload/'])
    for await (const { key } of api.objects.list(kind)) keys.push(key)
  return keys.map((key) => key.split('/')[0]!).sort()
}

t.test('a completed transcript: nothing of it is left in the store, nor in the state', async (t) => {
  const api = await startJobsApi(t)
  const id = await submit(api, await upload(api))
  await api.claim(id)
  await api.end(id, await succeed(api, id))
  t.same(await objectsOf(api), ['job', 'result', 'upload'])
  const deleted = await erase(api, id)
  t.match(deleted, { id, status: 'completed', text: 'Deleted by user.', audio_url: 'http://deleted_by_user' })
  t.match(deleted, { words: null, speech_models: [], keyterms_prompt: [], audio_duration: null })
  t.same(await objectsOf(api), [])
  t.notMatch(JSON.stringify(await api.jobs.get(id)), SECRET)
  for (const [method, status] of [
    ['GET', 404],
    ['DELETE', 404],
  ] as const)
    t.match(await api.ask(method, `${NATIVE}/${id}`), { status, error: { code: 'JOB_NOT_FOUND' } }, method)
  const other = { headers: { authorization: api.admit({ app: { id: 'other' } as never }) } }
  for (const method of ['GET', 'DELETE'])
    t.match(await api.ask(method, `${TRANSCRIPT}/${id}`, other), { status: 404 }, 'nor another app')
  const list = await api.ask('GET', TRANSCRIPT, other)
  t.match(JSON.parse(list.text), { page_details: { result_count: 0, prev_url: null }, transcripts: [] })
})

t.test('one that waits is cancelled, and its audio goes', async (t) => {
  const api = await startJobsApi(t)
  const url = await upload(api)
  const [id, other] = [await submit(api, url), await submit(api, url)]
  const error = 'the transcript was deleted before it was made'
  t.match(await erase(api, id), { status: 'error', error, text: 'Deleted by user.' })
  t.same(await objectsOf(api), ['job'], 'that of the other one stays')
  await t.rejects(api.claim(id))
  t.match(await api.jobs.get(other), { status: 'processing' }, 'and it can be taken up')
})

t.test('one that is processing is cancelled, and keeps nothing that its worker brings', async (t) => {
  const api = await startJobsApi(t)
  const id = await submit(api, await upload(api))
  const { work } = await api.claim(id)
  t.match(await erase(api, id), { status: 'processing', text: 'Deleted by user.', keyterms_prompt: [] })
  t.match((await api.jobs.get(id))?.work, work, 'its worker has what it needs')
  const shown = await api.ask('GET', `${TRANSCRIPT}/${id}`)
  t.notMatch(shown.text, SECRET, 'and no one else')
  t.notMatch((await api.ask('GET', TRANSCRIPT)).text, 'larkway.invalid')
  const ended = await api.end(id, await succeed(api, id))
  t.match(ended, { status: 'cancelled', result: null, erased: true })
  t.notMatch(JSON.stringify(ended), SECRET)
  t.match(await erase(api, id), { status: 'error', text: 'Deleted by user.' })
  t.same(await objectsOf(api), [])
})

t.test('what the store would not delete goes with the sweep', async (t) => {
  let isAway = false
  const api = await startJobsApi(t, {
    inFrontOf: (objects) => ({
      ...objects,
      remove: (key) =>
        isAway ? Promise.reject(new GatewayError('DEPENDENCY_UNAVAILABLE')) : objects.remove(key),
    }),
  })
  const id = await submit(api, await upload(api))
  await api.claim(id)
  await api.end(id, await succeed(api, id))
  isAway = true
  t.match(await erase(api, id), { status: 'completed', text: 'Deleted by user.' }, 'it is out of sight')
  t.same(await objectsOf(api), ['job', 'result', 'upload'])
  isAway = false
  await sweepOrphans(api.objects, new Date(Date.now() + 60_000), (ids) => api.jobs.known(ids))
  t.same(await objectsOf(api), ['upload'], 'uploads go after a day')
})

t.test('jobs of /v1 are listed and deleted as well', async (t) => {
  const api = await startJobsApi(t)
  const { job } = await api.submit({ audio: { base64: filledWav(4_044, 1).toString('base64') } })
  const list = JSON.parse((await api.ask('GET', TRANSCRIPT)).text) as { transcripts: Transcript[] }
  t.match(list.transcripts, [{ id: job.job_id, status: 'queued', completed: null, audio_url: '' }])
  t.match(await erase(api, job.job_id), { status: 'error', text: 'Deleted by user.' })
  t.match(await api.ask('GET', `${NATIVE}/${job.job_id}`), { status: 404 })
  t.same(await objectsOf(api), [])
})
