import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, STATUS_CODES } from 'node:http'
import { WebSocket } from 'ws'
import type { LiveAudio } from '../contracts/calls.ts'
import { bytesPerSecond, frameBytes } from '../contracts/live-audio.ts'
import { sleep, systemClock } from '../contracts/time.ts'
import { CommandFailure } from './arguments.ts'

const PROTOCOL = 'larkway.v1'
const HANDSHAKE_TIMEOUT_MS = 10_000
/** Longest wait for `done` after the last audio. */
const END_TIMEOUT_MS = 60_000
const MESSAGE_MAX_BYTES = 16 * 1024 * 1024
const REFUSAL_MAX_BYTES = 64 * 1024
const FRAME_SECONDS = 0.1
/** Seconds of audio that may wait in the socket before no more is read. */
const WAITING_SECONDS = 2
/** Audio that is kept for another session until it is settled, seconds. */
const KEPT_SECONDS = 60

/** Codes of a session that another one can go on from: the node stops, the connection broke, the node restarts. */
const RESUMABLE = [1001, 1006, 1012]
/** Sessions in a row that settle nothing, and how long a node may be away. */
const RESUMES_MAX = 8
const AWAY_MAX_MS = 30_000
const RETRY_MS = 500
/** A node that goes away again so soon is the only one: the session stays until it is closed. */
const LEAVING_AGAIN_MS = 5000
/** Ends of a text that are no further apart are one, seconds. */
const SAME_SECONDS = 0.05

export type Message = Readonly<Record<string, unknown>>

/** Where messages are shown. */
export interface Screen {
  show(message: Message): void
  /** Ends the line that is under way. */
  end(): void
}

/** How fast audio may be sent, of real time, and how much of it at once. */
export interface Pace {
  readonly speed: number
  readonly aheadSeconds: number
}

interface LiveStreamOptions {
  readonly url: URL
  readonly key: string | undefined
  readonly audio: LiveAudio
  readonly screen: Screen
  /** Told what happens on the way. */
  readonly complain: (sentence: string) => void
}

/** The node says that the session cannot be. */
class Refused extends CommandFailure {
  /** It may be there in a moment. */
  readonly isPassing: boolean

  constructor(message: string, isPassing: boolean) {
    super(message)
    this.isPassing = isPassing
  }
}

/**
 * One stream of audio to a node, in one live session, or in several where one is over before the audio is: the next one
 * begins with the audio that was not settled, so that no word is lost or comes twice.
 */
export class LiveStream {
  readonly #options: LiveStreamOptions
  /** Bytes of a sample of every channel, and of a second. */
  readonly #sample: number
  readonly #second: number
  readonly #tape: Tape
  #session: Session | null = null
  /** Every socket that was opened. */
  readonly #sockets: WebSocket[] = []
  #resumes = 0
  #leftMs = Number.NEGATIVE_INFINITY
  #ending = false
  /** Where the last final text of each channel ends, seconds of the whole audio. */
  readonly #shown = new Map<unknown, number>()
  readonly #stopped = Promise.withResolvers<null>()
  #failure: CommandFailure | null = null
  readonly #failed = Promise.withResolvers<never>()

  constructor(options: LiveStreamOptions) {
    this.#options = options
    this.#sample = frameBytes(options.audio)
    this.#second = bytesPerSecond(options.audio)
    this.#tape = new Tape(KEPT_SECONDS * this.#second)
    // It may fail while no one waits for it.
    this.#failed.promise.catch(() => undefined)
  }

  /** @throws CommandFailure when the transcript does not come to its end */
  async run(chunks: AsyncIterable<Buffer>, pace: Pace): Promise<void> {
    const stop = () => this.#stopped.resolve(null)
    process.once('SIGINT', stop)
    try {
      await this.#connected()
      await this.#send(chunks, pace)
      await this.#finish()
    } finally {
      process.off('SIGINT', stop)
      for (const socket of this.#sockets) socket.terminate()
      this.#options.screen.end()
    }
  }

  /** Sends audio in frames of whole samples, no faster than the pace. */
  async #send(chunks: AsyncIterable<Buffer>, { speed, aheadSeconds }: Pace): Promise<void> {
    const size = Math.ceil(this.#options.audio.sampleRate * FRAME_SECONDS) * this.#sample
    const frames = framesOf(chunks, size, this.#sample)[Symbol.asyncIterator]()
    const startedMs = systemClock.now()
    for (;;) {
      const next = await this.#unlessOver(frames.next())
      if (next === null || next.done === true) return
      // A frame of a microphone is there when it was said, so at real time a frame goes out at its end.
      const seconds = (this.#tape.end + next.value.length) / this.#second
      const dueMs = startedMs + ((seconds - aheadSeconds) / speed) * 1000
      while (this.#mustWait(dueMs)) {
        const waitMs = Math.max(5, Math.min(100, dueMs - systemClock.now()))
        if ((await this.#unlessOver(sleep(systemClock, waitMs).then(() => true))) === null) return
      }
      const session = await this.#connected()
      this.#tape.push(next.value)
      session.socket.send(next.value)
    }
  }

  /** @returns null when the audio is to end here @throws CommandFailure when the stream has failed */
  #unlessOver<T>(work: Promise<T>): Promise<T | null> {
    return Promise.race([work, this.#stopped.promise, this.#failed.promise])
  }

  #mustWait(dueMs: number): boolean {
    const waiting = this.#session?.socket.bufferedAmount ?? 0
    return systemClock.now() < dueMs || waiting > WAITING_SECONDS * this.#second
  }

  async #finish(): Promise<void> {
    this.#ending = true
    for (;;) {
      const session = await this.#connected()
      session.socket.send('{"type":"end"}')
      const late = sleep(systemClock, END_TIMEOUT_MS, { ref: false }).then(() => 'late')
      const said = await Promise.race([session.closed, late, this.#failed.promise])
      if (session.isDone) return
      if (said === 'late')
        throw new CommandFailure(`nothing more came for ${END_TIMEOUT_MS / 1000} s after the audio`)
    }
  }

  /** The session that is open; opens one where none is. @throws CommandFailure */
  async #connected(): Promise<Session> {
    const deadlineMs = systemClock.now() + AWAY_MAX_MS
    while (this.#session === null) {
      try {
        if (this.#failure !== null) throw this.#failure
        await this.#open()
      } catch (error) {
        const isFirst = this.#sockets.length === 1
        const mayRetry = error instanceof Refused && error.isPassing && systemClock.now() < deadlineMs
        if (isFirst || !mayRetry) throw error
        await sleep(systemClock, RETRY_MS)
      }
    }
    return this.#session
  }

  async #open(): Promise<void> {
    const { url, key, complain } = this.#options
    const session = new Session(createSocket(url, key), this.#tape.start, new Map(this.#shown))
    this.#sockets.push(session.socket)
    // Listened to before it is open: the first messages may come with the handshake.
    session.socket.on('message', (data) => this.#received(session, parsedMessage(data.toString())))
    session.socket.once('close', (code) => this.#closed(session, code))
    await opened(session.socket, url)
    if (this.#tape.lost > 0) complain(`${this.#seconds(this.#tape.lost)} s of audio are lost`)
    for (const frame of this.#tape.frames) session.socket.send(frame)
    this.#session = session
    if (session.code !== null) this.#lost(session, session.code)
  }

  #seconds(bytes: number): number {
    return Number((bytes / this.#second).toFixed(3))
  }

  #received(session: Session, message: Message | null): void {
    if (message === null || session.isLeft) return
    const { screen, complain } = this.#options
    if (message.type === 'error') session.failure ??= sentenceOf(message.error) ?? 'the node reports an error'
    else if (message.type === 'done') session.isDone = true
    if (message.type !== 'final' || this.#isNew(session, message)) screen.show(message)
    if (message.type === 'final') this.#settle(session, message)
    if (message.type === 'switched') complain(switchSentence(message))
    if (message.type === 'going_away') this.#leave(session, message)
    if (message.type === 'ready' && Array.isArray(message.warnings))
      for (const warning of message.warnings) complain(String(warning))
  }

  /** A continued session hears once more what was final on a channel while another was not settled. */
  #isNew({ base, before }: Session, { channel, segment }: Message): boolean {
    const { end = 0 } = (segment ?? {}) as { end?: number }
    const at = this.#seconds(base) + end
    if (at <= (before.get(channel) ?? Number.NEGATIVE_INFINITY) + SAME_SECONDS) return false
    this.#shown.set(channel, at)
    return true
  }

  #settle(session: Session, { settled_seconds: seconds }: Message): void {
    if (typeof seconds !== 'number') return
    const samples = Math.floor((seconds * this.#second) / this.#sample)
    this.#tape.settle(session.base + samples * this.#sample)
    this.#resumes = 0
  }

  /** Changes to another session; the one that is left hears no more. */
  #leave(session: Session, { seconds, reason }: Message): void {
    const { screen, complain } = this.#options
    const isAgain = systemClock.now() - this.#leftMs < LEAVING_AGAIN_MS
    const stays = this.#ending || isAgain || reason === 'credits' || session !== this.#session
    complain(`the node ends this session in ${seconds} s (${reason})`)
    if (stays) return
    this.#leftMs = systemClock.now()
    session.isLeft = true
    this.#session = null
    session.socket.send('{"type":"end"}')
    screen.show(NO_PARTIAL)
  }

  #closed(session: Session, code: number): void {
    session.over(code)
    if (session === this.#session) this.#lost(session, code)
  }

  #lost(session: Session, code: number): void {
    if (session.isDone) return
    this.#session = null
    this.#resumes += 1
    const sentence = session.failure ?? `the session was closed before its end (${code})`
    if (!RESUMABLE.includes(code) || this.#resumes > RESUMES_MAX) {
      this.#failure = new CommandFailure(sentence)
      return void this.#failed.reject(this.#failure)
    }
    this.#options.screen.show(NO_PARTIAL)
    this.#options.complain(`${sentence}; another one goes on at ${this.#seconds(this.#tape.start)} s`)
  }
}

const NO_PARTIAL: Message = { type: 'partial', channel: 0, text: '' }

/** One session of a stream. */
class Session {
  readonly socket: WebSocket
  /** Where its audio begins, bytes of the whole. */
  readonly base: number
  /** Where the last final text of each channel ended before it. */
  readonly before: ReadonlyMap<unknown, number>
  isDone = false
  /** Nothing it says counts any more. */
  isLeft = false
  /** The fault that the node named. */
  failure: string | null = null
  /** Code of the close; null while it is open. */
  code: number | null = null
  readonly #closed = Promise.withResolvers<null>()

  constructor(socket: WebSocket, base: number, before: Session['before']) {
    this.socket = socket
    this.base = base
    this.before = before
    // The close that follows says the same.
    socket.on('error', () => undefined)
  }

  get closed(): Promise<null> {
    return this.#closed.promise
  }

  over(code: number): void {
    this.code = code
    this.#closed.resolve(null)
  }
}

/** Audio that was sent and is not settled, in frames. Places are bytes of the whole. */
class Tape {
  readonly #most: number
  #frames: Buffer[] = []
  #start = 0
  #end = 0
  #lost = 0

  constructor(most: number) {
    this.#most = most
  }

  get frames(): readonly Buffer[] {
    return this.#frames
  }

  get start(): number {
    return this.#start
  }

  get end(): number {
    return this.#end
  }

  /** Bytes that were dropped without being settled since that was last asked. */
  get lost(): number {
    const lost = this.#lost
    this.#lost = 0
    return lost
  }

  push(frame: Buffer): void {
    this.#frames.push(frame)
    this.#end += frame.length
    const surplus = this.#end - this.#start - this.#most
    if (surplus <= 0) return
    this.#lost += surplus
    this.#drop(this.#start + surplus)
  }

  settle(until: number): void {
    if (until <= this.#start) return
    this.#lost = 0
    this.#drop(Math.min(until, this.#end))
  }

  #drop(until: number): void {
    for (let first = this.#frames[0]; first !== undefined && this.#start < until; first = this.#frames[0]) {
      const bytes = Math.min(first.length, until - this.#start)
      if (bytes === first.length) this.#frames.shift()
      else this.#frames[0] = first.subarray(bytes)
      this.#start += bytes
    }
  }
}

function createSocket(url: URL, key: string | undefined): WebSocket {
  return new WebSocket(url, PROTOCOL, {
    headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
    perMessageDeflate: false,
    maxPayload: MESSAGE_MAX_BYTES,
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
  })
}

/** @throws Refused with what the node says */
async function opened(socket: WebSocket, url: URL): Promise<void> {
  const refused = once(socket, 'unexpected-response').then(async (args) => {
    const [request, reply] = args as [ClientRequest, IncomingMessage]
    const said = await handshakeRefusal(reply)
    request.destroy()
    throw new Refused(said, (reply.statusCode ?? 0) >= 500)
  })
  // The second of the two has no one to take it.
  refused.catch(() => undefined)
  try {
    await Promise.race([once(socket, 'open'), refused])
  } catch (error) {
    if (error instanceof Refused) throw error
    const { code, message } = error as NodeJS.ErrnoException
    throw new Refused(`cannot reach ${url.origin}: ${message || code}`, true)
  }
}

function switchSentence({ from, to, replayed_seconds, lost_seconds }: Message): string {
  const [before, now] = [from, to].map((entry) => {
    const { provider, model } = (entry ?? {}) as Message
    return `${provider} ${model}`
  })
  return `${before} failed; ${now} goes on (${replayed_seconds} s again, ${lost_seconds} s lost)`
}

/** Frames of `size` bytes, the last one shorter; what is left of a sample at the end is dropped. */
async function* framesOf(
  chunks: AsyncIterable<Buffer>,
  size: number,
  sample: number,
): AsyncGenerator<Buffer> {
  let held: Buffer = Buffer.alloc(0)
  for await (const chunk of chunks) {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk])
    let at = 0
    for (; held.length - at >= size; at += size) yield held.subarray(at, at + size)
    held = held.subarray(at)
  }
  const whole = held.length - (held.length % sample)
  if (whole > 0) yield held.subarray(0, whole)
}

/** A sentence on why a handshake was refused. */
async function handshakeRefusal(reply: IncomingMessage): Promise<string> {
  let text = ''
  reply.setEncoding('utf8')
  for await (const chunk of reply) {
    text += chunk
    if (text.length > REFUSAL_MAX_BYTES) break
  }
  const status = `${reply.statusCode} ${STATUS_CODES[reply.statusCode ?? 0] ?? ''}`.trim()
  return sentenceOf(parsedMessage(text)?.error) ?? `the node answers ${status}`
}

function sentenceOf(error: unknown): string | null {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  return typeof message === 'string' ? `${message}${typeof code === 'string' ? ` (${code})` : ''}` : null
}

function parsedMessage(text: string): Message | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Message) : null
  } catch {
    return null
  }
}
