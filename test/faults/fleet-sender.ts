import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Teardown } from '../support/scratch.ts'

/** Where a sender of webhooks can be killed, in the order in which it comes there. */
export const SENDER_POINTS = [
  'before the claim',
  'after the claim',
  'while connecting',
  'after the request',
  'after the answer',
] as const
export type SenderPoint = (typeof SENDER_POINTS)[number]

export interface SenderOrder {
  readonly place: { readonly file: string } | { readonly redisUrl: string }
  /** What the secrets of webhooks are sealed with, base64. */
  readonly secretKey: string
  /** Of an event. */
  readonly leaseMs: number
  /** How many events there are. */
  readonly events: number
  /** Where it stops; null: it does not. After the request it is the target that keeps it waiting. */
  readonly holdAt: SenderPoint | null
}

export interface Sender {
  /** Events that it has stopped with, where it is told to. */
  readonly held: number
  kill(): Promise<void>
}

const PROCESS = fileURLToPath(new URL('fleet-sender-process.ts', import.meta.url))

/** Starts a process that delivers webhooks and does nothing else, until the test ends. */
export function startSender(t: Teardown, order: SenderOrder): Sender {
  const args = [PROCESS, JSON.stringify(order)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let held = 0
  createInterface({ input: child.stdout }).on('line', () => {
    held += 1
  })
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }
  t.teardown(kill)
  return {
    get held() {
      return held
    },
    kill,
  }
}
