import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { type ClientRequest, type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { LIVE_ENCODINGS, type LiveAudio } from '../contracts/calls.ts'
import { beginsAsWav, readWavHead } from '../media/wav-head.ts'
import { CommandFailure, oneOf, parse, UsageError, whole } from './arguments.ts'
import { type CliContext, EXIT_HELP } from './context.ts'

const USAGE = `larkway listen FILE|-

Streams audio to a node at real time and prints the transcript as it grows. FILE is a wav file of 16-bit PCM, mu-law or
A-law, or raw samples; - is standard input.

  --url URL            of the node (default: http://127.0.0.1 and PORT, else 8080)
  --key KEY            API key (default: LARKWAY_KEY)
  --language CODE      spoken language
  --field NAME=VALUE   any other field of POST /v1/transcription, such as diarization=true; may be repeated
  --encoding E         of raw samples: ${LIVE_ENCODINGS.join(', ')} (default: pcm_s16le)
  --rate HZ            of raw samples (default: 16000)
  --channels N         of raw samples (default: 1)
  --fast               send as fast as a provider takes it, in place of real time
  --json               print each message as a line of JSON

On a terminal unfinished text is rewritten in place; anywhere else each final text is a line. Ctrl-C ends the audio, and
what was said before is still printed.

${EXIT_HELP}
`

const OPTIONS = {
  url: { type: 'string' },
  key: { type: 'string' },
  language: { type: 'string' },
  field: { type: 'string', multiple: true },
  encoding: { type: 'string' },
  rate: { type: 'string' },
  channels: { type: 'string' },
  fast: { type: 'boolean' },
  json: { type: 'boolean' },
} as const

const PATH = '/v1/transcription/stream'
const PROTOCOL = 'larkway.v1'
const HANDSHAKE_TIMEOUT_MS = 10_000
/** Longest wait for `done` after the last audio. */
const END_TIMEOUT_MS = 60_000
const MESSAGE_MAX_BYTES = 16 * 1024 * 1024
const REFUSAL_MAX_BYTES = 64 * 1024
const FRAME_SECONDS = 0.1
/** What providers take of audio that does not come live, of real time, and how much of it may come at once. */
const FAST = { speed: 1.25, aheadSeconds: 10 }
const LIVE = { speed: 1, aheadSeconds: 0 }
/** What may wait in the socket before no more is read, seconds of audio. */
const WAITING_SECONDS = 2

/**
 * `larkway listen`: the client of live transcription.
 *
 * @returns the exit code
 * @throws UsageError, CommandFailure
 */
export async function listen(args: readonly string[], context: CliContext): Promise<number> {
  if (args.includes('--help')) {
    context.print(USAGE)
    return 0
  }
  const { values, positionals } = parse(args, OPTIONS, 1)
  const [path] = positionals
  if (path === undefined) throw new UsageError('listen takes a file, or - for standard input')
  const raw: LiveAudio = {
    encoding: oneOf('encoding', values.encoding ?? 'pcm_s16le', LIVE_ENCODINGS),
    sampleRate: whole('rate', values.rate) ?? 16_000,
    channels: whole('channels', values.channels, 255) ?? 1,
  }
  const fields = fieldsOf(values.field ?? [], values.language)
  const key = values.key ?? context.env.LARKWAY_KEY
  const address = addressOf(values.url ?? `http://127.0.0.1:${context.env.PORT || 8080}`)
  const input = openInput(path, context)
  try {
    const isRaw = values.encoding !== undefined || values.rate !== undefined
    const source = await readSource(input, raw, isRaw)
    const url = sessionUrl(address, source.audio, fields)
    const screen = values.json === true ? new JsonLines(context) : screenOf(context)
    const socket = createSocket(url, key)
    // It listens before the socket is open: the first messages may come with the handshake.
    const session = new Session(socket, screen, context)
    await opened(socket, url)
    await session.run(source, values.fast === true ? FAST : LIVE)
    return 0
  } finally {
    input.destroy()
  }
}

/** @throws UsageError */
function fieldsOf(given: readonly string[], language: string | undefined): URLSearchParams {
  const fields = new URLSearchParams(language === undefined ? {} : { language })
  for (const field of given) {
    const [, name, value] = /^([a-z_]+)=(.*)$/s.exec(field) ?? []
    if (name === undefined || value === undefined) throw new UsageError('--field takes NAME=VALUE')
    fields.append(name, value)
  }
  return fields
}

/** @throws UsageError */
function addressOf(text: string): URL {
  const address = URL.canParse(text) ? new URL(text) : null
  if (address !== null && /^(?:http|ws)s?:$/.test(address.protocol)) return address
  throw new UsageError('--url takes an address such as http://127.0.0.1:8080')
}

function sessionUrl(address: URL, audio: LiveAudio, fields: URLSearchParams): URL {
  const url = new URL(address)
  url.protocol = url.protocol.replace('http', 'ws')
  url.pathname = url.pathname.replace(/\/$/, '') + PATH
  url.search = fields.toString()
  url.searchParams.set('encoding', audio.encoding)
  url.searchParams.set('sample_rate', String(audio.sampleRate))
  url.searchParams.set('channels', String(audio.channels))
  return url
}

/** @throws CommandFailure where there is no standard input */
function openInput(path: string, { input }: CliContext): Readable {
  if (path !== '-') return createReadStream(path)
  if (input === undefined) throw new CommandFailure('there is no standard input')
  return input
}

/** Beginnings of mp3, ogg, flac, mp4 and webm files, whose bytes are no samples. */
const CONTAINER = /^(?:ID3|OggS|fLaC|....ftyp|\WE\xdf\xa3)/s

interface Source {
  readonly audio: LiveAudio
  /** Samples as they are read. */
  readonly chunks: AsyncIterable<Buffer>
}

/**
 * Finds out what the input is by its beginning.
 *
 * @throws CommandFailure for a file that cannot be read or sent
 */
async function readSource(input: Readable, raw: LiveAudio, isRaw: boolean): Promise<Source> {
  const chunks = inputOf(input)[Symbol.asyncIterator]()
  let head: Buffer = Buffer.alloc(0)
  for (;;) {
    const found = beginsAsWav(head) ? readWavHead(head) : undefined
    const rest = { [Symbol.asyncIterator]: () => chunks }
    if (found === undefined) {
      if (!isRaw && CONTAINER.test(head.toString('latin1', 0, 8)))
        throw new CommandFailure('listen takes wav files and raw samples; convert it first')
      return { audio: raw, chunks: joined(head, rest, null) }
    }
    if (found === null)
      throw new CommandFailure('the wav file has other samples than 16-bit PCM, mu-law and A-law')
    if (found !== 'incomplete')
      return { audio: found.audio, chunks: joined(head.subarray(found.start), rest, found.bytes) }
    const { value, done } = await chunks.next()
    if (done === true) throw new CommandFailure('the input ends before any audio')
    head = Buffer.concat([head, value])
  }
}

async function* inputOf(input: Readable): AsyncGenerator<Buffer, void> {
  try {
    for await (const chunk of input) yield typeof chunk === 'string' ? Buffer.from(chunk) : (chunk as Buffer)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    // Ended from here, once the session is over.
    if (code === 'ERR_STREAM_PREMATURE_CLOSE') return
    throw new CommandFailure(`cannot read the input: ${message}`)
  }
}

/** @param most bytes that are passed on; null: all */
async function* joined(
  head: Buffer,
  rest: AsyncIterable<Buffer>,
  most: number | null,
): AsyncGenerator<Buffer, void> {
  let left = most ?? Number.POSITIVE_INFINITY
  if (head.length > 0) yield head.subarray(0, Math.min(head.length, left))
  left -= head.length
  if (left <= 0) return
  for await (const chunk of rest) {
    yield chunk.subarray(0, Math.min(chunk.length, left))
    left -= chunk.length
    if (left <= 0) return
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

/** @throws CommandFailure with what the node says */
async function opened(socket: WebSocket, url: URL): Promise<void> {
  const refused = once(socket, 'unexpected-response').then(async (args) => {
    const [request, reply] = args as [ClientRequest, IncomingMessage]
    const said = await refusalOf(reply)
    request.destroy()
    throw new CommandFailure(said)
  })
  // Whichever comes second belongs to nobody.
  refused.catch(() => undefined)
  try {
    await Promise.race([once(socket, 'open'), refused])
  } catch (error) {
    if (error instanceof CommandFailure) throw error
    const { code, message } = error as NodeJS.ErrnoException
    throw new CommandFailure(`cannot reach ${url.origin}: ${message || code}`)
  }
}

/** A sentence on why a handshake was refused. */
async function refusalOf(reply: IncomingMessage): Promise<string> {
  let text = ''
  reply.setEncoding('utf8')
  for await (const chunk of reply) {
    text += chunk
    if (text.length > REFUSAL_MAX_BYTES) break
  }
  const status = `${reply.statusCode} ${STATUS_CODES[reply.statusCode ?? 0] ?? ''}`.trim()
  return sentenceOf(parsed(text)?.error) ?? `the node answers ${status}`
}

function sentenceOf(error: unknown): string | null {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  return typeof message === 'string' ? `${message}${typeof code === 'string' ? ` (${code})` : ''}` : null
}

type Message = Readonly<Record<string, unknown>>

function parsed(text: string): Message | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Message) : null
  } catch {
    return null
  }
}

/** Where messages are shown. */
interface Screen {
  show(message: Message): void
  /** Ends the line that is under way. */
  end(): void
}

type Pace = typeof FAST

/** One session from its first audio to `done`. */
class Session {
  readonly #socket: WebSocket
  readonly #screen: Screen
  readonly #context: CliContext
  #isDone = false
  #failure: string | null = null
  #stopped = false
  readonly #closed: Promise<void>

  constructor(socket: WebSocket, screen: Screen, context: CliContext) {
    this.#socket = socket
    this.#screen = screen
    this.#context = context
    socket.on('message', (data) => this.#received(parsed(data.toString())))
    // The close that follows says the same.
    socket.on('error', () => undefined)
    this.#closed = new Promise((resolve) => socket.once('close', (code) => resolve(this.#ended(code))))
  }

  /** @throws CommandFailure when the session fails */
  async run({ audio, chunks }: Source, pace: Pace): Promise<void> {
    const stopped = Promise.withResolvers<void>()
    const stop = () => {
      this.#stopped = true
      stopped.resolve()
    }
    process.once('SIGINT', stop)
    try {
      await Promise.race([this.#closed, stopped.promise, this.#send(audio, chunks, pace)])
      if (this.#isOpen) this.#socket.send('{"type":"end"}')
      const late = sleep(END_TIMEOUT_MS, undefined, { ref: false })
      await Promise.race([this.#closed, late])
      if (this.#isOpen) this.#failure ??= `nothing more came for ${END_TIMEOUT_MS / 1000} s after the audio`
    } finally {
      process.off('SIGINT', stop)
      this.#socket.terminate()
      this.#screen.end()
    }
    if (this.#failure !== null) throw new CommandFailure(this.#failure)
  }

  get #isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN
  }

  /** Sends audio in frames of whole samples, no faster than the pace. */
  async #send(audio: LiveAudio, chunks: AsyncIterable<Buffer>, { speed, aheadSeconds }: Pace): Promise<void> {
    const sample = (audio.encoding === 'pcm_s16le' ? 2 : 1) * audio.channels
    const second = sample * audio.sampleRate
    const frame = Math.ceil(audio.sampleRate * FRAME_SECONDS) * sample
    const startedMs = performance.now()
    let sentSeconds = 0
    for await (const bytes of framesOf(chunks, frame, sample)) {
      sentSeconds += bytes.length / second
      // A frame of a microphone is there when it was said, so at real time a frame goes out at its end.
      const dueMs = startedMs + ((sentSeconds - aheadSeconds) / speed) * 1000
      while (this.#isOpen && !this.#stopped && this.#mustWait(dueMs, second)) await sleep(this.#waitMs(dueMs))
      if (!this.#isOpen || this.#stopped) return
      this.#socket.send(bytes)
    }
  }

  #mustWait(dueMs: number, second: number): boolean {
    return performance.now() < dueMs || this.#socket.bufferedAmount > WAITING_SECONDS * second
  }

  #waitMs(dueMs: number): number {
    return Math.max(5, Math.min(100, dueMs - performance.now()))
  }

  #received(message: Message | null): void {
    if (message === null) return
    if (message.type === 'error') this.#failure ??= sentenceOf(message.error) ?? 'the node reports an error'
    else if (message.type === 'done') this.#isDone = true
    this.#screen.show(message)
    const { complain } = this.#context
    if (message.type === 'switched') complain?.(switchSentence(message))
    if (message.type === 'going_away')
      complain?.(`the node ends this session in ${message.seconds} s (${message.reason})`)
    for (const warning of message.type === 'ready' ? listOf(message.warnings) : [])
      complain?.(String(warning))
  }

  #ended(code: number): void {
    if (!this.#isDone) this.#failure ??= `the session was closed before its end (${code})`
  }
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
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

class JsonLines implements Screen {
  readonly #print: CliContext['print']

  constructor({ print }: CliContext) {
    this.#print = print
  }

  show(message: Message): void {
    this.#print(`${JSON.stringify(message)}\n`)
  }

  end(): void {}
}

function screenOf(context: CliContext): Screen {
  return context.columns === undefined ? new FinalLines(context) : new TerminalLine(context, context.columns)
}

/** The text of a final, after its speaker or channel where there is one. */
function finalText({ segment, channel }: Message): string {
  const { text = '', speaker } = (segment ?? {}) as { text?: string; speaker?: string }
  const who = speaker ?? (Number(channel) > 0 ? `channel ${channel}` : null)
  return who === null ? text : `${who}: ${text}`
}

/** Each final text is a line. */
class FinalLines implements Screen {
  readonly #print: CliContext['print']

  constructor({ print }: CliContext) {
    this.#print = print
  }

  show(message: Message): void {
    if (message.type === 'final') this.#print(`${finalText(message)}\n`)
  }

  end(): void {}
}

const CLEAR_LINE = '\r\u001b[K'

/** A line that grows: final texts, and the unfinished one behind them. */
class TerminalLine implements Screen {
  readonly #print: CliContext['print']
  readonly #columns: number
  /** Final texts of this line. */
  #line = ''
  #partial = ''

  constructor({ print }: CliContext, columns: number) {
    this.#print = print
    this.#columns = Math.max(20, columns)
  }

  show(message: Message): void {
    if (message.type === 'partial') this.#partial = String(message.text ?? '')
    else if (message.type === 'final') {
      const text = finalText(message)
      if (this.#line !== '' && this.#line.length + 1 + text.length >= this.#columns) this.#break()
      this.#line = this.#line === '' ? text : `${this.#line} ${text}`
      this.#partial = ''
    } else if (message.type !== 'utterance_end' || this.#partial !== '') return
    else return void this.#break()
    this.#draw()
  }

  end(): void {
    this.#partial = ''
    this.#break()
  }

  #draw(): void {
    const whole = [this.#line, this.#partial].filter((text) => text !== '').join(' ')
    // Of a line that does not fit, the newest part is shown.
    this.#print(CLEAR_LINE + (whole.length < this.#columns ? whole : whole.slice(1 - this.#columns)))
  }

  #break(): void {
    if (this.#line !== '') this.#print(`${CLEAR_LINE}${this.#line}\n`)
    this.#line = ''
  }
}
