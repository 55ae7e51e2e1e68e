import { median } from '../harness/result.ts'
import { type Figure, ratio, round } from './figure.ts'
import type { Entry } from './history.ts'

/** The commits that a figure is compared with. */
export interface Reference {
  /** The commit that `base` of each figure is of; null: there is none, and the history is used. */
  readonly base: string | null
  readonly last: Entry | undefined
}

export interface Verdict {
  readonly name: string
  readonly ok: boolean
  /** True: another measurement could pass, since the figure was over its bound and not missing. */
  readonly repeatable: boolean
  readonly line: string
}

/** A regression of more than this against the base fails. */
export const PAIR_BOUND = 1.15
/**
 * The same against the ratio that was recorded last, for a clone without history of git: that ratio is of another run,
 * maybe on another machine. Between two runs of the same code, on the same machine within ten minutes, ratios of CPU to
 * the peer differed by up to 1.64, of memory by up to 1.33. So this finds a server that has doubled its cost, or grown
 * by half; what is less is the base's to find.
 */
export const HISTORY_BOUNDS = { memory: 1.5, time: 2 } as const

/** Each expected figure is one verdict. One that is missing, or misses what it is compared with, has not passed. */
export function judge(
  expected: readonly string[],
  figures: readonly Figure[],
  reference: Reference,
): Verdict[] {
  return expected.map((name) => {
    const figure = figures.find((one) => one.name === name)
    const fail = (why: string): Verdict => ({ name, ok: false, repeatable: false, line: `${name}: ${why}` })
    if (!figure || figure.own.length === 0) return fail('not measured')
    const ownToPeer = ratio(figure.own, figure.peer)
    if (ownToPeer === null) return fail('its peer was not measured')
    return reference.base === null
      ? judgeByHistory(figure, ownToPeer, reference.last, fail)
      : judgeByBase(figure, ownToPeer, reference.base, fail)
  })
}

function judgeByBase(
  figure: Figure,
  ownToPeer: number,
  base: string,
  fail: (why: string) => Verdict,
): Verdict {
  const paired = ratio(figure.own, figure.base)
  if (paired === null) return fail(`not measured at the base ${base}`)
  return verdictOf(figure, ownToPeer, paired, PAIR_BOUND, `${base} in ${figure.own.length} pairs`)
}

function judgeByHistory(
  figure: Figure,
  ownToPeer: number,
  last: Entry | undefined,
  fail: (why: string) => Verdict,
): Verdict {
  const recorded = last?.figures[figure.name]
  if (last === undefined || recorded === undefined) return fail('no base, and the history does not have it')
  const change = ownToPeer / recorded.ratio
  const bound = figure.unit === 'MiB' ? HISTORY_BOUNDS.memory : HISTORY_BOUNDS.time
  return verdictOf(figure, ownToPeer, change, bound, `its ratio to the peer at ${last.commit}`)
}

function verdictOf(figure: Figure, ownToPeer: number, change: number, bound: number, to: string): Verdict {
  const { name, unit, own } = figure
  const ok = change <= bound
  const value = `${round(median(own))} ${unit}, ${round(ownToPeer)} × its peer`
  const line = `${name}: ${change.toFixed(3)} × ${to}, at most ${bound.toFixed(2)} (${value})`
  return { name, ok, repeatable: !ok, line }
}
