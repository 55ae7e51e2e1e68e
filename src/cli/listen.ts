import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { LIVE_ENCODINGS, type LiveAudio } from '../contracts/calls.ts'
import { beginsAsWav, readWavHead } from '../gateway/media/wav-head.ts'
import { CommandFailure, oneOf, parse, UsageError, whole } from './arguments.ts'
import { type CliContext, EXIT_HELP } from './context.ts'
import { LiveStream, type Message, type Pace, type Screen } from './live-stream.ts'
import { NODE_HELP, NODE_OPTIONS, nodeAddress, transcriptionFields } from './node-address.ts'

const USAGE = `larkway listen FILE|-

Streams audio to a node at real time and prints the transcript as it grows. FILE is a wav file of 16-bit PCM, mu-law or
A-law, or raw samples; - is standard input.

${NODE_HELP}
  --encoding E         of raw samples: ${LIVE_ENCODINGS.join(', ')} (default: pcm_s16le)
  --rate HZ            of raw samples (default: 16000)
  --channels N         of raw samples (default: 1)
  --fast               send as fast as a provider takes it, in place of real time
  --json               print each message as a line of JSON

On a terminal unfinished text is rewritten in place; anywhere else each final text is a line. Ctrl-C ends the audio, and
what was said before is still printed. When the node goes away, or the connection breaks, another session goes on with
the audio that was not settled.

${EXIT_HELP}
`

const OPTIONS = {
  ...NODE_OPTIONS,
  encoding: { type: 'string' },
  rate: { type: 'string' },
  channels: { type: 'string' },
  fast: { type: 'boolean' },
  json: { type: 'boolean' },
} as const

const PATH = '/v1/transcription/stream'
/** The pace at which providers take audio that does not come live, and how much of it may come at once. */
const FAST: Pace = { speed: 1.25, aheadSeconds: 10 }
const LIVE: Pace = { speed: 1, aheadSeconds: 0 }

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
  const fields = transcriptionFields(values.field ?? [], values.language)
  const key = values.key ?? context.env.LARKWAY_API_KEY
  const address = nodeAddress(context, values.url)
  const input = openInput(path, context)
  try {
    const isRaw = values.encoding !== undefined || values.rate !== undefined
    const source = await readSource(input, raw, isRaw)
    const url = sessionUrl(address, source.audio, fields)
    const screen = values.json === true ? new JsonLines(context) : screenOf(context)
    const complain = context.complain ?? (() => undefined)
    const stream = new LiveStream({ url, key, audio: source.audio, screen, complain })
    await stream.run(source.chunks, values.fast === true ? FAST : LIVE)
    return 0
  } finally {
    input.destroy()
  }
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
  const chunks = inputBytes(input)[Symbol.asyncIterator]()
  let head: Buffer = Buffer.alloc(0)
  for (;;) {
    const found = beginsAsWav(head) ? readWavHead(head) : undefined
    const rest = { [Symbol.asyncIterator]: () => chunks }
    if (found === undefined) {
      if (!isRaw && CONTAINER.test(head.toString('latin1', 0, 8)))
        throw new CommandFailure('listen takes wav files and raw samples; convert it first')
      return { audio: raw, chunks: joinedInput(head, rest, null) }
    }
    if (found === null)
      throw new CommandFailure('the wav file has other samples than 16-bit PCM, mu-law and A-law')
    if (found !== 'incomplete')
      return { audio: found.audio, chunks: joinedInput(head.subarray(found.start), rest, found.bytes) }
    const { value, done } = await chunks.next()
    if (done === true) throw new CommandFailure('the input ends before any audio')
    head = Buffer.concat([head, value])
  }
}

async function* inputBytes(input: Readable): AsyncGenerator<Buffer, void> {
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
async function* joinedInput(
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

/** A line that grows: final texts, followed by the unfinished one. */
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
    // When a line does not fit, its newest part is shown.
    this.#print(CLEAR_LINE + (whole.length < this.#columns ? whole : whole.slice(1 - this.#columns)))
  }

  #break(): void {
    if (this.#line !== '') this.#print(`${CLEAR_LINE}${this.#line}\n`)
    this.#line = ''
  }
}
