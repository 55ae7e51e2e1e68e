import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { serveHttp } from './http-server.ts'

/** What becomes of a request: a good answer, a refusal's status, or a connection that breaks or hangs. */
export type Fate = 'good' | 'cut' | 'hang' | number

/** What a model of the upstream does. */
export interface FilmingBehaviour {
  readonly create?: Fate
  /** How often a poll finds the film unfinished; 0: the order itself is answered with the finished one. */
  readonly polls?: number
  /** What the job comes to instead of a film. */
  readonly failure?: { readonly code: string; readonly message: string }
  /** Of each fetch in turn; the last one stays. `half` breaks off in the middle. */
  readonly content?: readonly (Fate | 'half' | 'empty')[]
  readonly film?: Buffer
  readonly contentType?: string
  /** Waits before each piece of the film, ms. */
  readonly pieceMs?: number
}

export interface VideoRequest {
  readonly method: string
  readonly path: string
  readonly authorization: string | undefined
  readonly traceparent: string | undefined
  /** JSON of the body; null when there is none. */
  readonly body: Readonly<Record<string, unknown>> | null
  state: 'answering' | 'finished' | 'left'
}

export interface VideoUpstream {
  /** As a provider's `base_url`. */
  readonly url: string
  readonly received: readonly VideoRequest[]
  /** Lines such as `POST /videos`, in order. */
  lines(): string[]
  /** From now on this model does so. */
  behave(model: string, behaviour: FilmingBehaviour): void
}

interface Job {
  readonly model: string
  readonly seconds: string
  polls: number
  fetches: number
}

const PIECE_BYTES = 256 * 1024
export const FILM = Buffer.concat([Buffer.from('\0\0\0\x18ftypmp42'), Buffer.alloc(3_000, 'film ')])

/** A server that films as OpenAI's `/videos` does: order, poll, fetch, delete. */
export async function startVideoUpstream(t: Pick<Test, 'teardown'>): Promise<VideoUpstream> {
  const studio = new Studio()
  const origin = await serveHttp(t, (request, response) => {
    void studio.serve(request, response).catch(() => response.destroy())
  })
  return {
    url: `${origin}/v1`,
    received: studio.received,
    lines: () => studio.received.map(({ method, path }) => `${method} ${path}`),
    behave: (model, behaviour) => void studio.behaviours.set(model, behaviour),
  }
}

class Studio {
  readonly received: VideoRequest[] = []
  readonly behaviours = new Map<string, FilmingBehaviour>()
  readonly #jobs = new Map<string, Job>()

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const text = Buffer.concat(chunks).toString()
    const body = text === '' ? null : (JSON.parse(text) as Record<string, unknown>)
    const path = (request.url ?? '').replace(/^\/v1/, '')
    const { authorization, traceparent } = request.headers
    const method = request.method ?? ''
    const given = { method, path, authorization, traceparent: traceparent?.toString(), body }
    const entry: VideoRequest = { ...given, state: 'answering' }
    this.received.push(entry)
    void once(response, 'close').then(() => {
      entry.state = response.writableFinished ? 'finished' : 'left'
    })
    if (method === 'POST') return this.#create(response, body ?? {})
    const [, id = '', content] = /^\/videos\/(\w+)(\/content\?variant=video)?$/.exec(path) ?? []
    const job = this.#jobs.get(id)
    if (job === undefined) return refuse(response, 404)
    if (method === 'DELETE') return json(response, { id, object: 'video.deleted', deleted: true })
    if (content !== undefined) return this.#content(response, job)
    job.polls += 1
    json(response, this.#describe(id, job))
  }

  #create(response: ServerResponse, { model, seconds = '4' }: Record<string, unknown>): void {
    const job = { model: String(model), seconds: String(seconds), polls: 0, fetches: 0 }
    const id = `video_${this.#jobs.size}`
    const { create = 'good' } = this.#behaviourOf(job)
    if (typeof create === 'number') {
      refuse(response, create)
      return
    }
    this.#jobs.set(id, job)
    if (create === 'cut') response.destroy()
    if (create === 'good') json(response, this.#describe(id, job))
  }

  #describe(id: string, job: Job): object {
    const { polls = 0, failure } = this.#behaviourOf(job)
    const over = job.polls >= polls
    const status = !over ? 'in_progress' : failure === undefined ? 'completed' : 'failed'
    const error = status === 'failed' ? failure : null
    return { id, object: 'video', status, model: job.model, seconds: job.seconds, size: '720x1280', error }
  }

  async #content(response: ServerResponse, job: Job): Promise<void> {
    const behaviour = this.#behaviourOf(job)
    const { content = ['good'], film = FILM, contentType = 'video/mp4', pieceMs } = behaviour
    const fate = content[Math.min(job.fetches, content.length - 1)]
    job.fetches += 1
    if (typeof fate === 'number') return refuse(response, fate)
    if (fate === 'cut') return void response.destroy()
    if (fate === 'hang') return
    response.writeHead(200, { 'content-type': contentType })
    if (fate === 'empty') return void response.end()
    const sent = fate === 'half' ? film.subarray(0, film.length / 2) : film
    for (let at = 0; at < sent.length && !response.destroyed; at += PIECE_BYTES) {
      if (pieceMs !== undefined) await sleep(pieceMs)
      await new Promise((resolve) => response.write(sent.subarray(at, at + PIECE_BYTES), resolve))
    }
    if (fate === 'half') response.destroy()
    else response.end()
  }

  #behaviourOf({ model }: Job): FilmingBehaviour {
    return this.behaviours.get(model) ?? {}
  }
}

function json(response: ServerResponse, body: object): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

function refuse(response: ServerResponse, status: number): void {
  const error = { message: 'sk-secret refused', type: 'x', param: null, code: null }
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ error }))
}
