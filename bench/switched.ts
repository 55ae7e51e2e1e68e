import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ROOT } from './peers/install.ts'

/** Matches the beginning of what tells the ledger of a call. */
const TELLING = /^ {2}(?:over|charged)\(.*\): void \{\n/gm
const TELLING_COUNT = 2
/** Files that were begun to be made are there by then. */
const SETTLE_MS = 500

/**
 * The source of the ledger, which is told of calls or not.
 *
 * @throws Error when the ledger is told in another form
 */
export function withSwitch(source: string): string {
  const count = source.match(TELLING)?.length ?? 0
  if (count !== TELLING_COUNT) throw new Error(`the ledger is told in ${count} places, not ${TELLING_COUNT}`)
  const text = source.replace(TELLING, (beginning) => `${beginning}    if (!isTold) return\n`)
  return `${text}\nlet isTold = true\nprocess.on('SIGUSR2', () => {\n  isTold = !isTold\n})\n`
}

/**
 * A copy of the tree whose ledger a signal turns off, and on again: two processes of one program differ by more than
 * what a record costs. The copy is removed when this process ends.
 *
 * @returns its folder
 */
export function copySwitched(): string {
  const folder = mkdtempSync(join(tmpdir(), 'larkway-switched-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  for (const part of ['src', 'scripts', 'package.json', 'package-lock.json'])
    cpSync(join(ROOT, part), join(folder, part), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  const ledger = join(folder, 'src', 'usage', 'ledger.ts')
  writeFileSync(ledger, withSwitch(readFileSync(ledger, 'utf8')))
  return folder
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
