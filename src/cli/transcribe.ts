import { hash } from 'node:crypto'
import { createWriteStream, existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { basename, dirname, extname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { systemClock } from '../contracts/time.ts'
import { CommandFailure, oneOf, parse, UsageError } from './arguments.ts'
import { type CliContext, EXIT_HELP } from './context.ts'
import { NODE_HELP, NODE_OPTIONS, nodeAddress, transcriptionFields } from './node-address.ts'
import type { NodeClient, UploadedFile } from './upload.ts'
import { answerRefusal, askUntilAnswered, createUpload, dropUpload, finishUpload } from './upload.ts'

const FORMATS = ['text', 'srt', 'vtt', 'json'] as const
type Format = (typeof FORMATS)[number]

const USAGE = `larkway transcribe FILE|FOLDER|-... [--out FORMAT]

Uploads recordings, has a node transcribe each as a durable job, and prints the transcript. Of several files, and of
those of a folder, each transcript is written beside its file; one that exists is kept. What a broken connection or
Ctrl-C has interrupted goes on with the same command, from where it was.

  --out FORMAT         ${FORMATS.join(', ')} (default: text)
${NODE_HELP}

${EXIT_HELP}
`

const OPTIONS = { ...NODE_OPTIONS, out: { type: 'string' } } as const
const AUDIO = /\.(?:mp3|mpga|mpeg|mp4|m4a|wav|webm|ogg|oga|opus|flac)$/i
const FILES_MAX = 10_000
/** Longest that a node holds an answer, seconds. */
const WAIT_SECONDS = 30

interface Options {
  readonly node: NodeClient
  readonly format: Format
  readonly fields: Readonly<Record<string, unknown>>
  readonly context: CliContext
}

/**
 * `larkway transcribe`: recordings of any length, over connections that break.
 *
 * @returns the exit code
 * @throws UsageError, CommandFailure
 */
export async function transcribe(args: readonly string[], context: CliContext): Promise<number> {
  if (args.includes('--help')) {
    context.print(USAGE)
    return 0
  }
  const { values, positionals } = parse(args, OPTIONS, FILES_MAX)
  if (positionals.length === 0)
    throw new UsageError('transcribe takes files, folders, or - for standard input')
  const fields = [...transcriptionFields(values.field ?? [], values.language)]
  const options: Options = {
    node: {
      address: nodeAddress(context, values.url),
      key: values.key ?? context.env.LARKWAY_API_KEY,
      clock: systemClock,
    },
    format: oneOf('out', values.out ?? 'text', FORMATS),
    fields: Object.fromEntries(fields.map(([name, value]) => [name, jsonValue(value)])),
    context,
  }
  const files = [...new Set((await Promise.all(positionals.map(filesAt))).flat())]
  if (files.length === 0) throw new CommandFailure('there is no audio')
  const isAlone = files.length === 1 && files[0] === positionals[0]
  for (const path of files) {
    if (path === '-') context.print(await transcribeInput(options))
    else if (isAlone) context.print(await transcribeFile(path, options))
    else await writeTranscript(path, transcriptPath(path, files, options.format), options)
  }
  return 0
}

/** A field as JSON has it. */
function jsonValue(text: string): unknown {
  if (text === 'true' || text === 'false') return text === 'true'
  return /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : text
}

/** The file, or the files of audio in the folder. @throws CommandFailure */
async function filesAt(path: string): Promise<string[]> {
  if (path === '-') return [path]
  const info = await stat(path).catch((error: Error) => {
    throw new CommandFailure(`cannot read ${path}: ${error.message}`)
  })
  if (!info.isDirectory()) return [path]
  const names = await readdir(path)
  return names
    .filter((name) => AUDIO.test(name))
    .sort()
    .map((name) => join(path, name))
}

/** Standard input goes through a file, since neither its length is known nor can it be read again. */
async function transcribeInput(options: Options): Promise<string> {
  const { input } = options.context
  if (input === undefined) throw new CommandFailure('there is no standard input')
  const folder = await mkdtemp(join(tmpdir(), 'larkway-'))
  try {
    const path = join(folder, 'input')
    await pipeline(input, createWriteStream(path, { mode: 0o600 }))
    return await transcribeFile(path, options)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function transcribeFile(path: string, options: Options): Promise<string> {
  const { node, context } = options
  const { size, mtimeMs } = await stat(path)
  if (size === 0) throw new CommandFailure(`${path} is empty`)
  const file: UploadedFile = { path, bytes: size }
  const kept = new KeptUpload(context, `${node.address.origin} ${await realpath(path)} ${size} ${mtimeMs}`)
  const progress = new Progress(context, basename(path), size)
  const id = await uploaded(node, file, kept, progress)
  progress.say('is transcribed')
  const text = await transcript(id, options, progress)
  progress.end()
  await kept.set(null)
  await dropUpload(node, id)
  return text
}

/** @returns the id of the upload that has the file: an earlier one's, where there is one */
async function uploaded(
  node: NodeClient,
  file: UploadedFile,
  kept: KeptUpload,
  progress: Progress,
): Promise<string> {
  for (let id = await kept.get(); ; id = null) {
    if (id === null) {
      id = await createUpload(node, file)
      await kept.set(id)
    }
    if (await finishUpload(node, id, file, (sent) => progress.show(sent))) return id
  }
}

/**
 * Has the upload transcribed: once, however often it is asked for, and once more by a command that finds it failed.
 *
 * @param failedId the job that the same upload failed as
 * @throws CommandFailure
 */
async function transcript(id: string, options: Options, progress: Progress, failedId = ''): Promise<string> {
  const { node, format, fields } = options
  const body = JSON.stringify({ ...fields, audio: { upload_id: id }, response_format: formatOf(format) })
  const idempotencyKey = `transcribe-${hash('sha256', body + failedId)}`
  const headers = { 'content-type': 'application/json', 'idempotency-key': idempotencyKey }
  const submitted = await askUntilAnswered(node, {
    method: 'POST',
    path: '/v1/transcription/jobs',
    headers,
    body,
  })
  if (submitted.status !== 202 && submitted.status !== 200) throw answerRefusal(submitted)
  const { job_id: jobId, status, poll_url: path } = JSON.parse(submitted.text)
  if (submitted.status === 200 && ENDED_BADLY.has(status)) return transcript(id, options, progress, jobId)
  for (;;) {
    const answer = await askUntilAnswered(node, { method: 'GET', path: `${path}?wait=${WAIT_SECONDS}` })
    if (answer.status !== 200) throw answerRefusal(answer)
    const job = JSON.parse(answer.text) as TranscribedJob
    if (job.progress) progress.say(`is transcribed: ${job.progress.done} of ${job.progress.total} parts`)
    if (job.completed_at === null) continue
    if (job.status !== 'succeeded')
      throw new CommandFailure(job.error?.message ?? `the job was ${job.status}`)
    const result = job.result ?? (await resultAt(node, job.result_url ?? ''))
    return format === 'json'
      ? `${JSON.stringify(result, null, 2)}\n`
      : `${String(result.content).trimEnd()}\n`
  }
}

/** How a job ended that is not worth waiting for; null: its time is over. */
const ENDED_BADLY: ReadonlySet<string | null> = new Set(['failed', 'cancelled', null])

interface TranscribedJob {
  readonly status: string
  readonly completed_at: string | null
  readonly progress?: { readonly done: number; readonly total: number } | null
  readonly error?: { readonly message: string } | null
  readonly result?: Readonly<Record<string, unknown>> | null
  readonly result_url?: string
}

/** A long result is at a URL of its own, which needs no key. */
async function resultAt({ address, clock }: NodeClient, path: string) {
  const answer = await askUntilAnswered({ address, key: undefined, clock }, { method: 'GET', path })
  if (answer.status !== 200) throw answerRefusal(answer)
  return JSON.parse(answer.text) as Readonly<Record<string, unknown>>
}

const formatOf = (format: Format) => (format === 'json' ? 'verbose_json' : format)
const EXTENSIONS: Readonly<Record<Format, string>> = { text: 'txt', srt: 'srt', vtt: 'vtt', json: 'json' }

/** Where the transcript of a file goes: beside it, under a name that is the transcript's of no other file. */
function transcriptPath(path: string, files: readonly string[], format: Format): string {
  const stem = withoutExtension(path)
  const isOnly = files.filter((file) => withoutExtension(file) === stem).length === 1
  return `${isOnly ? stem : path}.${EXTENSIONS[format]}`
}

const withoutExtension = (path: string) => join(dirname(path), basename(path, extname(path)))

/** Writes the transcript of a file, whole or not at all, unless there is a file of the name. */
async function writeTranscript(path: string, to: string, options: Options): Promise<void> {
  if (existsSync(to)) return options.context.print(`${to} exists\n`)
  await writeFile(`${to}.part`, await transcribeFile(path, options))
  await rename(`${to}.part`, to)
  options.context.print(`${to}\n`)
}

/** Remembers the upload of a file for the next command. */
class KeptUpload {
  readonly #path: string
  readonly #name: string

  /** @param name that only the same file has, at the same node */
  constructor({ env }: CliContext, name: string) {
    const state = env.XDG_STATE_HOME || join(env.HOME || homedir(), '.local', 'state')
    this.#path = join(state, 'larkway', 'uploads.json')
    this.#name = name
  }

  async get(): Promise<string | null> {
    return (await this.#read())[this.#name] ?? null
  }

  /** @param id null: there is none any more */
  async set(id: string | null): Promise<void> {
    const { [this.#name]: _, ...others } = await this.#read()
    const all = id === null ? others : { ...others, [this.#name]: id }
    await mkdir(dirname(this.#path), { recursive: true })
    await writeFile(`${this.#path}.part`, JSON.stringify(all, null, 2), { mode: 0o600 })
    await rename(`${this.#path}.part`, this.#path)
  }

  async #read(): Promise<Record<string, string>> {
    const text = await readFile(this.#path, 'utf8').catch(() => '{}')
    try {
      return JSON.parse(text) as Record<string, string>
    } catch {
      return {}
    }
  }
}

const CLEAR_LINE = '\r\u001b[K'
const MIB = 1024 * 1024
/** Ms between two looks of the line. */
const REDRAW_MS = 100

/** A line on the terminal that tells how far an upload is; elsewhere nothing. */
class Progress {
  readonly #draw: (text: string) => void
  readonly #name: string
  readonly #bytes: number
  readonly #startedMs = systemClock.now()
  #drawnMs = 0
  #first: number | null = null

  constructor({ draw = () => {} }: CliContext, name: string, bytes: number) {
    this.#draw = draw
    this.#name = name
    this.#bytes = bytes
  }

  show(sent: number): void {
    const nowMs = systemClock.now()
    this.#first ??= sent
    if (sent < this.#bytes && nowMs - this.#drawnMs < REDRAW_MS) return
    this.#drawnMs = nowMs
    const rate = (1000 * (sent - this.#first)) / Math.max(1, nowMs - this.#startedMs)
    const percent = Math.floor((100 * sent) / this.#bytes)
    const size = `${Math.round(this.#bytes / MIB)} MiB`
    this.#draw(`${CLEAR_LINE}${this.#name}: ${percent} % of ${size}, ${(rate / MIB).toFixed(1)} MiB/s`)
  }

  say(what: string): void {
    this.#draw(`${CLEAR_LINE}${this.#name} ${what}`)
  }

  end(): void {
    this.#draw(CLEAR_LINE)
  }
}
