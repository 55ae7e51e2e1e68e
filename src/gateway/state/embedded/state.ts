import type { ConsoleState, NodeSample, RequestRecord, SessionEnds } from '../../../contracts/console.ts'
import type { CallLedger } from '../../../contracts/ledger.ts'
import type { RateLimiter } from '../../../contracts/rate-limit.ts'
import type { State } from '../../../contracts/state.ts'
import { type Clock, systemClock, within } from '../../../contracts/time.ts'
import type { UsageMark, UsageMarks } from '../../../contracts/usage-lake.ts'
import { createClaimTokens } from '../claim-tokens.ts'
import { endedJobOf, submittedOf } from '../new-job.ts'
import { parseInTurns } from '../parse-in-turns.ts'
import { EmbeddedPermits } from './permits.ts'
import { EmbeddedRateLimiter, microsecondsOf } from './rate-limiter.ts'
import { type Runner, type Subjects, subjectsOf } from './subjects.ts'
import { StateThread, type ThreadOptions } from './thread.ts'
import { EmbeddedUnitLimiter } from './unit-limiter.ts'

/** How long the question waits whether the state is well: whoever asks waits for no longer. */
const HEALTH_MS = 2_000

/**
 * State in one SQLite file that survives a kill and a power cut, for the servers of one machine. Other processes, such
 * as the command line, may have the file open at the same time. Rate limits and permits are in this process' memory.
 *
 * @param options.file a path, or `:memory:` for a state that ends with this process
 * @throws Error that names the file and says what is wrong with it
 */
export async function openEmbeddedState(options: ThreadOptions): Promise<State> {
  const thread = new StateThread(options)
  await thread.open()
  return stateOf(thread, options.clock)
}

/** The parts of an embedded state that are in the memory of one process. */
export type InMemory = Pick<State, 'rateLimiter' | 'unitLimiter' | 'permits' | 'listen'> &
  Pick<ConsoleState, 'sessionEnds' | 'usageMarks'>

/** The state whose file `runner` has. @param memory absent: this process alone has the state */
export function stateOf(runner: Runner, clock: Clock = systemClock, memory?: InMemory): State {
  const { jobs, sessions, requests, samples, keyUses, health, ...rest } = subjectsOf(runner)
  const withToken = createClaimTokens()
  const { sessionEnds, usageMarks, ...own } = memory ?? ownMemory(rest.ledger, clock)
  return {
    kind: 'embedded',
    ...rest,
    ...own,
    memory: null,
    jobs: {
      ...jobs,
      submit: async (submission) => submittedOf(submission, await jobs.submit(submission)),
      end: async (id, fence, ending, keep) => endedJobOf(await jobs.end(id, fence, ending, keep), ending),
      claim: (claiming) =>
        withToken(claiming.limit, (token, limit) => jobs.claim({ ...claiming, limit }, token)),
    },
    console: { sessions, keyUses, sessionEnds, usageMarks, ...recordsOf(requests, samples) },
    healthy: () => {
      const look = runner.blocked() === null ? health.ping() : health.write()
      return within(HEALTH_MS, look, clock).catch(() => false)
    },
    clockMs: async () => null,
    blocked: () => runner.blocked(),
    close: () => runner.close(),
  }
}

function ownMemory(ledger: Pick<CallLedger, 'look'>, clock: Clock): InMemory {
  return {
    rateLimiter: withSlots(new EmbeddedRateLimiter(microsecondsOf(clock)), ledger),
    unitLimiter: new EmbeddedUnitLimiter(microsecondsOf(clock)),
    permits: new EmbeddedPermits(clock),
    sessionEnds: createSessionEnds(),
    usageMarks: createUsageMarks(),
    // Only the command line shares the file, and it does little.
    listen() {},
  }
}

/** Orders for the nodes that share this process' state; one that is alone ends what it has without an order. */
export function createSessionEnds(): SessionEnds {
  const orders = new Set<string>()
  return {
    order: async (id) => void orders.add(id),
    pending: async () => [...orders],
    withdraw: async (id) => void orders.delete(id),
  }
}

/** Marks of the nodes that share this process' state, which take over what those before have left. */
export function createUsageMarks(): UsageMarks {
  const marks = new Map<string, UsageMark>()
  return {
    note: async (writer, mark) => void marks.set(writer, mark),
    async forget(writers) {
      for (const writer of writers) marks.delete(writer)
    },
    read: async () => new Map(marks),
  }
}

/** The limiter, which looks at the slots of idempotency keys in the file. */
export function withSlots(limiter: EmbeddedRateLimiter, ledger: Pick<CallLedger, 'look'>): RateLimiter {
  const isTaken = async (workspace: string, slotId: string): Promise<boolean> => {
    try {
      return (await ledger.look(workspace, slotId)).state !== 'free'
    } catch {
      return false // only a hint is lost
    }
  }
  return {
    take(take) {
      const decision = limiter.take(take)
      if (take.slotId === null || !decision.allowed) return decision
      return isTaken(take.workspace, take.slotId).then((slotTaken) => ({ ...decision, slotTaken }))
    },
    figures: () => limiter.figures(),
  }
}

/** Records of the console; their JSON is written and read on this side of the threads. */
function recordsOf(
  requests: Subjects['requests'],
  samples: Subjects['samples'],
): Pick<ConsoleState, 'requests' | 'samples'> {
  return {
    requests: {
      async add(token, records) {
        if (records.length === 0) return
        const workspaces = [...new Set(records.map(({ workspace }) => workspace))]
        await requests.add(token, workspaces, JSON.stringify(records))
      },
      async list(filter) {
        const records = await requests.list(filter)
        return records.map((record) => JSON.parse(record) as RequestRecord)
      },
      async get(workspace, recordId) {
        const record = await requests.get(workspace, recordId)
        return record === null ? null : (JSON.parse(record) as RequestRecord)
      },
    },
    samples: {
      add: ({ node, atMs, ...rest }, keepMs) =>
        samples.add({ node, atMs }, keepMs, JSON.stringify({ node, atMs, ...rest })),
      since: async (atMs) => parseInTurns<NodeSample>(await samples.since(atMs)),
    },
  }
}
