import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import type { Test } from 'tap'
import { Cancellation } from '../../src/contracts/cancellation.ts'
import type { SlotLimit, Slots } from '../../src/contracts/slots.ts'
import { redisConnector } from '../../src/gateway/state/redis/connect.ts'
import { RedisSlots, type RedisSlotsOptions } from '../../src/gateway/state/redis/slots.ts'
import { waitUntil } from './wait-until.ts'

const NEVER = new Cancellation()
export const PATIENT = { workspace: 'acme', waitMs: 60_000, signal: NEVER }
/** So long that no slot of these tests is free because its lease is over. */
const LEASE_MS = 600_000
/** Until an outage counts as over, here. */
export const CALM_MS = 2_500

export interface SlotsNode {
  readonly slots: Slots
  readonly redis: ReturnType<ReturnType<typeof redisConnector>>
  /** How often a line with these words was logged. */
  readonly told: (words: string) => number
}

export async function openNode(t: Test, url: string, options?: RedisSlotsOptions): Promise<SlotsNode> {
  const lines: string[] = []
  const log = pino({ level: 'info' }, { write: (line) => lines.push(line) })
  const redis = redisConnector(url, log, { calmMs: CALM_MS })('test')
  t.ok(await waitUntil(() => redis.status === 'ready'))
  const slots = new RedisSlots(redis, log, { leaseMs: LEASE_MS, calmMs: CALM_MS, ...options })
  t.teardown(async () => {
    await slots.close()
    redis.disconnect()
  })
  return { slots, redis, told: (words) => lines.filter((line) => line.includes(words)).length }
}

/** Calls at a provider, of which it knows how many it has had at once. */
export function provider() {
  let [open, most, served, refused] = [0, 0, 0, 0]
  const call = async (slots: Slots, limit: SlotLimit, ms: number, waitMs: number) => {
    const lease = await slots.wait(limit, { ...PATIENT, waitMs })
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
    run(callers: readonly Slots[], limit: SlotLimit, ms: number, waitMs: number) {
      let isOver = false
      const one = async (slots: Slots) => {
        while (!isOver) await call(slots, limit, ms, waitMs)
      }
      const over = Promise.all(callers.map(one))
      return async () => {
        isOver = true
        await over
      }
    },
  }
}

export const many = (slots: Slots, count: number) => Array.from({ length: count }, () => slots)
