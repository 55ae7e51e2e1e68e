import { createWriteStream, existsSync } from 'node:fs'
import { mkdir, rename, rm, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { GatewayError } from '../contracts/errors.ts'
import type { ObjectInfo, Objects } from '../contracts/objects.ts'
import { type Clock, deadline } from '../contracts/time.ts'

/** Files of a bucket that are kept on the disk of this machine; a question for more has more. */
const KEPT_BYTES = 1024 ** 3
/** Left free on the disk of the copies, which may be that of records on their way into the store. */
const FREE_BYTES = 512 * 1024 ** 2
/** Longest that the store may take for one file. */
const TRANSFER_MS = 120_000
/** Files that are fetched at a time. */
const AT_A_TIME = 8

type StoredFile = Pick<ObjectInfo, 'key' | 'bytes'>

/** Files that can be read by their paths, until they are released. */
export interface HeldFiles {
  /** In the order asked for. */
  readonly paths: readonly string[]
  release(): void
}

interface CachedFile {
  readonly path: string
  readonly bytes: number
  readonly fetched: Promise<void>
  isHere: boolean
  holders: number
}

/**
 * Files of the store by paths of this machine: those of a folder where they are, those of a bucket as copies. Copies
 * are kept for the next question, those used last for the longest.
 */
export class FileCache {
  readonly #objects: Objects
  readonly #folder: () => Promise<string>
  readonly #keptBytes: number
  readonly #clock: Clock
  /** By key; the one used last comes last. */
  readonly #files = new Map<string, CachedFile>()
  #bytes = 0

  /** @param folder for copies; made by whoever is asked, and removed by it */
  constructor(objects: Objects, folder: () => Promise<string>, clock: Clock, keptBytes = KEPT_BYTES) {
    this.#clock = clock
    this.#objects = objects
    this.#folder = folder
    this.#keptBytes = keptBytes
  }

  /** @throws GatewayError DEPENDENCY_UNAVAILABLE when the store fails, OVERLOADED when the disk has no room for them */
  async hold(files: readonly StoredFile[]): Promise<HeldFiles> {
    const own = files.map(({ key }) => this.#objects.fileOf(key))
    if (!own.includes(null)) return { paths: own as string[], release: () => {} }
    const held: CachedFile[] = []
    const release = () => {
      for (const file of held.splice(0)) file.holders -= 1
      this.#evict()
    }
    try {
      const own = await this.#folder()
      const folder = join(own, 'files')
      await this.#requireRoom(own, files)
      for (let at = 0; at < files.length; at += AT_A_TIME) {
        const some = files.slice(at, at + AT_A_TIME).map((file) => this.#take(file, folder))
        held.push(...some)
        // None is under way any more when one has failed.
        const fetched = await Promise.allSettled(some.map((file) => file.fetched))
        for (const one of fetched) if (one.status === 'rejected') throw one.reason
      }
      return { paths: held.map(({ path }) => path), release }
    } catch (error) {
      release()
      throw error
    }
  }

  async #requireRoom(folder: string, files: readonly StoredFile[]): Promise<void> {
    const missing = files.filter(({ key }) => !this.#files.has(key))
    const { bavail, bsize } = await statfs(folder)
    const free = bavail * bsize - FREE_BYTES
    if (missing.length > 0 && missing.reduce((sum, { bytes }) => sum + bytes, 0) > free)
      throw new GatewayError('OVERLOADED', 'the disk has no room for so many records: ask for less at a time')
  }

  #take(file: StoredFile, folder: string): CachedFile {
    let known = this.#files.get(file.key)
    this.#files.delete(file.key)
    if (known?.isHere === true && !existsSync(known.path)) {
      this.#bytes -= known.bytes
      known = undefined
    }
    const taken = known ?? this.#fetch(file, join(folder, file.key))
    this.#files.set(file.key, taken)
    taken.holders += 1
    return taken
  }

  #fetch({ key, bytes }: StoredFile, path: string): CachedFile {
    this.#bytes += bytes
    const fetched = this.#copy(key, bytes, path)
    const file = { path, bytes, fetched, isHere: false, holders: 0 }
    const lost = () => {
      this.#bytes -= bytes
      this.#files.delete(key)
    }
    fetched.then(() => Object.assign(file, { isHere: true }), lost)
    return file
  }

  async #copy(key: string, bytes: number, path: string): Promise<void> {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    const body = await this.#objects.get(key, 0, bytes, deadline(this.#clock, TRANSFER_MS))
    await pipeline(Readable.from(body), createWriteStream(`${path}.new`, { mode: 0o600 }))
    await rename(`${path}.new`, path)
  }

  /** Removes the copies that there is no room for and that no question reads. */
  #evict(): void {
    for (const [key, { path, bytes, holders }] of this.#files) {
      if (this.#bytes <= this.#keptBytes) return
      if (holders > 0) continue
      this.#files.delete(key)
      this.#bytes -= bytes
      void rm(path, { force: true }).catch(() => {})
    }
  }
}
