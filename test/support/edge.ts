import { pino } from 'pino'
import type { Test } from 'tap'
import type { ByteBudget, MemoryHolder } from '../../src/contracts/budget.ts'
import { type EdgeOptions, type EdgeRoute, type EdgeServer, startServer } from '../../src/inbound/server.ts'
import { UWS_ENVIRONMENT } from '../../src/inbound/uws.ts'

export interface Edge {
  readonly server: EdgeServer
  readonly port: number
  readonly origin: string
  /** Its holders are those of whom memory could be taken back now. */
  readonly budget: CountingBudget
  /** Log lines of level warn and above, parsed. */
  readonly logged: Record<string, unknown>[]
}

type CountingBudget = ByteBudget & { readonly peak: number; readonly holders: ReadonlySet<MemoryHolder> }

/** Starts the real HTTP edge on a free port of the loopback interface, closed when the test ends. */
export async function startEdge(
  t: Pick<Test, 'teardown'>,
  routes: readonly EdgeRoute[],
  options: Pick<EdgeOptions, 'timing' | 'observe'> = {},
): Promise<Edge> {
  Object.assign(process.env, UWS_ENVIRONMENT)
  const budget = countingBudget()
  const logged: Record<string, unknown>[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => logged.push(JSON.parse(line)) })
  const server = await startServer({ routes, host: '127.0.0.1', port: 0, budget, log, ...options })
  t.teardown(() => server.close())
  return { server, port: server.port, origin: `http://127.0.0.1:${server.port}`, budget, logged }
}

function countingBudget(): CountingBudget {
  const holders = new Set<MemoryHolder>()
  let used = 0
  let peak = 0
  const take = (bytes: number) => {
    used += bytes
    peak = Math.max(peak, used)
  }
  return {
    limit: 64 * 1024 * 1024,
    get used() {
      return used
    },
    get peak() {
      return peak
    },
    charge: take,
    tryReserve(bytes) {
      take(bytes)
      return true
    },
    refund: (bytes) => take(-bytes),
    holders,
    enrol: (holder) => void holders.add(holder),
    dismiss: (holder) => void holders.delete(holder),
  }
}
