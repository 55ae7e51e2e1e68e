import { larkway } from '../candidates.ts'
import type { Session, Trial } from '../harness/measure.ts'
import type { Run } from '../harness/result.ts'
import { larkwayConfiguration, larkwayOperator } from '../larkway.ts'
import type { ConsolesReport, ConsolesTask } from '../load/consoles.ts'
import { type Scenario, sort } from './scenario.ts'
import { TINY_KINDS, tinyTrial } from './tiny.ts'

const CONSOLES = 10
const DEFAULT_BUDGET_MIB = 256

/** A way to run the server, the one that it is compared with, and the consoles that are open meanwhile. */
interface Variant {
  readonly name: string
  readonly label: string
  readonly against?: string
  readonly consoles?: number
}

const VARIANTS: readonly Variant[] = [
  { name: 'larkway', label: 'Larkway, console closed' },
  {
    name: 'larkway-consoles',
    label: `Larkway, ${CONSOLES} consoles open`,
    against: 'larkway',
    consoles: CONSOLES,
  },
]

/** Cost of the console for `/v1`, closed and open: the same tiny requests, in pairs of runs that follow one another. */
export const consoleScenario: Scenario = {
  name: 'console',
  title: 'The console',
  cpuUnit: 'us/request',
  network: 'system',
  // The difference is smaller than that of two runs of the same.
  rounds: 15,
  upstream: { program: 'upstream.ts', args: [] },

  async plan({ quick }) {
    // As long as pages wait, or a multiple of it: then each of them asks as often as any other.
    const seconds = { warmUp: quick ? 1 : 3, run: quick ? 5 : 10 }
    const configuration = (port: number) => withOperator(larkwayConfiguration(port))
    const variants = VARIANTS.map(({ name, label, ...rest }) => {
      // The ledger waits for the end of each call, of which the recorder tells it.
      const env = { LARKWAY_USAGE: 'false' }
      const options = { name, label, memoryMib: DEFAULT_BUDGET_MIB, configuration, env }
      return [larkway(options), rest] as const
    })
    const { found, skipped } = await sort<Pick<Variant, 'against' | 'consoles'>>(variants)
    const trials = TINY_KINDS.flatMap((kind) =>
      found.map(([candidate, { against, consoles = 0 }]): Trial => {
        const trial = tinyTrial(candidate, kind, seconds)
        const pair = against === undefined ? {} : { against }
        return { ...(consoles === 0 ? trial : besideConsoles(trial, consoles)), ...pair }
      }),
    )
    return { trials, skipped }
  },
}

/** The same, while pages are open. */
function besideConsoles(trial: Trial, open: number): Trial {
  return {
    ...trial,
    async run(session) {
      const { key, workspace } = larkwayOperator()
      await consoles(session, { open, port: session.port, key, workspace })
      const run = await trial.run(session)
      return withPolls(run, await consoles(session, 'close'), open)
    },
  }
}

/** Polls that failed are failures of the run, and so is a run without polls. */
function withPolls(run: Run, { polls, failures, firstFailure }: ConsolesReport, open: number): Run {
  const missing = polls < 4 * open ? `only ${polls} polls` : null
  return {
    ...run,
    failures: run.failures + failures + Number(missing !== null),
    firstFailure: run.firstFailure ?? firstFailure ?? missing,
  }
}

function consoles({ lab }: Session, task: ConsolesTask): Promise<ConsolesReport> {
  return lab.generate<ConsolesTask, ConsolesReport>('consoles', task)
}

type Configuration = ReturnType<typeof larkwayConfiguration>

function withOperator(configuration: Configuration): object {
  const { bench } = configuration.workspaces
  return {
    ...configuration,
    workspaces: { bench: { ...bench, keys: [...bench.keys, larkwayOperator().configured] } },
  }
}
