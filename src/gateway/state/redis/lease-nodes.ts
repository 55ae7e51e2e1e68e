import { randomUUID } from 'node:crypto'
import type { Clock, Timer } from '../../../contracts/time.ts'
import { LEASE_MS, mostInHand } from '../token-leases.ts'
import type { RedisConnection } from './connect.ts'
import { keys } from './key-names.ts'
import { script } from './script.ts'

/** How often a node says that it lives, and learns how many do. */
const BEAT_MS = 2_000
/** Beats until a node that says nothing is counted no more. */
const DEAD_AFTER_BEATS = 5
/** Beats for which a count is good. One may be late or lost. */
const GOOD_FOR_BEATS = 2
const noteNode = script('rate-limiter/note_node', {
  keys: ['nodes'],
  args: ['node', 'dead_after_ms'],
  reply: (reply): { nodes: number; joined: boolean } => {
    if (!Array.isArray(reply) || !reply.every(Number.isSafeInteger) || reply.length !== 2 || reply[0] < 1)
      throw new Error('note_node.lua replied something else than a count and a flag')
    return { nodes: reply[0], joined: reply[1] === 1 }
  },
})

/**
 * How many nodes share the buckets, and so how much of one each may lease. A node that has just come leases nothing
 * until all others have counted it and what they took by their old count is over; one that has not heard a count for
 * long leases nothing either. So leases stay within their bound while nodes come and go.
 */
export class LeaseNodes {
  readonly #redis: RedisConnection
  readonly #node = randomUUID()
  readonly #beatMs: number
  readonly #clock: Clock
  readonly #timer: Timer
  #nodes = 0
  #goodUntilMs = Number.NEGATIVE_INFINITY
  #joinedMs = Number.POSITIVE_INFINITY

  constructor(redis: RedisConnection, clock: Clock, beatMs = BEAT_MS) {
    this.#redis = redis
    this.#beatMs = beatMs
    this.#clock = clock
    this.#timer = clock.every(beatMs, this.#beat).unref()
    redis.on('ready', this.#beat)
    if (redis.status === 'ready') void this.#beat()
  }

  /** How many tokens of such a bucket this node may hold; 0 while the count is not known. */
  most(burst: number): number {
    const nowMs = this.#clock.now()
    if (nowMs >= this.#goodUntilMs || nowMs < this.#joinedMs + this.#goodForMs + LEASE_MS) return 0
    return mostInHand(burst, this.#nodes)
  }

  /** Leaves, so that the others need not wait until this node counts as dead. Never rejects. */
  async close(): Promise<void> {
    this.#timer.close()
    this.#redis.off('ready', this.#beat)
    this.#goodUntilMs = Number.NEGATIVE_INFINITY
    await this.#redis.zrem(keys.nodes, this.#node).catch(() => {})
  }

  get #goodForMs(): number {
    return this.#beatMs * GOOD_FOR_BEATS
  }

  readonly #beat = async (): Promise<void> => {
    const sentMs = this.#clock.now()
    try {
      const deadAfterMs = this.#beatMs * DEAD_AFTER_BEATS
      const note = noteNode({ nodes: keys.nodes, node: this.#node, dead_after_ms: deadAfterMs })
      const { nodes, joined } = await note(this.#redis)
      if (joined || this.#joinedMs === Number.POSITIVE_INFINITY) this.#joinedMs = this.#clock.now()
      this.#nodes = nodes
      this.#goodUntilMs = sentMs + this.#goodForMs
    } catch {
      // It may have been this beat that made the others count this node. The limiter itself says when Redis is away.
      this.#joinedMs = Number.POSITIVE_INFINITY
    }
  }
}
