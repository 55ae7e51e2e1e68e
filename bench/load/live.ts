import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Quantiles, Samples } from './samples.ts'
import { answerTasks } from './task.ts'

/** Live sessions that send audio at real time, or nothing. */
export interface LiveTask {
  readonly port: number
  readonly path: string
  /** Values of `Authorization`, in turn over the sessions. */
  readonly authorizations: readonly string[]
  readonly sessions: number
  readonly seconds: number
  /** They are opened and left alone. */
  readonly idle?: boolean
}

export interface LiveReport {
  /** Frames of audio that were sent; of idle sessions, the sessions. */
  readonly requests: number
  readonly bodyBytes: number
  /** From the sending of the frame with the newest audio that a text is of, to the text. */
  readonly latencyMs: Quantiles
  readonly failures: number
  readonly firstFailure: string | null
}

/** 20 ms of 16 kHz PCM, as telephones and browsers send it. */
const FRAME_MS = 20
const FRAME_BYTES = 640
/** Texts are of the last seconds. */
const REMEMBERED = 512
const OPENED_AT_ONCE = 50
const LAST_WAIT_MS = 1_000

/** A masked binary frame whose mask is zero: the payload as it is, made once for all sessions. */
const FRAME = Buffer.concat([
  Buffer.from([0x82, 0x80 | 126, FRAME_BYTES >> 8, FRAME_BYTES & 0xff, 0, 0, 0, 0]),
  randomBytes(FRAME_BYTES),
])

answerTasks(runLive)

async function runLive(task: LiveTask): Promise<LiveReport> {
  const load = new LiveLoad(task)
  await load.open()
  await (task.idle ? sleep(task.seconds * 1000) : load.speak())
  return load.finish()
}

class LiveLoad {
  readonly #task: LiveTask
  readonly #latencies = new Samples()
  readonly #sockets: Socket[] = []
  #frames = 0
  #heard = 0
  #failures = 0
  #firstFailure: string | null = null
  #isOver = false

  constructor(task: LiveTask) {
    this.#task = task
  }

  async open(): Promise<void> {
    const { sessions } = this.#task
    for (let from = 0; from < sessions; from += OPENED_AT_ONCE) {
      const count = Math.min(OPENED_AT_ONCE, sessions - from)
      await Promise.all(Array.from({ length: count }, (_, index) => this.#openOne(from + index)))
    }
    // The first connections to the provider come with the last sessions.
    await sleep(500)
  }

  /** Each session sends every 20 ms; they are spread over that time, as callers are. */
  async speak(): Promise<void> {
    const { seconds } = this.#task
    const frames = Math.round((seconds * 1000) / FRAME_MS)
    const startMs = performance.now()
    const total = this.#sockets.length
    const sent = this.#sockets.map(() => 0)
    for (;;) {
      const elapsedMs = performance.now() - startMs
      let left = 0
      for (const [index, socket] of this.#sockets.entries()) {
        const due = Math.min(frames, Math.floor((elapsedMs - (index / total) * FRAME_MS) / FRAME_MS) + 1)
        for (; sent[index]! < due; sent[index]! += 1) this.#send(socket, index, sent[index]!)
        if (sent[index]! < frames) left += 1
      }
      if (left === 0) return
      await sleep(2)
    }
  }

  async finish(): Promise<LiveReport> {
    await sleep(LAST_WAIT_MS)
    const { idle, sessions, seconds } = this.#task
    if (!idle && this.#heard < sessions * (seconds - 1) * 4) this.#fail(`only ${this.#heard} texts came`)
    this.#isOver = true
    for (const socket of this.#sockets) socket.destroy()
    return {
      // Of sessions that are left alone, what is counted is their opening.
      requests: idle ? sessions : this.#frames,
      bodyBytes: this.#frames * FRAME_BYTES,
      latencyMs: this.#latencies.quantiles(),
      failures: this.#failures,
      firstFailure: this.#firstFailure,
    }
  }

  #send(socket: Socket, index: number, frame: number): void {
    this.#sentMs[index]![frame % REMEMBERED] = performance.now()
    socket.write(FRAME)
    this.#frames += 1
  }

  readonly #sentMs: Float64Array[] = []

  #openOne(index: number): Promise<void> {
    const { port, path, authorizations } = this.#task
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    this.#sockets[index] = socket
    this.#sentMs[index] = new Float64Array(REMEMBERED)
    const authorization = authorizations[index % authorizations.length] ?? ''
    socket.write(
      `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
        `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\nSec-WebSocket-Version: 13\r\n` +
        `Authorization: ${authorization}\r\n\r\n`,
    )
    return new Promise((resolve) => {
      socket.once('data', (answer) => {
        if (!answer.toString('latin1').startsWith('HTTP/1.1 101'))
          this.#fail(answer.toString('latin1', 0, 300))
        socket.on('data', (data) => this.#hear(index, data.toString('latin1')))
        resolve()
      })
      socket.on('error', (error) => this.#fail(error.message))
      socket.on('close', () => {
        if (!this.#isOver) this.#fail('a session was closed')
        resolve()
      })
    })
  }

  /** Every text names the milliseconds of audio that it is of, once or twice. */
  #hear(index: number, text: string): void {
    if (text.includes('"error"')) this.#fail(text.slice(0, 300))
    const nowMs = performance.now()
    let last = -1
    for (const [, milliseconds] of text.matchAll(/"t(\d+)"/g)) {
      const heardMs = Number(milliseconds)
      if (heardMs === last) continue
      last = heardMs
      this.#heard += 1
      const frame = heardMs / FRAME_MS - 1
      this.#latencies.add(nowMs - this.#sentMs[index]![frame % REMEMBERED]!)
    }
  }

  #fail(reason: string): void {
    this.#failures += 1
    this.#firstFailure ??= reason
  }
}
