import { join } from 'node:path'
import type { Links } from '../../contracts/links.ts'
import type { Logger } from '../../contracts/log.ts'
import type { Objects } from '../../contracts/objects.ts'
import type { State } from '../../contracts/state.ts'
import { type Clock, systemClock } from '../../contracts/time.ts'
import { createFileObjects } from '../storage/folder.ts'
import { createFolderLinks, type FolderLinks } from '../storage/folder-links.ts'
import type { StoreMemory } from '../storage/read-buffers.ts'
import type { Environment } from './config.ts'
import type { Timing } from './timing.ts'

export const STATE_FILE = 'state.sqlite'

/** Whether the data folder holds what only one server may use at a time. */
export function isEmbedded({ REDIS_URL, S3_BUCKET }: Pick<Environment, 'REDIS_URL' | 'S3_BUCKET'>): boolean {
  return REDIS_URL === undefined || S3_BUCKET === undefined
}

/**
 * The state that the environment names: Redis, else the file of the data folder, which has to exist. The client of each
 * is loaded only where it is used: it takes 30 MB of memory.
 *
 * @throws Error when the file cannot be opened; a Redis that is away is found later
 */
export async function openState(
  { REDIS_URL: url, LARKWAY_DATA: folder }: Pick<Environment, 'REDIS_URL' | 'LARKWAY_DATA'>,
  log: Logger,
  { timing, clock = systemClock }: { readonly timing?: Timing['redis']; readonly clock?: Clock } = {},
): Promise<State> {
  if (url !== undefined) {
    const { createRedisState } = await import('../state/redis/state.ts')
    return createRedisState({ url, log, timing, clock })
  }
  const { openEmbeddedState } = await import('../state/embedded/state.ts')
  return openEmbeddedState({ file: join(folder, STATE_FILE), log, clock })
}

/** Stores of bodies and results, and the opener of a result by its URL. */
export interface Store {
  readonly objects: Objects
  readonly links: Links
  /** The same for providers that fetch audio; undefined where they could not open it. */
  readonly audioLinks: Links | undefined
  /** The folder store's own; null where the store opens its URLs itself. */
  readonly folderLinks: FolderLinks | null
}

/** The object store that the environment names: a bucket, else the data folder. Objects are read into `memory`. */
export function openStore(
  environment: Environment,
  secretKeys: readonly Buffer[],
  memory: StoreMemory,
  clock: Clock,
): Promise<Store> {
  if (environment.S3_BUCKET === undefined) return openFolder(environment, secretKeys, memory, clock)
  return openBucket(environment, clock, memory)
}

/** The object store alone, without the means to sign URLs. */
export async function openObjects(environment: Environment): Promise<Objects> {
  if (environment.S3_BUCKET === undefined) return createFileObjects(environment.LARKWAY_DATA)
  return (await openBucket(environment, systemClock)).objects
}

async function openFolder(
  { LARKWAY_DATA: folder, LARKWAY_PUBLIC_URL: publicUrl }: Environment,
  keys: readonly Buffer[],
  memory: StoreMemory,
  clock: Clock,
): Promise<Store> {
  const folderLinks = createFolderLinks({ keys, publicUrl, clock })
  return {
    objects: await createFileObjects(folder, memory, clock),
    links: folderLinks,
    audioLinks: undefined,
    folderLinks,
  }
}

/** The bucket that the environment names. @param memory absent: what is read is held outside of any budget */
export async function openBucket(
  environment: Environment,
  clock: Clock,
  memory?: StoreMemory,
): Promise<Store> {
  const { createS3Links, createS3Objects } = await import('../storage/s3.ts')
  const { S3_ENDPOINT, S3_PUBLIC_ENDPOINT, S3_REGION, S3_BUCKET, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY } =
    environment
  const bucket = {
    endpoint: S3_ENDPOINT as string,
    region: S3_REGION,
    bucket: S3_BUCKET as string,
    accessKeyId: S3_ACCESS_KEY_ID as string,
    secretAccessKey: S3_SECRET_ACCESS_KEY as string,
    clock,
  }
  const links = createS3Links({ ...bucket, endpoint: S3_PUBLIC_ENDPOINT ?? bucket.endpoint })
  // By its own endpoint the bucket may be inside: only one that is called public is handed out to providers.
  const audioLinks = S3_PUBLIC_ENDPOINT === undefined ? undefined : links
  return { objects: createS3Objects({ ...bucket, memory }), links, audioLinks, folderLinks: null }
}
