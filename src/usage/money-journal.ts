import { closeSync, openSync, renameSync, rmSync, writeSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { HeldMoney, UsageBatch } from '../contracts/ledger.ts'
import type { HeldEntry, MoneySource } from '../contracts/recorder.ts'
import { SEGMENT_SUFFIX } from './open-segment.ts'

const FILE = 'money'
const UNFINISHED = '.new'
/** The file is written anew at this size, and at least at twice the size that the money held then takes. */
const BYTES_MIN = 1024 * 1024

/** One write: changes of the held money, and the condition under which they count. */
interface Line {
  /** The segment whose records are written next; null: none are. */
  readonly segment: string | null
  /** Bytes of the segment with them: the line counts if it has so many, or was handed on. */
  readonly bytes: number
  readonly entries: readonly HeldEntry[]
}

/** Money of a dead process. */
export interface JournalledMoney {
  readonly money: readonly HeldMoney[]
  readonly usage: readonly UsageBatch[]
  /** Cost of each of its open sessions, micro-USD. */
  readonly sessions: ReadonlyMap<string, number>
}

/**
 * Journals the money that this process holds in the state, in a file beside its segments, so that it can be settled if
 * the process dies. A line is written before the records that it counts, and names the size that their segment has with
 * them: its reader counts neither or both, wherever the process was killed. The last line of a key counts.
 */
export class MoneyJournal {
  readonly #folder: string
  readonly #sources: MoneySource[] = []
  #fd: number | null = null
  #bytes = 0
  #mostBytes = 0

  constructor(folder: string) {
    this.#folder = folder
  }

  keep(source: MoneySource): void {
    this.#sources.push(source)
  }

  /** @param segment that records are written to next, with its size after that; null: none are */
  write(segment: { readonly id: string; readonly bytes: number } | null): void {
    const isNew = this.#fd === null || this.#bytes > this.#mostBytes
    const entries = this.#sources.flatMap((source) => source.entries(isNew))
    if (entries.length === 0) return
    const line: Line = { segment: segment?.id ?? null, bytes: segment?.bytes ?? 0, entries }
    const bytes = Buffer.from(`${JSON.stringify(line)}\n`)
    try {
      if (isNew) this.#begin(bytes)
      else this.#append(bytes)
    } catch {
      // The disk takes nothing; the next line has everything.
      this.#drop()
    }
  }

  /** Removes the file if no money is held any more; otherwise it stays for the process that takes over the folder. */
  close(): void {
    const isHeld = this.#sources.some((source) =>
      source.entries(true).some(({ money, usage }) => money || usage),
    )
    this.#drop()
    if (!isHeld) rmSync(join(this.#folder, FILE), { force: true })
  }

  #begin(bytes: Buffer): void {
    const path = join(this.#folder, FILE)
    this.#drop()
    this.#fd = openSync(path + UNFINISHED, 'w', 0o600)
    this.#append(bytes)
    this.#mostBytes = Math.max(BYTES_MIN, 2 * bytes.length)
    renameSync(path + UNFINISHED, path)
  }

  #append(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) at += writeSync(this.#fd as number, bytes, at)
    this.#bytes += bytes.length
  }

  #drop(): void {
    if (this.#fd !== null) closeSync(this.#fd)
    this.#fd = null
    this.#bytes = 0
  }
}

/**
 * Reads the journal of the process that had this folder. Null: it kept no journal.
 *
 * @throws Error when it cannot be read
 */
export async function readJournal(folder: string): Promise<JournalledMoney | null> {
  const names = await readdir(folder)
  if (!names.includes(FILE)) return null
  const sizes = new Map<string, number>()
  for (const name of names.filter((one) => one.endsWith(SEGMENT_SUFFIX)))
    sizes.set(name.slice(0, -SEGMENT_SUFFIX.length), (await stat(join(folder, name))).size)
  const last = new Map<string, HeldEntry>()
  for (const text of (await readFile(join(folder, FILE), 'utf8')).split('\n')) {
    const line = journalLine(text)
    const size = line?.segment == null ? undefined : sizes.get(line.segment)
    // A segment whose first records were not written has no file.
    if (line === null || (size !== undefined && size < line.bytes)) continue
    for (const entry of line.entries) last.set(entry.key, entry)
  }
  const entries = [...last.values()]
  return {
    money: entries.flatMap(({ money }) => money ?? []),
    usage: entries.flatMap(({ usage }) => usage ?? []),
    sessions: new Map(
      entries.flatMap(({ session }) => (session ? [[session.id, session.micros] as const] : [])),
    ),
  }
}

/** The path of the journal in the folder of a process. */
export function journalPath(folder: string): string {
  return join(folder, FILE)
}

/** Null: it was cut off when the process died. */
function journalLine(text: string): Line | null {
  try {
    const line = JSON.parse(text) as Line | null
    return Array.isArray(line?.entries) ? line : null
  } catch {
    return null
  }
}
