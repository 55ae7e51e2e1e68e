import { mkdir, readdir, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'

/** The file whose lock is the claim. Nothing else in this process may open it: closing it would end the claim. */
const LOCK = 'lock'
/** The socket by which earlier versions claim a folder. */
const EARLIER_LOCK = 'lock.sock'
/** SQLite's code for a file that another has; the rest of a code only refines it. */
const BUSY = 5

/** Claims of this process. One that were collected with the garbage would end. */
const claims = new Set<DatabaseSync>()

/**
 * Claims a data folder for this process. The claim is a lock of the kernel on a file in it, taken through SQLite, as
 * Node has none of its own: there is no moment in which two have it, and it ends with the process, however that ends.
 * The file is empty and stays: a process that had opened it before it was removed would lock what another one no longer
 * sees.
 *
 * @param isRemoved the folder is removed after that, and not worked in: the file goes where nothing else is there
 * @returns gives the folder free
 * @throws  Error when another process has it, or it cannot be locked
 */
export async function lockFolder(folder: string, { isRemoved = false } = {}): Promise<() => Promise<void>> {
  const lock = await takeLock(folder)
  if (await answers(join(folder, EARLIER_LOCK))) {
    lock.close()
    throw inUse(folder)
  }
  claims.add(lock)
  return async () => {
    if (!claims.delete(lock)) return
    // The removal of the folder, which follows, reports whatever is wrong with it.
    if (isRemoved) await clearEmpty(folder).catch(() => {})
    lock.close()
  }
}

/** The same for a folder that is removed after it: its lock file goes with the claim, where nothing else is there. */
export function lockRemovable(folder: string): Promise<() => Promise<void>> {
  return lockFolder(folder, { isRemoved: true })
}

/** SQLite lets one of several processes begin a write, and refuses the others without a wait. */
async function takeLock(folder: string): Promise<DatabaseSync> {
  // It warns of itself, where nothing may be in need of it.
  const { DatabaseSync } = await import('node:sqlite')
  let lock: DatabaseSync | undefined
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    lock = new DatabaseSync(join(folder, LOCK))
    // With a journal there would be a second file.
    lock.exec('PRAGMA journal_mode = MEMORY; BEGIN IMMEDIATE')
    return lock
  } catch (error) {
    lock?.close()
    const { errcode = 0, message } = error as Error & { readonly errcode?: number }
    if (errcode % 256 === BUSY) throw inUse(folder)
    throw new Error(`the data folder ${folder} cannot be locked: ${message}`, { cause: error })
  }
}

function inUse(folder: string): Error {
  return new Error(
    `the data folder ${folder} is in use by another Larkway process; for several use --processes, or Redis and S3`,
  )
}

/** A folder with nothing in it but its lock is left empty, so that it can be removed. */
async function clearEmpty(folder: string): Promise<void> {
  const names = await readdir(folder)
  if (names.some((name) => name !== LOCK && name !== EARLIER_LOCK)) return
  for (const name of names) await rm(join(folder, name), { force: true })
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    socket.once('error', () => resolve(false))
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
  })
}
