import type { Test } from 'tap'
import { createRoutes } from '../../src/api/table.ts'
import type { Objects } from '../../src/contracts/objects.ts'
import type { FetchAudio } from '../../src/contracts/remote-audio.ts'
import type { State } from '../../src/contracts/state.ts'
import { openDoors } from './doors-rig.ts'
import { startEdge } from './edge.ts'
import { entryAt } from './gateway-rig.ts'

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
  const { dependencies, authorization, objects, budgetUsed } = await openDoors(t, {
    fetchAudio,
    memoryMib,
    entries: [entryAt(upstream.replace(/\/v1$/, ''))],
    audioUrlDomains: domains,
    limits: { max_audio_url_bytes: maxAudioUrlBytes },
  })
  const { state } = dependencies.services
  const readiness = { accepting: () => true, stateHealthy: () => state.healthy() }
  const routes = createRoutes({
    ...dependencies,
    readiness,
    links: null,
    webhooks: { secretKeys: [Buffer.alloc(32, 7)], insecure: false },
  })
  const edge = await startEdge(t, routes)
  return {
    state,
    objects,
    budgetUsed,
    post: (path, body, headers = {}) =>
      fetch(edge.origin + path, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      }),
  }
}
