import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { WebSocket } from 'ws'
import type { SoakSample } from '../../bench/soak.ts'
import { scrape } from '../support/exposition.ts'
import type { Fleet } from '../support/fleet.ts'
import { ask, keyedUpload } from '../support/keyed-call.ts'
import type { Larkway } from '../support/larkway.ts'
import { liveAudio } from '../support/live-audio.ts'
import { LiveClient } from '../support/live-rig.ts'
import { spokenWords } from '../support/long-speech.ts'
import { filledWav } from '../support/wav.ts'

export const SOAK_KINDS = ['chat', 'speech', 'upload', 'keyed', 'job', 'long', 'live'] as const
export type SoakKind = (typeof SOAK_KINDS)[number]

export interface SoakTally {
  /** Calls that were answered as they should be. */
  readonly done: Record<SoakKind, number>
  /** Calls that were broken by the kill of a node, or were refused for a moment after it. */
  readonly broken: Record<SoakKind, number>
  /** What should never be, in words. */
  readonly faults: string[]
}

const UPLOAD = filledWav(25 * 1024 * 1024, 3)
const LONG_WORDS = 20
/** A minute, which is longer than an entry of the workspace "long" takes: it is heard in parts. */
const LONG = spokenWords(LONG_WORDS, 3)
const LIVE = liveAudio('sos abc klm xyz sos abc klm xyz')

/** Pauses after a call of a kind, ms, and how many callers there are of it. */
const CALLERS: Readonly<Record<SoakKind, { readonly pauseMs: number; readonly callers: number }>> = {
  chat: { pauseMs: 40, callers: 4 },
  speech: { pauseMs: 150, callers: 2 },
  upload: { pauseMs: 1_500, callers: 1 },
  keyed: { pauseMs: 100, callers: 2 },
  job: { pauseMs: 400, callers: 2 },
  long: { pauseMs: 10_000, callers: 1 },
  live: { pauseMs: 500, callers: 3 },
}

/** Mixed traffic on the nodes of a fleet, until it is stopped. */
export class SoakCallers {
  readonly tally: SoakTally = { done: countsOf(), broken: countsOf(), faults: [] }
  readonly #t: Test
  readonly #fleet: Fleet
  readonly #authorization: string
  readonly #authorizationOfLong: string
  readonly #running: Promise<void>[]
  #stopped = false

  /** @param fleet with the workspaces "acme" and "long" */
  constructor(t: Test, fleet: Fleet) {
    this.#t = t
    this.#fleet = fleet
    this.#authorization = fleet.authorizationOf('acme')
    this.#authorizationOfLong = fleet.authorizationOf('long')
    this.#running = SOAK_KINDS.flatMap((kind) =>
      Array.from({ length: CALLERS[kind].callers }, (_, caller) => this.#repeat(kind, caller)),
    )
  }

  /** Lets every caller end its last call. */
  async stop(): Promise<SoakTally> {
    this.#stopped = true
    await Promise.all(this.#running)
    return this.tally
  }

  async #repeat(kind: SoakKind, caller: number): Promise<void> {
    for (let number = 0; !this.#stopped; number++) {
      const node = this.#fleet.node((caller + number) % this.#fleet.nodes.length)
      const fault = await this.#act(kind, node, `${kind}-${caller}-${number}`).catch(() => null)
      if (fault === undefined) this.tally.done[kind] += 1
      else if (fault === null) this.tally.broken[kind] += 1
      else this.tally.faults.push(`${kind}: ${fault}`)
      await sleep(fault === undefined ? CALLERS[kind].pauseMs : 250)
    }
  }

  /** @returns undefined: as it should be; null: broken by a kill; else what is wrong. Rejects like null. */
  async #act(kind: SoakKind, node: Larkway, id: string): Promise<string | null | undefined> {
    switch (kind) {
      case 'chat':
        return judged(await this.#post(node, '/v1/chat', { messages: [{ role: 'user', content: 'hello' }] }))
      case 'speech':
        return judged(await this.#post(node, '/v1/speech', { input: 'sos' }))
      case 'upload':
        return judged(await this.#audio(node, '/v1/transcription', UPLOAD))
      case 'keyed':
        return this.#keyed(id)
      case 'job':
        return this.#job(node)
      case 'long':
        return heardWhole(await this.#audio(node, '/v1/transcription', LONG, this.#authorizationOfLong))
      case 'live':
        return this.#live(node)
    }
  }

  #post(node: Larkway, path: string, body: object): Promise<Response> {
    const headers = { authorization: this.#authorization, 'content-type': 'application/json' }
    return fetch(node.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  }

  #audio(node: Larkway, path: string, bytes: Buffer, authorization = this.#authorization): Promise<Response> {
    const headers = { authorization, 'content-type': 'audio/wav' }
    return fetch(node.url + path, { method: 'POST', headers, body: new Uint8Array(bytes) })
  }

  /** Sends a call under its key again until it is answered: it must be answered, and the same way twice. */
  async #keyed(id: string): Promise<string | undefined> {
    let first: string | null = null
    for (let tries = 0; tries < 200; tries++) {
      const at = tries % this.#fleet.nodes.length
      const upload = keyedUpload(id, this.#authorization)
      const answer = await ask(this.#fleet.node(at).port, upload).catch(() => null)
      // The provider may have done it when its node was killed: the key is burned, and nothing is charged twice.
      if (answer?.code === 'IDEMPOTENT_RESULT_UNAVAILABLE') return undefined
      if (answer?.status === 200 && first !== null)
        return answer.replayed && answer.text === first ? undefined : `another answer for ${id}`
      if (answer?.status === 200) first = answer.text
      else await sleep(100)
    }
    return `${id} was never answered`
  }

  async #job(node: Larkway): Promise<string | null | undefined> {
    const submitted = await this.#audio(node, '/v1/transcription/jobs', filledWav(8_000, 1))
    if (submitted.status !== 202) return submitted.status === 503 ? null : `status ${submitted.status}`
    const { job_id: id } = (await submitted.json()) as { readonly job_id: string }
    for (let tries = 0; tries < 600; tries++) {
      const { url } = this.#fleet.node(tries % this.#fleet.nodes.length)
      const headers = { authorization: this.#authorization }
      const view = await fetch(`${url}/v1/transcription/jobs/${id}`, { headers }).catch(() => null)
      const { status } = ((await view?.json().catch(() => null)) ?? {}) as { readonly status?: string }
      if (status === 'succeeded') return undefined
      if (status === 'failed' || status === 'cancelled' || view?.status === 404) return `job ${id} ${status}`
      await sleep(200)
    }
    return `job ${id} did not end`
  }

  async #live(node: Larkway): Promise<string | null | undefined> {
    const headers = { authorization: this.#authorization }
    const address = `${node.url.replace('http', 'ws')}/v1/transcription/stream?sample_rate=${LIVE.sampleRate}`
    const caller = new LiveClient(this.#t, new WebSocket(address, 'larkway.v1', { headers }))
    await caller.message('ready')
    await caller.speak(LIVE.pcm)
    caller.send({ type: 'end' })
    await caller.message('done')
    const expected = LIVE.words.map(({ word }) => word).join(' ')
    return caller.text === expected ? undefined : `heard "${caller.text}"`
  }
}

function countsOf(): Record<SoakKind, number> {
  return Object.fromEntries(SOAK_KINDS.map((kind) => [kind, 0])) as Record<SoakKind, number>
}

async function judged(response: Response): Promise<string | null | undefined> {
  await response.arrayBuffer()
  if (response.status === 200) return undefined
  return response.status === 503 ? null : `status ${response.status}`
}

/** The same of the long recording, every word of which has to be there. */
async function heardWhole(response: Response): Promise<string | null | undefined> {
  if (response.status !== 200) return judged(response)
  const { content } = (await response.json()) as { readonly content: string }
  const heard = content.split(' ').length
  return heard === LONG_WORDS ? undefined : `${heard} words of ${LONG_WORDS}`
}

/** Looks at a process, and at what it tells of itself. */
export async function sampleOf(node: Larkway, at: number, seconds: number): Promise<SoakSample> {
  const metricsPort = Number(node.log.find(({ msg }) => msg === 'listening')?.metrics_port)
  const [status, files, metrics] = await Promise.all([
    readFile(`/proc/${node.pid}/status`, 'utf8'),
    readdir(`/proc/${node.pid}/fd`),
    scrape(metricsPort),
  ])
  return {
    seconds: Math.round(seconds),
    node: at,
    rssMiB: Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1_024),
    heapMiB: Math.round((metrics.value('nodejs_heap_size_used_bytes') ?? 0) / 1_024 ** 2),
    descriptors: files.length,
    loopMs: Math.round((metrics.value('nodejs_eventloop_lag_p99_seconds') ?? 0) * 1_000),
  }
}
