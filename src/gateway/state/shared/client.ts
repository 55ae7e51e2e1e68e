import { GatewayError } from '../../../contracts/errors.ts'
import type { Blocked, State, StateHints } from '../../../contracts/state.ts'
import { type Clock, systemClock, within } from '../../../contracts/time.ts'
import { Batch, PendingCalls, unavailable } from '../embedded/pending-calls.ts'
import { microsecondsOf } from '../embedded/rate-limiter.ts'
import { stateOf } from '../embedded/state.ts'
import { type Runner, remotesOf } from '../embedded/subjects.ts'
import { EmbeddedUnitLimiter } from '../embedded/unit-limiter.ts'
import { LeasingRateLimiter } from '../leasing-rate-limiter.ts'
import { mostInHand } from '../token-leases.ts'
import type { ClientChannel, ClientMessage, MemorySubjects, ServerMessage, SharedCall } from './messages.ts'
import { MEMORY_METHODS } from './messages.ts'
import { SharedPermits } from './permits.ts'

/** Longer than the thread itself lets anybody wait: it says why. */
const LIMIT_MS = 12_000
/** Time that the last calls have when this process closes the state. */
const CLOSE_MS = 5_000
const GONE = 'the process that has the state has ended'

/** The embedded state that another process of this machine has. */
export function createSharedState(channel: ClientChannel, clock: Clock = systemClock): State {
  const client = new StateClient(channel, clock)
  const { limits, units, permits: serverPermits, sessionEnds, usageMarks } = client.memory
  const permits = new SharedPermits(serverPermits, (item) => client.post(item), clock)
  client.onServed = (ticket) => permits.serve(ticket)
  const rateLimiter = new LeasingRateLimiter(
    {
      name: 'process',
      mayAsk: () => true,
      isAway: false,
      take: (take, _bucket, wanted) => limits.take(take, wanted),
      answered() {},
      giveBack: ({ keyId, limit }, tokens) => void limits.giveBack(keyId, limit, tokens).catch(() => {}),
      mostInHand: (burst) => mostInHand(burst, 1),
    },
    clock,
  )
  const alone = new EmbeddedUnitLimiter(microsecondsOf(clock))
  const state = stateOf(client, clock, {
    ...{ rateLimiter, permits, sessionEnds, usageMarks },
    unitLimiter: {
      take: (buckets, count, isDue = false) =>
        units.take(buckets, count, isDue).catch(() => alone.take(buckets, count, isDue)),
    },
    listen(hints) {
      client.hints = hints
    },
  })
  return {
    ...state,
    async close() {
      rateLimiter.close()
      await state.close()
    },
  }
}

/** Sends the calls of this process to the one that has the state. */
class StateClient implements Runner {
  readonly #pending: PendingCalls
  readonly #outgoing: Batch<ClientMessage[number]>
  readonly memory: MemorySubjects
  onServed: (ticket: number) => void = () => {}
  hints: StateHints | null = null
  #blocked: Blocked | null = null
  readonly #clock: Clock
  /** Why nothing is sent any more; null: it is. */
  #ended: string | null = null
  #onNone: () => void = () => {}

  constructor(channel: ClientChannel, clock: Clock) {
    this.#clock = clock
    const onNone = () => this.#onNone()
    this.#pending = new PendingCalls({ limitMs: LIMIT_MS, clock, onLate() {}, onNone })
    this.#outgoing = new Batch((items) => channel.send(items))
    this.memory = remotesOf<MemorySubjects>(MEMORY_METHODS, (...call) => this.#call(...call))
    channel.listen(
      (message) => this.#take(message),
      () => {
        this.#ended ??= GONE
        this.#pending.failAll(GONE)
      },
    )
  }

  readonly call: Runner['call'] = (subject, method, args) => this.#call(subject, method, args)

  /** Sends what is not answered. */
  post(item: ClientMessage[number]): void {
    if (this.#ended === null) this.#outgoing.add(item)
  }

  blocked(): Blocked | null {
    return this.#blocked
  }

  /** Resolves when the last calls are answered: this process may end then. */
  async close(): Promise<void> {
    this.#ended ??= 'the state is closed'
    const done = new Promise<void>((resolve) => {
      this.#onNone = resolve
    })
    if (this.#pending.size > 0) await within(CLOSE_MS, done, this.#clock).catch(() => {})
  }

  #call(subject: SharedCall['subject'], method: string, args: readonly unknown[]): Promise<unknown> {
    if (this.#ended !== null) return Promise.reject(unavailable(this.#ended))
    return this.#pending.add(false, (id) => this.#outgoing.add({ id, subject, method, args }))
  }

  #take({ answers, served, changed, blocked }: ServerMessage): void {
    this.#blocked = blocked
    for (const answer of answers) {
      const call = this.#pending.take(answer.id)
      if ('value' in answer) call?.resolve(answer.value)
      else call?.reject(new GatewayError(answer.code, undefined, { cause: new Error(answer.reason) }))
    }
    for (const ticket of served) this.onServed(ticket)
    for (const id of changed) {
      if (id === null) this.hints?.settings()
      else this.hints?.changed(id)
    }
  }
}
