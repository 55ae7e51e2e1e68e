import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Teardown } from '../support/scratch.ts'
import type { SenderOrder, Sent } from './senders-process.ts'

/** Clients in a process of their own, so that they do not wait for the test, nor it for them. */
export interface ClientProcess<Counts> {
  /** What the process has counted by now; its program says since when. */
  counts(): Promise<Counts>
  /** Cuts every connection, whatever is under way. */
  stop(): Promise<void>
}

export type Senders = ClientProcess<Sent>

/** Starts a program of clients, which answers any message with its counts, until it is stopped or the test ends. */
export function startClients<Counts>(t: Teardown, program: URL, order: object): ClientProcess<Counts> {
  const child: ChildProcess = fork(fileURLToPath(program), [JSON.stringify(order)], { stdio: 'inherit' })
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
      const [counts] = (await once(child, 'message')) as [Counts]
      return counts
    },
  }
}

/** Starts clients that send one upload after the other; they count since they were asked last. */
export function startSenders(t: Teardown, order: SenderOrder): Senders {
  return startClients(t, new URL('./senders-process.ts', import.meta.url), order)
}
