import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import type { Test } from 'tap'
import { Cancellation } from '../../../src/contracts/cancellation.ts'
import type { PermitLimit, Permits } from '../../../src/contracts/permits.ts'
import { redisConnector } from '../../../src/gateway/state/redis/connect.ts'
import { RedisPermits, type RedisPermitsOptions } from '../../../src/gateway/state/redis/permits.ts'
import { waitUntil } from '../../support/wait-until.ts'

const NEVER = new Cancellation()
export const PATIENT = { workspace: 'acme', waitMs: 60_000, signal: NEVER }
/** So long that no permit of these tests is free because its lease is over. */
const LEASE_MS = 600_000
/** Until an outage counts as over, here. */
export const CALM_MS = 2_500

export interface PermitsNode {
  readonly permits: Permits
  readonly redis: ReturnType<ReturnType<typeof redisConnector>>
  /** How often a line with these words was logged. */
  readonly told: (words: string) => number
}

export async function openNode(t: Test, url: string, options?: RedisPermitsOptions): Promise<PermitsNode> {
  const lines: string[] = []
  const log = pino({ level: 'info' }, { write: (line) => lines.push(line) })
  const redis = redisConnector(url, log, { calmMs: CALM_MS })('test')
  t.ok(await waitUntil(() => redis.status === 'ready'))
  const permits = new RedisPermits(redis, log, { leaseMs: LEASE_MS, calmMs: CALM_MS, ...options })
  t.teardown(async () => {
    await permits.close()
    redis.disconnect()
  })
  return { permits, redis, told: (words) => lines.filter((line) => line.includes(words)).length }
}

/** Calls at a provider, of which it knows how many it has had at once. */
export function provider() {
  let [open, most, served, refused] = [0, 0, 0, 0]
  const call = async (permits: Permits, limit: PermitLimit, ms: number, waitMs: number) => {
    const lease = await permits.wait(limit, { ...PATIENT, waitMs })
    if (lease === null) {
      refused += 1
      return
    }
    open += 1
    most = Math.max(most, open)
    await sleep(ms)
    open -= 1
    served += 1
    lease.release()
  }
  return {
    figures: () => ({ most, served, refused }),
    forget() {
      ;[most, served, refused] = [open, 0, 0]
    },
    /** Callers that call one time after the other, until they are told to stop. */
    run(callers: readonly Permits[], limit: PermitLimit, ms: number, waitMs: number) {
      let isOver = false
      const one = async (permits: Permits) => {
        while (!isOver) await call(permits, limit, ms, waitMs)
      }
      const over = Promise.all(callers.map(one))
      return async () => {
        isOver = true
        await over
      }
    },
  }
}

export const many = (permits: Permits, count: number) => Array.from({ length: count }, () => permits)
