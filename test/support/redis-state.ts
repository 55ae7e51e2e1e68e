import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { pino } from 'pino'
import type { State } from '../../src/contracts/state.ts'
import { createRedisState } from '../../src/gateway/state/redis/state.ts'
import type { Teardown } from './scratch.ts'
import type { StateUnderTest } from './state-under-test.ts'

/** A node's state, closed with the test. @param onLine told of each line that it logs */
export async function openRedisState(
  t: Teardown,
  url: string,
  onLine?: (line: string) => void,
): Promise<State> {
  const log = onLine === undefined ? pino({ level: 'silent' }) : pino({ level: 'warn' }, { write: onLine })
  const state = await createRedisState({ url, log })
  t.teardown(() => state.close())
  return state
}

/** How the contracts of the state start on it: empty, for all tests that start in the same turn. */
export function startsEmpty(state: State, servers: readonly Redis[]): () => Promise<StateUnderTest> {
  let emptying: Promise<unknown> | null = null
  return async () => {
    emptying ??= Promise.all(servers.map((server) => server.flushall())).finally(() => {
      emptying = null
    })
    await emptying
    return { state, pass: passAtRedis, setClock: null }
  }
}

/** Waits by the clock that Redis reads: a timer may come a millisecond before it. */
async function passAtRedis(ms: number): Promise<void> {
  const untilMs = Date.now() + ms
  while (Date.now() <= untilMs) await sleep(untilMs + 1 - Date.now())
}
