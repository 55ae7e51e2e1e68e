import { type Answer, type Asked, type Dialect, jsonAnswer, type VideoScript } from './dialect.ts'

interface VideoJob {
  readonly model: string
  readonly seconds: string
  polls: number
  fetches: number
}

interface FetchScript {
  readonly video: VideoScript
  readonly contentType: string
  readonly chunkMs: number
}

const CHUNK_BYTES = 256 * 1024
/** The video that is made when a script has no other. */
export const VIDEO = Buffer.concat([Buffer.from('\0\0\0\x18ftypmp42'), Buffer.alloc(3_000, 'film ')])

/** OpenAI's `/videos` with jobs of their own: order, poll, fetch, delete. */
export function createVideos(refuse: Dialect['refuse']): (asked: Asked, path: string) => Answer {
  const jobs = new Map<string, VideoJob>()

  const describe = (id: string, job: VideoJob, { polls = 0, failure }: VideoScript): object => {
    const isOver = job.polls >= polls
    const status = !isOver ? 'in_progress' : failure === undefined ? 'completed' : 'failed'
    const error = status === 'failed' ? failure : null
    return { id, object: 'video', status, model: job.model, seconds: job.seconds, size: '720x1280', error }
  }

  function fetchVideo(job: VideoJob, { video, contentType, chunkMs }: FetchScript): Answer {
    const { content = ['good'], bytes = VIDEO } = video
    const fate = content[Math.min(job.fetches, content.length - 1)]
    job.fetches += 1
    if (typeof fate === 'number') return refuse(fate)
    if (fate === 'cut' || fate === 'hang') return { fate }
    const length = fate === 'empty' ? 0 : fate === 'half' ? bytes.length >> 1 : bytes.length
    const chunks = Array.from({ length: Math.ceil(length / CHUNK_BYTES) }, (_, at) =>
      bytes.subarray(at * CHUNK_BYTES, Math.min((at + 1) * CHUNK_BYTES, length)),
    )
    const headers = { 'content-type': contentType }
    return { headers, chunks, chunkMs, ...(fate === 'half' && { fate: 'cut' as const }) }
  }

  return ({ request, script, scriptOf }, path) => {
    if (request.method === 'POST') {
      const { model, seconds = '4' } = request.body ?? {}
      const job = { model: String(model), seconds: String(seconds), polls: 0, fetches: 0 }
      const id = `video_${jobs.size}`
      jobs.set(id, job)
      return jsonAnswer(describe(id, job, script.video ?? {}))
    }
    const [, id = '', content] = /^\/videos\/(\w+)(\/content\?variant=video)?$/.exec(path) ?? []
    const job = jobs.get(id)
    if (job === undefined) return refuse(404)
    if (request.method === 'DELETE') return jsonAnswer({ id, object: 'video.deleted', deleted: true })
    const { video = {}, contentType = 'video/mp4', chunkMs = 0 } = scriptOf(job.model)
    if (content !== undefined) return fetchVideo(job, { video, contentType, chunkMs })
    job.polls += 1
    return jsonAnswer(describe(id, job, video))
  }
}
