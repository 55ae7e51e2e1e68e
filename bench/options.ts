import { parseArgs } from 'node:util'
import type { NetworkKind } from './harness/network.ts'

export interface BenchOptions {
  /** Names of scenarios; empty: all. */
  readonly only: readonly string[]
  /** Names of candidates; empty: all. */
  readonly servers: readonly string[]
  readonly quick: boolean
  /** The commit that the quick set is compared with; null: that of the history's last entry. */
  readonly base: string | null
  /** Append what the quick set came to, to the history. */
  readonly record: boolean
  /** Null: as each scenario has it. */
  readonly network: NetworkKind | null
  /** Null: as each scenario has it. */
  readonly rounds: number | null
  readonly s3: boolean
  readonly gate: boolean
  readonly report: boolean
  /** Only figures that others can hold us to: of a commit, on a machine that does nothing else. */
  readonly publish: boolean
  readonly help: boolean
}

/** @param known names of scenarios */
export const helpFor = (known: readonly string[]): string => `npm run bench -- [options]

  --only a,b       only these scenarios:
                   ${known.join(', ')}
  --servers a,b    only these servers, by the names in the result files; the results stay out of bench/results
  --quick          the figures that CI holds, in short runs that take turns with a base and with peers: about 4
                   minutes. With --only: short runs of those scenarios, each once; their results stay out of
                   bench/results
  --base REF       the commit that the quick set is compared with; default: that of the last entry of
                   bench/history.jsonl, where git knows it
  --record         append the quick set to bench/history.jsonl; a run of everything does so by itself
  --rounds N       runs of each candidate; the median counts
  --rmem KIND      capped: all in a network namespace with receive buffers of at most 512 KiB (needs root);
                   system: all on the machine's loopback; default: as each scenario needs it
  --s3             start the S3 server of the tests for the scenarios that store; S3_ENDPOINT and the variables
                   beside it name another
  --gate           exit with status 1 when a figure is over its limit, or could not be measured
  --publish        for figures that are to be shown: --s3 and --report, and refused where a file differs from its
                   commit or something else keeps the machine busy
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
      base: { type: 'string' },
      record: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      rmem: { type: 'string' },
      s3: { type: 'boolean', default: false },
      gate: { type: 'boolean', default: false },
      report: { type: 'boolean', default: false },
      publish: { type: 'boolean', default: false },
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
  const { rmem = null, base = null, quick, record, gate, publish, help } = values
  const [s3, report] = [values.s3 || publish, values.report || publish]
  if (rmem !== null && rmem !== 'capped' && rmem !== 'system')
    throw new Error('--rmem takes capped or system')
  const servers = names(values.servers)
  if (publish && (quick || servers.length > 0))
    throw new Error('--publish takes whole scenarios, with all of their servers')
  const network = rmem
  return { only, servers, quick, base, record, network, rounds, s3, gate, report, publish, help }
}
