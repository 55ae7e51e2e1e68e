import { type Candidate, candidateOf, inProcesses, larkway } from '../candidates.ts'
import type { Trial } from '../harness/measure.ts'
import { larkwayChat } from '../larkway.ts'
import { JOBS_ENVIRONMENT, larkwayJobsConfiguration } from '../larkway-jobs.ts'
import { wholeTrial } from './jobs.ts'
import { type Scenario, WARM_UP_SECONDS } from './scenario.ts'
import { tinyTrial } from './tiny.ts'

const PROCESSES = [1, 2]
const BUDGET_MIB = 256
const CALLS = 'chat, 64 connections'
const JOBS = 'job of 8 KiB, from submission to end'

/**
 * A node on one data folder as one process, and as several that one more has the state of. All of them run on the core
 * that the bench has for servers: the CPU of all together for a call says how the work grows with their number, and so
 * what as many cores can do.
 */
export const processes: Scenario = {
  name: 'processes',
  title: 'Processes on one data folder',
  cpuUnit: 'us/request',
  network: 'system',
  rounds: 4,
  generations: 2,
  turns: 'load',
  upstream: { program: 'upstream.ts', args: [] },

  async plan({ quick }) {
    const options = { memoryMib: BUDGET_MIB, label: 'Larkway, one process' }
    const calls = candidateOf(larkway({ ...options, name: 'larkway' }))
    const configuration = larkwayJobsConfiguration
    const working = { ...options, name: 'larkway-jobs', configuration, env: JOBS_ENVIRONMENT }
    const works = candidateOf(larkway(working))
    const trialsOf = (candidate: Candidate, trialOf: (one: Candidate, count: number) => Trial) =>
      PROCESSES.map((count) => trialOf(count === 1 ? candidate : inProcesses(candidate, count), count))
    const isRight = (body: string) => JSON.parse(body).content.length > 0
    const chat = {
      load: CALLS,
      generator: 'autocannon',
      request: larkwayChat('Hello.', 'own'),
      isRight,
    } as const
    const count = quick ? 200 : 800
    return {
      trials: [
        ...trialsOf(calls, (one, processes) =>
          tinyTrial(one, chat, { warmUp: quick ? 1 : WARM_UP_SECONDS * processes, run: quick ? 1 : 2 }),
        ),
        ...trialsOf(works, (one) => wholeTrial(one, JOBS, { label: JOBS, bytes: 8 * 1024, count })),
      ],
      skipped: [],
    }
  },
}
