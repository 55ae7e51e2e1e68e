import { connect, type Socket } from 'node:net'

/** One frame of a WebSocket, byte by byte, so that each rule can be broken. */
export interface RawFrame {
  readonly opcode: number
  readonly payload?: Uint8Array | string
  readonly fin?: boolean
  /** The three reserved bits. */
  readonly reserved?: number
  readonly masked?: boolean
  /** What the header says of the length, whatever follows; and in how many bytes it says so. */
  readonly length?: bigint
  readonly lengthBytes?: 1 | 2 | 8
}

const MASK = Buffer.from([1, 2, 3, 4])

export function frame(given: RawFrame): Buffer {
  const { opcode, fin = true, reserved = 0, masked = true } = given
  const payload = Buffer.from(given.payload ?? '')
  const length = given.length ?? BigInt(payload.length)
  const size = given.lengthBytes ?? (length < 126n ? 1 : length < 65_536n ? 2 : 8)
  const head = Buffer.alloc(size === 1 ? 2 : size === 2 ? 4 : 10)
  head[0] = (fin ? 0x80 : 0) | (reserved << 4) | opcode
  head[1] = (masked ? 0x80 : 0) | (size === 1 ? Number(length) : size === 2 ? 126 : 127)
  if (size === 2) head.writeUInt16BE(Number(length), 2)
  if (size === 8) head.writeBigUInt64BE(BigInt.asUintN(64, length), 2)
  if (!masked) return Buffer.concat([head, payload])
  const hidden = payload.map((byte, at) => byte ^ MASK[at % 4]!)
  return Buffer.concat([head, MASK, hidden])
}

export const TEXT = 1
export const BINARY = 2
export const CLOSE = 8
export const PING = 9
export const PONG = 10

export interface HandshakeLines {
  readonly path?: string
  /** Header lines in place of the usual ones; null leaves one out. */
  readonly headers?: Readonly<Record<string, string | null>>
  readonly method?: string
  readonly after?: string
}

export function handshake(port: number, authorization: string, lines: HandshakeLines = {}): string {
  const headers: Record<string, string | null> = {
    Host: `127.0.0.1:${port}`,
    Upgrade: 'websocket',
    Connection: 'Upgrade',
    'Sec-WebSocket-Key': 'AAECAwQFBgcICQoLDA0ODw==',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Protocol': 'larkway.v1',
    Authorization: authorization,
    ...lines.headers,
  }
  const text = Object.entries(headers).flatMap(([name, value]) =>
    value === null ? [] : [`${name}: ${value}`],
  )
  const path = lines.path ?? '/v1/transcription/stream?sample_rate=16000'
  return `${lines.method ?? 'GET'} ${path} HTTP/1.1\r\n${text.join('\r\n')}\r\n\r\n${lines.after ?? ''}`
}

/** What a raw client saw until the connection was over. */
export interface RawEnd {
  /** Of the answer to the handshake; null: there was none. */
  readonly status: number | null
  /** Code of the close frame; null: the connection was cut without one. */
  readonly code: number | null
  /** Text messages. */
  readonly messages: readonly string[]
  readonly pongs: number
}

/** A client that sends what it is told, and reads until the connection ends. */
export class RawClient {
  readonly socket: Socket
  readonly ended: Promise<RawEnd>
  #received = Buffer.alloc(0)
  #wake: () => void = () => {}

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1')
    this.socket.on('error', () => {})
    this.socket.on('data', (chunk) => {
      this.#received = Buffer.concat([this.#received, chunk])
      this.#wake()
    })
    this.ended = new Promise((resolve) => this.socket.on('close', () => resolve(readEnd(this.#received))))
  }

  /** Waits for the answer to the handshake. @returns its status */
  async opened(): Promise<number> {
    while (!this.#received.includes('\r\n\r\n') && !this.socket.destroyed)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
        this.socket.once('close', resolve)
      })
    return Number(/^HTTP\/1\.1 (\d+)/.exec(this.#received.toString('latin1'))?.[1] ?? 0)
  }
}

function readEnd(bytes: Buffer): RawEnd {
  const text = bytes.toString('latin1')
  const status = /^HTTP\/1\.1 (\d+)/.exec(text)?.[1]
  const messages: string[] = []
  let [code, pongs] = [null as number | null, 0]
  let at = bytes.indexOf('\r\n\r\n') + 4
  while (status === '101' && at + 2 <= bytes.length) {
    const opcode = bytes[at]! & 0x0f
    let length = bytes[at + 1]! & 0x7f
    let start = at + 2
    if (length === 126) [length, start] = [bytes.readUInt16BE(at + 2), at + 4]
    else if (length === 127) [length, start] = [Number(bytes.readBigUInt64BE(at + 2)), at + 10]
    const payload = bytes.subarray(start, start + length)
    if (opcode === TEXT) messages.push(payload.toString('utf8'))
    if (opcode === PONG) pongs += 1
    if (opcode === CLOSE) code = payload.length >= 2 ? payload.readUInt16BE(0) : 1005
    at = start + length
  }
  return { status: status === undefined ? null : Number(status), code, messages, pongs }
}
