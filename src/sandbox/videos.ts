import { type Answer, json, sha256 } from './answer.ts'
import { type CallBody, first } from './body.ts'
import { filmMorse } from './film.ts'
import { sizeOf } from './images.ts'
import { modelFor } from './models.ts'
import { Refusal } from './refusal.ts'

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
  readonly #jobs = new Map<string, Job>()
  #count = 0

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
    const { width, height } = sizeOf(body, DEFAULT_SIZE, SIDE_MAX)
    this.#count += 1
    const id = `video_${sha256(Buffer.from(`${this.#count} ${prompt}`)).slice(0, 32)}`
    const job: Job = { id, model, prompt, seconds, width, height, startedMs: performance.now() }
    this.#jobs.set(id, job)
    const [oldest] = this.#jobs.keys()
    if (this.#jobs.size > JOBS_MAX && oldest !== undefined) this.#jobs.delete(oldest)
    return json(200, describe(job))
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
    if (!content) return json(200, describe(job))
    const film = isDone(job) ? filmMorse(job.prompt, job.width, job.height, Number(job.seconds)) : null
    if (film === null) throw new Refusal(400, 'Video is not ready yet.')
    return { status: 200, headers: { 'content-type': 'video/quicktime' }, body: film }
  }
}

function describe(job: Job): object {
  const { id, model, seconds, width, height, prompt } = job
  const failed = isDone(job) && filmMorse(prompt, 16, 16, 1) === null
  const error = failed
    ? { code: 'invalid_prompt', message: 'The prompt has nothing that Morse code can say.' }
    : null
  const status = failed ? 'failed' : isDone(job) ? 'completed' : 'in_progress'
  const progress = Math.min(100, Math.round(((performance.now() - job.startedMs) / WORK_MS) * 100))
  return { id, object: 'video', status, progress, model, seconds, size: `${width}x${height}`, prompt, error }
}

function isDone({ startedMs }: Job): boolean {
  return performance.now() - startedMs >= WORK_MS
}
