import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Test } from 'tap'
import { serveHttp } from './http-server.ts'
import { fixture } from './replies.ts'

/** Protocols of providers that take an order, are asked how it stands, and can be told to stop. */
export const ORDERING = ['assemblyai', 'runway', 'openai-compatible', 'gemini'] as const
export type Ordering = (typeof ORDERING)[number]

/** What a request is, in whichever protocol. */
type Act = 'upload' | 'order' | 'look' | 'stop'

/** How an order stands: taken, worked on, done, or failed by the provider's own fault. */
type Stand = 'taken' | 'working' | 'done' | 'failed'

interface Wire {
  /** `METHOD path` of each act, without the base path. */
  readonly acts: Readonly<Partial<Record<Act, RegExp>>>
  readonly bodies: Readonly<Record<Stand, unknown>>
}

const tasks = (await fixture('runway/tasks.json')) as Record<string, unknown>
const transcript = (await fixture('assemblyai/plain.json')) as { readonly id: string }
const film = (await fixture('gemini/video.completed.json')) as { readonly id: string }
const filming = {
  id: 'video_1',
  object: 'video',
  model: 'model',
  seconds: '4',
  size: '720x1280',
  error: null,
}

const WIRES: Readonly<Record<Ordering, Wire>> = {
  assemblyai: {
    acts: {
      upload: /^POST \/v2\/upload$/,
      order: /^POST \/v2\/transcript$/,
      look: new RegExp(`^GET /v2/transcript/${transcript.id}$`),
      stop: new RegExp(`^DELETE /v2/transcript/${transcript.id}$`),
    },
    bodies: {
      taken: { id: transcript.id, status: 'queued' },
      working: { id: transcript.id, status: 'processing' },
      done: transcript,
      failed: { id: transcript.id, status: 'error', error: 'Server error, developers have been alerted.' },
    },
  },
  runway: {
    acts: {
      order: /^POST \/text_to_video$/,
      look: /^GET \/tasks\/17f20503-[0-9a-f-]+$/,
      stop: /^DELETE \/tasks\/17f20503-[0-9a-f-]+$/,
    },
    bodies: { taken: tasks.created, working: tasks.running, done: tasks.succeeded, failed: tasks.failed },
  },
  'openai-compatible': {
    acts: { order: /^POST \/videos$/, look: /^GET \/videos\/video_1$/, stop: /^DELETE \/videos\/video_1$/ },
    bodies: {
      taken: { ...filming, status: 'queued' },
      working: { ...filming, status: 'in_progress' },
      done: { ...filming, status: 'completed' },
      failed: { ...filming, status: 'failed', error: { code: 'server_error', message: 'we broke' } },
    },
  },
  gemini: {
    acts: {
      order: /^POST \/interactions$/,
      look: new RegExp(`^GET /interactions/${film.id}$`),
      stop: new RegExp(`^POST /interactions/${film.id}/cancel$`),
    },
    bodies: {
      taken: { id: film.id, status: 'in_progress' },
      working: { id: film.id, status: 'in_progress' },
      done: film,
      failed: await fixture('gemini/video.failed.json'),
    },
  },
}

export interface OrderUpstream {
  readonly origin: string
  /** What was asked for, in order; `?` for anything that the protocol does not have. */
  readonly acts: (Act | '?')[]
  count(act: Act): number
  /** How its one order stands from now on; a number: looks are refused with this status. */
  stands: Stand | number
  /** Before the answer to an order. */
  beforeTaken: () => Promise<unknown>
}

/** A provider that has taken at most one order, or takes it for a new one. */
export async function startOrderUpstream(
  t: Pick<Test, 'teardown'>,
  protocol: Ordering,
): Promise<OrderUpstream> {
  const { acts: patterns, bodies } = WIRES[protocol]
  const acts: (Act | '?')[] = []
  const origin = await serveHttp(t, (request, response) => {
    void answer(request, response).catch(() => response.destroy())
  })
  const upstream: OrderUpstream = {
    origin,
    acts,
    count: (act) => acts.filter((one) => one === act).length,
    stands: 'working',
    beforeTaken: async () => {},
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    for await (const _ of request);
    const line = `${request.method} ${request.url?.replace(/^\/v1/, '')}`
    const [act = '?'] = Object.entries(patterns).find(([, pattern]) => pattern.test(line)) ?? []
    acts.push(act as Act | '?')
    const { stands } = upstream
    if (act === '?') return json(response, 404, { error: { message: line } })
    if (act === 'upload') return json(response, 200, { upload_url: 'https://cdn.example.com/upload/1' })
    if (act === 'stop') return json(response, 200, {})
    if (act === 'look' && typeof stands === 'number') return json(response, stands, { error: 'so it is' })
    if (act === 'look') return json(response, 200, bodies[stands as Stand])
    await upstream.beforeTaken()
    json(response, 200, bodies.taken)
  }
  return upstream
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
