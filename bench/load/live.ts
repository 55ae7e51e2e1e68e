import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { OPENAI_MODEL } from '../openai.ts'
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
  /** Vendor whose messages they speak; default: the gateway's own, with audio in binary frames. */
  readonly protocol?: 'openai'
  /** `opened`: they stay open and say nothing. `left`: so many seconds go by over those that stayed open. */
  readonly idle?: 'opened' | 'left'
}

export interface LiveReport {
  /** Frames of audio that were sent; of idle sessions, those that were opened, or their seconds. */
  readonly requests: number
  readonly bodyBytes: number
  /** From the sending of the frame with the newest audio that a text is of, to the text. */
  readonly latencyMs: Quantiles
  readonly failures: number
  readonly firstFailure: string | null
}

/** 20 ms, as telephones and browsers send it. */
const FRAME_MS = 20
/** Sessions begin within this time, as callers do: how texts and joined frames fall together would be made up. */
const SPREAD_MS = 1_000
/** Texts are of the last seconds. */
const REMEMBERED = 512
const OPENED_AT_ONCE = 50
const LAST_WAIT_MS = 1_000

interface Speech {
  /** Sent before any audio; null: nothing. */
  readonly first: Buffer | null
  /** One frame of audio, made once for all sessions. */
  readonly frame: Buffer
  readonly audioBytes: number
  /** Finds the milliseconds of audio that a text is of. */
  readonly heard: RegExp
  readonly textsPerSecond: number
}

/** 16 kHz PCM. Each text names its milliseconds once or twice. */
const NATIVE: Speech = speech({ audioBytes: 640, frame: (audio) => masked(2, audio), heard: /"t(\d+)"/g })

/** 24 kHz PCM in base64. Only texts that are final: a gateway may hold back words that could be taken back. */
const OPENAI: Speech = speech({
  audioBytes: 960,
  first: masked(1, openaiSession()),
  frame: (audio) =>
    masked(1, Buffer.from(`{"type":"input_audio_buffer.append","audio":"${audio.toString('base64')}"}`)),
  heard: /"transcript":\s?"[^"]*t(\d+)"/g,
  textsPerSecond: 1,
})

function speech({
  audioBytes,
  frame,
  heard,
  first = null,
  textsPerSecond = 5,
}: Pick<Speech, 'audioBytes' | 'heard'> &
  Partial<Pick<Speech, 'first' | 'textsPerSecond'>> & { frame(audio: Buffer): Buffer }): Speech {
  return { audioBytes, first, frame: frame(randomBytes(audioBytes)), heard, textsPerSecond }
}

function openaiSession(): Buffer {
  const transcription = { model: OPENAI_MODEL }
  const input = {
    format: { type: 'audio/pcm', rate: 24_000 },
    transcription,
    turn_detection: { type: 'server_vad' },
  }
  return Buffer.from(
    JSON.stringify({ type: 'session.update', session: { type: 'transcription', audio: { input } } }),
  )
}

/** A masked frame whose mask is zero: the payload as it is. */
function masked(opcode: number, payload: Buffer): Buffer {
  const { length } = payload
  const head = Buffer.from([0x80 | opcode, 0x80 | 126, length >> 8, length & 0xff, 0, 0, 0, 0])
  return Buffer.concat([head, payload])
}

answerTasks(runLive)

/** Sessions that stay open. */
let idle: LiveLoad | null = null

async function runLive(task: LiveTask): Promise<LiveReport> {
  if (task.idle === 'left') {
    if (idle === null) throw new Error('no sessions are open')
    await sleep(task.seconds * 1000)
    const report = await idle.finish(task.sessions * task.seconds)
    idle = null
    return report
  }
  idle?.destroy()
  idle = null
  const load = new LiveLoad(task)
  await load.open()
  if (task.idle === 'opened') {
    idle = load
    return load.report(task.sessions)
  }
  await load.speak()
  await sleep(LAST_WAIT_MS)
  load.checkTexts()
  return load.finish()
}

class LiveLoad {
  readonly #task: LiveTask
  readonly #speech: Speech
  readonly #latencies = new Samples()
  readonly #sockets: Socket[] = []
  #frames = 0
  #heard = 0
  #failures = 0
  #firstFailure: string | null = null
  #isOver = false

  constructor(task: LiveTask) {
    this.#task = task
    this.#speech = task.protocol === 'openai' ? OPENAI : NATIVE
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

  /** Each session sends every 20 ms, and they begin one after the other. */
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
        const due = Math.min(frames, Math.floor((elapsedMs - (index / total) * SPREAD_MS) / FRAME_MS) + 1)
        for (; sent[index]! < due; sent[index]! += 1) this.#send(socket, index, sent[index]!)
        if (sent[index]! < frames) left += 1
      }
      if (left === 0) return
      await sleep(2)
    }
  }

  checkTexts(): void {
    const { sessions, seconds } = this.#task
    if (this.#heard < sessions * (seconds - 1) * this.#speech.textsPerSecond * 0.8)
      this.#fail(`only ${this.#heard} texts came`)
  }

  async finish(requests = this.#frames): Promise<LiveReport> {
    const report = this.report(requests)
    this.destroy()
    return report
  }

  report(requests: number): LiveReport {
    return {
      requests,
      bodyBytes: this.#frames * this.#speech.audioBytes,
      latencyMs: this.#latencies.quantiles(),
      failures: this.#failures,
      firstFailure: this.#firstFailure,
    }
  }

  destroy(): void {
    this.#isOver = true
    for (const socket of this.#sockets) socket.destroy()
  }

  #send(socket: Socket, index: number, frame: number): void {
    this.#sentMs[index]![frame % REMEMBERED] = performance.now()
    socket.write(this.#speech.frame)
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
        else if (this.#speech.first !== null) socket.write(this.#speech.first)
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

  #hear(index: number, text: string): void {
    if (text.includes('"error"')) this.#fail(text.slice(0, 300))
    const nowMs = performance.now()
    let last = -1
    for (const [, milliseconds] of text.matchAll(this.#speech.heard)) {
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
