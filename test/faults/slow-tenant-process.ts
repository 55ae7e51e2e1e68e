import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { SlowKind } from './slow-kinds.ts'

/** Connections that one process holds. */
export interface SlowOrder {
  readonly port: number
  readonly authorization: string
  /** Taken in turns. */
  readonly kinds: readonly SlowKind[]
  readonly connections: number
  /** Nothing but the heads is sent: as many connections, and none that holds anything. */
  readonly idle: boolean
}

/** What was answered to them, by status, and how many are open now. */
export interface SlowCounts {
  readonly answers: Readonly<Record<string, number>>
  readonly open: number
}

interface Manner {
  readonly head: string
  /** Sent at once. */
  readonly first: Buffer
  /** Sent every `SLICE_MS` from then on, chunked where the body is. */
  readonly slice: Buffer
  /** Nothing of the answer is read but a little at a time. */
  readonly readsSlowly: boolean
}

/** Just over the least rate of a body, 4 KiB/s. */
const SLICE_MS = 2_000
const SLICE_BYTES = 9_000
/** How soon a connection that was ended is made again, which is sooner than Retry-After asks for. */
const AGAIN_MS = 10_000

const order = JSON.parse(process.argv[2] ?? '') as SlowOrder
const answers: Record<string, number> = {}
let open = 0
/** They come one by one: what is tried are slow connections, and not many requests at a time. */
const spreadMs = Math.max(SLICE_MS, 3 * order.connections)
/** Bytes of all answers together; a few are large enough to wait for their readers here, and not in the kernel. */
const ANSWERS_BYTES = 160_000_000
const answerBytes = Math.round(Math.min(8_000_000, ANSWERS_BYTES / order.connections))

const head = (path: string, type: string, framing: string) =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: ${order.authorization}\r\n` +
  `Content-Type: ${type}\r\n${framing}\r\n\r\n`
const chunk = (bytes: Buffer) =>
  Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])
const lengthOf = (bytes: number) => `Content-Length: ${bytes}`
const text = (bytes: number) => Buffer.alloc(bytes, 'a')
const jsonStart = '{"messages":[{"role":"user","content":"'
const form =
  '--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'
const messages = [{ role: 'user', content: `much ${answerBytes}` }]
const asked = (more: object) => JSON.stringify({ messages, ...more })

function sender(path: string, type: string, bytes: number, start: string, first: number): Manner {
  const begun = Buffer.concat([Buffer.from(start), text(first)])
  return {
    head: head(path, type, lengthOf(bytes)),
    first: begun,
    slice: text(SLICE_BYTES),
    readsSlowly: false,
  }
}

function reader(more: object): Manner {
  const body = Buffer.from(asked(more))
  const said = head('/v1/chat', 'application/json', lengthOf(body.length))
  return { head: said, first: body, slice: Buffer.alloc(0), readsSlowly: true }
}

const MANNERS: Readonly<Record<SlowKind, Manner>> = {
  json: sender('/v1/chat', 'application/json', 20_000_000, jsonStart, 100_000),
  'small json': sender('/v1/chat', 'application/json', 250_000, jsonStart, 50_000),
  multipart: sender('/v1/transcription', 'multipart/form-data; boundary=b', 10_000_000, form, 70_000),
  raw: sender('/v1/transcription', 'audio/wav', 1_000_000, 'RIFF', 70_000),
  uploads: sender('/v1/transcription', 'audio/wav', 20_000_000, 'RIFF', 150_000),
  chunked: {
    head: head('/v1/transcription', 'audio/wav', 'Transfer-Encoding: chunked'),
    first: chunk(text(100_000)),
    slice: chunk(text(SLICE_BYTES)),
    readsSlowly: false,
  },
  events: reader({ stream: true }),
  answers: reader({}),
}

process.on('message', () => process.send?.({ answers, open } satisfies SlowCounts))
process.on('disconnect', () => process.exit())
for (let index = 0; index < order.connections; index += 1)
  void holdOn(order.kinds[index % order.kinds.length]!)

async function holdOn(kind: SlowKind): Promise<void> {
  // So that they do not all come, or write, in the same moment.
  await sleep(Math.random() * spreadMs)
  for (;;) {
    const status = await new Promise<string>((resolve) => hold(MANNERS[kind], resolve))
    answers[`${kind} ${status}`] = (answers[`${kind} ${status}`] ?? 0) + 1
    await sleep(AGAIN_MS)
  }
}

function hold({ head, first, slice, readsSlowly }: Manner, ended: (status: string) => void): void {
  const socket: Socket = connect({ port: order.port, host: '127.0.0.1' })
  let status = 'cut'
  open += 1
  socket.on('data', (bytes: Buffer) => {
    if (status === 'cut') status = /^HTTP\/1\.1 (\d+)/.exec(bytes.subarray(0, 20).toString())?.[1] ?? 'cut'
    if (readsSlowly && status === '200') socket.pause()
    else socket.destroy()
  })
  let timer: NodeJS.Timeout | undefined
  socket.on('connect', () => {
    socket.write(order.idle ? head : Buffer.concat([Buffer.from(head), first]))
    if (order.idle) return
    timer = setInterval(() => {
      if (readsSlowly) socket.resume()
      else socket.write(slice)
    }, SLICE_MS)
  })
  socket.on('error', () => {})
  socket.on('close', () => {
    open -= 1
    clearInterval(timer)
    ended(status)
  })
}
