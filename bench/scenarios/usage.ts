import { larkway } from '../candidates.ts'
import type { Trial } from '../harness/measure.ts'
import { larkwayChat } from '../larkway.ts'
import { copySwitched, turn } from '../switched.ts'
import { type Scenario, sort } from './scenario.ts'
import { type TinyKind, tinyTrial } from './tiny.ts'

const DEFAULT_BUDGET_MIB = 256
const INPUT = 'Hello.'

/** Due so often a second, whether or not earlier ones were answered: the server is busy for half of the time. */
const CALLS_PER_SECOND = 5_000

/**
 * Chats at the customer's own provider, and at one of the platform, whose money is leased: as many as the server takes.
 * And the former at a rate, which is what most gateways have: to wait and wake up in between makes a chat take three
 * times as much, and a record more, too.
 */
export const USAGE_LOADS = ['chat', 'billed chat', 'chat, 5,000 calls/s'] as const

const KINDS: readonly TinyKind[] = USAGE_LOADS.map((load) => ({
  load,
  generator: load.endsWith('/s') ? CALLS_PER_SECOND : 'requests',
  request: larkwayChat(INPUT, load === 'billed chat' ? 'platform' : 'own'),
  isRight: (body) => (JSON.parse(body) as { content: string }).content.length > 0,
}))

/**
 * Cost of a record of each call for a server that has been up for a while, as one that keeps records for years: the
 * same chats with and without, in short runs of one process that take turns. Before the first it answers for as long
 * either way.
 */
export const usage: Scenario = {
  name: 'usage',
  title: 'Usage ledger',
  cpuUnit: 'us/request',
  network: 'system',
  rounds: 12,
  generations: 2,
  // Memory in which files are made is given back after 70 s without one.
  turns: 'load',
  upstream: { program: 'upstream.ts', args: [] },

  async plan({ quick }) {
    const secondsOf = ({ generator }: TinyKind) => {
      if (quick) return { warmUp: 1, run: 1 }
      // At a rate a file is made of each 45,000 records, in each run one. The warm-up has made one before, as a node
      // has that takes so many calls: the process that makes them is there.
      return generator === 'requests' ? { warmUp: 20, run: 2 } : { warmUp: 10, run: 10 }
    }
    const server = larkway({
      name: 'larkway',
      label: 'Larkway',
      memoryMib: DEFAULT_BUDGET_MIB,
      env: { LARKWAY_USAGE: 'true' },
      tree: copySwitched(),
    })
    const { found, skipped } = await sort<object>([[server, {}]])
    const trials = KINDS.flatMap((kind) =>
      found.flatMap(([candidate]) => {
        const { name } = candidate
        const recording = { ...candidate, ...RECORDING, within: name }
        return [
          turned(tinyTrial(candidate, kind, secondsOf(kind)), false),
          { ...turned(tinyTrial(recording, kind, secondsOf(kind)), true), against: name },
        ]
      }),
    )
    return { trials, skipped }
  },
}

const RECORDING = { name: 'larkway-usage', label: 'Larkway, usage ledger on' } as const

/** The same with the ledger on, or off. */
function turned(trial: Trial, isOn: boolean): Trial {
  return {
    ...trial,
    async warmUp(session) {
      await turn(session.pid, isOn)
      await trial.warmUp(session)
    },
    async run(session) {
      await turn(session.pid, isOn)
      return await trial.run(session)
    },
  }
}
