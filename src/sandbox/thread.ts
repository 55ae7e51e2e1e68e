import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
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
