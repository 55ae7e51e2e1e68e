import { fixture } from '../replies.ts'
import type { Teardown } from '../scratch.ts'
import { type Dialect, type Fields, jsonAnswer } from './dialect.ts'
import { startUpstream } from './upstream.ts'

/** Protocols of providers that take an order, are asked how it stands, and can be told to stop. */
export const ORDERING = ['assemblyai', 'runway', 'openai-compatible', 'gemini'] as const
export type Ordering = (typeof ORDERING)[number]

/** What a request is, in whichever protocol. */
type Act = 'upload' | 'order' | 'look' | 'stop'

/** How an order stands: taken, worked on, done, or failed by the provider's own fault. */
type Stand = 'taken' | 'working' | 'done' | 'failed'

interface Wire {
  /** `METHOD path` of each act; the order's id is the group. */
  readonly acts: Readonly<Partial<Record<Act, RegExp>>>
  /** Of an order whose id is that of the recorded answers. */
  readonly bodies: Readonly<Record<Stand, Fields>>
}

const tasks = (await fixture('runway/tasks.json')) as Record<string, Fields>
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
      look: /^GET \/v2\/transcript\/([\w-]+)$/,
      stop: /^DELETE \/v2\/transcript\/([\w-]+)$/,
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
      look: /^GET \/tasks\/([\w-]+)$/,
      stop: /^DELETE \/tasks\/([\w-]+)$/,
    },
    bodies: {
      taken: tasks.created ?? {},
      working: tasks.running ?? {},
      done: tasks.succeeded ?? {},
      failed: tasks.failed ?? {},
    },
  },
  'openai-compatible': {
    acts: { order: /^POST \/videos$/, look: /^GET \/videos\/([\w-]+)$/, stop: /^DELETE \/videos\/([\w-]+)$/ },
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
      look: /^GET \/interactions\/([\w-]+)$/,
      stop: /^POST \/interactions\/([\w-]+)\/cancel$/,
    },
    bodies: {
      taken: { id: film.id, status: 'in_progress' },
      working: { id: film.id, status: 'in_progress' },
      done: film,
      failed: (await fixture('gemini/video.failed.json')) as Fields,
    },
  },
}

/** What somebody has ordered, and pays for. */
export interface Order {
  readonly id: string
  /** SHA-256 of what it is of: an audio that was uploaded before, or the order itself. */
  readonly sha256: string
  /** How often it was asked how it stands. */
  looks: number
}

/** A provider that keeps any number of orders apart. */
export interface OrderUpstream {
  readonly origin: string
  /** What was asked for, in order; `?` for anything that the protocol does not have. */
  readonly acts: (Act | '?')[]
  count(act: Act): number
  /** In the order in which they were made. */
  readonly orders: Order[]
  /** How all orders stand from now on; a number: looks are refused with this status. */
  stands: Stand | number
  /** Before the answer to an order. */
  beforeTaken: () => Promise<unknown>
}

export async function startOrderUpstream(t: Teardown, protocol: Ordering): Promise<OrderUpstream> {
  const acts: OrderUpstream['acts'] = []
  const upstream = {
    acts,
    count: (act: Act) => acts.filter((one) => one === act).length,
    orders: [],
    stands: 'working' as const,
    beforeTaken: async () => {},
  }
  const book: Omit<OrderUpstream, 'origin'> = upstream
  const { origin } = await startUpstream(t, { dialect: orderDialect(WIRES[protocol], book) })
  return Object.assign(upstream, { origin })
}

const UPLOADS = 'https://cdn.example.com/upload/'

function orderDialect({ acts, bodies }: Wire, book: Omit<OrderUpstream, 'origin'>): Dialect {
  return {
    basePath: '',
    refuse: (status) => jsonAnswer({ error: 'so it is' }, status),
    async answer({ request: { method, path, body, sha256 } }) {
      const line = `${method} ${path.replace(/^\/v1/, '')}`
      const [act = '?', pattern] = Object.entries(acts).find(([, pattern]) => pattern.test(line)) ?? []
      book.acts.push(act as Act | '?')
      if (act === '?') return jsonAnswer({ error: { message: line } }, 404)
      if (act === 'upload') return jsonAnswer({ upload_url: UPLOADS + sha256 })
      if (act === 'stop') return jsonAnswer({})
      if (act === 'order') {
        const uploaded = String(body?.audio_url ?? '').replace(UPLOADS, '')
        // The first one is that of the recorded answers.
        const id = `${bodies.taken.id}${book.orders.length === 0 ? '' : `-${book.orders.length + 1}`}`
        book.orders.push({ id, sha256: uploaded === '' ? sha256 : uploaded, looks: 0 })
        await book.beforeTaken()
        return jsonAnswer({ ...bodies.taken, id })
      }
      const id = pattern?.exec(line)?.[1] ?? ''
      const order = book.orders.find((order) => order.id === id)
      if (order !== undefined) order.looks += 1
      const { stands } = book
      return typeof stands === 'number' ? this.refuse(stands) : jsonAnswer({ ...bodies[stands], id })
    },
  }
}
