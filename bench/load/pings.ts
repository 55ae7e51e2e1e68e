import { connect, type Socket } from 'node:net'
import { Worker } from 'node:worker_threads'
import { type RequestSpec, renderRequest } from './request.ts'
import { type Quantiles, Samples } from './samples.ts'
import { answerTasks } from './task.ts'

/** Small requests at a fixed rate, whether or not the earlier ones have been answered. */
export interface PingTask {
  readonly port: number
  readonly request: RequestSpec
  readonly perSecond: number
  readonly seconds: number
}

export interface PingReport {
  /** From the moment at which the request was due, not from when it was written. */
  readonly latencyMs: Quantiles
  /** From the moment at which it was due to its write: what of the latency is this process's own. */
  readonly ownLagMs: Quantiles
  readonly failures: number
  readonly firstFailure: string | null
}

/** More than a second of them outstanding at 500/s; past that the server is as good as dead. */
const CONNECTIONS_MAX = 1_000

/** How long after the last one an answer may still come. */
const LAST_WAIT_MS = 10_000

answerTasks(runPings)

async function runPings(task: PingTask): Promise<PingReport> {
  const pinger = new Pinger(task)
  await ticks(task, (dueMs) => pinger.send(dueMs))
  return await pinger.finish()
}

/**
 * Calls `tick` at each due time. A thread that sleeps in Atomics.wait keeps it: timers of the event loop are rounded
 * to whole milliseconds, which is more than an idle server needs to answer.
 */
function ticks(task: PingTask, tick: (dueMs: number) => void): Promise<void> {
  const source = `
    const { parentPort, workerData } = require('node:worker_threads')
    const cell = new Int32Array(new SharedArrayBuffer(4))
    const now = () => performance.timeOrigin + performance.now()
    for (let sent = 0; sent < workerData.count; sent += 1) {
      const due = workerData.started + sent * workerData.everyMs
      const wait = due - now()
      if (wait > 0) Atomics.wait(cell, 0, 0, wait)
      parentPort.postMessage(due)
    }`
  const workerData = {
    started: wallMs() + 100,
    everyMs: 1000 / task.perSecond,
    count: Math.ceil(task.perSecond * task.seconds),
  }
  return new Promise((done, fail) => {
    const worker = new Worker(source, { eval: true, workerData })
    worker.on('message', tick)
    worker.on('error', fail)
    worker.on('exit', () => done())
  })
}

class Pinger {
  readonly #port: number
  readonly #spec: RequestSpec
  /** By API key, in turn over the connections. */
  readonly #requests = new Map<Socket, Buffer>()
  readonly #latencies = new Samples()
  readonly #ownLags = new Samples()
  readonly #idle: Socket[] = []
  /** Due times of pings that wait for a connection. */
  readonly #waiting: number[] = []
  readonly #due = new Map<Socket, number>()
  #open = 0
  #failures = 0
  #firstFailure: string | null = null

  constructor(task: PingTask) {
    this.#port = task.port
    this.#spec = task.request
  }

  send(dueMs: number): void {
    const socket = this.#idle.pop()
    if (socket) {
      this.#write(socket, dueMs)
      return
    }
    this.#waiting.push(dueMs)
    if (this.#open < CONNECTIONS_MAX) this.#connect()
  }

  async finish(): Promise<PingReport> {
    const deadline = wallMs() + LAST_WAIT_MS
    while (this.#due.size + this.#waiting.length > 0 && wallMs() < deadline)
      await new Promise((next) => setTimeout(next, 10))
    const unanswered = this.#due.size + this.#waiting.length
    if (unanswered > 0) this.#fail(`${unanswered} pings without an answer`)
    for (const socket of [...this.#idle, ...this.#due.keys()]) socket.destroy()
    return {
      latencyMs: this.#latencies.quantiles(),
      ownLagMs: this.#ownLags.quantiles(),
      failures: this.#failures,
      firstFailure: this.#firstFailure,
    }
  }

  #write(socket: Socket, dueMs: number): void {
    this.#due.set(socket, dueMs)
    this.#ownLags.add(wallMs() - dueMs)
    socket.write(this.#requests.get(socket) as Buffer)
  }

  /** An answer of some hundred bytes arrives in one piece; one that does not is counted as a failure. */
  #connect(): void {
    const socket = connect({ port: this.#port, host: '127.0.0.1', noDelay: true })
    this.#requests.set(socket, renderRequest(this.#spec, this.#port, this.#open).bytes)
    this.#open += 1
    socket.on('connect', () => this.#free(socket))
    socket.on('data', (reply) => {
      const dueMs = this.#due.get(socket)
      if (dueMs === undefined) return
      this.#due.delete(socket)
      const text = reply.toString('latin1')
      if (text.startsWith('HTTP/1.1 200') && text.includes('\r\n\r\n')) this.#latencies.add(wallMs() - dueMs)
      else this.#fail(text.slice(0, 300))
      this.#free(socket)
    })
    socket.on('error', (error) => this.#fail(error.message))
    // Servers end connections that are idle for long; it is closed a moment later.
    socket.on('end', () => this.#retire(socket))
    socket.on('close', () => {
      this.#requests.delete(socket)
      this.#open -= 1
      if (this.#due.delete(socket)) this.#fail('the server closed the connection')
      this.#retire(socket)
    })
  }

  /** Nothing else is sent over it. */
  #retire(socket: Socket): void {
    const index = this.#idle.indexOf(socket)
    if (index >= 0) this.#idle.splice(index, 1)
  }

  #free(socket: Socket): void {
    const dueMs = this.#waiting.shift()
    if (dueMs === undefined) this.#idle.push(socket)
    else this.#write(socket, dueMs)
  }

  #fail(reason: string): void {
    this.#failures += 1
    this.#firstFailure ??= reason
  }
}

/** Milliseconds on a clock that threads share. */
function wallMs(): number {
  return performance.timeOrigin + performance.now()
}
