import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Teardown } from './scratch.ts'
import type { SenderOrder, Sent } from './senders-process.ts'

const PROGRAM = fileURLToPath(new URL('./senders-process.ts', import.meta.url))

/** Clients in a process of their own, so that they do not wait for the test, nor it for them. */
export interface Senders {
  /** What was answered since the last time this was asked. */
  counts(): Promise<Sent>
  /** Cuts every connection, whatever is under way. */
  stop(): Promise<void>
}

/** Starts clients that send one upload after the other until they are stopped, or the test ends. */
export function startSenders(t: Teardown, order: SenderOrder): Senders {
  const child: ChildProcess = fork(PROGRAM, [JSON.stringify(order)], { stdio: 'inherit' })
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }
  t.teardown(stop)
  return {
    stop,
    async counts() {
      child.send('counts')
      const [sent] = (await once(child, 'message')) as [Sent]
      return sent
    },
  }
}
