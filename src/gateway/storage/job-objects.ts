import { crc32 } from 'node:zlib'
import type { AudioRef, BodySource } from '../../contracts/audio.ts'
import type { ByteBudget } from '../../contracts/budget.ts'
import type { FiledJob, JobObjects } from '../../contracts/job-objects.ts'
import { INPUT_BYTES_MAX, type Job } from '../../contracts/jobs.ts'
import type { Logger } from '../../contracts/log.ts'
import type { KeptText, ObjectKind, Objects } from '../../contracts/objects.ts'
import { type Clock, deadline, systemClock } from '../../contracts/time.ts'
import { blockBytes, bodyBytes, chunksOf } from './body-bytes.ts'
import { accounted, createBudget } from './budget.ts'
import { unavailable } from './failure.ts'
import { createKeptTexts, isThere } from './kept-texts.ts'
import { keySegment, randomName } from './key.ts'
import { tallied, WrittenTally } from './written.ts'

/** A bound to how long a turn is waited for where the caller of `put` sets none, in ms. */
const TURN_MS = 60_000

/**
 * The same store, with at most `most` objects put at a time: a burst of small ones would take more connections than a
 * server has. Workspaces (the second segment of a key) wait for their turn by the rules of memory, so that one over its
 * equal share waits last.
 */
function limitPuts(objects: Objects, most: number, clock: Clock): Objects {
  const permits = createBudget(most, 0, clock)
  return {
    ...objects,
    async put(key, body, length, options) {
      const { signal } = options
      const [, workspace = ''] = key.split('/')
      if (!(await permits.reserve(1, { workspace, waitMs: TURN_MS, signal }))) {
        signal.throwIfAborted()
        throw unavailable(new Error(`no turn within ${TURN_MS} ms`))
      }
      try {
        await objects.put(key, body, length, options)
      } finally {
        permits.refund(1, workspace)
      }
    },
  }
}

/** Bytes handed to the store at a time; small enough that a working store takes them long before it seems stalled. */
const CHUNK_BYTES = 256 * 1024

interface WholePut {
  readonly key: string
  /** The body, of exactly `length` bytes; ends when the signal that it is given aborts. */
  readonly bytes: (signal: AbortSignal) => Iterable<Uint8Array> | AsyncIterable<Uint8Array>
  readonly length: number
  readonly withinMs: number
  readonly signal: AbortSignal
  readonly clock: Clock
}

/**
 * Puts a body that is there already. When `signal` aborts after the last byte is out, the store's answer is awaited
 * all the same: before that only the store knows whether there is an object, and one that is deleted too early stays.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE; the signal's reason, also when the object is there by then
 */
async function putWhole(objects: Objects, put: WholePut): Promise<void> {
  const { key, bytes, length, withinMs, signal, clock } = put
  const leaving = new AbortController()
  let handed = 0
  const leave = () => {
    if (handed < length) leaving.abort(signal.reason)
  }
  const stop = AbortSignal.any([leaving.signal, deadline(clock, withinMs)])
  async function* body(): AsyncGenerator<Uint8Array> {
    for await (const chunk of bytes(stop)) {
      for (let at = 0; at < chunk.length; at += CHUNK_BYTES) {
        const piece = chunk.subarray(at, at + CHUNK_BYTES)
        handed += piece.length
        yield piece
      }
    }
  }
  signal.throwIfAborted()
  signal.addEventListener('abort', leave, { once: true })
  try {
    await objects.put(key, body(), length, { signal: stop })
  } catch (error) {
    signal.throwIfAborted()
    throw unavailable(error)
  } finally {
    signal.removeEventListener('abort', leave)
  }
  signal.throwIfAborted()
}

/**
 * Objects put at a time, beside the uploads of the spool. A store gets no faster by more of them, and nodes times both
 * must stay below what the store takes; see `UPLOADS_MAX`.
 */
const PUTS = 64
/** How long the store may take with anything, in ms, and how many bytes per millisecond it has to take beyond that. */
const STORE_MS = 5_000
const BYTES_PER_MS = 1_000
/** Memory of a copy from object to object: two chunks of each side. */
const COPY_BYTES = 256 * 1024

interface JobObjectsOptions {
  readonly objects: Objects
  readonly budget: ByteBudget
  readonly log?: Logger
  readonly clock?: Clock
  /** Learns of audio in memory that no call gives back. */
  readonly holds?: { admit(source: BodySource): void }
}

/** Stores the input and results of jobs in the object store. */
export function createJobObjects({
  budget,
  log,
  clock = systemClock,
  ...options
}: JobObjectsOptions): JobObjects {
  const objects = limitPuts(options.objects, PUTS, clock)
  const texts = createKeptTexts({ objects, budget, withinMs, clock })

  /** Never rejects; the sweeper deletes what is left. */
  const discard = (key: string): Promise<void> =>
    objects
      .remove(key)
      .catch((error: unknown) => log?.warn({ object: key, err: error }, 'object left to the sweeper'))

  /** Deletes a text that the store took too late, as far as that is possible. */
  async function keepText(text: string, key: string): Promise<KeptText> {
    try {
      return await texts.keep(text, () => key)
    } catch (error) {
      void discard(key)
      throw error
    }
  }

  async function keepIn<Ref extends AudioRef>(folder: string, audio: Ref, signal: AbortSignal): Promise<Ref> {
    signal.throwIfAborted()
    const { source, offset, length } = audio
    const isKept = source.kind === 'object' && source.sealed !== true
    if (isKept && source.key.startsWith(`${folder}/`)) return audio
    const key = newKey(folder)
    const tally = new WrittenTally()
    const bytes = (signal: AbortSignal) =>
      tallied(bodyBytes(objects, source, offset, offset + length, signal), tally)
    const copied = source.kind === 'memory' ? 0 : COPY_BYTES
    budget.charge(copied)
    try {
      await putWhole(objects, { key, bytes, length, withinMs: withinMs(length), signal, clock })
    } catch (error) {
      void discard(key)
      throw error
    } finally {
      budget.refund(copied)
    }
    return { ...audio, source: { kind: 'object', key, written: tally.written }, offset: 0 }
  }

  return {
    keepAudio: (audio, job, signal) => keepIn(folderOf('job', job), audio, signal),
    keepUpload: (audio, upload, signal) => keepIn(folderOf('upload', upload), audio, signal),
    ...createInline(objects, budget, clock, options.holds),
    keepPiece: createPieceKeeper(objects, budget, clock, discard),
    async dropPieces(pieces) {
      await Promise.all(pieces.map(({ key }) => discard(key)))
    },
    async holds(audio) {
      const key = objectKey(audio)
      return key !== null && (await isThere(objects, key))
    },
    keepPayload: (json, job) => keepText(json, newKey(folderOf('job', job))),
    keepResult: (json, job, fence) => keepText(json, newKey(folderOf('result', job), `${fence}-`)),
    open: (text) => texts.open(text),

    ...createRemovals(objects, discard, log),
  }
}

/** The methods of audio in records. */
function createInline(
  objects: Objects,
  budget: ByteBudget,
  clock: Clock,
  holds: JobObjectsOptions['holds'],
): Pick<JobObjects, 'inline' | 'openInline' | 'storeInline'> {
  return {
    inline(audio, job) {
      const { source, offset, length } = audio
      if (source.kind !== 'memory' || length > INPUT_BYTES_MAX) return null
      const input = new Uint8Array(length)
      let at = 0
      for (const view of blockBytes(source.blocks, offset, offset + length)) {
        input.set(view, at)
        at += view.length
      }
      const written = { bytes: length, crc32: crc32(input) }
      const object = { kind: 'object', key: newKey(folderOf('job', job)), written } as const
      return { audio: { ...audio, source: object, offset: 0 }, input }
    },

    openInline(audio, input) {
      const { source } = audio
      if (source.kind !== 'object' || source.written?.crc32 !== crc32(input)) return null
      const block = new Uint8Array(new SharedArrayBuffer(input.length))
      block.set(input)
      const held = { kind: 'memory', blocks: [block] } as const
      holds?.admit(held)
      return { ...audio, source: held }
    },

    async storeInline(job, input) {
      const key = objectKey(workInput(job))
      if (key === null) throw new Error('the job names no object')
      const { length } = input
      await accounted(budget, length, () =>
        objects.put(key, chunksOf(input), length, { signal: deadline(clock, withinMs(length)) }),
      )
    },
  }
}

function createPieceKeeper(
  objects: Objects,
  budget: ByteBudget,
  clock: Clock,
  discard: (key: string) => Promise<void>,
): JobObjects['keepPiece'] {
  return async (owner, chunks, signal) => {
    const object = newKey(folderOf(owner.isJob ? 'job' : 'spool', owner))
    const tally = new WrittenTally()
    for (const chunk of chunks) tally.add(chunk)
    const { bytes: length, crc32 } = tally.written
    const put = { key: object, bytes: () => chunks, length, withinMs: withinMs(length), signal, clock }
    budget.charge(length, owner.workspace)
    try {
      await putWhole(objects, put)
    } catch (error) {
      void discard(object)
      throw error
    } finally {
      budget.refund(length, owner.workspace)
    }
    return { object, bytes: length, crc32 }
  }
}

/** The methods that delete. @param discard deletes an object, and never rejects */
function createRemovals(
  objects: Objects,
  discard: (key: string) => Promise<void>,
  log: Logger | undefined,
): Pick<JobObjects, 'drop' | 'removeInput' | 'removeFiled' | 'removeAll'> {
  return {
    async drop(kept) {
      const key = kept === null ? null : objectKey(kept)
      if (key !== null) await discard(key)
    },

    async removeInput(job, isParted = false) {
      try {
        await Promise.all((await inputKeys(job, objects, isParted)).map(discard))
      } catch (error) {
        log?.warn({ job_id: job.id, err: error }, 'what a job was given is left to its purge')
      }
    },

    async removeFiled(job) {
      const keys = await filedKeys(job, objects).catch((error: unknown) => {
        log?.warn({ job_id: job.id, err: error }, 'what a job was given and heard is left to the sweeper')
        return []
      })
      await Promise.all(keys.map(discard))
    },

    async removeAll(job) {
      const result = job.result === null ? null : objectKey(job.result)
      const keys = [...(await inputKeys(job, objects)), ...(result === null ? [] : [result])]
      await Promise.all(keys.map((key) => objects.remove(key)))
    },
  }
}

function withinMs(bytes: number): number {
  return STORE_MS + Math.ceil(bytes / BYTES_PER_MS)
}

function folderOf(kind: ObjectKind, { workspace, id }: FiledJob): string {
  return `${kind}/${keySegment(workspace)}/${keySegment(id)}`
}

/** Two attempts never share a name, so that none overwrites or deletes another's object. */
function newKey(folder: string, prefix = ''): string {
  return `${folder}/${prefix}${randomName()}`
}

function workInput({ work }: Pick<Job, 'work'>): KeptText | AudioRef | { readonly url: string } {
  return 'audio' in work ? work.audio : work.payload
}

/** Null when it is in no object, or not fetched yet. */
export function objectKey(kept: KeptText | AudioRef | { readonly url: string }): string | null {
  if ('url' in kept) return null
  if ('source' in kept) return kept.source.kind === 'object' ? kept.source.key : null
  return 'object' in kept ? kept.object : null
}

async function filedKeys(job: FiledJob, objects: Pick<Objects, 'list'>): Promise<string[]> {
  const keys: string[] = []
  for (const kind of ['job', 'result'] as const)
    for await (const { key } of objects.list(`${folderOf(kind, job)}/`)) keys.push(key)
  return keys
}

/** Lists the input objects of a job. Fetched audio is in the progress of a claim only, so the store is searched. */
async function inputKeys(job: Job, objects: Pick<Objects, 'list'>, isParted = false): Promise<string[]> {
  const { fence } = job
  const given = workInput(job)
  if (!('url' in given) && !isParted) return [objectKey(given)].filter((key) => key !== null)
  const keys: string[] = []
  if (fence > 0) for await (const { key } of objects.list(`${folderOf('job', job)}/`)) keys.push(key)
  return keys
}
