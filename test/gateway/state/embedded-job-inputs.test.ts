import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { JobEnding, JobSpec } from '../../../src/contracts/jobs.ts'
import { openEmbeddedState } from '../../../src/gateway/state/embedded/state.ts'
import { startBareOperations } from '../../support/bare-operations.ts'
import {
  CANCELLATION,
  claimingOf,
  FAILURE,
  KEEP,
  RETURN,
  SUCCESS,
  specOf,
} from '../../support/jobs-under-test.ts'
import { tempFolder } from '../../support/scratch.ts'
import { emptyStateIn } from '../../support/state-file.ts'
import { LONG_MS } from '../../support/state-under-test.ts'

const AGE_MS = 5_000
/** After which audio that was not moved is handed out again. */
const AGAIN_MS = 60_000
const OWNER = { workspace: 'acme', app: 'web' }

async function start(t: Test) {
  const { state, pass } = await startBareOperations(t)
  const { jobs, jobInputs } = state
  if (jobInputs === null) throw new Error('the state has no audio of jobs')
  let made = 0
  return {
    jobs,
    jobInputs,
    pass,
    /** A job with audio in its record. */
    async accept(over: Partial<JobSpec> = { kind: 'transcription' }) {
      made += 1
      const spec = specOf('acme', over)
      const input = Buffer.alloc(1_000 * made, made)
      await jobs.submit({ spec, slot: null, input })
      return { id: spec.id, input }
    },
    async claimed() {
      const [one] = await jobs.claim(claimingOf())
      if (one === undefined) throw new Error('there was no job')
      return one
    },
    /** The ids of the jobs whose audio is to be moved. */
    waiting: async (ageMs = AGE_MS, limit = 10) =>
      (await jobInputs.take(limit, ageMs)).map(({ job }) => job.id),
  }
}

t.test('whoever takes a job up has its audio, and nobody else', async (t) => {
  const { jobs, accept, claimed } = await start(t)
  const { id, input } = await accept()
  t.notOk('input' in (await jobs.get(id))!)
  const claim = await claimed()
  t.same(Buffer.from(claim.input!), input)
  await jobs.end(id, 1, RETURN, KEEP)
  t.same(Buffer.from((await claimed()).input!), input, 'the next worker has it, too')
  await jobs.submit({ spec: specOf('acme'), slot: null })
  t.equal((await claimed()).input, undefined, 'a job without any has none')
})

t.test('the audio is there for whoever takes over from a worker that has died', async (t) => {
  const { accept, claimed, pass } = await start(t)
  const { input } = await accept()
  await claimed()
  await pass(2 * LONG_MS)
  t.same(Buffer.from((await claimed()).input!), input)
})

t.test('the end of a job removes its audio', async (t) => {
  const ends: readonly JobEnding[] = [SUCCESS, FAILURE, CANCELLATION]
  for (const ending of ends) {
    const { jobs, jobInputs, accept, claimed, waiting } = await start(t)
    const { id } = await accept()
    await claimed()
    await jobs.end(id, 1, ending, KEEP)
    t.same(await waiting(0), [], ending.state)
    t.equal(await jobInputs.moved(id), false, 'an object of it is not needed')
  }
  const { jobs, accept, waiting } = await start(t)
  const { id } = await accept()
  await jobs.cancel(id, OWNER, KEEP)
  t.same(await waiting(0), [], 'cancelled while it waited')
})

t.test('audio that no worker takes up is moved: once at a time, the oldest first', async (t) => {
  const { jobInputs, accept, claimed, waiting, pass } = await start(t)
  const old = [await accept(), await accept(), await accept()]
  await pass(AGE_MS)
  const young = await accept()
  t.same(
    await waiting(AGE_MS, 2),
    old.slice(0, 2).map(({ id }) => id),
  )
  t.same(await waiting(), [old[2]!.id])
  t.same(await waiting(), [], 'others have them')
  t.same(await waiting(0), [young.id], 'and young ones for whoever asks')
  await pass(AGAIN_MS + AGE_MS)
  const [first, ...rest] = await jobInputs.take(10, AGE_MS)
  t.same(Buffer.from(first!.input), old[0]!.input, 'again, since none was moved')
  t.equal(rest.length, 3)
  t.equal(await jobInputs.moved(old[0]!.id), true)
  t.equal(await jobInputs.moved(old[0]!.id), true, 'said twice, the object is needed all the same')
  const claim = await claimed()
  t.same([claim.job.id, claim.input], [old[0]!.id, undefined], 'its worker reads the object')
  t.equal(await jobInputs.moved(old[0]!.id), true, 'which it needs')
})

t.test('audio of a job that is taken up meanwhile stays in the record, and its object goes', async (t) => {
  const { jobs, jobInputs, accept, claimed, waiting } = await start(t)
  const { id, input } = await accept()
  t.same(await waiting(0), [id])
  t.same(Buffer.from((await claimed()).input!), input)
  t.same(await waiting(0), [], 'nobody moves it while it is processed')
  t.equal(await jobInputs.moved(id), false)
  await jobs.end(id, 1, RETURN, KEEP)
  t.same(Buffer.from((await claimed()).input!), input)
})

t.test('a failed job of the queue keeps its audio, until it is purged', async (t) => {
  const { jobs, jobInputs, accept, claimed, waiting, pass } = await start(t)
  const { id, input } = await accept({ kind: 'queue' })
  await claimed()
  await jobs.end(id, 1, FAILURE, KEEP)
  t.ok(await jobs.retry(id))
  t.same(Buffer.from((await claimed()).input!), input)
  await jobs.end(id, 2, FAILURE, KEEP)
  t.same(await waiting(0), [id])
  await pass(KEEP.deadMs)
  t.match(await jobs.takeExpired(1), [{ id }])
  await jobs.forget(id)
  await pass(AGAIN_MS)
  t.same(await waiting(0), [])
  t.equal(await jobInputs.moved(id), false)
})

t.test('a job that its owner erases keeps no audio', async (t) => {
  const { jobs, accept, claimed, waiting, pass } = await start(t)
  const [{ id }] = [await accept()]
  const spec = specOf('acme', { kind: 'transcription', id })
  await claimed()
  await jobs.erase(spec, KEEP)
  await jobs.end(id, 1, SUCCESS, KEEP)
  await pass(AGE_MS)
  t.same(await waiting(), [])
})

t.test('nothing of deleted audio and transcripts can be read in the files of the state', async (t) => {
  const folder = await tempFolder(t)
  const file = await emptyStateIn(folder)
  const state = await openEmbeddedState({ file, log: pino({ level: 'silent' }) })
  const spec = specOf('acme', { kind: 'transcription' })
  const [heard, said] = ['what was sent '.repeat(2_000), 'what was heard '.repeat(500)]
  await state.jobs.submit({ spec, slot: null, input: Buffer.from(heard) })
  const found = (text: string) =>
    readdirSync(folder).some((name) => readFileSync(join(folder, name)).includes(text.slice(0, 100)))
  t.ok(found(heard), 'the audio is in a file')
  await state.jobs.claim(claimingOf())
  await state.jobs.end(spec.id, 1, { ...SUCCESS, result: { text: said } } as JobEnding, KEEP)
  t.ok(found(said), 'and so is the transcript')
  await state.jobs.erase(spec, KEEP)
  await state.close()
  t.notOk(found(heard))
  t.notOk(found(said))
})

t.test(
  'the state has room for audio until it holds 128 MiB, and again when it does not any more',
  async (t) => {
    const { jobs, jobInputs } = await start(t)
    const MIB = 1024 ** 2
    const specs = Array.from({ length: 128 }, () => specOf('acme', { kind: 'transcription' }))
    for (const [at, spec] of specs.entries()) {
      if (at === 120) t.equal(await jobInputs.hasRoom(), true, '120 MiB')
      await jobs.submit({ spec, slot: null, input: Buffer.alloc(MIB) })
    }
    t.equal(await jobInputs.hasRoom(), false, '128 MiB')
    for (const { id } of specs.slice(0, 8)) t.equal(await jobInputs.moved(id), true)
    t.equal(await jobInputs.hasRoom(), true, '120 MiB again')
  },
)
