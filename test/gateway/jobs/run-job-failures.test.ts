import t from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { createFileObjects } from '../../../src/gateway/storage/folder.ts'
import { chattingRig, hearingRig, SOUND } from '../../support/job-rig.ts'
import { tempFolder } from '../../support/scratch.ts'
import { waitUntil } from '../../support/wait-until.ts'

t.test('a provider that fails for a while is tried again, on a count of its own', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  upstream.behave('ear', { status: 500 })
  rig.run()
  const id = await rig.hear(SOUND)
  await rig.reached(id, ({ retries }) => retries === 2)
  upstream.behave('ear', {})
  const job = await rig.ended(id)
  t.match(job, { status: 'succeeded', retries: 2, returns: 0, stalled: 0, fence: 3 })
})

t.test('a provider that goes on failing fails a transcription job at the third time', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  upstream.behave('ear', { status: 500 })
  rig.run()
  const job = await rig.ended(await rig.hear(SOUND))
  t.match(job, { status: 'failed', retries: 2, fence: 3, result: null })
  t.match(job.error, { code: 'UPSTREAM_ERROR', details: { attempts: [{ model: 'ear', status: 500 }] } })
  t.equal(job.facts?.policy_version_id, 'pv_0123456789abcdef')
  t.equal(upstream.received.length, 3)
  t.notMatch(JSON.stringify([job.error, rig.lines]), /sk-secret/, 'a body of a provider is nowhere')
  t.ok(await waitUntil(async () => (await rig.keys()).length === 0))
})

t.test('and a job of the queue at the fourth time; what it was given stays for another try', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  upstream.behave('ear', { status: 503 })
  rig.run()
  const job = await rig.ended(await rig.hear(SOUND, 'queue'))
  t.match(job, { status: 'failed', retries: 3, fence: 4 })
  t.equal((await rig.keys()).length, 1)
  upstream.behave('ear', {})
  t.equal(await rig.jobs.retry(job.id), true)
  rig.signals.queued()
  const again = await rig.reached(job.id, ({ status }) => status === 'succeeded')
  t.equal(again.retries, 0)
})

t.test('a provider that asks to be left alone is left alone, by every job, and fails none', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  upstream.behave('ear', { status: 429, headers: { 'retry-after': '4' } })
  rig.run()
  const asking = await rig.hear(SOUND)
  await rig.reached(asking, ({ retries }) => retries === 1)
  upstream.behave('ear', {})
  const meanwhile = await rig.hear(SOUND)
  const heard = await rig.ended(asking)
  t.match(heard, { status: 'succeeded', retries: 1, fence: 2 })
  const [, , back, again] = heard.history
  t.ok(again!.atMs - back!.atMs >= 4_000, 'it came back when it was asked to')
  t.match(
    await rig.ended(meanwhile),
    { status: 'succeeded', retries: 0 },
    'nobody was asked for it too early',
  )
  t.equal(upstream.received.length, 3)
})

t.test('what the provider refuses for good is not tried again', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  upstream.behave('ear', { status: 400 })
  rig.run()
  const job = await rig.ended(await rig.hear(SOUND))
  t.match(job, { status: 'failed', fence: 1, error: { code: 'UPSTREAM_REJECTED' } })
})

t.test('a job whose app is not configured any more fails', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  rig.run({ appless: true })
  const job = await rig.ended(await rig.hear(SOUND))
  t.match(job, { status: 'failed', fence: 1, error: { code: 'NO_HEALTHY_PROVIDER' } })
  t.equal(upstream.received.length, 0)
})

t.test('a job that the credits do not cover fails with that', async (t) => {
  const terms = { grant: null, trial: null, budgetMicros: null }
  const workspace = { id: 'acme', name: 'Acme', plan: null, includes: null, terms }
  const { rig } = await hearingRig(t, { caller: { workspace } })
  rig.run()
  const job = await rig.ended(await rig.hear(SOUND))
  t.match(job, { status: 'failed', error: { code: 'INSUFFICIENT_CREDITS' } })
})

t.test('a store that is away returns the job, and it is done when the store is back', async (t) => {
  const { rig } = await hearingRig(t)
  let failures = 3
  const keepResult = (...args: Parameters<typeof rig.objects.keepResult>) => {
    failures -= 1
    if (failures < 0) return rig.objects.keepResult(...args)
    return Promise.reject(new GatewayError('DEPENDENCY_UNAVAILABLE'))
  }
  rig.run({ objects: { keepResult } })
  const job = await rig.ended(await rig.hear(SOUND))
  t.match(job, { status: 'succeeded', returns: 3, retries: 0, fence: 4 })
})

t.test('a store that stays away fails the job at last', async (t) => {
  const { rig, upstream } = await chattingRig(t)
  rig.run({ objects: { open: () => Promise.reject(new GatewayError('OVERLOADED')) } })
  const job = await rig.ended(await rig.chat())
  t.match(job, { status: 'failed', returns: 70, fence: 71, error: { code: 'OVERLOADED' } })
  t.equal(upstream.received.length, 0)
})

t.test('a job whose input the store does not find is tried again, and fails at last', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  const id = await rig.hear(SOUND)
  for (const key of await rig.keys()) await rig.store.remove(key)
  rig.run({ objects: { open: async () => null } })
  const heard = await rig.ended(id)
  const chatted = await rig.ended(await rig.chat())
  t.match(heard, { status: 'failed', returns: 0, retries: 2, fence: 3 })
  t.match(chatted, { status: 'failed', returns: 0, retries: 3, fence: 4 })
  for (const { error } of [heard, chatted])
    t.same(error, { code: 'INTERNAL', message: 'internal error', param: null, details: {} })
  t.equal(upstream.received.length, 0)
  t.ok(await waitUntil(() => rig.ends().length === 7))
  for (const line of rig.ends()) t.match(line, { level: 50, error: 'INTERNAL', err: { message: /gone/ } })
})

t.test('a job whose input the store does not find for once succeeds', async (t) => {
  const folder = await createFileObjects(await tempFolder(t))
  const unfound = { left: 0 }
  const store: typeof folder = {
    ...folder,
    async get(...asked) {
      unfound.left -= 1
      if (unfound.left < 0) return folder.get(...asked)
      const cause = Object.assign(new Error('404'), { name: 'NoSuchKey' })
      throw new GatewayError('DEPENDENCY_UNAVAILABLE', undefined, { cause })
    },
  }
  const { rig, upstream } = await hearingRig(t, { store })
  const id = await rig.hear(SOUND)
  unfound.left = 2
  rig.run()
  t.match(await rig.ended(id), { status: 'succeeded', retries: 2, returns: 0 })
  t.equal(upstream.received.length, 1)
})
