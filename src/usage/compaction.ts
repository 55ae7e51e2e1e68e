import type { UsageRetention } from '../contracts/usage-lake.ts'
import type { UsageDay, UsageFooter } from './lake.ts'
import { DAY_MS, dateMs, dateOf, HOUR_MS, isMerged, mergedName, type UsageObject } from './names.ts'

/**
 * Bytes of the files that are merged at a time: inputs and output are in memory. A file of more than half of it is not
 * merged further: ten million records a day are some 30 such files.
 */
export const MERGE_BYTES = 32 * 1024 * 1024

/** Work on the files of a day. */
export interface DayPlan {
  /** Files whose records are in others. */
  readonly superseded: readonly UsageObject[]
  /** Files that no workspace still retains. */
  readonly outlived: readonly UsageObject[]
  readonly merges: readonly PlannedMerge[]
}

export interface PlannedMerge {
  readonly date: string
  /** Name of the file that replaces its inputs. */
  readonly name: string
  readonly inputs: readonly UsageObject[]
  /** The inputs, and every file merged into them before. */
  readonly names: readonly string[]
  /** Workspaces whose records are left out. */
  readonly expired: readonly string[]
}

/** Days after which some workspace keeps its records no longer, the least first. */
export function retentions({ days, byWorkspace }: UsageRetention): number[] {
  return [...new Set([days, ...byWorkspace.values()])].sort((a, b) => a - b)
}

/** How many days ago a day was. */
export function ageInDays(date: string, nowMs: number): number {
  return Math.floor((dateMs(dateOf(nowMs)) - dateMs(date)) / DAY_MS)
}

export interface PlanOptions {
  readonly nowMs: number
  readonly retention: UsageRetention
  readonly footerOf: (file: UsageObject) => Promise<UsageFooter>
  readonly mergeBytes?: number
}

const NOTHING_KNOWN: UsageFooter = { inputs: [], workspaces: [] }

/**
 * Plans what is to be done to the files of a day. Within the day, what was rolled before the present hour is merged;
 * once the day is over for an hour, all that is small. Files that have records twice are merged in any case, and so is
 * one that has records of a workspace that keeps them no longer.
 */
export async function planDay(date: string, day: UsageDay, options: PlanOptions): Promise<DayPlan> {
  const { nowMs, retention, footerOf, mergeBytes = MERGE_BYTES } = options
  const ageDays = ageInDays(date, nowMs)
  const isOutlived = (workspace: string) => ageDays > (retention.byWorkspace.get(workspace) ?? retention.days)
  const isYoung = ageDays <= Math.min(...retentions(retention))
  const isOver = nowMs >= dateMs(date) + DAY_MS + HOUR_MS
  const hourMs = nowMs - (nowMs % HOUR_MS)
  const overlapping = new Set(day.overlapping)
  const outlived: UsageObject[] = []
  const merging: { readonly file: UsageObject; readonly footer: UsageFooter; readonly expired: string[] }[] =
    []
  for (const file of inOrder(day.visible)) {
    // A recent rolled file is merged whatever its footer says.
    const footer = isYoung && !isMerged(file.name) ? NOTHING_KNOWN : await footerOf(file)
    const expired = footer.workspaces.filter(isOutlived)
    if (footer !== NOTHING_KNOWN && expired.length === footer.workspaces.length) {
      outlived.push(file)
      continue
    }
    const isSettled = file.modifiedAt.getTime() < hourMs
    const isSmall = file.bytes <= mergeBytes / 2
    const isDue = isSettled && isSmall && (isOver || !isMerged(file.name))
    if (isDue || expired.length > 0 || overlapping.has(file)) merging.push({ file, footer, expired })
  }
  const merges = groupsOf(merging, overlapping, mergeBytes).flatMap((group): PlannedMerge[] => {
    const expired = [...new Set(group.flatMap((one) => one.expired))].sort()
    if (group.length < 2 && expired.length === 0) return []
    const inputs = group.map(({ file }) => file)
    const names = new Set(group.flatMap(({ file, footer }) => [file.name, ...footer.inputs]))
    return [{ date, name: mergedName([...names], expired), inputs, names: [...names].sort(), expired }]
  })
  return { superseded: day.superseded, outlived, merges }
}

/** Rolled files are named after the time at which their segment began, so that neighbours come together. */
function inOrder(files: readonly UsageObject[]): UsageObject[] {
  return files.toSorted((a, b) => (a.name < b.name ? -1 : 1))
}

/** Files that are merged together: as many as fit, and those that overlap whatever their size. */
function groupsOf<One extends { readonly file: UsageObject }>(
  files: readonly One[],
  overlapping: ReadonlySet<UsageObject>,
  mergeBytes: number,
): One[][] {
  const together = files.filter(({ file }) => overlapping.has(file))
  const groups: One[][] = together.length === 0 ? [] : [together]
  let group: One[] = []
  let bytes = 0
  for (const one of files) {
    if (overlapping.has(one.file)) continue
    if (group.length > 0 && bytes + one.file.bytes > mergeBytes) {
      groups.push(group)
      group = []
      bytes = 0
    }
    group.push(one)
    bytes += one.file.bytes
  }
  if (group.length > 0) groups.push(group)
  return groups
}
