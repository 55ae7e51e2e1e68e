import { closeSync, fsyncSync, openSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** How long a copy stays: it has what was deleted since, so it is removed at the first start after that. */
const KEPT_MS = 7 * 24 * 60 * 60 * 1_000

/**
 * Copies the file of a state as it was committed last, into one beside it that only its owner reads; on the disk when
 * this returns. A copy of the same format is replaced.
 *
 * @param format that the file has; its copy is named after it
 * @returns path of the copy
 */
export function copyState(file: string, format: number): string {
  const copy = `${file}.format-${format}`
  copyStateTo(file, copy)
  return copy
}

/** The same into any file, while other processes write. @throws SQLite's error; nothing is left of the copy then */
export function copyStateTo(file: string, copy: string): void {
  const draft = `${copy}.draft`
  rmSync(draft, { force: true })
  closeSync(openSync(draft, 'wx', 0o600))
  const db = new DatabaseSync(file, { readOnly: true })
  try {
    db.prepare('VACUUM INTO ?').run(draft)
  } catch (error) {
    rmSync(draft, { force: true })
    throw error
  } finally {
    db.close()
  }
  sync(draft)
  renameSync(draft, copy)
  sync(dirname(copy))
}

/** Objects of jobs, and of answers that are replayed, that a state refers to and cannot do without. */
export function neededObjects(file: string): Set<string> {
  const db = new DatabaseSync(file, { readOnly: true })
  try {
    // A state of before has no table of it.
    const hasInputs = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'job_inputs'").get() !== undefined
    const rows = db
      .prepare(`
        SELECT spec AS text FROM job_specs JOIN jobs USING (number) WHERE status IN ('queued', 'processing')
          ${hasInputs ? 'AND number NOT IN (SELECT number FROM job_inputs)' : ''}
        UNION ALL SELECT progress FROM jobs WHERE status IN ('queued', 'processing')
        UNION ALL SELECT result FROM jobs WHERE status = 'succeeded' AND marked = 0
        UNION ALL SELECT result FROM slots WHERE state = 'stored'`)
      .all() as { readonly text: string | null }[]
    const names = rows.flatMap(({ text }) => [...(text ?? '').matchAll(OBJECT_NAME)].map(([, name]) => name!))
    return new Set(names)
  } finally {
    db.close()
  }
}

/** In the JSON of records, where objects are named `key` or `object`. */
const OBJECT_NAME = /"(?:key|object)":"((?:job|result|slot)\/[^"\\]+)"/g

/** Removes the copies of a file that no one has gone back to for a week. @param nowMs epoch milliseconds */
export function removeOldCopies(file: string, nowMs: number): void {
  const prefix = `${basename(file)}.format-`
  for (const name of readdirSync(dirname(file))) {
    const path = join(dirname(file), name)
    if (name.startsWith(prefix) && statSync(path).mtimeMs < nowMs - KEPT_MS) rmSync(path, { force: true })
  }
}

function sync(path: string): void {
  const fd = openSync(path, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
