import type { Test } from 'tap'
import type { Principal } from '../../src/contracts/catalog.ts'
import type { Jobs } from '../../src/contracts/jobs.ts'
import { createLogger } from '../../src/contracts/log.ts'
import type { Objects } from '../../src/contracts/objects.ts'
import type { FetchAudio } from '../../src/contracts/remote-audio.ts'
import type { Dependencies } from '../../src/gateway/api/endpoint.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { createJobSignals } from '../../src/gateway/jobs/watch.ts'
import { LiveSessions } from '../../src/gateway/live/sessions.ts'
import { Uploads } from '../../src/gateway/long/uploads.ts'
import { createMediaProbe } from '../../src/gateway/media/probe.ts'
import { createAudioDigester } from '../../src/gateway/storage/audio-digest.ts'
import { createAudioReader } from '../../src/gateway/storage/audio-reader.ts'
import { createBlocks } from '../../src/gateway/storage/blocks.ts'
import { createBudget } from '../../src/gateway/storage/budget.ts'
import { createFileObjects } from '../../src/gateway/storage/folder.ts'
import { createFolderLinks, type FolderLinks } from '../../src/gateway/storage/folder-links.ts'
import { createJobObjects } from '../../src/gateway/storage/job-objects.ts'
import { createRemoteAudio } from '../../src/gateway/storage/remote-audio.ts'
import { sealObjects } from '../../src/gateway/storage/sealed-objects.ts'
import { createDiscardingSpool, createSpool } from '../../src/gateway/storage/spool.ts'

import { createWorkers } from '../../src/gateway/workers/pool.ts'
import { type GatewayRigOptions, gatewayRig } from './gateway-rig.ts'
import { tempFolder } from './scratch.ts'

const MIB = 1024 * 1024
/** Each one listens for the end of the process. */
const LOG = createLogger('silent')

export interface DoorsRig {
  readonly dependencies: Dependencies
  /** Header of the one caller. */
  readonly authorization: string
  readonly objects: Objects
  readonly links: FolderLinks
  /** Bytes held for bodies. */
  readonly budgetUsed: () => number
}

export interface DoorsRigOptions extends Omit<GatewayRigOptions, 'reader'> {
  readonly fetchAudio: FetchAudio
  /** For bodies. */
  readonly memoryMib?: number
  /** Stands between everything and the store. */
  readonly inFrontOf?: (objects: Objects) => Objects
}

/** All that the endpoints work with, in this process: state and store are the embedded ones. */
export async function openDoors(t: Test, options: DoorsRigOptions): Promise<DoorsRig> {
  const { fetchAudio, memoryMib = 64, inFrontOf = (objects) => objects, ...rig } = options
  const budget = createBudget(memoryMib * MIB)
  const blocks = createBlocks(budget, { restMs: 400 })
  const objects = inFrontOf(await createFileObjects(await tempFolder(t)))
  const links = createFolderLinks({ keys: [Buffer.alloc(32, 3)], publicUrl: undefined })
  const spool = createSpool({ budget, blocks, objects: sealObjects(objects), log: LOG })
  const workers = createWorkers()
  const reader = createAudioReader({ objects, decoder: workers.decoder, memory: { blocks, budget } })
  t.teardown(async () => {
    await spool.close()
    await workers.close()
    blocks.close()
  })
  const { services, authorization } = gatewayRig(t, { ...rig, reader })
  const dependencies: Dependencies = {
    services,
    spool,
    discard: createDiscardingSpool(),
    probe: createMediaProbe({ reader }),
    digester: createAudioDigester({ reader, hasher: workers.hasher, blocks, budget }),
    remoteAudio: createRemoteAudio({ spool, fetchAudio }),
    uploads: new Uploads(objects, [Buffer.alloc(32, 5)]),
    results: { keep: nothingKept, hold: nothingKept },
    jobs: { objects: createJobObjects({ objects, budget }), links, signals: createJobSignals() },
    log: LOG,
    tracing: null,
    live: new LiveSessions(services, 1024 * 1024),
    secretKeys: [Buffer.alloc(32, 5)],
  }
  return { dependencies, authorization, objects, links, budgetUsed: () => budget.used }
}

/**
 * The same doors, to more callers than the one.
 *
 * @param base    what a caller is unless it is said otherwise
 * @param between stands between the endpoints and the state
 */
export function openToMore(
  given: Dependencies,
  base: Principal,
  between: (jobs: Jobs) => Jobs = (jobs) => jobs,
) {
  const others = new Map<string, Principal>()
  const { services } = given
  const { state, keys } = services
  const dependencies: Dependencies = {
    ...given,
    services: {
      ...services,
      state: { ...state, jobs: between(state.jobs) },
      keys: { find: (sha256) => others.get(sha256) ?? keys.find(sha256) },
    },
  }
  return {
    dependencies,
    /** @returns the caller's header */
    admit(other: Partial<Principal>): string {
      const key = makeKey()
      others.set(hashKey(key), { ...base, ...other })
      return `Bearer ${key}`
    },
  }
}

const nothingKept = () => Promise.reject(new Error('nothing is kept'))
