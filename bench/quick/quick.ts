import type { Base } from '../base.ts'
import { Lab } from '../harness/lab.ts'
import type { Trial } from '../harness/measure.ts'
import { cappedNetwork, systemNetwork } from '../harness/network.ts'
import { isLarkway, type Row, type Skipped } from '../harness/result.ts'
import { measureTogether } from '../harness/together.ts'
import type { Figure } from './figure.ts'
import { BASE, GROUPS, type Group, OWN } from './groups.ts'
import { judge, type Reference, type Verdict } from './regressions.ts'

/** The names of all figures of the quick set. */
export const QUICK_FIGURES: readonly string[] = GROUPS.flatMap(({ figures }) =>
  figures.map(({ name }) => name),
)

export interface QuickReport {
  readonly figures: readonly Figure[]
  /** Requests of Larkway's that failed, and candidates that could not be measured. */
  readonly failures: readonly string[]
}

type Say = (line: string) => void

/**
 * Measures the quick set.
 *
 * @param only  names of figures; the loads without any of them are left out
 * @param times how many times the usual rounds
 */
export async function measureQuick(
  base: Base | null,
  say: Say,
  { only = QUICK_FIGURES, times = 1 }: { readonly only?: readonly string[]; readonly times?: number } = {},
): Promise<QuickReport> {
  const figures: Figure[] = []
  const failures: string[] = []
  for (const group of GROUPS) {
    const wanted = group.figures.filter(({ name }) => only.includes(name))
    if (wanted.length === 0) continue
    const startedMs = performance.now()
    const narrowed = { ...group, figures: wanted, rounds: group.rounds * times }
    try {
      const { rows, skipped } = await measureGroup(narrowed, base, say)
      figures.push(...figuresOf(narrowed, rows))
      failures.push(...skipped.map(({ candidate, reason }) => `${group.name}: ${candidate}: ${reason}`))
      for (const { candidate, load, failures: failed, runs } of rows)
        if (isLarkway(candidate) && failed > 0)
          failures.push(`${load}, ${candidate}: ${failed} requests failed: ${firstFailure(runs)}`)
    } catch (error) {
      failures.push(`${group.name}: ${(error as Error).message}`) // its figures are missing then, which no gate passes
    }
    say(`${group.name} took ${Math.round((performance.now() - startedMs) / 1000)} s`)
  }
  return { figures, failures }
}

function firstFailure(runs: Row['runs']): string | null {
  return runs.find((run) => run.firstFailure !== null)?.firstFailure ?? null
}

async function measureGroup(group: Group, base: Base | null, say: Say) {
  const network = group.network === 'capped' ? await cappedNetwork() : systemNetwork()
  try {
    const trials = needed(group.figures, await group.plan(base))
    const lab = await Lab.open(network, { program: 'upstream.ts', args: [] })
    try {
      const skipped: Skipped[] = []
      const { generations, rounds, cpuUnit } = group
      const rows = await measureTogether(lab, trials, {
        generations,
        rounds,
        turns: 'load',
        cpuUnit,
        skipped,
        progress: say,
      })
      return { rows, skipped }
    } finally {
      await lab.close()
    }
  } finally {
    network.close()
  }
}

/** The trials of the loads that have these figures, and of all loads before one whose figure grows. */
function needed(figures: Group['figures'], trials: readonly Trial[]): Trial[] {
  const lastThatGrows = trials.findLastIndex(({ load }) =>
    figures.some((figure) => figure.grows && figure.load === load),
  )
  return trials.filter(
    ({ load }, index) => index <= lastThatGrows || figures.some((figure) => figure.load === load),
  )
}

function figuresOf({ figures, rounds }: Group, rows: readonly Row[]): Figure[] {
  return figures.map(({ name, unit, load, of, grows }) => {
    const values = (row: Row | undefined) =>
      (row?.runs ?? []).filter((_, index) => !grows || (index + 1) % rounds === 0).map(of)
    const alike = rows.filter((row) => row.load === load)
    const rowOf = (candidate: string) => alike.find((row) => row.candidate === candidate)
    const peer = alike.find(({ candidate }) => !isLarkway(candidate))
    return { name, unit, own: values(rowOf(OWN)), base: values(rowOf(BASE)), peer: values(peer) }
  })
}

/**
 * Judges the quick set. What is over its bound is measured once more, by itself, in fresh processes and three times as
 * many rounds: a second, independent measurement of the same claim, and the one that counts. A bound of 15 % is several
 * times the noise of pairs, but fifteen figures are fifteen chances to meet a bad minute of the machine.
 */
export async function gateQuick(
  { figures, failures }: QuickReport,
  base: Base | null,
  reference: Reference,
  say: Say,
): Promise<Verdict[]> {
  const first = judge(QUICK_FIGURES, figures, reference)
  const doubtful = first.filter(({ repeatable }) => repeatable).map(({ name }) => name)
  for (const { repeatable, line } of first) if (repeatable) say(`over its bound, measured again: ${line}`)
  const again =
    doubtful.length > 0
      ? await measureQuick(base, say, { only: doubtful, times: 3 })
      : { figures: [], failures: [] }
  const second = judge(doubtful, again.figures, reference)
  const verdicts = first.map((verdict) => second.find(({ name }) => name === verdict.name) ?? verdict)
  const failed = [...failures, ...again.failures]
  const line = failed.length > 0 ? failed.join('; ') : 'every request was answered, every server measured'
  return [...verdicts, { name: 'failures', ok: failed.length === 0, repeatable: false, line }]
}
