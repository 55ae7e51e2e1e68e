import { MessageChannel, type MessagePort } from 'node:worker_threads'
import type { Piscina } from 'piscina'
import { type SpeechEncoder, type SpeechEncoders, UnreadableSpeech } from '../../contracts/speech-encoding.ts'
import type { EncodingAnswer, EncodingTask } from './speech-encoding.ts'

/** Files that one thread encodes at the same time; more of them wait for one to end. */
export const FILES_PER_THREAD = 256

const ENCODE = { filename: new URL('./speech-encoding.ts', import.meta.url).href, name: 'encode' }

/** Threads that run tasks. */
export type Pool<Task, Result> = Pick<Piscina<Task, Result>, 'run' | 'destroy'>

export interface ClosableEncoders extends SpeechEncoders {
  close(): Promise<void>
}

/** Encodes in threads, each of which has many files at once: a file stays in its thread, where its encoder is. */
export function createSpeechEncoders(
  openPool: (tasksPerThread: number) => Promise<Pool<EncodingTask, void>>,
): ClosableEncoders {
  let opened: Promise<Pool<EncodingTask, void>> | null = null
  return {
    begin(source, form) {
      const { port1: near, port2: far } = new MessageChannel()
      opened ??= openPool(FILES_PER_THREAD)
      const task = { port: far, source, form }
      const ended = opened.then((pool) => pool.run(task, { ...ENCODE, transferList: [far] }))
      return new PortEncoder(near, ended)
    },
    close: async () => (await opened)?.destroy(),
  }
}

/** The end of a file that is in the thread of its caller. */
class PortEncoder implements SpeechEncoder {
  readonly #port: MessagePort
  #waiting: PromiseWithResolvers<Uint8Array> | null = null
  #failure: Error | null = null

  /** @param ended rejects when the thread has died */
  constructor(port: MessagePort, ended: Promise<void>) {
    this.#port = port
    port.on('message', (answer: EncodingAnswer) => this.#take(answer))
    ended.catch((error: Error) => this.#fail(error))
  }

  push(bytes: Uint8Array): Promise<Uint8Array> {
    // Copied, since the bytes may be a part of memory that others use.
    const own = new Uint8Array(bytes)
    return this.#ask(own, [own.buffer])
  }

  end(): Promise<Uint8Array> {
    return this.#ask(null, [])
  }

  close(): void {
    this.#port.close()
    this.#fail(new Error('the encoder was closed'))
  }

  #ask(message: Uint8Array | null, moved: ArrayBuffer[]): Promise<Uint8Array> {
    if (this.#failure !== null) return Promise.reject(this.#failure)
    this.#waiting = Promise.withResolvers<Uint8Array>()
    this.#port.postMessage(message, moved)
    return this.#waiting.promise
  }

  #take(answer: EncodingAnswer): void {
    if (answer instanceof Uint8Array) this.#waiting?.resolve(answer)
    else if ('unreadable' in answer) this.#waiting?.reject(new UnreadableSpeech(answer.unreadable))
    else this.#waiting?.reject(new Error(answer.failed))
    this.#waiting = null
  }

  #fail(error: Error): void {
    this.#failure ??= error
    this.#waiting?.reject(error)
    this.#waiting = null
  }
}
