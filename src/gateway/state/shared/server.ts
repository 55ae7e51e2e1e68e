import { Cancellation } from '../../../contracts/cancellation.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import type { JobSpec } from '../../../contracts/jobs.ts'
import { errorMessage } from '../../../contracts/log.ts'
import type { PermitLease, PermitLimit } from '../../../contracts/permits.ts'
import type { RateLimit, Take, UnitBucket } from '../../../contracts/rate-limit.ts'
import { LONGEST_TIMER_MS, systemClock } from '../../../contracts/time.ts'
import { Batch } from '../embedded/pending-calls.ts'
import { EmbeddedPermits } from '../embedded/permits.ts'
import { EmbeddedRateLimiter, microsecondsOf } from '../embedded/rate-limiter.ts'
import { createSessionEnds, createUsageMarks, withSlots } from '../embedded/state.ts'
import { METHODS, type SubjectName, subjectsOf } from '../embedded/subjects.ts'
import { StateThread, type ThreadOptions } from '../embedded/thread.ts'
import { EmbeddedUnitLimiter } from '../embedded/unit-limiter.ts'
import type { BucketReply } from '../leasing-rate-limiter.ts'
import { mostInHand } from '../token-leases.ts'
import type {
  ClientMessage,
  MemorySubjects,
  PermitWait,
  ServerChannel,
  ServerMessage,
  SharedAnswer,
  SharedCall,
} from './messages.ts'

export interface StateServerOptions extends ThreadOptions {
  /** Processes that share the state. */
  readonly processes: number
}

/**
 * Has the embedded state of several processes: the thread with the file, and the rate limits and permits in its own
 * memory, which are as exact as those of a single process. What a process held in permits is free when that dies.
 */
export class StateServer {
  readonly #thread: StateThread
  readonly #memory: SharedMemory
  readonly #clients = new Set<Client>()

  private constructor(options: StateServerOptions, thread: StateThread) {
    this.#thread = thread
    this.#memory = new SharedMemory(options, thread)
  }

  /** @throws Error that names the file and says what is wrong with it */
  static async open(options: StateServerOptions): Promise<StateServer> {
    const thread = new StateThread(options)
    await thread.open()
    return new StateServer(options, thread)
  }

  /** Answers a process until its channel is closed. */
  serve(channel: ServerChannel): void {
    const client = new Client(channel, this.#thread, this.#memory, (changed) => {
      for (const other of this.#clients) if (other !== client) other.noteChanged(changed)
    })
    this.#clients.add(client)
    channel.listen(
      (message) => client.take(message),
      () => {
        this.#clients.delete(client)
        client.close()
      },
    )
  }

  /** Ends the thread after the calls under way. */
  close(): Promise<void> {
    return this.#thread.close()
  }
}

/** Parts of the state that are not in the file. Which process holds which permits is known of each process. */
class SharedMemory implements Omit<MemorySubjects, 'permits'> {
  readonly #buckets: EmbeddedRateLimiter
  readonly #limiter: ReturnType<typeof withSlots>
  readonly #units: EmbeddedUnitLimiter
  readonly #processes: number
  readonly permits: EmbeddedPermits
  readonly sessionEnds = createSessionEnds()
  readonly usageMarks = createUsageMarks()

  constructor({ processes, clock = systemClock }: StateServerOptions, thread: StateThread) {
    this.#buckets = new EmbeddedRateLimiter(microsecondsOf(clock))
    this.#limiter = withSlots(this.#buckets, subjectsOf(thread).ledger)
    this.#units = new EmbeddedUnitLimiter(microsecondsOf(clock))
    this.#processes = processes
    this.permits = new EmbeddedPermits(clock)
  }

  readonly limits = {
    take: async (take: Take, wanted: number): Promise<BucketReply> => {
      const { keyId, limit } = take
      const { retryAfterMs, slotTaken } = await this.#limiter.take(take)
      const most = Math.min(wanted, mostInHand(limit.burst, this.#processes))
      const leased = retryAfterMs > 0 || most === 0 ? 0 : this.#buckets.lend(keyId, limit, most)
      return { fullInUs: this.#buckets.fullInUs(keyId), waitUs: retryAfterMs * 1_000, leased, slotTaken }
    },
    giveBack: async (keyId: string, limit: RateLimit, tokens: number): Promise<void> =>
      this.#buckets.giveBack(keyId, limit, tokens),
  }

  readonly units = {
    take: async (buckets: readonly UnitBucket[], units: number, isDue: boolean) =>
      this.#units.take(buckets, units, isDue),
  }
}

/** A job that was changed, by its id, or null: the keys or the catalog. */
type Changed = string | null

/** Methods after which other processes look: at the job, whose id comes first, or at the keys or the catalog. */
const CHANGES: Readonly<Record<string, ReadonlySet<string>>> = {
  jobs: new Set(['end', 'cancel', 'erase']),
  keys: new Set(['create', 'replace', 'revoke']),
  catalog: new Set(['change', 'putModels']),
}

/** The id of the job that a command changes: its argument, or that of the specification which it is given. */
function jobIdOf(argument: unknown): string {
  return typeof argument === 'string' ? argument : (argument as JobSpec).id
}

/** One of the processes. */
class Client {
  readonly #thread: StateThread
  readonly #memory: SharedMemory
  readonly #onChanged: (changed: Changed) => void
  readonly #leases = new Map<number, PermitLease>()
  readonly #waits = new Map<number, Cancellation>()
  readonly #outgoing: Batch<SharedAnswer | { readonly served: number } | { readonly changed: Changed }>
  #isClosed = false

  constructor(
    channel: ServerChannel,
    thread: StateThread,
    memory: SharedMemory,
    onChanged: (changed: Changed) => void,
  ) {
    this.#thread = thread
    this.#memory = memory
    this.#onChanged = onChanged
    this.#outgoing = new Batch((items) => {
      if (!this.#isClosed) channel.send({ ...sorted(items), blocked: thread.blocked() })
    })
  }

  take(message: ClientMessage): void {
    for (const item of message) {
      if ('release' in item) this.#release(item.release)
      else if ('wait' in item) this.#wait(item)
      else void this.#answer(item)
    }
  }

  noteChanged(changed: Changed): void {
    this.#outgoing.add({ changed })
  }

  /** Its process has died: whatever it held is free. */
  close(): void {
    this.#isClosed = true
    for (const ticket of [...this.#waits.keys(), ...this.#leases.keys()]) this.#release(ticket)
  }

  async #answer({ id, subject, method, args }: SharedCall): Promise<void> {
    try {
      const value = await this.#run(subject, method, args)
      this.#outgoing.add({ id, value })
      if (CHANGES[subject]?.has(method)) this.#onChanged(subject === 'jobs' ? jobIdOf(args[0]) : null)
    } catch (error) {
      const code = error instanceof GatewayError ? error.code : 'INTERNAL'
      const cause = error instanceof GatewayError ? (error.cause ?? error) : error
      this.#outgoing.add({ id, code, reason: errorMessage(cause) })
    }
  }

  #run(subject: SharedCall['subject'], method: string, args: readonly unknown[]): Promise<unknown> {
    if (subject in METHODS) return this.#thread.call(subject as SubjectName, method, args)
    if (subject === 'permits') return this.#takePermits(...(args as [number, readonly PermitLimit[]]))
    const methods = this.#memory[subject as keyof Omit<MemorySubjects, 'permits'>]
    return (methods as Record<string, (...args: readonly unknown[]) => Promise<unknown>>)[method]!(...args)
  }

  async #takePermits(ticket: number, limits: readonly PermitLimit[]): Promise<string | null> {
    const taken = await this.#memory.permits.take(limits)
    if ('full' in taken) return taken.full.name
    this.#keep(ticket, taken.lease)
    return null
  }

  #wait({ wait: ticket, limit, workspace }: PermitWait): void {
    const signal = new Cancellation()
    this.#waits.set(ticket, signal)
    // How long it waits is told by its process, which then leaves.
    const served = this.#memory.permits.wait(limit, { workspace, waitMs: LONGEST_TIMER_MS, signal })
    void served.then((lease) => {
      this.#waits.delete(ticket)
      if (lease === null) return
      // It may have left in the turn in which it came.
      if (signal.aborted) return lease.release()
      this.#keep(ticket, lease)
      this.#outgoing.add({ served: ticket })
    })
  }

  #keep(ticket: number, lease: PermitLease): void {
    if (this.#isClosed) lease.release()
    else this.#leases.set(ticket, lease)
  }

  #release(ticket: number): void {
    this.#waits.get(ticket)?.abort(new Error('it waits no longer'))
    this.#leases.get(ticket)?.release()
    this.#leases.delete(ticket)
  }
}

function sorted(
  items: readonly (SharedAnswer | { readonly served: number } | { readonly changed: Changed })[],
): Omit<ServerMessage, 'blocked'> {
  const answers: SharedAnswer[] = []
  const served: number[] = []
  const changed: Changed[] = []
  for (const item of items) {
    if ('served' in item) served.push(item.served)
    else if ('changed' in item) changed.push(item.changed)
    else answers.push(item)
  }
  return { answers, served, changed }
}
