import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Worker } from 'node:worker_threads'
import type { Test } from 'tap'
import { type WebSocket, WebSocketServer } from 'ws'
import type { LiveEvent, LiveFrame, LiveStepper } from '../../src/contracts/live.ts'
import type { LiveTranscription, Provider } from '../../src/contracts/provider.ts'
import type { Failure } from '../../src/contracts/upstream.ts'
import { readWavHead } from '../../src/gateway/media/wav-head.ts'
import { serveHttp } from './http-server.ts'

/**
 * Audio that says numbered words, and a provider that hears them: word n is 300 ms of one value, then 100 ms of
 * silence. It takes next to no CPU, so that a thousand sessions fit a test.
 */
export const RATE = 16_000
export const WORD_SECONDS = 0.4
export const SPOKEN_SECONDS = 0.3
/** A connection that says nothing for so long, while it is sent sound, is taken for dead. */
export const ANSWERS_WITHIN_MS = 1_500
const FIRST_VALUE = 1_000
const STEP = 4

/** Samples of words `from` to `to` (exclusive), s16le. */
export function wordsAudio(from: number, to: number, rate = RATE): Buffer {
  const length = WORD_SECONDS * rate
  const samples = new Int16Array((to - from) * length)
  for (let word = from; word < to; word += 1) {
    const at = (word - from) * length
    samples.fill(FIRST_VALUE + word * STEP, at, at + SPOKEN_SECONDS * rate)
  }
  return Buffer.from(samples.buffer)
}

/** The text of so many words. */
export function wordsText(count: number): string {
  return Array.from({ length: count }, (_, word) => `w${word}`).join(' ')
}

/** How a provider's connection is to fail. */
export type Death = 'reset' | 'close' | 'silence' | 'refuse' | 'at once'

export interface WordsOrders {
  /** Whether and when this connection dies: seconds of audio that it has heard. Asked once for each, in their order. */
  readonly death?: (connection: number) => { readonly how: Death; readonly afterSeconds: number } | null
  /** Is told when a connection dies. @param name what its caller gave as `prompt` */
  readonly onDeath?: (name: string, how: Death) => void
}

/** A connection's end, on the clock that all threads have in common. */
export interface DeathTold {
  readonly name: string
  readonly how: Death
  readonly atMs: number
}

export interface WordsServer {
  readonly origin: string
  /** Seconds of audio that each connection was sent. */
  readonly heard: number[]
  readonly open: () => number
}

/** Deaths that are drawn: how, with which chance, and after how many seconds of audio. */
export interface DrawnDeaths {
  readonly seed: number
  readonly hows: readonly Death[]
  readonly chance: number
  readonly fromSeconds: number
  readonly toSeconds: number
}

/** The same provider in a thread of its own, so that the node under test has its loop for itself. */
export async function serveWordsApart(
  t: Pick<Test, 'teardown'>,
  deaths: DrawnDeaths | null,
  onDeath: (told: DeathTold) => void = () => {},
): Promise<string> {
  const worker = new Worker(new URL('./live-words-thread.ts', import.meta.url), { workerData: deaths })
  const [origin] = (await once(worker, 'message')) as [string]
  worker.on('message', onDeath)
  t.teardown(() => worker.terminate())
  return origin
}

/** A provider over real sockets. */
export async function serveWords(t: Pick<Test, 'teardown'>, orders: WordsOrders = {}): Promise<WordsServer> {
  const server = createServer()
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false })
  const heard: number[] = []
  server.on('upgrade', (request, socket, head) => {
    const connection = heard.push(0) - 1
    const death = orders.death?.(connection) ?? null
    // Whoever was kept waiting for too long has hung up.
    socket.on('error', () => {})
    if (death?.how === 'refuse') {
      socket.end('HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
      return
    }
    sockets.handleUpgrade(request, socket, head, (ws) => {
      if (death?.how === 'at once') socket.cork()
      ws.send('{"t":"ready"}')
      if (death?.how === 'at once') {
        ws.send('{"t":"failed"}')
        return socket.uncork()
      }
      const query = new URL(request.url ?? '', 'http://words').searchParams
      const rate = Number(query.get('rate'))
      const listener = new WordListener((said) => {
        ws.send(JSON.stringify(said))
        if (said.t === 'ended') ws.close(1000)
      }, rate)
      ws.on('error', () => {})
      ws.on('message', (data, isBinary) => {
        if (!isBinary) return listener.told(JSON.parse(String(data)))
        if (death !== null && listener.seconds >= death.afterSeconds) {
          orders.onDeath?.(query.get('name') ?? '', death.how)
          return die(ws, death.how)
        }
        listener.hear(data as Buffer)
        heard[connection] = listener.seconds
      })
    })
  })
  server.listen({ port: 0, host: '127.0.0.1', backlog: 4_096 })
  await once(server, 'listening')
  t.teardown(async () => {
    for (const ws of sockets.clients) ws.terminate()
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  const { port } = server.address() as AddressInfo
  return { origin: `http://127.0.0.1:${port}`, heard, open: () => sockets.clients.size }
}

function die(ws: WebSocket, how: Death): void {
  if (how === 'close') ws.close(1011, 'NET-0000')
  else if (how === 'reset') ws.terminate()
  ws.removeAllListeners('message')
}

interface Said {
  readonly t: 'partial' | 'final' | 'finalized' | 'ended'
  readonly [field: string]: unknown
}

class WordListener {
  readonly #say: (message: Said) => void
  readonly #rate: number
  #samples = 0
  #value = 0
  #since = 0
  #rest: Buffer = Buffer.alloc(0)

  constructor(say: (message: Said) => void, rate: number) {
    this.#say = say
    this.#rate = rate
  }

  get seconds(): number {
    return this.#samples / this.#rate
  }

  hear(bytes: Buffer): void {
    const all = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    const whole = all.length - (all.length % 2)
    this.#rest = all.subarray(whole)
    for (let at = 0; at < whole; at += 2) {
      const value = all[at]! | (all[at + 1]! << 8)
      if (value !== this.#value) this.#change(value)
      this.#samples += 1
    }
    if (this.#value !== 0)
      this.#say({ t: 'partial', start: this.#since / this.#rate, text: wordOf(this.#value) })
  }

  told({ t }: { t: string }): void {
    if (t === 'finalize') this.#say({ t: 'finalized' })
    if (t !== 'end') return
    this.#change(0)
    this.#say({ t: 'ended' })
  }

  #change(value: number): void {
    if (this.#value !== 0)
      this.#say({
        t: 'final',
        word: wordOf(this.#value),
        start: this.#since / this.#rate,
        end: this.#samples / this.#rate,
      })
    this.#value = value
    this.#since = this.#samples
  }
}

function wordOf(value: number): string {
  return `w${Math.round((value - FIRST_VALUE) / STEP)}`
}

/** The protocol of that provider. */
const live: LiveTranscription = {
  handshake: ({ live: { audio }, options }, { baseUrl }) => ({
    // Each word is a value of its own: another rate would change it.
    url: `${baseUrl.replace('http:', 'ws:')}/?rate=${audio.sampleRate}&name=${options.prompt ?? ''}`,
    protocols: [],
    headers: {},
    audio: { ...audio, encoding: 'pcm_s16le', channels: 1 },
  }),
  refused: ({ status }) => failure(status),
  connect: () => new WordsStepper(),
  answersWithinMs: ANSWERS_WITHIN_MS,
}

function failure(status: number | null): Failure {
  return { kind: 'server', status, reason: 'it failed', retryAfterMs: null, providerMessage: null }
}

class WordsStepper implements LiveStepper {
  #isEnding = false

  opened(): readonly LiveFrame[] {
    return []
  }

  audio(bytes: Uint8Array): readonly LiveFrame[] {
    return [bytes]
  }

  finalize(): readonly LiveFrame[] {
    return ['{"t":"finalize"}']
  }

  keepAlive(): readonly LiveFrame[] {
    return []
  }

  end(): readonly LiveFrame[] {
    this.#isEnding = true
    return ['{"t":"end"}']
  }

  received(frame: LiveFrame) {
    const { t: kind, ...rest } = JSON.parse(String(frame))
    const { start, end, word, text } = rest
    const channel = 0
    const events: LiveEvent[] = []
    if (kind === 'failed') events.push({ kind, failure: failure(null) })
    else if (kind === 'partial') events.push({ kind, channel, start, text })
    else if (kind === 'final') {
      const words = [{ word, start, end }]
      const segment = { start, end, text: word }
      events.push({ kind, channel, segment, words, language: 'en', languageConfidence: null })
      events.push({ kind: 'settled', seconds: end })
    } else events.push({ kind } as LiveEvent)
    return { events }
  }

  closed(code: number): Failure | null {
    return this.#isEnding && code === 1000 ? null : failure(null)
  }
}

export const WORDS: Provider = { kind: 'words', baseUrl: null, needsCredential: false, live }

export interface WordFiles {
  readonly origin: string
  /** Seconds of audio in each file, in the order in which they came. */
  readonly heard: number[]
}

/**
 * The same hearing for files, as OpenAI's endpoint takes them.
 *
 * @param answer what a file gets instead of its transcript, by its number; null: the transcript
 */
export async function serveWordFiles(
  t: Pick<Test, 'teardown'>,
  answer: (file: number) => 'failure' | 'silence' | null = () => null,
): Promise<WordFiles> {
  const heard: number[] = []
  const origin = await serveHttp(t, async (request, response) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part)
    const body = Buffer.concat(parts)
    const wav = body.subarray(body.indexOf('RIFF'))
    const head = readWavHead(wav)
    if (head === null || head === 'incomplete') return void response.writeHead(400).end()
    const samples = wav.subarray(head.start, head.start + head.bytes!)
    const rate = head.audio.sampleRate
    const words: object[] = []
    const listener = new WordListener((said) => said.t === 'final' && words.push(said), rate)
    listener.hear(samples)
    listener.told({ t: 'end' })
    const instead = answer(heard.push(listener.seconds) - 1)
    if (instead === 'silence') return
    if (instead === 'failure') return void response.writeHead(500).end('{}')
    const text = words.map((said) => (said as { word: string }).word).join(' ')
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ text, language: 'english', duration: listener.seconds, words }))
  })
  return { origin, heard }
}
