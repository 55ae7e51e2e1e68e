import { open } from 'node:fs/promises'

interface Sync {
  /** Settles as the one that is under way does. */
  readonly running: Promise<void>
  /** The one that begins after it; null: nobody waits for one. */
  next: Promise<void> | null
}

const syncs = new Map<string, Sync>()

/**
 * Forces a folder to the disk, so that what was renamed into it before lasts. Those who ask while a sync is under way
 * share the one that begins after it: with many writers, theirs cost little more than one writer's.
 */
export function syncFolder(path: string): Promise<void> {
  const sync = syncs.get(path)
  if (sync === undefined) return begin(path)
  sync.next ??= sync.running.then(
    () => begin(path),
    () => begin(path),
  )
  return sync.next
}

function begin(path: string): Promise<void> {
  const sync: Sync = { running: force(path), next: null }
  syncs.set(path, sync)
  const end = () => {
    if (sync.next === null) syncs.delete(path)
  }
  sync.running.then(end, end)
  return sync.running
}

async function force(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
