import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { WebSocket } from 'ws'
import type { Entry } from '../../src/contracts/catalog.ts'
import type { LiveFacts } from '../../src/contracts/facts.ts'
import type { LiveWatch } from '../../src/contracts/watch.ts'
import { listen } from '../../src/gateway/api/deepgram/listen.ts'
import { listenTurns } from '../../src/gateway/api/deepgram/listen-turns.ts'
import type { Dependencies } from '../../src/gateway/api/endpoint.ts'
import { transcription } from '../../src/gateway/api/native/transcription.ts'
import { transcriptionStream } from '../../src/gateway/api/native/transcription-stream.ts'
import { clientSecrets } from '../../src/gateway/api/openai/client-secrets.ts'
import { realtime } from '../../src/gateway/api/openai/realtime.ts'
import { LiveSessions } from '../../src/gateway/live/sessions.ts'
import { configuredProvider, entry, facts } from './catalog.ts'
import { type DoorsRigOptions, openDoors } from './doors-rig.ts'
import { type LocalCertificate, startEdge } from './edge.ts'
import { RATE, WORDS, wordsAudio } from './live-words.ts'
import { SocketClient } from './socket-client.ts'

export const LIVE_FACTS: LiveFacts = {
  features: ['word_timestamps', 'segment_timestamps'],
  hints: ['language'],
  limits: {},
  price: { per_hour_usd: 3.6 },
}

/** An entry that hears numbered words. */
export function wordsEntry(origin: string, name: string, overrides: Partial<Entry> = {}): Entry {
  const provider = configuredProvider({ name, kind: 'words', baseUrl: origin })
  return entry({ provider, facts: facts({ live: LIVE_FACTS }), ...overrides })
}

export interface LiveRig {
  readonly url: string
  readonly origin: string
  /** Of TLS, where there is a certificate. */
  readonly tlsOrigin: string
  readonly authorization: string
  readonly live: LiveSessions
  readonly services: Awaited<ReturnType<typeof openDoors>>['dependencies']['services']
  connect(query?: string, options?: { readonly protocols?: string[] }): LiveClient
}

interface LiveRigOptions extends Partial<Omit<DoorsRigOptions, 'entries'>> {
  readonly ringBytes?: number
  readonly watch?: LiveWatch
  /** What stands in place of silent parts. */
  readonly needs?: Partial<Dependencies>
  /** Serves HTTPS, too. */
  readonly certificate?: LocalCertificate
}

/** The doors of live sessions over real sockets, in this process. */
export async function openLive(
  t: Test,
  entries: readonly Entry[],
  options: LiveRigOptions = {},
): Promise<LiveRig> {
  const { ringBytes = 128 * 1024 * 1024, needs: more = {}, certificate, watch, ...rest } = options
  const fetchAudio = () => Promise.reject(new Error('nothing is fetched'))
  const { dependencies, authorization } = await openDoors(t, {
    fetchAudio,
    entries,
    providers: [WORDS],
    ...rest,
  })
  const live = new LiveSessions(dependencies.services, ringBytes, watch)
  const needs = { ...dependencies, live, ...more }
  const endpoints = [transcriptionStream, transcription, realtime, clientSecrets, listen, listenTurns]
  const routes = endpoints.map((one) => one.route(needs))
  const edge = await startEdge(t, routes, certificate === undefined ? {} : { files: certificate.files })
  const url = `${edge.origin.replace('http:', 'ws:')}/v1/transcription/stream`
  return {
    url,
    origin: edge.origin,
    tlsOrigin: `https://localhost:${edge.tlsPort}`,
    authorization,
    live,
    services: dependencies.services,
    connect: (query = `sample_rate=${RATE}`, { protocols = ['larkway.v1'] } = {}) =>
      new LiveClient(t, new WebSocket(`${url}?${query}`, protocols, { headers: { authorization } })),
  }
}

/** A caller that sends audio. */
export class LiveClient extends SocketClient {
  /** Sends audio at a speed, in pieces of 100 ms. */
  async speak(audio: Buffer, speed = 1): Promise<void> {
    const piece = RATE / 5
    const startMs = performance.now()
    for (let at = 0; at < audio.length && this.socket.readyState === WebSocket.OPEN; at += piece) {
      this.send(audio.subarray(at, at + piece))
      const dueMs = startMs + ((at + piece) / (RATE * 2) / speed) * 1000
      const leftMs = dueMs - performance.now()
      if (leftMs > 0) await sleep(leftMs)
    }
  }

  /** All finals as one text. */
  get text(): string {
    return this.of('final')
      .map(({ segment }) => (segment as { text: string }).text)
      .join(' ')
  }
}

/** A session whose caller says so many words, and that has come to its end. */
export async function wordsSession(rig: LiveRig, count: number): Promise<LiveClient> {
  const caller = rig.connect()
  await caller.message('ready')
  await caller.speak(wordsAudio(0, count))
  caller.send({ type: 'end' })
  await caller.message('done')
  return caller
}
