import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { JobObjects } from '../../../src/contracts/job-objects.ts'
import { INPUT_BYTES_MAX, type JobInputs } from '../../../src/contracts/jobs.ts'
import { createLogger } from '../../../src/contracts/log.ts'
import { makeKey } from '../../../src/gateway/catalog/key.ts'
import { startInputMoves } from '../../../src/gateway/jobs/inputs.ts'
import { sha256 } from '../../support/digests.ts'
import { startGateway } from '../../support/gateway.ts'
import { hearingRig, type JobRig, SOUND } from '../../support/job-rig.ts'
import { tempFolder } from '../../support/scratch.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { filledWav } from '../../support/wav.ts'

const LARGEST = filledWav(INPUT_BYTES_MAX, 1)

interface MoveOptions {
  readonly objects?: Partial<JobObjects>
  readonly inputs?: Partial<JobInputs>
}

/** Moves what waits, as a node does whose state has no room, until nothing is left. */
async function moveAll(rig: JobRig, { objects, inputs }: MoveOptions = {}): Promise<void> {
  const { jobInputs } = rig.services.state
  const { take, ...others } = { ...jobInputs!, hasRoom: async () => false, ...inputs }
  const { promise: done, resolve: endNow } = Promise.withResolvers<void>()
  const stop = startInputMoves({
    inputs: {
      ...others,
      async take(limit) {
        const taking = take(limit, 0)
        const isLast = await taking.then(({ length }) => length < limit).catch(() => true)
        if (isLast) endNow()
        return taking
      },
    },
    objects: { ...rig.objects, ...objects },
    log: createLogger('silent'),
    clock: new VirtualClock(),
  })
  await done
  await stop()
}

t.test('small audio goes by the record of its job, and no object is made', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  const sent = [SOUND, LARGEST]
  const ids = [await rig.hearInline(SOUND), await rig.hearInline(LARGEST)]
  t.same(await rig.keys(), [])
  rig.run()
  for (const id of ids) t.match(await rig.ended(id), { status: 'succeeded', fence: 1 })
  t.same(new Set(upstream.received.map((one) => one.sha256)), new Set(sent.map(sha256)))
  t.same(await rig.keys(), [])
  t.ok(await waitUntil(() => rig.memoryUsed() === 0))
})

t.test('audio is too long for a record, or elsewhere than in memory', async (t) => {
  const { rig } = await hearingRig(t)
  await t.rejects(rig.hearInline(filledWav(INPUT_BYTES_MAX + 1)))
  const job = (await rig.job(await rig.hear(SOUND)))!
  if (!('audio' in job.work) || 'url' in job.work.audio) throw new Error('the job has no audio')
  t.equal(rig.objects.inline(job.work.audio, job), null)
})

/** A rig with a job whose provider fails once, so that it waits for its next try, and a worker of another node. */
async function triedRig(t: Test) {
  const { rig, upstream } = await hearingRig(t)
  upstream.behave('ear', { status: 500 })
  const runner = rig.run({ timing: { retryMs: [60_000, 60_000, 60_000] } })
  const id = await rig.hearInline(SOUND)
  await rig.reached(id, ({ retries }) => retries === 1)
  await runner.stop(0)
  upstream.behave('ear', {})
  return { rig, upstream, id }
}

t.test(
  'what the state has no room for is moved, and heard out of the store, which then has nothing',
  async (t) => {
    const { rig, upstream } = await hearingRig(t)
    const ids = await Promise.all(Array.from({ length: 70 }, () => rig.hearInline(SOUND)))
    await moveAll(rig)
    t.equal((await rig.keys()).length, ids.length, 'all of them, in however many rounds')
    await moveAll(rig)
    t.equal((await rig.keys()).length, ids.length)
    rig.run()
    for (const id of ids) t.match(await rig.ended(id), { status: 'succeeded' })
    t.ok(upstream.received.every((one) => one.sha256 === sha256(SOUND)))
    t.ok(await waitUntil(async () => (await rig.keys()).length === 0))
  },
)

t.test('a job that was tried once is moved, too', async (t) => {
  const { rig, id } = await triedRig(t)
  await moveAll(rig)
  const { work } = (await rig.job(id))!
  const source = 'audio' in work && !('url' in work.audio) ? work.audio.source : null
  t.same(await rig.keys(), [source?.kind === 'object' ? source.key : ''])
})

t.test(
  'a backlog is moved after a while, by the clock of the node, once the state has no room',
  async (t) => {
    const { rig } = await hearingRig(t)
    const clock = new VirtualClock()
    const answers = [true, false, false]
    const asked: number[] = []
    const stop = startInputMoves({
      inputs: {
        ...rig.services.state.jobInputs!,
        hasRoom: async () => answers.shift()!,
        take(limit, ageMs) {
          asked.push(ageMs)
          return rig.services.state.jobInputs!.take(limit, 0)
        },
      },
      objects: rig.objects,
      log: createLogger('silent'),
      clock,
    })
    t.teardown(stop)
    await waitUntil(() => answers.length === 2)
    await rig.hearInline(SOUND)
    t.same([asked, await rig.keys()], [[], []])
    await clock.advance(5_000)
    t.ok(await waitUntil(async () => (await rig.keys()).length === 1))
    t.same(asked, [10_000])
  },
)

t.test('a job that is taken up while its audio is moved is heard once, and leaves no object', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  const id = await rig.hearInline(SOUND)
  const { promise: answer, resolve: answerNow } = Promise.withResolvers<void>()
  upstream.behave('ear', { before: () => answer })
  await moveAll(rig, {
    objects: {
      async storeInline(job, input) {
        await rig.objects.storeInline(job, input)
        rig.run()
        await rig.reached(id, ({ status }) => status === 'processing')
      },
    },
  })
  t.same(await rig.keys(), [])
  answerNow()
  t.match(await rig.ended(id), { status: 'succeeded', fence: 1 })
  t.equal(upstream.received.length, 1)
  t.same(await rig.keys(), [])
})

t.test('a store or a state that is away loses nothing', async (t) => {
  const away = () => Promise.reject(new GatewayError('DEPENDENCY_UNAVAILABLE'))
  const failures: readonly MoveOptions[] = [
    { objects: { storeInline: away } },
    { inputs: { moved: away } },
    { inputs: { take: away } },
  ]
  for (const failure of failures) {
    const { rig, upstream } = await hearingRig(t)
    const id = await rig.hearInline(SOUND)
    await moveAll(rig, failure)
    rig.run()
    t.match(await rig.ended(id), { status: 'succeeded', fence: 1 })
    t.same(
      upstream.received.map((one) => one.sha256),
      [sha256(SOUND)],
    )
  }
})

t.test('audio that is damaged in the record is heard by nobody', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  const damaging: JobObjects['openInline'] = (audio, input) => {
    const damaged = Uint8Array.from(input)
    damaged[1_000]! ^= 1
    return rig.objects.openInline(audio, damaged)
  }
  rig.run({ objects: { openInline: damaging } })
  t.match(await rig.ended(await rig.hearInline(SOUND)), {
    status: 'failed',
    retries: 2,
    error: { code: 'INTERNAL' },
  })
  t.equal(upstream.received.length, 0)
})

t.test(
  'small audio stays in the state when a node without workers stops, for one that has some',
  async (t) => {
    const dataFolder = await tempFolder(t)
    const key = makeKey()
    const start = (jobs: string) => startGateway(t, { dataFolder, key, env: { LARKWAY_JOBS: jobs } })
    const taker = await start('0')
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'audio/wav' }
    const body = new Uint8Array(SOUND)
    const answer = await fetch(`${taker.url}/v1/transcription/jobs`, { method: 'POST', headers, body })
    const { job_id: id } = (await answer.json()) as { job_id: string }
    const files = async () => (await readdir(join(dataFolder, 'job'))).filter((name) => name.includes(id))
    t.same(await files(), [])
    await taker.signal('SIGTERM')
    t.same(await files(), [])
    const worker = await start('4')
    const hasSucceeded = async () => {
      const shown = await fetch(`${worker.url}/v1/transcription/jobs/${id}`, { headers })
      return ((await shown.json()) as { status: string }).status === 'succeeded'
    }
    t.ok(await waitUntil(hasSucceeded))
    t.same(await files(), [])
  },
)
