import type { ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import type { Worker } from 'node:worker_threads'
import type { Links } from '../../contracts/links.ts'
import type { Logger } from '../../contracts/log.ts'
import type { Objects } from '../../contracts/objects.ts'
import type { State } from '../../contracts/state.ts'
import { type Clock, systemClock } from '../../contracts/time.ts'
import { createFileObjects } from '../storage/folder.ts'
import { createFolderLinks, type FolderLinks } from '../storage/folder-links.ts'
import { lockFolder } from '../storage/folder-lock.ts'
import type { StoreMemory } from '../storage/read-buffers.ts'
import type { Environment } from './config.ts'
import type { Timing } from './timing.ts'

export const STATE_FILE = 'state.sqlite'

/**
 * A node among the processes of its machine: it is alone; or one of several that have the data folder together: the
 * first of them, before any other has started, or a further one.
 */
export type NodePlace = 'alone' | 'first' | 'further'

/** Whether the data folder holds what only one server, or one set of processes, may use at a time. */
export function isEmbedded({ REDIS_URL, S3_BUCKET }: Pick<Environment, 'REDIS_URL' | 'S3_BUCKET'>): boolean {
  return REDIS_URL === undefined || S3_BUCKET === undefined
}

export interface StateOptions {
  readonly timing?: Timing['redis']
  /** All of a node waits by it; a test may pass one of its own. */
  readonly clock?: Clock
  /** Whether other processes listen on the same port. */
  readonly place?: NodePlace
  /** The thread for the file of a node that is alone, if it boots already. */
  readonly booting?: Worker | undefined
}

/**
 * The state that the environment names: Redis, else the file of the data folder, which has to exist. The client of each
 * is loaded only where it is used: it takes 30 MB of memory.
 *
 * @param options.place of this node: the file of one that is not alone belongs to the process that has started it
 * @throws Error when the file cannot be opened; a Redis that is away is found later
 */
export async function openState(
  { REDIS_URL: url, LARKWAY_DATA: folder }: Pick<Environment, 'REDIS_URL' | 'LARKWAY_DATA'>,
  log: Logger,
  { timing, clock = systemClock, place = 'alone', booting }: StateOptions = {},
): Promise<State> {
  if (url !== undefined) {
    const { createRedisState } = await import('../state/redis/state.ts')
    return createRedisState({ url, log, timing, clock })
  }
  if (place !== 'alone') {
    const { createSharedState } = await import('../state/shared/client.ts')
    const { channelTo } = await import('../state/shared/messages.ts')
    return createSharedState(channelTo(process), clock)
  }
  const { openEmbeddedState } = await import('../state/embedded/state.ts')
  return openEmbeddedState({ file: join(folder, STATE_FILE), log, clock, booting })
}

/** Whether a start would migrate the file of the state, because an earlier version has written it. */
export const awaitsMigration = async (file: string): Promise<boolean> =>
  (await import('../state/embedded/database.ts')).awaitsMigration(file)

/** The data folder of several processes on one port. */
export interface SharedFolder {
  /** Answers a process that asks for their state, until that ends. */
  serve(process: ChildProcess): void
  /** Gives the folder free, once the processes have ended. */
  close(): Promise<void>
}

/**
 * Claims the data folder for processes that this one starts, and opens their state, unless both are in Redis and S3.
 *
 * @throws Error that says what is wrong with the folder, or who has it
 */
export async function shareFolder(
  environment: Environment,
  log: Logger,
  processes: number,
): Promise<SharedFolder> {
  const { REDIS_URL: url, LARKWAY_DATA: folder } = environment
  const unlock = isEmbedded(environment) ? await lockFolder(folder) : null
  if (url !== undefined) return { serve() {}, close: async () => unlock?.() }
  const { StateServer } = await import('../state/shared/server.ts')
  const { channelTo } = await import('../state/shared/messages.ts')
  const state = await StateServer.open({ file: join(folder, STATE_FILE), log, processes })
  return {
    serve: (process) => state.serve(channelTo(process)),
    async close() {
      await state.close()
      await unlock?.()
    },
  }
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
    accessKeyId: S3_ACCESS_KEY_ID,
    secretAccessKey: S3_SECRET_ACCESS_KEY,
    clock,
  }
  const links = createS3Links({ ...bucket, endpoint: S3_PUBLIC_ENDPOINT ?? bucket.endpoint })
  // By its own endpoint the bucket may be inside: only one that is called public is handed out to providers.
  const audioLinks = S3_PUBLIC_ENDPOINT === undefined ? undefined : links
  return { objects: createS3Objects({ ...bucket, memory }), links, audioLinks, folderLinks: null }
}
