import t from 'tap'
import { startSandbox } from '../../src/sandbox/server.ts'
import { entryAt } from '../support/gateway-rig.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'
import { startQueueApi } from './queue-api.ts'

/** Too long for the record of a job. */
const AUDIO = filledWav(80_044).toString('base64')
const DEAD = { workspace: null, kind: 'queue', status: 'failed', limit: 10 } as const

t.test('after three retries a job is dead; tried again by hand it has what it was given', async (t) => {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const { origin } = new URL(sandbox.url)
  const options = { status: 500, fail_times: 8, key: 'all' }
  const entries = [entryAt(origin, { kind: 'sandbox', model: 'morse-1', options })]
  const api = await startQueueApi(t, { entries })
  api.work()
  const heard = await api.enqueued({ endpoint: 'transcription', payload: { audio: AUDIO } })
  const said = await api.enqueued({ endpoint: 'complete', payload: { prompt: 'hello '.repeat(20_000) } })
  for (const { id } of [heard, said]) {
    const job = await api.ended(id)
    t.match(job, { status: 'failed', error: { code: 'UPSTREAM_ERROR' }, retries: 3, fence: 4 })
  }
  t.same(new Set((await api.jobs.list(DEAD)).map(({ id }) => id)), new Set([heard.id, said.id]))
  t.equal((await api.kept()).length, 2, 'what they were given is still there')

  for (const { id } of [heard, said]) {
    t.ok(await api.jobs.retry(id))
    t.match(await api.ended(id), { status: 'succeeded', result: null, error: null })
  }
  t.same(await api.jobs.list(DEAD), [])
  t.ok(await waitUntil(async () => (await api.kept()).length === 0), 'nothing is kept of what is done')
  t.equal(api.budgetUsed(), 0)
})

t.test('a job with a key is not run again by its replay', async (t) => {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const { origin } = new URL(sandbox.url)
  const api = await startQueueApi(t, { entries: [entryAt(origin, { kind: 'sandbox', model: 'morse-1' })] })
  api.work()
  const body = { endpoint: 'transcription', payload: { audio: AUDIO }, idempotency_key: 'k' }
  const first = await api.post(body)
  await api.ended(first.body.job?.id ?? '')
  const again = await api.post(body)
  t.equal(again.status, 200)
  t.strictSame(again.body, first.body, 'the first answer, though the job has ended')
  t.ok(await waitUntil(async () => (await api.kept()).length === 0))
  const calls = await (await fetch(`${origin}/sandbox/calls`)).json()
  t.equal((calls as { calls: unknown[] }).calls.length, 1)
})
