import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'

/** Processor time that a process has used so far, in ms, to a hundredth of a second. */
export async function cpuMsOf(pid: number): Promise<number> {
  const [, rest = ''] = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')
  const fields = rest.split(' ')
  // In ticks of a hundredth of a second: in the program, and in the kernel for it.
  return (Number(fields[11]) + Number(fields[12])) * 10
}

const SAMPLE_MS = 50

/** Resident memory of a process, MiB. */
export function residentMiB(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024
}

/** Follows the resident memory of a process, and knows its peak. Unlike the kernel's own peak it can begin late. */
export class MemoryWatch {
  readonly #timer: NodeJS.Timeout
  #peakMiB = 0

  constructor(pid: number) {
    const sample = () => {
      this.#peakMiB = Math.max(this.#peakMiB, residentMiB(pid))
    }
    sample()
    this.#timer = setInterval(sample, SAMPLE_MS)
  }

  /** Stops following. @returns the peak, MiB */
  stop(): number {
    clearInterval(this.#timer)
    return this.#peakMiB
  }
}
