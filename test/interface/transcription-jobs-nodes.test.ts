import t from 'tap'
import { startFleet } from '../support/fleet.ts'
import { TRANSCRIPT_DELTAS } from '../support/upstream/openai.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

const PATH = '/v1/transcription/jobs'
const ENTRY = {
  provider: 'own',
  model: 'whisper-1',
  capabilities: ['audio_input'],
  features: ['segment_timestamps'],
  price: { per_hour_usd: 3.6 },
}

interface JobObject {
  readonly job_id: string
  readonly status: string
  readonly [field: string]: unknown
}

t.test('jobs belong to all nodes: Redis, S3 and nginx', { timeout: 120_000 }, async (t) => {
  const upstream = await startUpstream(t)
  const { node, nginx, authorizationOf } = await startFleet(t, {
    ...{ nodes: 3, nginx: true, redis: { durable: true }, s3: 'shared' },
    providers: {
      own: { kind: 'openai-compatible', access: 'byok', workspace: 'acme', base_url: upstream.url },
    },
    workspaces: { acme: { entries: [ENTRY] } },
    // Bodies over this go to the bucket as they arrive.
    env: { LARKWAY_MEMORY_MIB: '8' },
  })
  const headers = { authorization: authorizationOf('acme'), 'content-type': 'audio/wav' }
  const [first, second, third] = [node(), node(1), node(2)]
  const submit = (url: string, wav: Buffer, key?: string) =>
    fetch(url + PATH, {
      method: 'POST',
      headers: { ...headers, ...(key === undefined ? {} : { 'idempotency-key': key }) },
      body: new Uint8Array(wav),
    })
  const read = async (response: Response) => (await response.json()) as JobObject
  const ended = async (url: string, id: string) => {
    for (;;) {
      const response = await fetch(`${url}${PATH}/${id}?wait=20`, { headers })
      const job = await read(response)
      if (response.headers.get('retry-after') === null) return job
    }
  }
  for (const bytes of [64_044, 12_000_044]) {
    const wav = filledWav(bytes, 1)
    const accepted = await submit(first.url, wav, `k-${bytes}`)
    t.equal(accepted.status, 202)
    const { job_id: id } = await read(accepted)
    for (const url of [second.url, nginx.url]) {
      const job = await ended(url, id)
      t.match(job, { status: 'succeeded', result: { content: TRANSCRIPT_DELTAS.join('') } }, `${bytes} bytes`)
    }
    const replayed = await submit(third.url, wav, `k-${bytes}`)
    t.same([replayed.status, replayed.headers.get('x-lk-idempotent-replay')], [200, 'true'])
    t.match(await read(replayed), { job_id: id, status: 'succeeded' })
  }
  t.equal(upstream.received.length, 2)

  upstream.behave('whisper-1', { deltas: Array.from({ length: 60_000 }, (_, at) => `mot-é${at} `) })
  const { job_id: large } = await read(await submit(nginx.url, filledWav(64_044, 2)))
  const { result, result_url: url } = await ended(third.url, large)
  t.equal(result, null)
  t.match(url, /^https?:\/\//, 'the bucket’s own')
  const opened = await fetch(String(url))
  t.equal(opened.status, 200)
  t.match(((await opened.json()) as { content: string }).content, /^mot-é0 .*mot-é59999/)

  const answer = Promise.withResolvers<void>()
  t.teardown(() => answer.resolve())
  upstream.behave('whisper-1', { before: () => answer.promise })
  const { job_id: id } = await read(await submit(first.url, filledWav(64_044, 3)))
  const status = async () => (await read(await fetch(`${second.url}${PATH}/${id}`, { headers }))).status
  t.ok(await waitUntil(async () => (await status()) === 'processing'))
  const cancelled = await fetch(`${third.url}${PATH}/${id}`, { method: 'DELETE', headers })
  t.match(await read(cancelled), { status: 'processing', cancel_requested: true })
  t.match(await ended(nginx.url, id), { status: 'cancelled', cancel_requested: true })
})
