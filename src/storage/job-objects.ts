import { randomBytes } from 'node:crypto'
import type { Logger } from '../log.ts'
import type { Audio } from '../schema/audio.ts'
import type { ByteBudget } from '../schema/budget.ts'
import type { FiledJob, JobObjects } from '../schema/job-objects.ts'
import type { Job, KeptText } from '../schema/jobs.ts'
import type { ObjectKind, Objects } from '../schema/objects.ts'
import { bodyBytes } from './body-bytes.ts'
import { createKeptTexts } from './kept-texts.ts'
import { keySegment } from './key.ts'
import { limitPuts } from './limited-puts.ts'
import { putWhole } from './whole-put.ts'

/**
 * Objects put at a time, beside the uploads of the spool. A store gets no faster by more of them, and nodes times both
 * must stay below its own slots; see `UPLOAD_SLOTS`.
 */
const PUTS = 64
/** How long the store may take with anything, in ms, and how many bytes per millisecond it has to take beyond that. */
const STORE_MS = 5_000
const BYTES_PER_MS = 1_000
/** What a copy from object to object has in memory: two chunks of each side. */
const COPY_BYTES = 256 * 1024

export interface JobObjectsOptions {
  readonly objects: Objects
  readonly budget: ByteBudget
  readonly log?: Logger
}

/** What jobs keep, in the object store. */
export function createJobObjects({ budget, log, ...options }: JobObjectsOptions): JobObjects {
  const objects = limitPuts(options.objects, PUTS)
  const texts = createKeptTexts({ objects, budget, withinMs })

  /** Never rejects; what is left goes with the sweep. */
  const discard = (key: string): Promise<void> =>
    objects
      .remove(key)
      .catch((error: unknown) => log?.warn({ object: key, err: error }, 'object left to the sweeper'))

  /** What the store took too late to count must not stay, as far as that is in our hands. */
  async function keepText(text: string, key: string): Promise<KeptText> {
    try {
      return await texts.keep(text, () => key)
    } catch (error) {
      void discard(key)
      throw error
    }
  }

  return {
    async keepAudio(audio, job, signal) {
      signal.throwIfAborted()
      const { source, offset, length } = audio
      if (source.kind === 'object' && source.key.startsWith(`${folderOf('job', job)}/`)) return audio
      const key = newKey('job', job)
      const bytes = (signal: AbortSignal) => bodyBytes(objects, source, offset, offset + length, signal)
      const copied = source.kind === 'object' ? COPY_BYTES : 0
      budget.charge(copied)
      try {
        await putWhole(objects, { key, bytes, length, withinMs: withinMs(length), signal })
      } catch (error) {
        void discard(key)
        throw error
      } finally {
        budget.refund(copied)
      }
      return { ...audio, source: { kind: 'object', key }, offset: 0 }
    },

    keepPayload: (json, job) => keepText(json, newKey('job', job)),
    keepResult: (json, job, fence) => keepText(json, newKey('result', job, `${fence}-`)),
    open: (text) => texts.open(text),

    async drop(kept) {
      const key = kept === null ? null : keyOf(kept)
      if (key !== null) await discard(key)
    },

    async removeInput(job) {
      try {
        await Promise.all((await inputKeys(job, objects)).map(discard))
      } catch (error) {
        log?.warn({ job_id: job.id, err: error }, 'what a job was given is left to its purge')
      }
    },

    async removeAll(job) {
      const result = job.result === null ? null : keyOf(job.result)
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

/** Two attempts never share a name, so that none overwrites, or deletes, what another one has kept. */
function newKey(kind: ObjectKind, job: FiledJob, prefix = ''): string {
  return `${folderOf(kind, job)}/${prefix}${randomBytes(8).toString('hex')}`
}

/** Null: it is in no object, or not fetched yet. */
export function keyOf(kept: KeptText | Audio | { readonly url: string }): string | null {
  if ('url' in kept) return null
  if ('source' in kept) return kept.source.kind === 'object' ? kept.source.key : null
  return 'object' in kept ? kept.object : null
}

/** What was fetched for a job stands in the progress of its claims alone, and not in its record: it is looked for. */
async function inputKeys(job: Job, objects: Pick<Objects, 'list'>): Promise<string[]> {
  const { work, fence } = job
  const given = 'audio' in work ? work.audio : work.payload
  if (!('url' in given)) return [keyOf(given)].filter((key) => key !== null)
  const keys: string[] = []
  if (fence > 0) for await (const { key } of objects.list(`${folderOf('job', job)}/`)) keys.push(key)
  return keys
}
