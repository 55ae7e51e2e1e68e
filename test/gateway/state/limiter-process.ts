import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RateDecision, RateLimit, RateLimiter } from '../../../src/contracts/rate-limit.ts'
import { taking } from './rate-limiter.contract.ts'

/** What one process, a node, asks of one Redis. */
export interface LimiterOrder {
  readonly url: string
  /** How far this node's clock is off. */
  readonly clockOffMs: number
  readonly beatMs: number
  readonly durationMs: number
  readonly kinds: readonly KeyKind[]
}

/**
 * Keys of a kind are asked for in turn: all of them once as fast as possible, then at a steady pace, and when the time
 * is over each as fast as possible until it is refused.
 */
export interface KeyKind {
  readonly name: string
  readonly count: number
  readonly limit: RateLimit
  /** By this node, for all keys of the kind together. */
  readonly takesPerSecond: number
  /** Whether all nodes together ask for more than the limit allows. */
  readonly eager: boolean
}

/** What a node saw of one key. Times are of the machine's monotonic clock, which all processes share. */
export interface KeyReport {
  readonly keyId: string
  /** Of each admission, microseconds before and after the take, one after the other. */
  readonly admittedUs: readonly number[]
  /** Of the first take, after it, and of the last refusal, before it. */
  readonly firstUs: number
  readonly lastRefusalUs: number
  /** Admissions that made no trip. */
  readonly leased: number
  /** Decisions that were made without Redis. */
  readonly local: number
}

const WINDOW = 32

const order = JSON.parse(process.argv[2] ?? '') as LimiterOrder
setClock(order.clockOffMs)
const limiter = await connectLimiter()
process.send?.('ready')
process.once('message', () => void run())
process.on('disconnect', () => process.exit())

/** The clock of the calendar, as everything in this process reads it. */
function setClock(offMs: number): void {
  const True = Date
  globalThis.Date = class extends True {
    constructor(...args: [] | [number]) {
      super(args[0] ?? True.now() + offMs)
    }
    static override now(): number {
      return True.now() + offMs
    }
  } as DateConstructor
}

/** Imported only now: nothing has read the clock before it was set. */
async function connectLimiter(): Promise<RateLimiter> {
  const { pino } = await import('pino')
  const { redisConnector } = await import('../../../src/gateway/state/redis/connect.ts')
  const { RedisRateLimiter } = await import('../../../src/gateway/state/redis/rate-limiter.ts')
  const log = pino({ level: 'silent' })
  const redis = redisConnector(order.url, log)('limiter')
  await once(redis, 'ready')
  return new RedisRateLimiter(redis, log, { timeoutMs: 1_900, beatMs: order.beatMs })
}

function nowUs(): number {
  return Number(process.hrtime.bigint() / 1000n)
}

class KeyWatch {
  readonly #take: ReturnType<typeof taking>
  readonly report = {
    keyId: '',
    admittedUs: [] as number[],
    firstUs: 0,
    lastRefusalUs: 0,
    leased: 0,
    local: 0,
  }

  constructor(keyId: string, limit: RateLimit) {
    this.#take = taking(keyId, limit)
    this.report.keyId = keyId
  }

  async ask(): Promise<RateDecision> {
    const fromUs = nowUs()
    const answer = limiter.take(this.#take)
    const decision = answer instanceof Promise ? await answer : answer
    const toUs = nowUs()
    const { report } = this
    report.firstUs ||= toUs
    if (decision.local) report.local += 1
    if (!decision.allowed) report.lastRefusalUs = fromUs
    else {
      report.admittedUs.push(fromUs, toUs)
      if (!(answer instanceof Promise)) report.leased += 1
    }
    return decision
  }
}

async function run(): Promise<void> {
  const watches = await Promise.all(order.kinds.map(press))
  process.send?.(watches.flat().map(({ report }) => report))
}

async function press(kind: KeyKind): Promise<KeyWatch[]> {
  const keys = Array.from({ length: kind.count }, (_, i) => new KeyWatch(`key_${kind.name}_${i}`, kind.limit))
  const endUs = nowUs() + order.durationMs * 1000
  await forEach(keys, (key) => key.ask())

  const startUs = nowUs()
  let asked = Math.floor(Math.random() * keys.length)
  const offset = asked
  for (let atUs = nowUs(); atUs < endUs; atUs = nowUs()) {
    const due = offset + Math.floor(((atUs - startUs) * kind.takesPerSecond) / 1_000_000)
    // One that has fallen behind does not make up for it at once: that would only be a queue in this process.
    const batch = Array.from(
      { length: Math.min(due - asked, WINDOW) },
      (_, i) => keys[(asked + i) % keys.length]!,
    )
    asked += batch.length
    await Promise.all(batch.map((key) => key.ask()))
    await sleep(5)
  }

  await forEach(keys, async (key) => {
    while ((await key.ask()).allowed);
  })
  return keys
}

/** A few at a time. */
async function forEach<T>(items: readonly T[], act: (item: T) => Promise<unknown>): Promise<void> {
  let next = 0
  const lane = async () => {
    while (next < items.length) await act(items[next++]!)
  }
  await Promise.all(Array.from({ length: WINDOW }, lane))
}
