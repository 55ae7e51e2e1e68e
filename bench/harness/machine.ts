import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { cpus, release, totalmem } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { BENCH, PLACEMENT } from './processes.ts'

/** Facts that a reader needs to compare figures with others. */
export interface Machine {
  readonly cpu: string
  readonly cores: number
  readonly memoryGib: number
  readonly kernel: string
  readonly system: string
  readonly node: string
  readonly placement: string
}

/** @param placement of what was measured, where this harness has not started it */
export function machine(placement = PLACEMENT): Machine {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGib: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    system: systemName(),
    node: process.version,
    placement,
  }
}

function systemName(): string {
  try {
    return /^PRETTY_NAME="?([^"\n]+)/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? process.platform
  } catch {
    return process.platform
  }
}

/** The commit that was measured; `-dirty` when files differ from it. */
export function commit(): string {
  const hash = gitOutput('rev-parse', '--short=12', 'HEAD')
  if (!hash) return 'unknown'
  return gitOutput('status', '--porcelain', '--', '../src', '../package-lock.json') ? `${hash}-dirty` : hash
}

function gitOutput(...args: readonly string[]): string {
  return spawnSync('git', args, { cwd: BENCH, encoding: 'utf8' }).stdout?.trim() ?? ''
}

/** The share of all cores that others may take of a machine whose figures are published. */
const BUSY_MAX = 0.1
const LOOK_MS = 3_000
const STAT = '/proc/stat'

/** Null: figures of now can be published. */
export async function whyNotPublished(): Promise<string | null> {
  const changed = gitOutput('status', '--porcelain', '--', '..')
  if (changed !== '') return `files differ from their commit:\n${changed}`
  if (gitOutput('rev-parse', 'HEAD') === '') return 'there is no commit whose figures they would be'
  const before = readFileSync(STAT, 'utf8')
  await sleep(LOOK_MS)
  const busy = busyShare(before, readFileSync(STAT, 'utf8'))
  if (busy <= BUSY_MAX) return null
  return `the machine is busy: ${Math.round(100 * busy)} % of all cores within ${LOOK_MS / 1_000} s`
}

/** The share of all cores that was in use between two readings of /proc/stat. */
export function busyShare(before: string, after: string): number {
  const [from, to] = [ticksIn(before), ticksIn(after)]
  return (to.busy - from.busy) / (to.all - from.all)
}

/** Time of all cores since the start of the machine; see proc_stat(5). */
function ticksIn(stat: string): { readonly busy: number; readonly all: number } {
  const [line = ''] = stat.split('\n')
  const counts = line.trim().split(/\s+/).slice(1, 9).map(Number)
  const all = counts.reduce((sum, count) => sum + count, 0)
  const [, , , idle = 0, waiting = 0] = counts
  return { busy: all - idle - waiting, all }
}
