import type { ByteBudget } from '../../contracts/budget.ts'
import { GatewayError } from '../../contracts/errors.ts'
import { newId } from '../../contracts/ids.ts'
import type { HeldResult, KeepOptions, Links, Results } from '../../contracts/links.ts'
import type { Objects } from '../../contracts/objects.ts'
import { type Clock, systemClock } from '../../contracts/time.ts'
import { keySegment } from './key.ts'
import { PART_BYTES } from './part-upload.ts'

/** Largest result, bytes; a minute of video in high definition has a hundredth of it. */
const RESULT_MAX_BYTES = 2 * 1024 ** 3
/** Largest result that is held in memory, bytes: some minutes of video. It is held once more as base64. */
const HELD_MAX_BYTES = 64 * 1024 * 1024
/** Time that a result can be fetched, in seconds. */
export const RESULT_SECONDS = 24 * 3600
/** Prefix of the ids of such results, by which the sweeper tells them from those of jobs. */
export const RESULT_ID_PREFIX = 'vid'

export interface ResultsOptions {
  readonly objects: Objects
  readonly links: Links
  readonly budget: ByteBudget
  readonly clock?: Clock
}

/** Results by URL, in the object store. */
export function createResults({ objects, links, budget, clock = systemClock }: ResultsOptions): Results {
  return {
    async keep(chunks, { workspace, mediaType, signal }) {
      // An id of our own: the request's may be the caller's, and be sent twice.
      const key = `result/${keySegment(workspace)}/${newId(RESULT_ID_PREFIX)}/0`
      const bytes = await keepObject(chunks, key, { objects, budget, signal })
      return links.sign({ key, bytes, mediaType }, Math.floor(clock.wallNow() / 1000) + RESULT_SECONDS)
    },
    hold: (chunks) => holdResult(chunks, budget),
  }
}

async function holdResult(chunks: AsyncIterable<Uint8Array>, budget: ByteBudget): Promise<HeldResult> {
  const parts: Uint8Array[] = []
  let held = 0
  const charge = (bytes: number) => {
    budget.charge(bytes)
    held += bytes
  }
  const release = () => {
    budget.refund(held)
    held = 0
  }
  try {
    let bytes = 0
    for await (const chunk of chunks) {
      bytes += chunk.length
      if (bytes > HELD_MAX_BYTES) throw tooLarge()
      charge(chunk.length)
      // The chunk may be overwritten with the next one.
      parts.push(Uint8Array.from(chunk))
    }
    if (bytes === 0) throw nothingMade()
    charge(Math.ceil(bytes / 3) * 4)
    const base64 = Buffer.concat(parts).toString('base64')
    budget.refund(bytes)
    held -= bytes
    return { base64, release }
  } catch (error) {
    release()
    throw error
  }
}

const tooLarge = () => new GatewayError('UPSTREAM_ERROR', 'the provider made more than can be kept')
const nothingMade = () => new GatewayError('UPSTREAM_ERROR', 'the provider made nothing')

async function keepObject(
  chunks: AsyncIterable<Uint8Array>,
  key: string,
  { objects, budget, signal }: Pick<ResultsOptions, 'objects' | 'budget'> & Pick<KeepOptions, 'signal'>,
): Promise<number> {
  const upload = await objects.upload(key, { signal })
  let bytes = 0
  let part: Uint8Array[] = []
  let held = 0
  const flush = async (): Promise<void> => {
    await upload.part(part, signal)
    budget.refund(held)
    part = []
    held = 0
  }
  try {
    for await (const chunk of chunks) {
      bytes += chunk.length
      if (bytes > RESULT_MAX_BYTES) throw tooLarge()
      budget.charge(chunk.length)
      part.push(chunk)
      held += chunk.length
      if (held >= PART_BYTES) await flush()
    }
    if (bytes === 0) throw nothingMade()
    if (held > 0) await flush()
    await upload.complete(signal)
    return bytes
  } catch (error) {
    await upload.abort()
    throw error
  } finally {
    budget.refund(held)
  }
}
