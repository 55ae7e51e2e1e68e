import { setTimeout as sleep } from 'node:timers/promises'
import { answerOf, type KeyedAnswer, keyedUpload } from '../support/keyed-call.ts'
import { RawClient } from '../support/raw-client.ts'
import type { RedisProxy, Verdict } from '../support/redis-proxy.ts'
import type { Upstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'

/** Requests with idempotency keys, on connections of their own, that stop at the same step of their way. */
export interface Stalled {
  readonly port: number
  readonly authorization: string
  readonly keys: readonly string[]
  readonly upstream: Upstream
}

/** The same in front of Redis. */
export interface StalledAtRedis extends Stalled {
  readonly proxy: RedisProxy
  /** How often they have missed their step before: they then get twice the time each. */
  readonly misses?: number
}

/** Sends the first `share` of each body. @returns the clients; whoever takes them closes them */
export async function sendPart({ port, authorization, keys }: Stalled, share: number): Promise<RawClient[]> {
  return Promise.all(
    keys.map(async (key) => {
      const { head, body } = keyedUpload(key, authorization)
      const client = await RawClient.connect(port)
      await client.send(Buffer.concat([head, body.subarray(0, Math.floor(body.length * share))]))
      return client
    }),
  )
}

/** Sends them, and waits until all of them have stopped at this stage of the provider. */
export async function stallAt(stalled: Stalled, stage: 'connected' | 'whole' | 'half'): Promise<RawClient[]> {
  const { upstream, keys } = stalled
  upstream.holdAt(stage)
  const clients = await sendPart(stalled, 1)
  await reached(`the provider's stage ${stage}`, () => upstream.held === keys.length)
  return clients
}

/** How long requests may take to come to the command that is waited for, once they were sent or let go. */
const GATHER_MS = 200
/** With their deadline of 3 s in view. */
const GATHER_MS_MAX = 1_600

/**
 * Stops all requests at one command. A gateway sends a batch of commands only when the batch before is answered, so
 * that the first of them would keep the others back: they are gathered behind an answer that is held up, and leave in
 * one batch.
 *
 * @param start sends the requests, or lets them go on
 * @throws Error when not all of them were in the batch, which a busy machine may bring about
 */
export async function stallTogether<Started>(
  { port, authorization, keys, proxy, misses = 0 }: StalledAtRedis,
  command: string,
  verdict: Extract<Verdict, 'hold' | 'hold the answer'>,
  start: () => Started | Promise<Started>,
): Promise<Started> {
  proxy.judge = ({ name }) => (name === 'show_account' ? 'hold the answer' : 'pass')
  void fetch(`http://127.0.0.1:${port}/v1/me`, { headers: { authorization } }).catch(() => {})
  await reached('show_account', () => proxy.executed('show_account') === 1)
  const started = await start()
  await sleep(Math.min(GATHER_MS * 2 ** misses, GATHER_MS_MAX))
  proxy.judge = ({ name }) => (name === command ? verdict : 'pass')
  proxy.letGo()
  const count = verdict === 'hold' ? proxy.arrived : proxy.executed
  await reached(command, () => count(command) === keys.length, 1_000)
  return started
}

/** The answers of all of them. */
export function answersOf(clients: readonly RawClient[]): Promise<KeyedAnswer[]> {
  return Promise.all(clients.map(async (client) => answerOf(await client.response({ timeoutMs: 20_000 }), 0)))
}

/** @throws Error when it is not so in time */
export async function reached(what: string, isSo: () => boolean, timeoutMs?: number): Promise<void> {
  if (!(await waitUntil(isSo, timeoutMs))) throw new Error(`not all requests came to ${what}`)
}
