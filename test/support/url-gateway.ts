import type { Test } from 'tap'
import { createLogger } from '../../src/log.ts'
import { createMediaProbe } from '../../src/media/probe.ts'
import { createRoutes } from '../../src/routes/table.ts'
import type { Objects } from '../../src/schema/objects.ts'
import type { FetchAudio } from '../../src/schema/remote-audio.ts'
import type { State } from '../../src/schema/state.ts'
import { createAudioDigester } from '../../src/storage/audio-digest.ts'
import { createAudioReader } from '../../src/storage/audio-reader.ts'
import { createBlocks } from '../../src/storage/blocks.ts'
import { createBudget } from '../../src/storage/budget.ts'
import { createDiscardingSpool } from '../../src/storage/discard.ts'
import { createFileObjects } from '../../src/storage/files.ts'
import { createRemoteAudio } from '../../src/storage/remote-audio.ts'
import { createSpool } from '../../src/storage/spool.ts'
import { createWorkers } from '../../src/workers/pool.ts'
import { startEdge } from './edge.ts'
import { entryAt, gatewayRig } from './gateway-rig.ts'
import { tempFolder } from './scratch.ts'

const MIB = 1024 * 1024

export interface UrlGateway {
  readonly state: State
  readonly objects: Objects
  readonly budgetUsed: () => number
  /** POSTs JSON with the one key there is. */
  post(path: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<Response>
}

export interface UrlGatewayOptions {
  readonly fetchAudio: FetchAudio
  /** `base_url` of an OpenAI-compatible provider. */
  readonly upstream: string
  /** Hosts of the platform's list. */
  readonly domains?: readonly string[]
  readonly maxAudioUrlBytes?: number
  readonly memoryMib?: number
}

/**
 * The whole gateway in this process, so that a test can say where names and addresses lead to: the guard has no
 * switch that lets a running server fetch from this machine.
 */
export async function startUrlGateway(t: Test, options: UrlGatewayOptions): Promise<UrlGateway> {
  const { fetchAudio, upstream, domains = [], maxAudioUrlBytes = 25 * MIB, memoryMib = 64 } = options
  const log = createLogger('silent')
  const budget = createBudget(memoryMib * MIB)
  const blocks = createBlocks(budget, { restMs: 400 })
  const objects = await createFileObjects(await tempFolder(t))
  const spool = createSpool({ budget, blocks, objects, log })
  const workers = createWorkers()
  const reader = createAudioReader({ objects, decoder: workers.decoder, memory: { blocks, budget } })
  t.teardown(async () => {
    await spool.close()
    await workers.close()
    blocks.close()
  })
  const { services, authorization } = gatewayRig(t, {
    entries: [entryAt(upstream.replace(/\/v1$/, ''))],
    reader,
    audioUrlDomains: domains,
    limits: { max_audio_url_bytes: maxAudioUrlBytes },
  })
  const doors = {
    services,
    spool,
    discard: createDiscardingSpool(),
    probe: createMediaProbe({ reader }),
    digester: createAudioDigester({ reader, hasher: workers.hasher, blocks, budget }),
    remoteAudio: createRemoteAudio({ spool, fetchAudio }),
    results: { keep: () => Promise.reject(new Error('nothing is kept')) },
    log,
  }
  const readiness = { accepting: () => true, stateHealthy: () => services.state.healthy() }
  const routes = createRoutes(doors, readiness, null, { secretKeys: [Buffer.alloc(32, 7)], insecure: false })
  const edge = await startEdge(t, routes)
  return {
    state: services.state,
    objects,
    budgetUsed: () => budget.used,
    post: (path, body, headers = {}) =>
      fetch(edge.origin + path, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      }),
  }
}
