import t, { type Test } from 'tap'
import type { Audio, AudioFormat } from '../../src/contracts/audio.ts'
import type { Job } from '../../src/contracts/jobs.ts'
import { multipart, noise } from '../support/bodies.ts'
import { entryAt } from '../support/gateway-rig.ts'
import { RawClient } from '../support/raw-client.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'
import { type Sent, waysIn } from '../support/ways-in.ts'
import { type JobsApi, startJobsApi } from './jobs-api.ts'

const PATH = '/v1/transcription/jobs'
const NO_SIGNAL = new AbortController().signal

/** Hands a job in over a connection of its own, with a length or in chunks. */
async function send({ port, authorization }: JobsApi, { type, body, query = '' }: Sent, chunked: boolean) {
  const client = await RawClient.connect(port)
  const framing = chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`
  const head =
    `POST ${PATH}${query} HTTP/1.1\r\nHost: a\r\nAuthorization: ${authorization}\r\n` +
    `Content-Type: ${type}\r\n${framing}\r\n\r\n`
  const half = Math.ceil(body.length / 2)
  const pieces = [body.subarray(0, half), body.subarray(half)]
  const framed = pieces.flatMap((piece) => [`${piece.length.toString(16)}\r\n`, piece, '\r\n'])
  await client.send(head, ...(chunked ? [...framed, '0\r\n\r\n'] : [body]))
  const response = await client.response({ timeoutMs: 30_000 })
  client.destroy()
  return response
}

function audioOf({ work }: Job): Audio {
  if (!('audio' in work) || 'url' in work.audio) throw new Error('the job has no audio of its own')
  return work.audio
}

async function bytesOf({ objects }: JobsApi, { source, offset, length, encoding }: Audio): Promise<Buffer> {
  if (source.kind !== 'object') throw new Error('the audio is not at rest')
  const chunks: Buffer[] = []
  for await (const chunk of await objects.get(source.key, offset, offset + length, NO_SIGNAL))
    chunks.push(Buffer.from(chunk))
  const text = Buffer.concat(chunks)
  return encoding === 'identity' ? text : Buffer.from(JSON.parse(`"${text.toString('latin1')}"`), 'base64')
}

/** A wav whose bytes do not repeat. */
function wavOf(bytes: number): Buffer {
  const wav = filledWav(bytes)
  noise(bytes - 44).copy(wav, 44)
  return wav
}

for (const [tier, memoryMib, bytes] of [
  ['memory', 64, 300_044],
  ['store', 2, 3_000_044],
] as const) {
  t.test(`every way in: the audio is at rest before the answer, ${tier} tier`, async (t) => {
    const api = await startJobsApi(t, { memoryMib })
    const wav = wavOf(bytes)
    for (const [way, sent] of Object.entries(waysIn(wav))) {
      for (const chunked of [false, true]) {
        const label = `${way}, ${chunked ? 'chunked' : 'with a length'}`
        const response = await send(api, sent, chunked)
        t.equal(response?.status, 202, `${label}: ${response?.body}`)
        const { job_id: id } = JSON.parse(response?.body.toString() ?? '{}')
        const job = (await api.jobs.get(id))!
        t.match(job, { kind: 'transcription', mode: 'priority', endpoint: 'transcription', status: 'queued' })
        t.match(job.work, { operation: 'transcription', options: { language: 'en', mode: 'batch' } }, label)
        const audio = audioOf(job)
        t.match(audio, { format: 'wav', channels: 1, decodedBytes: bytes })
        t.match(audio.source, { kind: 'object', key: new RegExp(`^job/acme/${id}/`) }, label)
        t.ok((await bytesOf(api, audio)).equals(wav), `${label}: the very bytes`)
        t.equal((await api.kept()).length, 1, `${label}: one object`)
        await api.ask('DELETE', `${PATH}/${id}`)
        t.ok(await waitUntil(async () => (await api.kept()).length === 0), `${label}: gone`)
      }
    }
    t.ok(await waitUntil(() => api.budgetUsed() === 0), `no memory is held: ${api.budgetUsed()}`)
  })
}

t.test('what a submission is answered, and what is written down of it', async (t) => {
  const key = { budgetMicros: 5_000_000, id: 'key_caller' }
  const { api, answer } = await submitted(t, key)
  const { status, headers, job, text } = answer
  t.equal(status, 202, text)
  t.same(Object.keys(job), ['job_id', 'status', 'poll_url', 'created_at'])
  t.match(job, { job_id: /^tj_[0-9a-z]{26}$/, status: 'queued', poll_url: `${PATH}/${job.job_id}` })
  t.match(String(job.created_at), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  t.ok(Math.abs(Date.parse(String(job.created_at)) - Date.now()) < 60_000)
  t.match(Object.fromEntries(headers), {
    location: `${PATH}/${job.job_id}`,
    'retry-after': '2',
    'content-type': 'application/json',
    'x-lk-request-id': 'my-request',
    'x-lk-policy-version-id': 'pv_0123456789abcdef',
    'x-ratelimit-limit-requests': '100000',
  })
  t.equal(headers.get('x-lk-idempotent-replay'), null)
  t.match(await api.jobs.get(job.job_id), {
    workspace: 'acme',
    app: 'web',
    keyId: 'key_caller',
    keyBudgetMicros: 5_000_000,
    requestId: 'my-request',
    traceparent: TRACEPARENT,
    selectors: { purpose: { label: 'calls', source: 'header' }, responseProfile: 'fast' },
    warnings: ['colour: unknown field, ignored'],
    work: { options: { timestamps: 'word', keyterms: ['lark'], response_format: 'srt' } },
    eventId: /^evt_/,
  })
})

const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

async function submitted(t: Test, key: { readonly budgetMicros: number; readonly id: string }) {
  const api = await startJobsApi(t)
  const { rateLimit } = api.dependencies.services.snapshot()
  const authorization = api.admit({
    key: { name: 'caller', scopes: ['jobs'], rateLimit, expiresAtMs: null, ...key },
  })
  const answer = await api.submit(
    {
      audio: { base64: wavOf(4_044).toString('base64') },
      timestamps: 'word',
      keyterms: ['lark'],
      response_format: 'srt',
      response_profile: 'fast',
      colour: 'red',
    },
    { authorization, 'x-lk-purpose': 'calls', 'x-lk-request-id': 'my-request', traceparent: TRACEPARENT },
  )
  return { api, answer }
}

t.test('audio by URL is left to the worker: nothing is fetched, nothing of it refuses', async (t) => {
  // Of what is known of the audio nothing fits: it is for the worker to find out.
  const choosy = entryAt('http://127.0.0.1:1')
  const limits = { max_audio_bytes: 1, max_audio_seconds: 1, max_channels: 1 }
  const flac: AudioFormat = 'flac'
  const entries = [{ ...choosy, facts: { ...choosy.facts, limits: { ...limits, audio_formats: [flac] } } }]
  const api = await startJobsApi(t, {
    domains: ['cdn.example.com'],
    entries,
    limits: { max_audio_seconds: 1 },
  })
  await api.dependencies.services.state.settings.putAudioUrlDomains('acme', ['*.own.example'])
  for (const url of ['https://cdn.example.com/a.wav?x=1', 'https://a.own.example/b']) {
    const { status, job, text } = await api.submit({ audio: { url }, timestamps: 'word' })
    t.equal(status, 202, text)
    const { work } = (await api.jobs.get(job.job_id))!
    t.match(work, { operation: 'transcription', options: { timestamps: 'word' } })
    t.same('audio' in work && work.audio, { url })
  }
  t.same(await api.kept(), [])
})

t.test('mode: async on the synchronous endpoint is a submission', async (t) => {
  for (const memoryMib of [64, 2]) {
    const api = await startJobsApi(t, { memoryMib })
    const wav = wavOf(memoryMib === 2 ? 3_000_044 : 80_044)
    const { contentType, body } = multipart([
      { name: 'file', body: wav },
      { name: 'mode', body: 'async' },
    ])
    const answer = await api.ask('POST', '/v1/transcription', {
      headers: { 'content-type': contentType },
      body,
    })
    t.equal(answer.status, 202, answer.text)
    t.equal(answer.headers.get('location'), `${PATH}/${answer.job.job_id}`)
    const audio = audioOf((await api.jobs.get(answer.job.job_id))!)
    t.ok((await bytesOf(api, audio)).equals(wav))
    t.same(await api.kept(), [audio.source.kind === 'object' ? audio.source.key : ''])
    const spooled = async () => {
      for await (const _ of api.objects.list('spool/')) return true
      return false
    }
    t.ok(await waitUntil(async () => !(await spooled())), 'what was received elsewhere is gone')
    t.ok(await waitUntil(() => api.budgetUsed() === 0))
  }
})
