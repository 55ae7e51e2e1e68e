import type { Clock } from '../contracts/time.ts'
import { type Answer, type CallBody, first, json, Refusal, sha256 } from './http.ts'
import { imageSize } from './images.ts'
import { modelFor } from './models.ts'
import { marksOf } from './morse.ts'
import { writePng } from './picture.ts'

/** How long a film takes to be made, ms. */
const WORK_MS = 1_000
const JOBS_MAX = 100
const DEFAULT_SIZE = '320x180'
const SIDE_MAX = 1920
const SECONDS: ReadonlySet<string> = new Set(['4', '8', '12'])

interface Job {
  readonly id: string
  readonly model: string
  readonly prompt: string
  readonly seconds: string
  readonly width: number
  readonly height: number
  readonly startedMs: number
}

/** `/v1/videos`: films of a lamp that blinks the prompt. Jobs live in memory; the oldest are forgotten. */
export class VideoJobs {
  readonly #clock: Clock
  readonly #jobs = new Map<string, Job>()
  #count = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * `POST /v1/videos`
   *
   * @throws Refusal
   */
  create(body: CallBody): Answer {
    const { name: model } = modelFor('videos', body)
    const prompt = first(body, 'prompt') ?? ''
    const seconds = first(body, 'seconds') ?? '4'
    if (!SECONDS.has(seconds))
      throw new Refusal(400, `seconds takes ${[...SECONDS].join(', ')}`, { param: 'seconds' })
    const { width, height } = imageSize(body, DEFAULT_SIZE, SIDE_MAX)
    this.#count += 1
    const id = `video_${sha256(Buffer.from(`${this.#count} ${prompt}`)).slice(0, 32)}`
    const job: Job = { id, model, prompt, seconds, width, height, startedMs: this.#clock.now() }
    this.#jobs.set(id, job)
    const [oldest] = this.#jobs.keys()
    if (this.#jobs.size > JOBS_MAX && oldest !== undefined) this.#jobs.delete(oldest)
    return json(200, describe(job, 0))
  }

  /**
   * `GET /v1/videos/{id}`, `GET /v1/videos/{id}/content` and `DELETE /v1/videos/{id}`
   *
   * @throws Refusal
   */
  answer(method: string, id: string, content: boolean): Answer {
    const job = this.#jobs.get(id)
    if (job === undefined) throw new Refusal(404, `Video with id '${id}' not found.`, { code: 'not_found' })
    if (method === 'DELETE') {
      this.#jobs.delete(id)
      return json(200, { id, object: 'video.deleted', deleted: true })
    }
    const workedMs = this.#clock.now() - job.startedMs
    if (!content) return json(200, describe(job, workedMs))
    const film =
      workedMs >= WORK_MS ? filmMorse(job.prompt, job.width, job.height, Number(job.seconds)) : null
    if (film === null) throw new Refusal(400, 'Video is not ready yet.')
    return { status: 200, headers: { 'content-type': 'video/quicktime' }, body: film }
  }
}

function describe(job: Job, workedMs: number): object {
  const isDone = workedMs >= WORK_MS
  const { id, model, seconds, width, height, prompt } = job
  const failed = isDone && filmMorse(prompt, 16, 16, 1) === null
  const error = failed
    ? { code: 'invalid_prompt', message: 'The prompt has nothing that Morse code can say.' }
    : null
  const status = failed ? 'failed' : isDone ? 'completed' : 'in_progress'
  const progress = Math.min(100, Math.round((workedMs / WORK_MS) * 100))
  return { id, object: 'video', status, progress, model, seconds, size: `${width}x${height}`, prompt, error }
}

/** Frames per second; a unit of Morse code is one frame. */
const FRAMES_PER_SECOND = 10
const LIT = 255
const DARK = 16

/**
 * A film of a lamp that blinks a text, again and again, as a QuickTime movie whose frames are PNGs.
 *
 * @returns null when nothing of the text can be said
 */
function filmMorse(text: string, width: number, height: number, seconds: number): Buffer | null {
  const marks = marksOf(text)
  if (marks === null) return null
  const once = [...marks, { tone: false, units: 7 }]
  const units = once.flatMap(({ tone, units }) => Array.from({ length: units }, () => tone))
  const frames = Array.from(
    { length: seconds * FRAMES_PER_SECOND },
    (_, at) => units[at % units.length] === true,
  )
  const [lit, dark] = [frame(width, height, LIT), frame(width, height, DARK)]
  const head = box('ftyp', Buffer.from('qt  '), u32(0x2005_0300), Buffer.from('qt  '))
  const mdat = box('mdat', lit, dark)
  // Both pictures are in the file once; the table of samples names one or the other for each frame.
  const [litAt, darkAt] = [head.length + 8, head.length + 8 + lit.length]
  const samples = frames.map((on) =>
    on ? { at: litAt, bytes: lit.length } : { at: darkAt, bytes: dark.length },
  )
  return Buffer.concat([head, mdat, movie(width, height, samples)])
}

function frame(width: number, height: number, grey: number): Buffer {
  return writePng({ width, height, pixels: new Uint8Array(width * height).fill(grey), notes: {} })
}

interface Sample {
  readonly at: number
  readonly bytes: number
}

/** The `moov` of one track; QuickTime File Format, chapter 2. Durations in frames. */
function movie(width: number, height: number, samples: readonly Sample[]): Buffer {
  const duration = samples.length
  const times = [u32(0), u32(0), u32(FRAMES_PER_SECOND), u32(duration)]
  const header = box(
    'mvhd',
    u32(0),
    ...times,
    u32(0x1_0000),
    u16(0x100),
    zeros(10),
    MATRIX,
    zeros(24),
    u32(2),
  )
  const size = [u32(width * 0x1_0000), u32(height * 0x1_0000)]
  const ids = [u32(0), u32(0), u32(1), u32(0)]
  const track = box('tkhd', u32(0xf), ...ids, u32(duration), zeros(16), MATRIX, ...size)
  const media = box(
    'mdia',
    box('mdhd', u32(0), ...times, u16(0), u16(0)),
    box('hdlr', u32(0), Buffer.from('mhlrvide'), zeros(12), Buffer.from([0])),
    box(
      'minf',
      box('vmhd', u32(1), zeros(8)),
      box('hdlr', u32(0), Buffer.from('dhlrurl '), zeros(12), Buffer.from([0])),
      box('dinf', box('dref', u32(0), u32(1), box('url ', u32(1)))),
      tables(width, height, samples),
    ),
  )
  return box('moov', header, box('trak', track, media))
}

function tables(width: number, height: number, samples: readonly Sample[]): Buffer {
  const name = Buffer.alloc(32)
  name.write('\u0003PNG', 'latin1')
  const format = box(
    'png ',
    zeros(6),
    u16(1),
    zeros(16),
    u16(width),
    u16(height),
    u32(0x48_0000),
    u32(0x48_0000),
    u32(0),
    u16(1),
    name,
    u16(40),
    u16(0xffff),
  )
  return box(
    'stbl',
    box('stsd', u32(0), u32(1), format),
    box('stts', u32(0), u32(1), u32(samples.length), u32(1)),
    box('stsc', u32(0), u32(1), u32(1), u32(1), u32(1)),
    box('stsz', u32(0), u32(0), u32(samples.length), ...samples.map(({ bytes }) => u32(bytes))),
    box('stco', u32(0), u32(samples.length), ...samples.map(({ at }) => u32(at))),
  )
}

const MATRIX = Buffer.concat([0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000].map((value) => u32(value)))

function box(type: string, ...content: readonly Buffer[]): Buffer {
  const bytes = content.reduce((sum, part) => sum + part.length, 8)
  return Buffer.concat([u32(bytes), Buffer.from(type, 'latin1'), ...content])
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16BE(value)
  return bytes
}

function zeros(count: number): Buffer {
  return Buffer.alloc(count)
}
