import type { Test } from 'tap'
import { newJobId } from '../../../src/contracts/ids.ts'
import type { JobEnding, JobProgress, JobSubmission, Retention } from '../../../src/contracts/jobs.ts'
import { JOB_STATUSES, QUEUE_MODES } from '../../../src/contracts/jobs.ts'
import { canonicalJson } from '../../../src/contracts/json.ts'
import { Dice } from '../../support/dice.ts'
import {
  CANCELLATION,
  claimingOf,
  FAILURE,
  neighbours,
  SUCCESS,
  slotOf,
  specOf,
} from '../../support/jobs-under-test.ts'
import { LONG_MS, newDigest, type StateUnderTest } from '../../support/state-under-test.ts'
import { JobsModel, type Time, viewOf } from './jobs-model.ts'

/** A step that begins a time of `OVER_MS` is followed by a pause of `PAUSE_MS`: at the next step that time is over. */
const OVER_MS = 1
const PAUSE_MS = 5
/** Fewer than what one sweep puts back. */
const JOBS_MAX = 40
/** What is done, as often as it stands here. */
const OFTEN = (
  'submit submit submit submit claim claim claim claim end end end end end renew cancel erase page ' +
  'takeExpired forget forget retry look look'
).split(' ')

/** A walk has all its workspaces in one partition, so that every claim comes past all of them. */
export function jobsModelContract(
  t: Test,
  start: (t: Test) => Promise<StateUnderTest>,
  walks: { readonly count: number; readonly steps: number },
): void {
  const first = Math.floor(Math.random() * 1_000_000)
  t.test(`random histories of jobs behave as the model says, from seed ${first}`, async (t) => {
    for (let seed = first; seed < first + walks.count; seed++)
      if (!(await walk(t, await start(t), seed, walks.steps))) break
  })
}

/** @returns whether state and model agreed all the way */
async function walk(t: Test, under: StateUnderTest, seed: number, steps: number): Promise<boolean> {
  const dice = new Dice(seed)
  const model = new JobsModel()
  const history: string[] = []
  const agree = (what: string, said: unknown, expected: unknown): boolean => {
    history.push(`${what} → ${JSON.stringify(said)}`)
    if (canonicalJson(said) === canonicalJson(expected)) return true
    t.same(said, expected, `seed ${seed}, step ${history.length}: ${what}`)
    t.comment(`seed ${seed}:\n${history.slice(-30).join('\n')}`)
    return false
  }
  const moves = movesOf(under, model, dice, agree)
  for (let step = 0; step < steps; step++) {
    if (!(await moves[dice.one(OFTEN)]!())) return false
    if (step % 5 === 0 && !(await moves.compare!())) return false
  }
  t.pass(`seed ${seed}: ${history.length} steps agree`)
  return true
}

type Agree = (what: string, said: unknown, expected: unknown) => boolean

function movesOf(
  { state, pass }: StateUnderTest,
  model: JobsModel,
  dice: Dice,
  agree: Agree,
): Record<string, () => Promise<boolean>> {
  const { jobs, outbox } = state
  const draw = drawing(dice, model)
  const pause = async (...times: readonly (Time | null)[]) => {
    if (times.includes('over')) await pass(PAUSE_MS)
  }
  return {
    async submit() {
      const { submission, keep } = draw.submission()
      const said = await jobs.submit(submission)
      await pause(keep)
      const shown = said.state === 'accepted' ? { ...said, job: viewOf(said.job) } : said
      return agree(`submit ${JSON.stringify(submission)}`, shown, model.submit(submission, keep))
    },
    async claim() {
      const lease = dice.chance(0.25) ? 'over' : 'long'
      const terms = { limit: dice.below(5), perWorkspace: 1 + dice.below(4), stalledMax: 2 + dice.below(2) }
      const claimed = await jobs.claim(claimingOf(terms))
      // One that is over at once could be taken over by the same claim.
      if (lease === 'over') for (const { job } of claimed) await jobs.renew(job.id, job.fence, OVER_MS, null)
      await pause(lease)
      const ids = claimed.map(({ job }) => job.id)
      const fault = model.claim(claimed, { ...terms, lease })
      for (const { job } of claimed) draw.claims.push(job)
      const shown = claimed.map(({ job }) => viewOf(job))
      return (
        agree(`claim ${JSON.stringify({ ...terms, lease })} ${ids}`, fault, null) &&
        agree(
          'which are shown as',
          shown,
          ids.map((id) => model.view(id)),
        )
      )
    },
    async renew() {
      const [{ id, fence }, lease, progress] = [draw.claim(), draw.time(0.2), draw.progress()]
      const said = await jobs.renew(id, fence, msOf(lease), progress)
      await pause(lease)
      return agree(`renew ${id} ${fence} ${lease}`, said, model.renew(id, fence, lease, progress))
    },
    async end() {
      const [{ id, fence }, keep, { ending, delay }] = [draw.claim(), draw.time(0.5), draw.ending()]
      const said = await jobs.end(id, fence, ending, retentionOf(keep))
      await pause(keep, delay)
      const expected = model.end(id, fence, ending, { keep, delay })
      return agree(`end ${id} ${fence} ${JSON.stringify(ending)}`, viewOf(said), expected)
    },
    async cancel() {
      const [id, keep] = [dice.chance(0.5) ? draw.claim().id : draw.id(), draw.time(0.5)]
      const owner = { workspace: draw.workspaceOf(id), app: dice.chance(0.9) ? 'web' : 'other' }
      const said = await jobs.cancel(id, owner, retentionOf(keep))
      await pause(keep)
      return agree(`cancel ${id} of ${owner.app}`, viewOf(said), model.cancel(id, owner, keep))
    },
    async erase() {
      const id = dice.chance(0.5) ? draw.claim().id : draw.id()
      const [keep, app] = [draw.time(0.5), dice.chance(0.9) ? 'web' : 'other']
      const spec = specOf(draw.workspaceOf(id), { id, kind: 'transcription', app, requestId: 'erased' })
      const said = await jobs.erase(spec, retentionOf(keep))
      await pause(keep)
      return agree(`erase ${id} of ${app}`, viewOf(said), model.erase(spec, keep))
    },
    async page() {
      const bound = () => dice.maybe(0.3, () => draw.id()) ?? null
      const owner = { workspace: draw.workspaceOf(draw.id()), app: 'web' }
      const statuses = dice.maybe(0.5, () => [dice.one(JOB_STATUSES), dice.one(JOB_STATUSES)]) ?? null
      const from = dice.one(['newest', 'oldest'] as const)
      const filter = { owner, statuses, after: bound(), before: bound(), from, limit: 1000 }
      const said = (await jobs.page(filter)).jobs.map(({ id }) => id)
      return agree(`page ${JSON.stringify(filter)}`, said, model.page(filter))
    },
    async takeExpired() {
      const limit = 1 + dice.below(4)
      const taken = (await jobs.takeExpired(limit)).map(({ id }) => id)
      return agree(`take ${limit} that are over`, taken.sort(), model.takeExpired(limit).sort())
    },
    async forget() {
      const id = draw.id()
      model.forget(id)
      return agree(`forget ${id}`, await jobs.forget(id), undefined)
    },
    async retry() {
      const id = draw.failed()
      return agree(`retry ${id}`, await jobs.retry(id), model.retry(id))
    },
    async look() {
      const filter = draw.filter()
      const listed = (await jobs.list(filter)).map(({ id }) => id)
      const all = model.matching(filter)
      const strange = listed.filter((id) => !all.includes(id))
      return (
        agree(`list ${JSON.stringify(filter)}`, strange, []) &&
        agree('so many', new Set(listed).size, Math.min(all.length, filter.limit))
      )
    },
    async compare() {
      const known = await jobs.known(draw.ids)
      const views = await Promise.all(draw.ids.map(async (id) => viewOf(await jobs.get(id))))
      const events = (await outbox.list(null, 1000)).map(({ jobId, status }) => ({ jobId, status }))
      return (
        agree(
          'all',
          views,
          draw.ids.map((id) => model.view(id)),
        ) &&
        agree('known', [...known.keys()].sort(), draw.ids.filter((id) => model.isKnown(id)).sort()) &&
        agree('waiting', await jobs.waiting(), model.waiting()) &&
        agree('announced', sorted(events), sorted(model.announced()))
      )
    },
  }
}

const msOf = (time: Time) => (time === 'over' ? OVER_MS : LONG_MS)

function retentionOf(keep: Time): Retention {
  return { transcriptionMs: msOf(keep), queueMs: msOf(keep), deadMs: msOf(keep) }
}

/** Everything that is drawn: mostly what makes sense, and what came before again, and what belongs to others. */
function drawing(dice: Dice, model: JobsModel) {
  const workspaces = neighbours(3)
  const slotIds = Array.from({ length: 4 }, newDigest)
  const submissions = new Map<string, { submission: JobSubmission; keep: Time }>()
  const claims: { readonly id: string; readonly fence: number }[] = []
  const ids: string[] = []
  const time = (over: number): Time => (dice.chance(over) ? 'over' : 'long')
  const id = () => (ids.length === 0 || dice.chance(0.03) ? newJobId('tj', workspaces[0]!) : dice.one(ids))

  const fresh = () => {
    const workspace = dice.one(workspaces)
    const [kind, mode] = [dice.one(['queue', 'transcription'] as const), dice.one(QUEUE_MODES)]
    const keep = time(0.5)
    const slot =
      dice.maybe(0.3, () =>
        slotOf({ id: dice.one(slotIds), fingerprint: dice.one(['f1', 'f1', 'f2']), keepMs: msOf(keep) }),
      ) ?? null
    return { submission: { spec: specOf(workspace, { kind, mode }), slot }, keep }
  }

  return {
    claims,
    ids,
    id,
    time,
    /** Mostly one of the queue. */
    failed(): string {
      const failed = model.matching({ workspace: null, kind: 'queue', status: 'failed', limit: 1000 })
      return failed.length === 0 || dice.chance(0.3) ? id() : dice.one(failed)
    },
    submission() {
      const known = ids.filter((known) => model.isKnown(known))
      if (known.length > 0 && (dice.chance(0.15) || model.waiting() >= JOBS_MAX))
        return submissions.get(dice.one(known))!
      const drawn = fresh()
      submissions.set(drawn.submission.spec.id, drawn)
      ids.push(drawn.submission.spec.id)
      return drawn
    },
    workspaceOf: (of: string) =>
      dice.chance(0.05) ? dice.one(workspaces) : (submissions.get(of)?.submission.spec.workspace ?? 'none'),
    /** Mostly a late one; now and then with a fence that nobody has. */
    claim() {
      const late = claims.slice(-12)
      if (late.length === 0 || dice.chance(0.05)) return { id: id(), fence: 1 + dice.below(3) }
      return dice.one(late)
    },
    progress: (): JobProgress | null =>
      dice.maybe(0.5, () => ({
        audio: null,
        upstream: { entry: 'e', state: { n: dice.below(99), list: [] } },
      })) ?? null,
    ending(): { ending: JobEnding; delay: Time | null } {
      if (dice.chance(0.5))
        return {
          ending: dice.one([SUCCESS, { ...SUCCESS, result: null }, FAILURE, CANCELLATION]),
          delay: null,
        }
      const delay = dice.one(['over', 'long', null] as const)
      const delayMs = delay === null ? 0 : msOf(delay)
      return { ending: { state: 'queued', delayMs, counts: dice.one(['retry', 'return', 'nothing']) }, delay }
    },
    filter: () => ({
      workspace: dice.maybe(0.5, () => dice.one(workspaces)) ?? null,
      kind: dice.maybe(0.3, () => dice.one(['queue', 'transcription'] as const)) ?? null,
      status: dice.maybe(0.5, () => dice.one(JOB_STATUSES)) ?? null,
      limit: dice.one([1, 3, 1000]),
    }),
  }
}

const sorted = (items: readonly object[]) => items.map((item) => JSON.stringify(item)).sort()
