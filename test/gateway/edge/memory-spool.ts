import { setTimeout as sleep } from 'node:timers/promises'
import type { StoredBody } from '../../../src/contracts/audio.ts'
import type { BodyWriter, Spool, SpoolOptions } from '../../../src/contracts/spool.ts'

export interface MemorySpoolOptions {
  readonly startMs?: number
  readonly startError?: Error
  /** Not ready for this long after each chunk that ends beyond another multiple of `windowBytes`. */
  readonly stallMs?: number
  readonly windowBytes?: number
  /** Fails as soon as this many bytes were written. */
  readonly failAfterBytes?: number
  readonly failure?: Error
  readonly finishMs?: number
  readonly finishError?: Error
}

/** A spool in plain memory that keeps what it was given, so that a test can look at it. */
export class MemorySpool implements Spool {
  readonly writers: MemoryWriter[] = []
  readonly #options: MemorySpoolOptions

  constructor(options: MemorySpoolOptions = {}) {
    this.#options = options
  }

  open(options: SpoolOptions): BodyWriter {
    const writer = new MemoryWriter(options, this.#options)
    this.writers.push(writer)
    return writer
  }

  /** Bodies that are neither finished and released nor aborted. */
  get held(): number {
    return this.writers.filter(({ state }) => state !== 'aborted' && state !== 'released').length
  }
}

export class MemoryWriter implements BodyWriter {
  readonly opened: SpoolOptions
  readonly #behaviour: MemorySpoolOptions
  readonly #chunks: Uint8Array[] = []
  state: 'new' | 'started' | 'finished' | 'released' | 'aborted' = 'new'
  ready = false
  writtenBytes = 0
  onReady: () => void = () => {}
  onFailure: (error: Error) => void = () => {}

  constructor(opened: SpoolOptions, behaviour: MemorySpoolOptions) {
    this.opened = opened
    this.#behaviour = behaviour
  }

  /** The stored bytes. */
  get bytes(): Buffer {
    return Buffer.concat(this.#chunks)
  }

  async start(): Promise<void> {
    if (this.state !== 'new') throw new Error('start is called once')
    this.state = 'started'
    await sleep(this.#behaviour.startMs ?? 1)
    if (this.#behaviour.startError !== undefined) throw this.#behaviour.startError
    this.#makeReady()
  }

  write(chunk: Uint8Array): void {
    if (this.state === 'aborted') return
    const { stallMs, windowBytes = 64 * 1024, failAfterBytes = Infinity, failure } = this.#behaviour
    const before = this.writtenBytes
    this.#chunks.push(Uint8Array.from(chunk))
    this.writtenBytes += chunk.length
    if (before < failAfterBytes && this.writtenBytes >= failAfterBytes) this.onFailure(failure!)
    if (
      stallMs === undefined ||
      Math.floor(before / windowBytes) === Math.floor(this.writtenBytes / windowBytes)
    )
      return
    this.ready = false
    setTimeout(() => this.#makeReady(), stallMs)
  }

  async finish(): Promise<StoredBody> {
    if (this.state !== 'started') throw new Error(`finish of a body that is ${this.state}`)
    await sleep(this.#behaviour.finishMs ?? 1)
    if (this.#behaviour.finishError !== undefined) throw this.#behaviour.finishError
    this.state = 'finished'
    const release = () => {
      this.state = 'released'
    }
    return { source: { kind: 'object', key: `spool/${this.opened.id}` }, length: this.writtenBytes, release }
  }

  async abort(): Promise<void> {
    if (this.state === 'finished' || this.state === 'released') return
    this.state = 'aborted'
  }

  #makeReady(): void {
    this.ready = true
    this.onReady()
  }
}
