import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { cpus, release, totalmem } from 'node:os'
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
  const git = (...args: string[]) =>
    spawnSync('git', args, { cwd: BENCH, encoding: 'utf8' }).stdout?.trim() ?? ''
  const hash = git('rev-parse', '--short=12', 'HEAD')
  if (!hash) return 'unknown'
  return git('status', '--porcelain', '--', '../src', '../package-lock.json') ? `${hash}-dirty` : hash
}
