import { parseArgs } from 'node:util'
import type { NetworkKind } from './harness/network.ts'

export interface BenchOptions {
  /** Names of scenarios; empty: all. */
  readonly only: readonly string[]
  /** Names of candidates; empty: all. */
  readonly servers: readonly string[]
  readonly quick: boolean
  /** Null: as each scenario has it. */
  readonly network: NetworkKind | null
  /** Null: as each scenario has it. */
  readonly rounds: number | null
  readonly s3: boolean
  readonly gate: boolean
  readonly report: boolean
  readonly help: boolean
}

export const HELP = `npm run bench -- [options]

  --only a,b       only these scenarios: small, chat, multipart, base64, slow-provider, limiter,
                   observability, console, jobs
  --servers a,b    only these servers, by the names in the result files; the results stay out of bench/results
  --quick          short runs, each once; the results stay out of bench/results
  --rounds N       runs of each candidate; the median counts
  --rmem KIND      capped: all in a network namespace with receive buffers of at most 512 KiB (needs root);
                   system: all on the machine's loopback; default: as each scenario needs it
  --s3             start the S3 server of the tests for the scenarios that store; S3_ENDPOINT and the variables
                   beside it name another
  --gate           exit with status 1 when a figure is over its limit, or could not be measured
  --report         write docs/benchmarks.md, its charts and the summary in README.md afterwards
`

/** @throws Error that says what is wrong with the arguments */
export function readOptions(args: readonly string[], known: readonly string[]): BenchOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: 'string' },
      servers: { type: 'string' },
      quick: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      rmem: { type: 'string' },
      s3: { type: 'boolean', default: false },
      gate: { type: 'boolean', default: false },
      report: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  const names = (list = '') => list.split(',').filter(Boolean)
  const only = names(values.only)
  const unknown = only.filter((name) => !known.includes(name))
  if (unknown.length > 0)
    throw new Error(`no such scenario: ${unknown.join(', ')}; there are ${known.join(', ')}`)
  const rounds = values.rounds === undefined ? null : Number(values.rounds)
  if (rounds !== null && !(Number.isInteger(rounds) && rounds > 0))
    throw new Error('--rounds takes a number from 1 up')
  const { rmem = null, quick, s3, gate, report, help } = values
  if (rmem !== null && rmem !== 'capped' && rmem !== 'system')
    throw new Error('--rmem takes capped or system')
  return { only, servers: names(values.servers), quick, network: rmem, rounds, s3, gate, report, help }
}
