import { larkway } from '../candidates.ts'
import { larkwayChat } from '../larkway.ts'
import { type Scenario, sort } from './scenario.ts'
import { type TinyKind, tinyTrial } from './tiny.ts'

const DEFAULT_BUDGET_MIB = 256
const INPUT = 'Hello.'

/** Due so often a second, whether or not earlier ones were answered: the server is busy for 60 % of the time. */
const CALLS_PER_SECOND = 5_000

/**
 * Chats at the customer's own provider, and at one of the platform, whose money is leased: as many as the server takes.
 * And the former at a rate, which is what most gateways have: to wait and wake up in between makes a chat take four
 * times as much, and a record hardly more.
 */
export const USAGE_LOADS = ['chat', 'billed chat', 'chat, 5,000 calls/s'] as const

const KINDS: readonly TinyKind[] = USAGE_LOADS.map((load) => ({
  load,
  generator: load.endsWith('/s') ? CALLS_PER_SECOND : 'requests',
  request: larkwayChat(INPUT, load === 'billed chat' ? 'platform' : 'own'),
  isRight: (body) => (JSON.parse(body) as { content: string }).content.length > 0,
}))

const VARIANTS = [
  { name: 'larkway', label: 'Larkway', env: { LARKWAY_USAGE: 'false' } },
  {
    name: 'larkway-usage',
    label: 'Larkway, usage ledger on',
    env: { LARKWAY_USAGE: 'true' },
    against: 'larkway',
  },
]

/**
 * What a record of each call costs a server that has been up for a while, as one has that keeps records for years: the
 * same chats of one with and one without, in short runs that take turns. Before the first both answer for as long.
 */
export const usage: Scenario = {
  name: 'usage',
  title: 'Usage ledger',
  cpuUnit: 'us/request',
  network: 'system',
  rounds: 9,
  // A record is less of a call than what two processes differ by.
  generations: 3,
  upstream: { program: 'upstream.ts', args: [] },

  async plan({ quick }) {
    const secondsOf = ({ generator }: TinyKind) => {
      if (quick) return { warmUp: 1, run: 1 }
      // In each run files are made of a segment once at least: that is after 45,000 records.
      return { warmUp: 20, run: generator === 'requests' ? 2 : 10 }
    }
    const { found, skipped } = await sort<{ readonly against?: string }>(
      VARIANTS.map(
        ({ name, label, env, ...rest }) =>
          [larkway({ name, label, memoryMib: DEFAULT_BUDGET_MIB, env }), rest] as const,
      ),
    )
    const trials = KINDS.flatMap((kind) =>
      found.map(([candidate, against]) => ({ ...tinyTrial(candidate, kind, secondsOf(kind)), ...against })),
    )
    return { trials, skipped }
  },
}
