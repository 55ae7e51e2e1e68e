import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Test } from 'tap'
import { WebSocket } from 'ws'
import type { Entry } from '../../src/contracts/catalog.ts'
import type { AccountView } from '../../src/contracts/ledger.ts'
import type { LiveWatch } from '../../src/contracts/watch.ts'
import { speakLive } from '../../src/gateway/api/deepgram/speak-live.ts'
import type { Dependencies } from '../../src/gateway/api/endpoint.ts'
import { speech } from '../../src/gateway/api/native/speech.ts'
import { speechStream } from '../../src/gateway/api/native/speech-stream.ts'
import { LiveSessions } from '../../src/gateway/live/sessions.ts'
import { configuredProvider, entry, principal } from './catalog.ts'
import { type DoorsRigOptions, openDoors } from './doors-rig.ts'
import { startEdge } from './edge.ts'
import { serveHttp } from './http-server.ts'
import { SocketClient } from './socket-client.ts'
import { waitUntil } from './wait-until.ts'
import { filledWav } from './wav.ts'

/** What a provider does with a sentence. */
interface Behaviour {
  /** Samples after which the connection is cut; absent: it is not. */
  readonly cutAfter?: number
  readonly status?: number
  readonly sampleRate?: number
  /** How much audio a sentence is. */
  readonly bytes?: number
  /** Answers nothing before this. */
  readonly until?: Promise<unknown>
}

/** A provider of speech, whose samples are made of the text. */
export interface Voice {
  readonly origin: string
  /** Texts that came, in order. */
  readonly asked: readonly string[]
  /** Bytes that were written. */
  readonly written: () => number
}

/** Samples that a text is spoken as. */
export function samplesOf(text: string, bytes = text.length * 200): Buffer {
  const samples = Buffer.alloc(bytes)
  let state = [...text].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) >>> 0, 7)
  for (let at = 0; at < bytes; at += 1) {
    state = (state * 1_664_525 + 1_013_904_223) >>> 0
    samples[at] = state >>> 24
  }
  return samples
}

export async function serveVoice(
  t: Test,
  behave: (text: string, count: number) => Behaviour = () => ({}),
): Promise<Voice> {
  const asked: string[] = []
  let written = 0
  const write = async (response: ServerResponse, bytes: Buffer) => {
    for (let at = 0; at < bytes.length && !response.destroyed; at += 16_384) {
      const part = bytes.subarray(at, at + 16_384)
      written += part.length
      if (!response.write(part)) await Promise.race([once(response, 'drain'), once(response, 'close')])
    }
  }
  const origin = await serveHttp(t, async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const { input, response_format: format } = JSON.parse(Buffer.concat(chunks).toString())
    asked.push(input)
    const { cutAfter, status = 200, sampleRate = 24_000, bytes, until } = behave(input, asked.length - 1)
    await until
    if (status !== 200) return void response.writeHead(status).end('{"error":{"message":"ill"}}')
    const samples = samplesOf(input, bytes)
    response.writeHead(200, { 'content-type': format === 'wav' ? 'audio/wav' : 'audio/pcm' })
    if (format === 'wav') response.write(filledWav(44 + samples.length, 0, sampleRate).subarray(0, 44))
    await write(response, samples.subarray(0, cutAfter))
    if (cutAfter === undefined) response.end()
    else setTimeout(() => response.destroy(), 50)
  })
  return { origin, asked, written: () => written }
}

export function voiceEntry({ origin }: Pick<Voice, 'origin'>, name: string): Entry {
  return entry({ provider: configuredProvider({ name, baseUrl: `${origin}/v1` }) })
}

/** A caller that writes text, and keeps the audio, too. */
export class SpeechClient extends SocketClient {
  /** Messages and lengths of audio as they came. */
  readonly order: (string | number)[] = []
  readonly #audio: Buffer[] = []

  get audio(): Buffer {
    return Buffer.concat(this.#audio)
  }

  protected override received(data: Buffer, isBinary: boolean): void {
    if (isBinary) {
      this.#audio.push(data)
      this.order.push(data.length)
      return
    }
    super.received(data, isBinary)
    this.order.push(this.messages.at(-1)!.type)
  }

  write(text: string): void {
    this.send({ type: 'text', text })
  }

  end(): void {
    this.send({ type: 'end' })
  }
}

interface SpeechRigOptions extends Partial<DoorsRigOptions> {
  readonly credits?: number
  /** Of what the endpoints work with, what is to be another. */
  readonly needs?: Partial<Dependencies>
  readonly watch?: LiveWatch
}

/** The doors of speech over real sockets, in this process. */
export async function openSpeech(
  t: Test,
  entries: readonly Entry[],
  { credits = 1_000_000_000, needs: more, watch, ...options }: SpeechRigOptions = {},
) {
  const fetchAudio = () => Promise.reject(new Error('nothing is fetched'))
  const { workspace } = principal()
  const terms = { grant: { id: 'initial', micros: credits }, trial: null, budgetMicros: null }
  const caller = { workspace: { ...workspace, terms } }
  const { dependencies, authorization } = await openDoors(t, { fetchAudio, entries, caller, ...options })
  const { services } = dependencies
  const live = new LiveSessions(services, 1024 * 1024, watch)
  const needs = { ...dependencies, live, ...more }
  const edge = await startEdge(
    t,
    [speechStream, speech, speakLive].map((one) => one.route(needs)),
  )
  const url = `${edge.origin.replace('http:', 'ws:')}/v1/speech/stream`
  return {
    live,
    services,
    authorization,
    origin: edge.origin,
    connect: (query = 'response_format=pcm', headers: Record<string, string> = { authorization }) =>
      new SpeechClient(t, new WebSocket(`${url}?${query}`, ['larkway.v1'], { headers })),
    /** The same text by `POST /v1/speech`. */
    async post(input: string, response_format = 'pcm'): Promise<Buffer> {
      const response = await fetch(`${edge.origin}/v1/speech`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json', accept: 'audio/*' },
        body: JSON.stringify({ input, response_format }),
      })
      if (response.status !== 200) throw new Error(await response.text())
      return Buffer.from(await response.arrayBuffer())
    },
    /** Micro-USD that were charged, when nothing is reserved any more. */
    async spent(): Promise<number> {
      let view: AccountView | null = null
      await waitUntil(async () => {
        await services.moneyLeases.giveBack(workspace.id)
        view = await services.state.accounts.show(workspace.id, terms)
        return view.reservedMicros === 0 && live.count === 0
      }, 20_000)
      return credits - view!.creditsMicros
    },
  }
}
