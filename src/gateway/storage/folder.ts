import { type FileHandle, mkdir, open, readdir, rename, rm, rmdir, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ObjectInfo, Objects, PartUpload } from '../../contracts/objects.ts'
import { oneAtATime } from '../../contracts/one-at-a-time.ts'
import { type Clock, systemClock } from '../../contracts/time.ts'
import { chunksOf, untilAborted } from './body-bytes.ts'
import { attempt, storeFailure, unavailable } from './failure.ts'
import { checkKey, isKey, OBJECT_KINDS } from './key.ts'
import { ReadBuffers, type StoreMemory } from './read-buffers.ts'

const syncs = new Map<string, () => Promise<void>>()

/**
 * Forces a folder to the disk, so that what was renamed into it before lasts. With many writers, who share syncs,
 * theirs cost little more than one writer's.
 */
export function syncFolder(path: string): Promise<void> {
  let sync = syncs.get(path)
  if (sync === undefined) {
    sync = oneAtATime(() => forceToDisk(path))
    syncs.set(path, sync)
  }
  return sync()
}

/** Forces a file or a folder to the disk. */
export async function forceToDisk(path: string): Promise<void> {
  const file = await open(path, 'r')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Where unfinished objects are. */
const TEMPORARY = 'tmp'

/**
 * The object store in a folder, for one process. `<kind>/<rest of the key, "/" as "+">` is one file. The partitions of
 * usage are folders, as other programs that read them expect, and so are the workspaces of resumable uploads, which are
 * listed often. A file is written under `tmp/`, forced to the disk, and renamed, so that an object is whole or not
 * there, also after a power cut. Objects of kind `spool` are not forced: nothing of them is used after a restart.
 *
 * @param root   folder of the store, made when it does not exist
 * @param memory what objects are read into; absent: each reader has its own
 */
export async function createFileObjects(
  root: string,
  memory?: StoreMemory,
  clock: Clock = systemClock,
): Promise<Objects> {
  await mkdir(join(root, TEMPORARY), { recursive: true })
  for (const kind of OBJECT_KINDS) await mkdir(join(root, kind), { recursive: true })
  const pathOf = (key: string) => join(root, fileNameOf(key))
  const temporary = (key: string, signal: AbortSignal) =>
    TemporaryFile.create(root, key, clock.wallNow(), signal)

  return {
    async put(key, body, length, { signal }) {
      const file = await temporary(key, signal)
      try {
        for await (const chunk of untilAborted(body, signal)) await file.append([chunk])
        if (file.length !== length) throw new Error(`body of ${file.length} bytes instead of ${length}`)
        await file.publish(pathOf(key), signal)
      } catch (error) {
        await file.discard()
        throw storeFailure(error, signal)
      }
    },
    async upload(key, { signal }) {
      const upload = new FilePartUpload(await temporary(key, signal), pathOf(key))
      if (!signal.aborted) return upload
      await upload.abort()
      throw signal.reason
    },
    async get(key, start, end, signal) {
      const path = pathOf(key)
      if (start >= end) return chunksOf()
      return readRange(path, start, end, { signal, memory })
    },
    fileOf: pathOf,
    async remove(key) {
      try {
        // Not `rm`, which looks at the file twice before it unlinks it.
        await unlink(pathOf(key))
        const [folder] = splitKey(key)
        if (folder.includes('/')) await rmdir(join(root, folder)).catch(() => {})
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw unavailable(error)
      }
    },
    list: (prefix) => listObjects(root, prefix),
    abortUploads: (prefix, before) => attempt(() => removeTemporaries(root, prefix, before)),
    async ping(signal) {
      signal.throwIfAborted()
      await attempt(() => stat(join(root, TEMPORARY)))
    },
    async close() {},
  }
}

/** The file of an object, below the root of its store. */
export function fileNameOf(key: string): string {
  return join(...splitKey(key))
}

/** Folder and file name of a key; `+` is in no key, so the name leads back to it. */
function splitKey(key: string): [folder: string, name: string] {
  const [kind = '', first = '', ...rest] = checkKey(key).split('/')
  if (isPartitioned(kind)) return [`${kind}/${first}`, rest.join('+')]
  return [kind, [first, ...rest].join('+')]
}

/** The first segment after the kind is a folder, too. */
function isPartitioned(kind: string): boolean {
  return kind === 'usage' || kind === 'resumable'
}

interface ReadOptions {
  readonly signal: AbortSignal
  readonly memory: StoreMemory | undefined
}

function readRange(
  path: string,
  start: number,
  end: number,
  options: ReadOptions,
): Promise<AsyncIterable<Uint8Array>> {
  const { signal } = options
  return attempt(async () => {
    signal.throwIfAborted()
    const file = await open(path, 'r')
    const { size } = await file.stat()
    if (end <= size) return readChunks(file, start, end, options)
    await file.close()
    throw new Error(`object of ${size} bytes has no byte ${end - 1}`)
  }, signal)
}

async function* readChunks(
  file: FileHandle,
  start: number,
  end: number,
  { signal, memory }: ReadOptions,
): AsyncGenerator<Uint8Array> {
  const buffers = new ReadBuffers(memory, end - start)
  let [buffer, other] = buffers.both
  let at = start
  try {
    while (at < end) {
      signal.throwIfAborted()
      const wanted = buffers.next(end - at)
      const { bytesRead } = await file.read(buffer, 0, wanted, at)
      if (bytesRead < wanted) throw new Error('the file became shorter')
      at += wanted
      const chunk = buffer.subarray(0, wanted)
      yield at === end ? buffers.last(chunk) : chunk
      ;[buffer, other] = [other, buffer]
    }
  } finally {
    buffers.release(at === end)
    await file.close()
  }
}

async function* listObjects(root: string, prefix: string): AsyncGenerator<ObjectInfo> {
  const [wanted = ''] = prefix.split('/')
  const kinds = OBJECT_KINDS.filter((kind) => kind === wanted || prefix === '')
  for (const kind of kinds) yield* listFolder(root, kind, prefix)
}

/** A folder that is gone had nothing in it. */
async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
    return []
  })
}

/** A name that is of no key, such as `.nfs…` or `.DS_Store`, is not of the store. */
async function* listFolder(root: string, folder: string, prefix: string): AsyncGenerator<ObjectInfo> {
  const names = await attempt(() => namesIn(join(root, folder)))
  const keyOf = (name: string) => `${folder}/${name.replaceAll('+', '/')}`
  if (!isPartitioned(folder)) {
    const meant = names.filter((name) => keyOf(name).startsWith(prefix) && isKey(keyOf(name)))
    yield* looked(meant, async (name) => {
      // Gone meanwhile: another request has released it.
      const info = await stat(join(root, folder, name)).catch(() => null)
      return info === null ? [] : [{ key: keyOf(name), bytes: info.size, modifiedAt: info.mtime }]
    })
    return
  }
  const inside = names.map(keyOf).filter((key) => isKey(`${key}/a`))
  const folders = inside.filter((key) => prefix.startsWith(`${key}/`) || key.startsWith(prefix))
  yield* looked(folders, async (inner) => {
    const found: ObjectInfo[] = []
    for await (const info of listFolder(root, inner, prefix)) found.push(info)
    return found
  })
}

/** Places looked at together: one after the other, each would wait for a thread by itself. */
const LOOKS_AT_A_TIME = 16

/** The objects found at each of some places, in their order. */
async function* looked(
  places: readonly string[],
  look: (place: string) => Promise<readonly ObjectInfo[]>,
): AsyncGenerator<ObjectInfo> {
  for (let at = 0; at < places.length; at += LOOKS_AT_A_TIME)
    yield* (await Promise.all(places.slice(at, at + LOOKS_AT_A_TIME).map(look))).flat()
}

async function removeTemporaries(root: string, prefix: string, before: Date): Promise<number> {
  const folder = join(root, TEMPORARY)
  let removed = 0
  for (const name of await readdir(folder)) {
    const [path = '', begunMs = '0'] = name.split('~')
    const old = Number(begunMs) < before.getTime()
    if (!old || !path.replaceAll('+', '/').startsWith(prefix)) continue
    await rm(join(folder, name), { force: true })
    removed += 1
  }
  return removed
}

let temporaries = 0

/** A file that is not an object yet. Its name has the object's key, and when it was begun. */
class TemporaryFile {
  readonly #path: string
  readonly #handle: FileHandle
  readonly #durable: boolean
  #length = 0
  #closed = false

  static async create(root: string, key: string, nowMs: number, signal: AbortSignal): Promise<TemporaryFile> {
    const flat = checkKey(key).replaceAll('/', '+')
    temporaries += 1
    const path = join(root, TEMPORARY, `${flat}~${nowMs}~${process.pid}.${temporaries}`)
    return attempt(async () => {
      signal.throwIfAborted()
      return new TemporaryFile(path, await open(path, 'wx', 0o600), !key.startsWith('spool/'))
    }, signal)
  }

  private constructor(path: string, handle: FileHandle, durable: boolean) {
    this.#path = path
    this.#handle = handle
    this.#durable = durable
  }

  get length(): number {
    return this.#length
  }

  /** Resolves when nothing reads the chunks any more. */
  async append(chunks: readonly Uint8Array[]): Promise<void> {
    for (const chunk of chunks) {
      let from = 0
      while (from < chunk.length) {
        const { bytesWritten } = await this.#handle.write(chunk, from, chunk.length - from, this.#length)
        from += bytesWritten
        this.#length += bytesWritten
      }
    }
  }

  /** Makes the object exist. */
  async publish(path: string, signal: AbortSignal): Promise<void> {
    if (this.#durable) await this.#handle.sync()
    await this.#close()
    signal.throwIfAborted()
    await rename(this.#path, path).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
      // The first of its partition.
      await mkdir(dirname(path), { recursive: true })
      if (this.#durable) await syncFolder(dirname(dirname(path)))
      await rename(this.#path, path)
    })
    // A rename lasts once the folder itself is on the disk.
    if (this.#durable) await syncFolder(dirname(path))
  }

  async discard(): Promise<void> {
    await this.#close().catch(() => {})
    await rm(this.#path, { force: true }).catch(() => {})
  }

  async #close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.#handle.close()
  }
}

class FilePartUpload implements PartUpload {
  readonly #file: TemporaryFile
  readonly #path: string
  /** Parts are written one after the other, in the order of calls. */
  #last: Promise<void> = Promise.resolve()
  #ended = false

  constructor(file: TemporaryFile, path: string) {
    this.#file = file
    this.#path = path
  }

  part(chunks: readonly Uint8Array[], signal: AbortSignal): Promise<void> {
    return this.#next(signal, () => this.#file.append(chunks))
  }

  async complete(signal: AbortSignal): Promise<void> {
    await this.#next(signal, () => this.#file.publish(this.#path, signal))
    this.#ended = true
  }

  async abort(): Promise<void> {
    const published = this.#ended
    this.#ended = true
    await this.#last
    if (!published) await this.#file.discard()
  }

  #next(signal: AbortSignal, act: () => Promise<void>): Promise<void> {
    const turn = this.#last.then(async () => {
      signal.throwIfAborted()
      if (this.#ended) throw new Error('upload has ended')
      await act()
    })
    this.#last = turn.catch(() => {})
    return attempt(() => turn, signal)
  }
}
