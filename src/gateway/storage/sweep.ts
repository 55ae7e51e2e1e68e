import { idTimeMs, jobPartition } from '../../contracts/ids.ts'
import type { KnownJob } from '../../contracts/jobs.ts'
import type { Logger } from '../../contracts/log.ts'
import type { ObjectInfo, Objects } from '../../contracts/objects.ts'
import { type Clock, systemClock } from '../../contracts/time.ts'
import { isUploadId, UPLOAD_SECONDS } from '../../contracts/uploads.ts'
import { objectKey } from './job-objects.ts'
import { pairEndMs } from './kept-pairs.ts'
import { RESULT_ID_PREFIX, RESULT_SECONDS } from './results.ts'

/** Jobs that the state is asked about at a time. */
const BATCH = 500

/** Finds the records of jobs, with the objects that they need; a job without a record is not in the map. */
type KnownJobs = (ids: readonly string[]) => Promise<ReadonlyMap<string, KnownJob>>

/**
 * Deletes what was kept for jobs, from before `before`, and what no job needs any more: of submissions that were cut
 * short, of workers that were killed after the end of a job or after its loss, and of jobs that ended without a worker.
 * A state that is away deletes nothing, and neither does a name that is not the id of a job.
 *
 * @returns how many objects went
 * @throws  GatewayError DEPENDENCY_UNAVAILABLE when the store or the state fails
 */
export async function sweepOrphans(objects: Sweepable, before: Date, knownJobs: KnownJobs): Promise<number> {
  let removed = 0
  let keysOf = new Map<string, string[]>()
  const settle = async () => {
    const batch = keysOf
    keysOf = new Map()
    const known = await knownJobs([...batch.keys()])
    for (const [id, keys] of batch) {
      const job = known.get(id)
      const needless = keys.filter((key) => job === undefined || !isNeeded(key, job))
      for (const key of needless) await objects.remove(key)
      removed += needless.length
    }
  }
  for (const kind of ['job/', 'result/'] as const)
    for await (const { key, modifiedAt } of objects.list(kind)) {
      const id = key.split('/')[2] ?? ''
      if (!(modifiedAt < before) || jobPartition(id) === null) continue
      const keys = keysOf.get(id)
      if (keys === undefined) keysOf.set(id, [key])
      else keys.push(key)
      if (keysOf.size >= BATCH) await settle()
    }
  if (keysOf.size > 0) await settle()
  return removed
}

/** By what its record says now, which is newer than the object. */
function isNeeded(key: string, { status, fence, result, work }: KnownJob): boolean {
  const [kind, , , name = ''] = key.split('/')
  const hasEnded = status !== 'queued' && status !== 'processing'
  if (kind === 'job')
    return !hasEnded || (work !== null && objectKey('audio' in work ? work.audio : work.payload) === key)
  if (result !== null) return objectKey(result) === key
  // A result of the present claim, which has yet to end: names of results begin with the fence of their claim.
  return !hasEnded && Number.parseInt(name, 10) >= fence
}

/** How long receiving a body may take. */
const RECEIVING_MS = 15 * 60_000
/**
 * Age from which an object that nothing names has no owner, so that it is never another node's live one. Ages are by
 * the store's clock against ours; no sane pair differs by the quarter of an hour that is left.
 */
const STALE_MS = 2 * RECEIVING_MS
/** How much later than its answer was kept a slot may have been stored, while the state was away. */
const SLOT_LATE_SECONDS = 30 * 60
/** Time between two rounds; each costs one listing. With the age and the spread, everything goes within the hour. */
const INTERVAL_MS = 10 * 60_000
/**
 * Rounds from one look at the objects of jobs to the next: there may be many, and few without an owner. Never the
 * first: a node that was started with the wrong state has to be noticed before it deletes what that does not know.
 */
const ORPHAN_ROUNDS = 2
/** Part of the interval by which nodes are spread. */
const JITTER = 0.2

/** After every date, also after those of a clock that was wrong. */
const ANY_DATE = new Date(8.64e15)

export interface SweeperOptions {
  readonly objects: Objects
  readonly log: Logger
  /** True when no other process uses the store: then everything in `spool/` at the start is of an earlier boot. */
  readonly alone: boolean
  /**
   * How long an answer may be replayed, in seconds, asked at each round; without it the answers that are kept for
   * replay stay.
   */
  readonly slotTtlSeconds?: () => number
  /**
   * Longest that a route keeps speech, in seconds, asked at each round; without it the speech that is kept stays. No
   * route keeps any: 0.
   */
  readonly cacheTtlSeconds?: () => number
  /** How long a call may need the body that it was sent, in ms, asked at each round. */
  readonly longestCallMs?: () => number
  /** Without it the objects of jobs stay. */
  readonly knownJobs?: KnownJobs
  readonly clock?: Clock
  readonly staleMs?: number
  readonly intervalMs?: number
}

interface Sweeper {
  /** Resolves when the round under way is over. */
  round(): Promise<void>
  /** Ends the rounds; resolves when the one under way looks at no more. */
  stop(): Promise<void>
}

/**
 * Deletes what crashes leave in the store; a store that is away is logged and met again with the next round. Resolves
 * when the bodies of an earlier boot are gone: what else there is may take minutes to look through.
 */
export async function startSweeper(options: SweeperOptions): Promise<Sweeper> {
  const { log, alone, slotTtlSeconds, cacheTtlSeconds, longestCallMs = () => 0, knownJobs } = options
  let stopped = false
  const objects = listedWhile(options.objects, () => !stopped)
  const { clock = systemClock, staleMs = STALE_MS, intervalMs = INTERVAL_MS } = options
  /** An object that was of use for `seconds` and appeared before this is of none any more. */
  const outlived = (seconds: number) => new Date(clock.wallNow() - seconds * 1000 - staleMs)
  const removeOutlived = async (prefix: string, seconds: number | undefined) =>
    seconds === undefined ? 0 : await removeOlder(objects, prefix, outlived(seconds))
  /** Its name tells when the upload began. */
  const isPastUse = ({ key }: ObjectInfo) => {
    const [, , id = ''] = key.split('/')
    return isUploadId(id) && idTimeMs(id) <= outlived(UPLOAD_SECONDS).getTime()
  }
  const isPastEnd = ({ key }: ObjectInfo) => pairEndMs(key) <= clock.wallNow()
  /** Not one of a job, which goes with it. */
  const isResult = ({ key }: ObjectInfo) => key.split('/')[2]?.startsWith(`${RESULT_ID_PREFIX}_`) === true
  const zeroMs = clock.wallNow() - clock.now()
  /** A clock that is set forward makes no body old that is still being received. */
  const receivedBefore = () => {
    const passedMs = Math.min(clock.wallNow(), zeroMs + clock.now())
    return new Date(passedMs - Math.max(staleMs, longestCallMs() + RECEIVING_MS))
  }
  let rounds = 0
  const orphansOf = async () => {
    const due = rounds > 0 && rounds % ORPHAN_ROUNDS === 0
    return due && knownJobs !== undefined ? await sweepOrphans(objects, outlived(0), knownJobs) : 0
  }
  const round = async (sweeping: ReturnType<typeof sweep>) => {
    try {
      const swept = await sweeping
      const results = await removeOlder(objects, 'result/', outlived(RESULT_SECONDS), isResult)
      const resumable = await removeOlder(objects, 'resumable/', ANY_DATE, isPastUse)
      const ahead = (await removeOutlived('upload/', UPLOAD_SECONDS)) + resumable
      const slotSeconds = slotTtlSeconds && slotTtlSeconds() + SLOT_LATE_SECONDS
      const slots = await removeOutlived('slot/', slotSeconds)
      const speech = await removeOutlived('cache/', cacheTtlSeconds?.())
      const pairs = await removeOlder(objects, 'pair/', ANY_DATE, isPastEnd)
      const orphans = await orphansOf()
      const counts = { ...swept, objects: swept.objects + ahead, results, slots, speech, pairs, orphans }
      if (Object.values(counts).some((count) => count > 0)) log.info(counts, 'swept')
    } catch (error) {
      log.warn({ err: error }, 'sweep failed')
    }
    rounds += 1
  }
  const first = sweep(objects, alone ? ANY_DATE : receivedBefore())
  let running = round(first)
  await first.catch(() => {})
  const spread = intervalMs * (1 + JITTER * (Math.random() - 0.5))
  const timer = clock.every(spread, () => {
    running = running.then(() => round(sweep(objects, receivedBefore())))
  })
  timer.unref()
  return {
    round: () => running,
    stop() {
      stopped = true
      timer.close()
      return running
    },
  }
}

type Sweepable = Pick<Objects, 'list' | 'remove' | 'abortUploads'>

/** The same store, whose lists end once `goOn` is false. */
function listedWhile(objects: Sweepable, goOn: () => boolean): Sweepable {
  return {
    async *list(prefix) {
      for await (const object of objects.list(prefix)) {
        if (!goOn()) return
        yield object
      }
    },
    remove: (key) => objects.remove(key),
    abortUploads: (prefix, before) => objects.abortUploads(prefix, before),
  }
}

/**
 * Deletes spool objects that appeared before `before` and ends part uploads of any kind that began before it.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE when the store fails
 */
export async function sweep(objects: Sweepable, before: Date) {
  const spooled = await removeOlder(objects, 'spool/', before)
  return { objects: spooled, uploads: await objects.abortUploads('', before) }
}

async function removeOlder(
  objects: Sweepable,
  prefix: string,
  before: Date,
  matches: (object: ObjectInfo) => boolean = () => true,
): Promise<number> {
  let removed = 0
  for await (const object of objects.list(prefix)) {
    // An impossible date keeps everything.
    if (!(object.modifiedAt < before) || !matches(object)) continue
    await objects.remove(object.key)
    removed += 1
  }
  return removed
}
