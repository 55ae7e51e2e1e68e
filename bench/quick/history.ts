import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { commit, machine } from '../harness/machine.ts'
import { median } from '../harness/result.ts'
import { ROOT } from '../peers/install.ts'
import { type Figure, ratio, round } from './figure.ts'

/** The figures of the quick set at a commit: one line of bench/history.jsonl. */
export interface Entry {
  readonly commit: string
  readonly at: string
  readonly machine: string
  /** By the name of the figure: its median, and its ratio to its peer in the same rounds. */
  readonly figures: Readonly<Record<string, RecordedFigure>>
}

export interface RecordedFigure {
  readonly value: number
  readonly unit: string
  readonly ratio: number
}

export const HISTORY = join(ROOT, 'bench', 'history.jsonl')

/** Oldest first. @throws Error when a line is no entry */
export function readHistory(path = HISTORY): Entry[] {
  if (!existsSync(path)) return []
  const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean)
  return lines.map((line) => JSON.parse(line) as Entry)
}

/** @throws Error when the sources are not those of a commit, or when a figure was not measured */
export function entryOf(figures: readonly Figure[], expected: readonly string[], at = commit()): Entry {
  if (!/^[0-9a-f]{7,40}$/.test(at))
    throw new Error(`not recorded: ${at} is no commit; commit the sources first`)
  const { cpu, cores, memoryGib, node } = machine()
  const recorded = expected.map((name) => {
    const figure = figures.find((one) => one.name === name)
    const toPeer = figure && ratio(figure.own, figure.peer)
    if (!figure || typeof toPeer !== 'number') throw new Error(`not recorded: ${name} was not measured`)
    return [name, { value: round(median(figure.own)), unit: figure.unit, ratio: round(toPeer) }] as const
  })
  return {
    commit: at,
    at: new Date().toISOString().slice(0, 10),
    machine: `${cpu}, ${cores} cores, ${memoryGib} GiB, Node ${node}`,
    figures: Object.fromEntries(recorded),
  }
}

export function appendEntry(entry: Entry, path = HISTORY): void {
  appendFileSync(path, `${JSON.stringify(entry)}\n`)
}
