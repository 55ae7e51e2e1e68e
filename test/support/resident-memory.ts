import { readFileSync } from 'node:fs'

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
