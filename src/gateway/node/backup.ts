import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { constants, copyFile, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import { readVersion } from '../../contracts/version.ts'
import { copyStateTo, neededObjects } from '../state/embedded/copies.ts'
import { fileNameOf, forceToDisk } from '../storage/folder.ts'
import { lockFolder } from '../storage/folder-lock.ts'
import { STATE_FILE } from './stores.ts'

/** Lists the files of a backup. It is written last. */
const MANIFEST = 'backup.json'
/** Names at the top of a data folder that are left out: of this machine, of calls under way, or made again. */
const LEFT_OUT = /^(?:lock|lock\.sock|tmp|spool|usage-cache|state\.sqlite.*)$/
/** The state until a restore has come to its end, so that no node begins a new one. */
const UNFINISHED = 'This restore has not come to its end: run it again.\n'
/** How often the state is copied again, because a job ended while its audio was copied. */
const TRIES = 10

const Manifest = Type.Object({
  version: Type.String(),
  created_at: Type.String(),
  files: Type.Array(Type.Object({ name: Type.String(), bytes: Type.Integer(), sha256: Type.String() })),
})
export type Manifest = Static<typeof Manifest>

/** A backup cannot be made, or read; the message is for the operator. */
export class BackupError extends Error {
  override readonly name = 'BackupError'
}

interface BackupOptions {
  /** False: objects are in a bucket, and not copied. */
  readonly hasObjects: boolean
  readonly nowMs: number
}

/**
 * Copies a data folder while its node runs: the state as it is at one moment, and every object that it needs then.
 * The target is a whole backup, or is not there, at any time.
 *
 * @throws BackupError; the errors of the disk
 */
export async function backUp(from: string, to: string, options: BackupOptions): Promise<Manifest> {
  const [folder, target] = [resolve(from), resolve(to)]
  if (await isThere(target)) throw new BackupError(`${target} exists already`)
  if (isWithin(relative(folder, target))) throw new BackupError(`${target} is in the data folder itself`)
  if (!(await isThere(join(folder, STATE_FILE)))) throw new BackupError(`there is no state in ${folder}`)
  const draft = `${target}.partial`
  await rm(draft, { recursive: true, force: true })
  await mkdir(draft, { recursive: true, mode: 0o700 })
  // Most of it, so that little is left to copy when the state is.
  await copyNew(folder, draft)
  await copyMoment(folder, draft, options)
  const files: Manifest['files'] = []
  // One at a time: each is open while it is read, and there may be more of them than descriptors.
  for (const name of await filesIn(draft, null)) files.push({ name, ...(await digestOf(join(draft, name))) })
  const manifest = { version: await readVersion(), created_at: new Date(options.nowMs).toISOString(), files }
  await writeFile(join(draft, MANIFEST), `${JSON.stringify(manifest, null, 1)}\n`, {
    mode: 0o600,
    flush: true,
  })
  await rename(draft, target)
  await forceToDisk(dirname(target))
  return manifest
}

/** An object that is gone belonged to a job that has ended since: a later copy of the state knows that. */
async function copyMoment(folder: string, draft: string, { hasObjects }: BackupOptions): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    copyStateTo(join(folder, STATE_FILE), join(draft, STATE_FILE))
    await copyNew(folder, draft)
    const needed = hasObjects ? [...neededObjects(join(draft, STATE_FILE))] : []
    const found = await Promise.all(needed.map((key) => isThere(join(draft, fileNameOf(key)))))
    const missing = needed.filter((_, index) => !found[index])
    if (missing.length === 0) return
    if (tries === TRIES)
      throw new BackupError(`${missing.length} objects are missing in ${folder}, such as ${missing[0]}`)
  }
}

/**
 * Makes a data folder out of a backup, whose every byte is compared with what was written.
 *
 * @throws BackupError when the folder is in use, or not empty; the errors of the disk
 */
export async function restore(source: string, folder: string): Promise<Manifest> {
  const manifest = await readManifest(source)
  const unlock = await lockFolder(folder).catch((error: unknown) => {
    throw new BackupError((error as Error).message)
  })
  try {
    const state = join(folder, STATE_FILE)
    const names = (await readdir(folder)).filter((name) => name !== 'lock')
    const isAgain = (await readFile(state, 'utf8').catch(() => '')) === UNFINISHED
    if (names.length > 0 && !isAgain) throw new BackupError(`${folder} is not empty`)
    // It may have been another backup that was not restored to its end.
    for (const name of names) if (!LEFT_OUT.test(name)) await rm(join(folder, name), { recursive: true })
    await writeFile(state, UNFINISHED, { mode: 0o600, flush: true })
    for (const { name, sha256 } of manifest.files) {
      const path = join(folder, name === STATE_FILE ? `${STATE_FILE}.draft` : name)
      await copyWhole(join(source, name), path)
      if ((await digestOf(path)).sha256 !== sha256) throw new BackupError(`${name} is not as it was written`)
    }
    await rename(`${state}.draft`, state)
    await forceToDisk(folder)
    return manifest
  } finally {
    await unlock()
  }
}

async function readManifest(source: string): Promise<Manifest> {
  const text = await readFile(join(source, MANIFEST), 'utf8').catch(() => {
    throw new BackupError(`${source} is no backup: it has no ${MANIFEST}`)
  })
  try {
    const manifest = Value.Parse(Manifest, JSON.parse(text))
    if (manifest.files.every(({ name }) => isWithin(name)) && manifest.files.some(isState)) return manifest
  } catch {
    // As below.
  }
  throw new BackupError(`${join(source, MANIFEST)} cannot be read`)
}

function isState({ name }: { readonly name: string }): boolean {
  return name === STATE_FILE
}

/** A name that leads nowhere else. */
function isWithin(name: string): boolean {
  return (
    !name.startsWith('/') && !name.split('/').some((part) => part === '' || part === '.' || part === '..')
  )
}

/** Copies the files that are not in the draft yet, or have grown since. */
async function copyNew(folder: string, draft: string): Promise<void> {
  for (const name of await filesIn(folder, LEFT_OUT)) {
    const [from, to] = [join(folder, name), join(draft, name)]
    const [now, before] = [await fileSize(from), await fileSize(to)]
    // Objects go at any time.
    if (now === null || now === before) continue
    await copyWhole(from, to).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
    })
  }
}

async function copyWhole(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true, mode: 0o700 })
  await copyFile(from, to, constants.COPYFILE_FICLONE)
  await forceToDisk(to)
}

/**
 * Paths of the files below a folder. A link at its top is followed: what it leads to belongs to the folder.
 *
 * @param except names at the top
 * @throws BackupError for a link further below, which a backup would be without
 */
async function filesIn(folder: string, except: RegExp | null, at = ''): Promise<string[]> {
  const found = await readdir(join(folder, at), { withFileTypes: true }).catch((error) => {
    // A folder of objects goes with the last of them.
    if (error.code === 'ENOENT' && at !== '') return []
    throw error
  })
  const files: string[] = []
  for (const one of found) {
    if (except?.test(one.name) === true) continue
    const name = join(at, one.name)
    if (one.isSymbolicLink() && at !== '') throw new BackupError(`${join(folder, name)} is a link`)
    const what = one.isSymbolicLink() ? await stat(join(folder, name)) : one
    if (what.isDirectory()) files.push(...(await filesIn(folder, null, name)))
    else if (what.isFile()) files.push(name)
  }
  return files
}

async function digestOf(path: string): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    hash.update(chunk)
    bytes += chunk.length
  }
  return { bytes, sha256: hash.digest('hex') }
}

async function fileSize(path: string): Promise<number | null> {
  return await stat(path).then(
    ({ size }) => size,
    () => null,
  )
}

async function isThere(path: string): Promise<boolean> {
  return (await fileSize(path)) !== null
}
