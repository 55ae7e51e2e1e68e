import { setTimeout as sleep } from 'node:timers/promises'
import { type CutSource, copyCut } from './cut-copy.ts'

/** Matches the beginning of what tells the ledger of a call. */
const TELLING = /^ {2}(?:over|charged)\(.*\): void \{\n/gm
const TELLING_LEAST = 2
/** Files that were begun to be made are there by then. */
const SETTLE_MS = 500

/** The source of the ledger, which is told of calls or not, and how often it is asked which. */
export function withSwitch(source: string): CutSource {
  let cuts = 0
  const text = source.replace(TELLING, (beginning) => {
    cuts += 1
    return `${beginning}    if (!isTold) return\n`
  })
  if (cuts === 0) return { text, cuts }
  return { text: `${text}\nlet isTold = true\nprocess.on('SIGUSR2', () => {\n  isTold = !isTold\n})\n`, cuts }
}

/**
 * A copy of the tree whose ledger a signal turns off, and on again: two processes of one program differ by more than
 * what a record costs.
 */
export function copySwitched(): string {
  return copyCut('a steady ledger', { files: 'usage/ledger.ts', cut: withSwitch, least: TELLING_LEAST })
}

/** Switches that are off, by their process. */
const off = new Set<number>()

/** Turns the ledger of a server on or off, between its calls. */
export async function turn(pid: number, isOn: boolean): Promise<void> {
  if (off.has(pid) === !isOn) return
  process.kill(pid, 'SIGUSR2')
  if (isOn) off.delete(pid)
  else off.add(pid)
  await sleep(SETTLE_MS)
}
