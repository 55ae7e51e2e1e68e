import t from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { Job } from '../../../src/contracts/jobs.ts'
import { sha256 } from '../../support/digests.ts'
import { chattingRig, hearingRig, SOUND } from '../../support/job-rig.ts'
import { waitUntil } from '../../support/wait-until.ts'

const statusesOf = ({ history }: Job) => history.map(({ status }) => status)

t.test('a transcription job succeeds, and keeps nothing but its result', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  rig.run()
  const id = await rig.hear(SOUND)
  const job = await rig.ended(id)
  t.same(statusesOf(job), ['queued', 'processing', 'succeeded'])
  t.equal(job.fence, 1)
  t.equal(upstream.received[0]?.sha256, sha256(SOUND))
  const json = job.result === null ? null : await rig.objects.open(job.result)
  t.match(JSON.parse(json ?? ''), {
    id: `req_of_${id}`,
    status: 'succeeded',
    content: 'the lark at break of day',
    model: 'ear',
    policy_version_id: 'pv_0123456789abcdef',
    duration_seconds: 1,
    usage: { audio_seconds: 1 },
  })
  t.same(job.facts, {
    policy_version_id: 'pv_0123456789abcdef',
    lk_applied_purpose: null,
    lk_purpose_source: 'none',
  })
  t.ok(await waitUntil(async () => (await rig.keys()).length === 0), 'what it was given is gone')
  t.ok(await waitUntil(() => rig.memoryUsed() === 0), 'and no memory is held')
})

t.test('its line in the log says what it came to, and no word of what was heard', async (t) => {
  const { rig } = await hearingRig(t)
  rig.run()
  const id = await rig.hear(SOUND)
  await rig.ended(id)
  t.ok(await waitUntil(() => rig.ends().length > 0))
  t.equal(rig.ends().length, 1)
  t.match(rig.ends()[0], {
    msg: 'job',
    job_id: id,
    request_id: `req_of_${id}`,
    kind: 'transcription',
    operation: 'transcription',
    workspace: 'acme',
    app: 'web',
    key_id: 'key_web',
    status: 'succeeded',
    fence: 1,
    attempts: [{ provider: 'first', model: 'ear', status: 200, reason: 'ok' }],
    usage: { audio_seconds: 1 },
    cost_usd: 0.0001,
  })
  t.notMatch(JSON.stringify(rig.lines), /lark at|secret/)
})

t.test('a large result is an object, which stays', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  const deltas = [Array.from({ length: 60_000 }, (_, at) => `word${at}`).join(' ')]
  upstream.behave('ear', { deltas })
  rig.run()
  const job = await rig.ended(await rig.hear(SOUND))
  t.ok(job.result !== null && 'object' in job.result)
  if (job.result === null || !('object' in job.result)) return
  t.match(job.result.object, new RegExp(`^result/acme/${job.id}/1`))
  const text = (await rig.objects.open(job.result)) ?? ''
  t.equal(JSON.parse(text).content, deltas[0])
  const { object } = job.result
  t.ok(await waitUntil(async () => (await rig.keys()).join() === object))
})

t.test('a job of the queue runs and is metered, and its output is thrown away', async (t) => {
  const { rig, upstream } = await chattingRig(t)
  rig.run()
  const job = await rig.ended(await rig.chat())
  t.equal(job.status, 'succeeded')
  t.equal(job.result, null)
  t.equal(upstream.received.length, 1)
  t.ok(await waitUntil(() => rig.ends().length === 1))
  t.match(rig.ends()[0], { kind: 'queue', operation: 'chat', usage: { input_tokens: 11, output_tokens: 7 } })
  t.ok(await waitUntil(() => rig.memoryUsed() === 0))
})

t.test('a transcription in the queue is heard, metered and thrown away', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  rig.run()
  const job = await rig.ended(await rig.hear(SOUND, 'queue'))
  t.match(job, { status: 'succeeded', result: null })
  t.equal(upstream.received.length, 1)
  t.ok(await waitUntil(async () => (await rig.keys()).length === 0))
})

t.test('an end that the state does not take at first is told until it does', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  let failures = 4
  const end: typeof rig.jobs.end = (...args) => {
    failures -= 1
    if (failures < 0) return rig.jobs.end(...args)
    // Half of them were taken all the same.
    if (failures % 2 === 0)
      return rig.jobs.end(...args).then(() => Promise.reject(new GatewayError('DEPENDENCY_UNAVAILABLE')))
    return Promise.reject(new GatewayError('DEPENDENCY_UNAVAILABLE'))
  }
  rig.run({ jobs: { end } })
  const id = await rig.hear(SOUND)
  t.equal((await rig.ended(id)).status, 'succeeded')
  t.ok(await waitUntil(() => rig.ends().length === 1))
  t.match(rig.ends()[0], { status: 'succeeded' })
  t.equal(upstream.received.length, 1)
})
