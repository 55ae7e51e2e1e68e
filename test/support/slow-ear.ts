import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'

/** One request as it comes, byte by byte. */
export interface HeardRequest {
  readonly socket: Socket
  readonly headers: string
  /** Content-Length. */
  readonly length: number
  /** Bytes of its body so far. */
  received: number
  /** SHA-256 of its body; null until that is whole. */
  sha256: string | null
  /** The other side has closed or reset the connection. */
  closed: boolean
}

export interface EarOptions {
  /** Called whenever something has come of a request that is not whole; may answer it, or end it. */
  readonly onPart?: (request: HeardRequest) => void
  /** Answers a whole request; default: a transcript. */
  readonly onWhole?: (request: HeardRequest) => void
}

/** Answers a request by a status and a body of JSON. */
export function answer({ socket }: HeardRequest, status: number, body: object): void {
  const text = JSON.stringify(body)
  socket.write(
    `HTTP/1.1 ${status} Told\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
  )
}

export function answerTranscript(request: HeardRequest): void {
  const alternatives = [{ transcript: `Heard ${request.sha256}`, confidence: 1, words: [] }]
  const channels = [{ alternatives, detected_language: 'en', language_confidence: 1 }]
  answer(request, 200, { metadata: { duration: 1, channels: 1 }, results: { channels } })
}

/** A Deepgram whose requests are looked at while they come; each of its connections carries as many as there are. */
export async function startEar(
  t: Pick<Test, 'teardown'>,
  { onPart, onWhole = answerTranscript }: EarOptions = {},
) {
  const requests: HeardRequest[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    let head = ''
    let current: HeardRequest | null = null
    let hash = createHash('sha256')
    socket.on('data', (chunk) => {
      let body = chunk
      if (current === null) {
        head += chunk.toString('latin1')
        const end = head.indexOf('\r\n\r\n')
        if (end < 0) return
        body = Buffer.from(head.slice(end + 4), 'latin1')
        const length = Number(/content-length: (\d+)/i.exec(head)?.[1])
        current = { socket, headers: head.slice(0, end), length, received: 0, sha256: null, closed: false }
        hash = createHash('sha256')
        head = ''
        requests.push(current)
      }
      hash.update(body)
      current.received += body.length
      if (current.received < current.length) {
        onPart?.(current)
        return
      }
      const whole = current
      current = null
      whole.sha256 = hash.digest('hex')
      onWhole(whole)
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      sockets.delete(socket)
      for (const request of requests) if (request.socket === socket) request.closed = true
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return { requests, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}
