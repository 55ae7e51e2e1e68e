import { availableParallelism } from 'node:os'
import { GatewayError } from '../../contracts/errors.ts'
import type { Base64Decoder, LeafHasher } from '../../contracts/media.ts'
import type { SpeechEncoders } from '../../contracts/speech-encoding.ts'
import type { Signable, Signatures, WebhookSigner } from '../../contracts/webhooks.ts'
import { type Base64Task, decodeBase64 } from './base64.ts'
import { hashLeaves, LeafHashes, type LeavesTask } from './leaf-hash.ts'
import { createSpeechEncoders, type Pool } from './speech-encoders.ts'
import { signWebhook } from './webhook-signature.ts'

/**
 * Text from which a worker decodes. A task costs the event loop 20 to 30 µs whatever its size, decoding inline 85 to
 * 100 µs per MiB: at 256 KiB they are even, here it is 42 against 100 and at 1 MiB 28 against 97, for up to twice the
 * CPU in all (medians on two cores of an AMD EPYC).
 */
export const OFFLOAD_BYTES = 512 * 1024
/**
 * Bytes, or base64 text, from which a worker hashes. Inline a MiB takes 550 µs, of text no less than of bytes. At
 * 32 KiB that is what a task costs the loop; here it is 30 µs against 135 for 1.2 times the CPU in all, and with 4 MiB
 * at a time 60 to 190 against 2,000 for the same CPU (medians on two cores of an AMD EPYC).
 * Not less, because a typical voice message, of 100 to 200 KB, is not worth starting a thread.
 */
export const HASH_OFFLOAD_BYTES = 256 * 1024
/** A thread decodes some 6 GB/s and hashes 2; more of them would only hold memory. */
const MAX_THREADS = 4
/** A thread costs some 10 MB, so it does not outlive the work by much. */
const IDLE_MS = 30_000

const DECODE = { filename: new URL('./base64.ts', import.meta.url).href, name: 'decode' }
const HASH = { filename: new URL('./leaf-hash.ts', import.meta.url).href, name: 'hash' }
const SIGN = { filename: new URL('./webhook-signature.ts', import.meta.url).href, name: 'signAll' }

export interface Workers {
  readonly decoder: Base64Decoder
  readonly hasher: LeafHasher
  readonly signer: WebhookSigner
  readonly encoders: SpeechEncoders
  /** Ends the threads; tasks under way are failed. */
  close(): Promise<void>
}

type Task = Base64Task | LeavesTask | readonly Signable[]

/** Computes what would hold up the event loop, in threads that are started when there is something for them. */
export function createWorkers(): Workers {
  let opened: Promise<Pool<Task, unknown>> | null = null
  const encoders = createSpeechEncoders(openPool)
  const run = async (task: Task, which: typeof DECODE): Promise<unknown> => {
    opened ??= openPool<Task, unknown>()
    return (await opened).run(task, which)
  }
  const decode = (task: Base64Task) => run(task, DECODE) as Promise<number>
  const hash = (task: LeavesTask) => run(task, HASH) as Promise<Uint8Array>
  const sign = (signables: readonly Signable[]) => run(signables, SIGN) as Promise<Signatures[]>
  return {
    decoder: {
      decode(text, out) {
        if (text.length < OFFLOAD_BYTES || !isShared(text) || !isShared(out)) return decodeBase64(text, out)
        return decode({ text, out })
      },
    },
    hasher: {
      hash(views, encoding) {
        const bytes = views.reduce((sum, view) => sum + view.length, 0)
        if (bytes < HASH_OFFLOAD_BYTES || !views.every(isShared)) return hashLeaves(views, encoding)
        return hash({ views, encoding })
      },
      begin: () => new LeafHashes(),
    },
    signer: createSigner(sign),
    encoders,
    close: async () => {
      await encoders.close()
      await (await opened)?.destroy()
    },
  }
}

/** Loaded with the first task: most nodes never have one. `run` throws OVERLOADED where no thread can be started. */
async function openPool<Task, Result>(tasksPerThread = 1): Promise<Pool<Task, Result>> {
  const { ArrayTaskQueue, Piscina } = await import('piscina')
  const taskQueue = new ArrayTaskQueue()
  const pool = new Piscina<Task, Result>({
    concurrentTasksPerWorker: tasksPerThread,
    minThreads: 0,
    maxThreads: Math.max(1, Math.min(MAX_THREADS, availableParallelism() - 1)),
    idleTimeout: IDLE_MS,
    taskQueue,
  })
  return {
    run(task, options) {
      const { size } = taskQueue
      try {
        return pool.run(task, options)
      } catch (cause) {
        // The task stays in the queue, for the next thread, and by then its memory may be that of another call.
        taskQueue.tasks.splice(size)
        throw new GatewayError('OVERLOADED', 'no thread can be started', { cause })
      }
    },
    destroy: () => pool.destroy(),
  }
}

/** Only shared memory reaches a thread without a copy, and a copy costs more than it saves. */
function isShared(view: Uint8Array): view is Uint8Array<SharedArrayBuffer> {
  return view.buffer instanceof SharedArrayBuffer
}

/**
 * Deliveries from which a worker signs. Inline each takes 3 µs, 5 with two secrets. A task costs the loop 17 µs and
 * 1 µs for each delivery, so that they are even at 8; here it is 80 to 100 µs against 190 to 300, for 1.3 to 1.5 times
 * the CPU in all (medians on two cores of an AMD EPYC). Not less, because what the TLS
 * handshakes of these deliveries take is several hundred times as much, and a thread costs memory.
 */
export const SIGN_OFFLOAD_COUNT = 64

interface Waiting {
  readonly signable: Signable
  readonly resolve: (signatures: Signatures) => void
  readonly reject: (cause: unknown) => void
}

/**
 * Signs what is asked for in one turn of the event loop together: a few at once, more of them in a worker.
 *
 * @param signAll signs in a worker, in the order given
 */
export function createSigner(
  signAll: (signables: readonly Signable[]) => Promise<readonly Signatures[]>,
): WebhookSigner {
  let waiting: Waiting[] = []
  const flush = async (): Promise<void> => {
    const batch = waiting
    waiting = []
    try {
      const signables = batch.map(({ signable }) => signable)
      const signed = batch.length < SIGN_OFFLOAD_COUNT ? signables.map(signWebhook) : await signAll(signables)
      for (const [index, { resolve, reject }] of batch.entries()) {
        const signatures = signed[index]
        if (signatures === undefined) reject(new Error('a worker signed less than it was given'))
        else resolve(signatures)
      }
    } catch (cause) {
      for (const { reject } of batch) reject(cause)
    }
  }
  return {
    sign(signable) {
      const { promise, resolve, reject } = Promise.withResolvers<Signatures>()
      if (waiting.length === 0) setImmediate(flush)
      waiting.push({ signable, resolve, reject })
      return promise
    },
  }
}
