import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { AccountTerms, AccountView } from '../../src/contracts/ledger.ts'
import { DEFAULT_LIMITS } from '../../src/contracts/limits.ts'
import type { State } from '../../src/contracts/state.ts'
import { retentionOf } from '../../src/gateway/jobs/retention.ts'
import { createCommit } from '../../src/gateway/state/embedded/commit.ts'
import { openDatabase } from '../../src/gateway/state/embedded/database.ts'
import { createOperations } from '../../src/gateway/state/embedded/operations.ts'
import { type Fleet, killNowAndThen, startFleet } from '../support/fleet.ts'
import {
  chatting,
  hearing,
  JOB_TIMING,
  jobTenants,
  KILLED_JOB_TIMING,
  submitJob,
} from '../support/fleet-jobs.ts'
import { withoutServers } from '../support/servers.ts'
import type { ReceivedRequest, Script } from '../support/upstream/dialect.ts'
import { markOf, startUpstream, type Upstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

t.setTimeout(600_000)
// Most of the time they wait for the leases of what was killed. Each has options of its own: tap keeps results in them.
t.jobs = 3

/** Each of a workspace of its own, whose account knows of nothing else. */
const isLong = process.env.LARKWAY_TEST_LONG === '1'
const JOBS = isLong ? 2_000 : 100
const KILLS = isLong ? 30 : 5
/** Less than two leases: a job that met three kills would be given up, and it meets one in each of its leases. */
const KILLING_MS = isLong ? 50_000 : 15_000
const TIMING = isLong ? KILLED_JOB_TIMING : JOB_TIMING
const WORKERS = 3
const CALLERS = 4
/** The pause of a caller between two jobs, so that all of them see kills. */
const PAUSE_MS = 200
/** After the last kill: a lease of 10 or 30 s, a retry after some 5 s more, and a wait for a place. */
const ENDED_MS = 90_000
const MAX_TOKENS = 5_000
const TERMS = { credits_usd: 1, grant_id: 'initial' }
const NO_TERMS: AccountTerms = { grant: null, trial: null, budgetMicros: null }
const HOUR_MS = 3_600_000

/** A job, and what it has to come to. */
interface Priced {
  readonly workspace: string
  /** Null: a transcription job. */
  readonly chat: PricedChat | null
  readonly micros: number
}

/**
 * What the provider does with a chat: it answers; it fails, breaks the connection, or says nothing, the first time, and
 * answers the next; it never answers.
 */
type Manner = 'answers' | 'fails' | 'breaks' | 'stalls' | 'hangs'

/** A chat like no other: its answer has `tokens` tokens, by which its price is known from all others'. */
interface PricedChat {
  readonly manner: Manner
  readonly tokens: number
}

const PRICED = {
  capabilities: ['text', 'audio_input'],
  price: { per_hour_usd: 36, per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 10 },
}
const INPUT_TOKENS = 10
/** How long the provider takes at most for whatever it is asked. */
const LATEST_MS = 1_500

/** The name under which a chat is marked: `fails 7`. */
function nameOf({ manner, tokens }: PricedChat): string {
  return `${manner} ${tokens}`
}

/** What a chat costs whose answer was had, micro-USD. */
function costOf({ tokens }: PricedChat): number {
  return INPUT_TOKENS + 10 * tokens
}

/** What is set aside for it before: four characters are taken for a token, and all that it may answer. */
function estimateOf(chat: PricedChat, maxTokens: number): number {
  return Math.ceil(markOf(nameOf(chat)).length / 4) + 10 * maxTokens
}

/** What a wav costs, at 10,000 micro-USD a second, of 16 kHz. */
function costOfWav(wav: Buffer): number {
  return Math.round(((wav.length - 44) / 32_000) * 10_000)
}

/** A provider that does with each chat what its mark says. */
async function startPriced(t: Test): Promise<Upstream> {
  const script = ({ mark }: ReceivedRequest): Script => {
    const waitMs = Math.random() * LATEST_MS
    // The price is that of the audio, not of what a provider says.
    if (mark === null) return { waitMs, usage: { type: 'duration', seconds: 99 } }
    const [manner, tokens] = mark.split(' ')
    const isFirst = upstream.executions(mark) === 1
    if (manner === 'hangs' || (manner === 'stalls' && isFirst)) return { fate: 'hang' }
    if (manner === 'breaks' && isFirst) return { waitMs, fate: 'cut' }
    if (manner === 'fails' && isFirst) return { waitMs, status: 500 }
    return { waitMs, usage: { prompt_tokens: INPUT_TOKENS, completion_tokens: Number(tokens) } }
  }
  const upstream = await startUpstream(t, { script })
  return upstream
}

/** What stands in for twenty of them. */
const MANNERS: readonly (Manner | 'hears')[] = [
  ...Array<Manner>(10).fill('answers'),
  ...Array<'hears'>(4).fill('hears'),
  ...(['fails', 'fails', 'breaks', 'breaks', 'hangs', 'hangs'] as const),
]

function wavOf(at: number): Buffer {
  return filledWav(44 + 3_200 * (1 + (at % 400)))
}

function pricedJob(at: number): Priced {
  const manner = MANNERS[at % MANNERS.length] ?? 'answers'
  const workspace = `ws_${at}`
  if (manner === 'hears') return { workspace, chat: null, micros: costOfWav(wavOf(at)) }
  const chat = { manner, tokens: 1 + at }
  // Nobody knows what it would have come to.
  const micros = manner === 'hangs' ? estimateOf(chat, MAX_TOKENS) : costOf(chat)
  return { workspace, chat, micros }
}

function submit(fleet: Fleet, at: number, { workspace, chat }: Priced): Promise<string> {
  const submission = chat === null ? hearing(wavOf(at)) : chatting(markOf(nameOf(chat)), MAX_TOKENS)
  return submitJob(() => fleet.node().url, fleet.authorizationOf(workspace), submission)
}

/** Asks for the end of a job that a provider never answers, when the provider works on it. */
async function cancelAtProvider({ jobs }: State, id: string, job: Priced, upstream: Upstream) {
  const { chat, workspace } = job
  if (chat?.manner !== 'hangs') return
  if (!(await waitUntil(() => upstream.executions(nameOf(chat)) > 0, ENDED_MS)))
    throw new Error(`${id} is not worked on`)
  for (;;) {
    try {
      await jobs.cancel(id, { workspace, app: 'web' }, retentionOf(DEFAULT_LIMITS))
      return
    } catch {
      // The state had too much to do.
    }
  }
}

/** What an account has paid, and what is set aside still. */
function taken({ grants, creditsMicros }: AccountView): number {
  return grants.reduce((sum, { micros }) => sum + micros, 0) - creditsMicros
}

function allEnded({ jobs }: State, ids: readonly string[]): Promise<boolean> {
  let open = ids
  return waitUntil(async () => {
    await sleep(250)
    const all = await Promise.all(open.map((id) => jobs.get(id)))
    open = open.filter((_, at) => typeof all[at]?.endedAtMs !== 'number')
    return open.length === 0
  }, ENDED_MS)
}

/** Has all jobs done by processes that are killed meanwhile, and compares each account with what it has to be. */
async function assertPaid(t: Test, fleet: Fleet, upstream: Upstream): Promise<void> {
  const state = await fleet.openState()
  const priced = Array.from({ length: JOBS }, (_, at) => pricedJob(at))
  const ids: string[] = []
  const cancellations: Promise<void>[] = []
  const untilMs = performance.now() + KILLING_MS
  const kills = killNowAndThen(fleet, (killed) => killed < KILLS && performance.now() < untilMs)
  await Promise.all(
    Array.from({ length: CALLERS }, async (_, caller) => {
      for (let at = caller; at < JOBS; at += CALLERS) {
        const job = priced[at]!
        const id = await submit(fleet, at, job)
        ids[at] = id
        cancellations.push(cancelAtProvider(state, id, job, upstream))
        await sleep(PAUSE_MS * (0.5 + Math.random()))
      }
    }),
  )
  await Promise.all([kills, ...cancellations])
  t.ok(await allEnded(state, ids), 'all jobs have ended')

  const seen: Record<string, number> = {}
  const sums = { taken: 0, expected: 0, reserved: 0 }
  let takenOver = 0
  for (const [at, { workspace, chat, micros }] of priced.entries()) {
    const job = await state.jobs.get(ids[at] ?? '')
    const view = await state.accounts.show(workspace, NO_TERMS)
    const kind = `${chat?.manner ?? 'hears'}: ${job?.status}`
    seen[kind] = (seen[kind] ?? 0) + 1
    if ((job?.fence ?? 0) > 1) takenOver += 1
    sums.taken += taken(view)
    sums.expected += micros
    sums.reserved += view.reservedMicros
    if (taken(view) !== micros) t.fail(`${kind}: ${taken(view)} instead of ${micros}: ${JSON.stringify(job)}`)
    // Nobody ends a reservation of a job that was cancelled after its worker was killed: it stays as it is.
    if (view.reservedMicros !== 0 && chat?.manner !== 'hangs') t.fail(`${kind}: ${JSON.stringify(view)}`)
  }
  const share = JOBS / MANNERS.length
  t.same(seen, {
    'answers: succeeded': 10 * share,
    'hears: succeeded': 4 * share,
    'fails: succeeded': 2 * share,
    'breaks: succeeded': 2 * share,
    'hangs: cancelled': 2 * share,
  })
  t.equal(sums.taken, sums.expected, 'what was taken is one charge for each job')
  t.ok(takenOver > 0, `${takenOver} jobs were taken up more than once`)
  t.comment(`${sums.taken} micro-USD, of which ${sums.reserved} are still set aside`)
}

const pricedTenants = ({ url }: Upstream) =>
  jobTenants({ upstreamUrl: url, workspaces: JOBS, entry: PRICED, terms: TERMS })

t.test(`${JOBS} jobs are paid for once each: Redis`, { buffered: true, skip: withoutServers }, async (t) => {
  const upstream = await startPriced(t)
  const servers = { redis: { durable: true }, s3: 'shared', workers: WORKERS } as const
  const fleet = await startFleet(t, { ...pricedTenants(upstream), ...servers, timing: TIMING })
  await assertPaid(t, fleet, upstream)
})

t.test(`${JOBS} jobs are paid for once each: one file`, { buffered: true }, async (t) => {
  const upstream = await startPriced(t)
  const env = { LARKWAY_JOBS: `${16 * WORKERS}` }
  const fleet = await startFleet(t, { ...pricedTenants(upstream), env, timing: KILLED_JOB_TIMING })
  await assertPaid(t, fleet, upstream)
})

/** Looks at accounts as if it were an hour later: reservations that nobody has settled are over by then. */
function showLater(file: string, workspaces: readonly string[]): AccountView[] {
  const db = openDatabase(file)
  try {
    const operations = createOperations(db, () => Date.now() + HOUR_MS)
    const calls = workspaces.map((workspace, id) => ({
      id,
      subject: 'accounts' as const,
      method: 'show',
      args: [workspace, NO_TERMS] as [string, AccountTerms],
    }))
    return createCommit(
      db,
      operations,
    )(calls).answers.map((answer) => {
      if ('failure' in answer) throw new Error(answer.failure.reason)
      return answer.value as AccountView
    })
  } finally {
    db.close()
  }
}

t.test(
  'a reservation that is over stays charged, and the job is not paid for again',
  { buffered: true },
  async (t) => {
    const upstream = await startPriced(t)
    const env = { LARKWAY_JOBS: '20' }
    const fleet = await startFleet(t, { ...pricedTenants(upstream), env, timing: KILLED_JOB_TIMING })
    const state = await fleet.openState()
    const jobs = Array.from({ length: 20 }, (_, at): Priced => {
      const chat = { manner: 'stalls', tokens: 1 + at } as const
      return { workspace: `ws_${at}`, chat, micros: estimateOf(chat, MAX_TOKENS) }
    })
    const ids = await Promise.all(jobs.map((job, at) => submit(fleet, at, job)))
    const areAsked = () => jobs.every(({ chat }) => chat !== null && upstream.executions(nameOf(chat)) === 1)
    t.ok(await waitUntil(areAsked, 20_000), 'all are at the provider')
    const workspaces = jobs.map(({ workspace }) => workspace)
    await fleet.kill(async () => {
      const expired = showLater(join(fleet.folder, 'state.sqlite'), workspaces)
      t.same(
        new Set(expired.map(({ expired: { count } }) => count)),
        new Set([1]),
        'all reservations are over',
      )
    })
    t.ok(await allEnded(state, ids), 'all jobs have ended')
    const ended = await Promise.all(ids.map((id) => state.jobs.get(id)))
    const ends = ended.map((job) => `${job?.status} ${job?.fence}`)
    t.same(new Set(ends), new Set(['succeeded 2']), 'they have succeeded the second time')
    const views = await Promise.all(workspaces.map((workspace) => state.accounts.show(workspace, NO_TERMS)))
    const paid = views.map((view) => ({
      micros: taken(view),
      left: view.reservedMicros,
      expired: view.expired,
    }))
    const estimates = jobs.map(({ micros }) => ({ micros, left: 0, expired: { count: 1, micros } }))
    t.same(paid, estimates, 'the estimate is taken, and nothing else')
  },
)
