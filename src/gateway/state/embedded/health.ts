import { randomBytes } from 'node:crypto'
import { closeSync, openSync, rmSync, writeSync } from 'node:fs'
import type { StateDatabase } from './database.ts'
import type { Operations, Subjects } from './subjects.ts'

/** A disk that is not full has to take this: calls still find room in files that SQLite has made longer before. */
const ROOM_BYTES = 64 * 1024
/** A disk that was full has to take this: with less it would be full again after a few calls. */
const AGAIN_BYTES = 4 * 1024 * 1024
/** The disk is looked at no more often than this, however often callers ask. */
const LOOK_MS = 1_000
const FULL_CODES: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])
/** SQLite's code for a full disk. */
const FULL = 13

/** Answers whether the file can be read, and written. @param now epoch milliseconds */
export function createHealth(db: StateDatabase, now: () => number): Operations<Subjects['health']> {
  const read = db.prepare('SELECT version FROM keys_version')
  // Expired at once, and different each time: SQLite writes nothing where nothing changes.
  const write = db.prepare(`
    INSERT INTO tokens (workspace, token, purpose, until_ms) VALUES ('', 'health', 'usage', ?)
    ON CONFLICT DO UPDATE SET until_ms = excluded.until_ms`)
  const [hasRoom, hasRoomAgain] = [ROOM_BYTES, AGAIN_BYTES].map((bytes) => lookForRoom(db, bytes, now))
  return {
    ping() {
      if (!hasRoom!()) throw full()
      return read.get() !== undefined
    },
    write() {
      if (!hasRoomAgain!()) throw full()
      write.run(now())
      return true
    },
  }
}

function full(): Error {
  return Object.assign(new Error('the disk is full'), { errcode: FULL })
}

/** Tells whether the disk of the file takes so many bytes more. Nothing but the try knows of quotas and limits. */
function lookForRoom(db: StateDatabase, bytes: number, now: () => number): () => boolean {
  const file = db.location()
  const noise = randomBytes(ROOM_BYTES)
  let lookedAtMs = 0
  let found = true
  return () => {
    // The clock may have been put back.
    const isFresh = Math.abs(now() - lookedAtMs) < LOOK_MS
    if (file === null || isFresh) return found
    lookedAtMs = now()
    found = takes(`${file}-room`, bytes, noise)
    return found
  }
}

function takes(path: string, bytes: number, noise: Uint8Array): boolean {
  let fd: number | null = null
  try {
    fd = openSync(path, 'w', 0o600)
    for (let left = bytes; left > 0; ) left -= writeSync(fd, noise, 0, Math.min(left, noise.length))
    return true
  } catch (error) {
    return !FULL_CODES.has((error as NodeJS.ErrnoException).code)
  } finally {
    if (fd !== null) closeSync(fd)
    rmSync(path, { force: true })
  }
}
