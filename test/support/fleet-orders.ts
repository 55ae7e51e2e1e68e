import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Test } from 'tap'
import { serveHttp } from './http-server.ts'
import { fixture } from './replies.ts'

const DONE = (await fixture('assemblyai/plain.json')) as Record<string, unknown>

/** One transcript, which is paid for by whoever had it made. */
export interface Order {
  readonly id: string
  /** SHA-256 of the audio that it is of. */
  readonly sha256: string
  /** How often it was asked how it stands. */
  looks: number
}

export interface Transcriber {
  /** As a provider's `base_url`. */
  readonly url: string
  /** In the order in which they were made. */
  readonly orders: readonly Order[]
  /** Whether orders are done when they are looked at from now on. */
  isDone: boolean
}

/** A provider in AssemblyAI's format that keeps any number of orders apart: upload, create, look. */
export async function startTranscriber(t: Pick<Test, 'teardown'>): Promise<Transcriber> {
  const orders = new Map<string, Order>()
  const transcriber = {
    url: '',
    get orders() {
      return [...orders.values()]
    },
    isDone: false,
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const bytes = Buffer.concat(chunks)
    const line = `${request.method} ${request.url}`
    if (line === 'POST /v2/upload') {
      const sha256 = createHash('sha256').update(bytes).digest('hex')
      return json(response, 200, { upload_url: `https://cdn.example.com/upload/${sha256}` })
    }
    if (line === 'POST /v2/transcript') {
      const { audio_url: url } = JSON.parse(bytes.toString()) as { audio_url: string }
      const id = `order-${orders.size + 1}`
      orders.set(id, { id, sha256: url.slice(url.lastIndexOf('/') + 1), looks: 0 })
      return json(response, 200, { id, status: 'queued' })
    }
    const order = orders.get(/^GET \/v2\/transcript\/([\w-]+)$/.exec(line)?.[1] ?? '')
    if (order === undefined) return json(response, 404, { error: 'there is no such transcript' })
    order.looks += 1
    const { id } = order
    json(response, 200, transcriber.isDone ? { ...DONE, id } : { id, status: 'processing' })
  }
  transcriber.url = await serveHttp(t, (request, response) => {
    void answer(request, response).catch(() => response.destroy())
  })
  return transcriber
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
