import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { BUILT_IN_SANDBOX } from '../contracts/provider.ts'
import type { Sandbox, SandboxOptions } from './server.ts'

/**
 * Starts the sandbox in a thread of its own, which does not keep the process alive.
 *
 * @param onError told when the thread dies later on; calls to the sandbox fail from then
 * @throws the listener's error, EADDRINUSE for one
 */
export async function startSandboxThread(
  options: SandboxOptions,
  onError: (error: Error) => void,
): Promise<Sandbox> {
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { workerData: options })
  const [started] = (await once(worker, 'message')) as [Pick<Sandbox, 'url' | 'port'>]
  worker.on('error', onError)
  worker.unref()
  return {
    ...started,
    close: async () => {
      if (worker.threadId === -1) return
      const ended = once(worker, 'exit')
      worker.ref()
      worker.postMessage('close')
      await ended
    },
  }
}

/** The sandbox of a node: started on first use, in a thread of its own, and started again if that thread dies. */
export class BuiltInSandbox {
  /** The host by which providers without an address reach it. */
  readonly name = new URL(BUILT_IN_SANDBOX).hostname
  readonly #onError: (error: Error) => void
  #started: Promise<Sandbox> | null = null

  constructor(onError: (error: Error) => void) {
    this.#onError = onError
  }

  get(): Promise<Sandbox> {
    this.#started ??= this.#start()
    return this.#started
  }

  async port(): Promise<number> {
    return (await this.get()).port
  }

  async close(): Promise<void> {
    const sandbox = await this.#started?.catch(() => null)
    await sandbox?.close()
  }

  #start(): Promise<Sandbox> {
    const starting: Promise<Sandbox> = startSandboxThread({}, (error) => {
      if (this.#started === starting) this.#started = null
      this.#onError(error)
    })
    starting.catch(() => {
      if (this.#started === starting) this.#started = null
    })
    return starting
  }
}
