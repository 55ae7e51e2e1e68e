import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import WebSocket, { type ClientOptions } from 'ws'

export type Message = Readonly<Record<string, unknown>> & { readonly type: string }

/** A WebSocket client that keeps what it is told, for tests of servers. */
export class LiveClient {
  readonly socket: WebSocket
  readonly messages: Message[] = []
  /** Code and reason of the end. */
  readonly ended: Promise<{ readonly code: number; readonly reason: string }>

  constructor(url: string, protocols: readonly string[] = [], options: ClientOptions = {}) {
    this.socket = new WebSocket(url, [...protocols], { perMessageDeflate: false, ...options })
    this.socket.on('message', (data) => this.messages.push(JSON.parse(data.toString()) as Message))
    // What goes wrong ends the socket, and is told as its end.
    this.socket.on('error', () => undefined)
    this.ended = new Promise((resolve) =>
      this.socket.once('close', (code, reason) => resolve({ code, reason: reason.toString() })),
    )
  }

  /** @throws where the handshake is refused */
  async open(): Promise<this> {
    await once(this.socket, 'open')
    return this
  }

  send(message: object | Uint8Array): void {
    this.socket.send(message instanceof Uint8Array ? message : JSON.stringify(message))
  }

  ofType(type: string): Message[] {
    return this.messages.filter((message) => message.type === type)
  }

  /** Waits for the message of a type, the first or the n-th. */
  async until(type: string, count = 1, timeoutMs = 5000): Promise<Message> {
    const deadline = Date.now() + timeoutMs
    for (;;) {
      const found = this.ofType(type)[count - 1]
      if (found !== undefined) return found
      if (Date.now() > deadline)
        throw new Error(`no ${type} in ${this.messages.map((message) => message.type).join(', ')}`)
      await sleep(5)
    }
  }
}

/** The answer to a handshake that is refused. */
export async function refusedHandshake(
  url: string,
  protocols: readonly string[] = [],
  options: ClientOptions = {},
) {
  const socket = new WebSocket(url, [...protocols], { perMessageDeflate: false, ...options })
  socket.on('error', () => undefined)
  const [, reply] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of reply) chunks.push(chunk as Buffer)
  return { status: reply.statusCode, headers: reply.headers, body: Buffer.concat(chunks).toString() }
}
