import { cpuMsOf } from './cpu-time.ts'
import type { LarkwayProcess } from './larkway.ts'

/** What a process has used and said since it was looked at. */
export interface Load {
  /** Processor time, in the program and in the kernel for it. */
  readonly cpuMs: number
  readonly lines: number
  readonly ms: number
}

/** Looks at a process. @returns tells its load from then on */
export async function loadOf({ pid, log }: LarkwayProcess): Promise<() => Promise<Load>> {
  const [cpuMs, lines, startedMs] = [await cpuMsOf(pid), log.length, performance.now()]
  return async () => ({
    cpuMs: (await cpuMsOf(pid)) - cpuMs,
    lines: log.length - lines,
    ms: performance.now() - startedMs,
  })
}
