import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import type { Objects } from '../contracts/objects.ts'
import { type Clock, deadline, systemClock } from '../contracts/time.ts'
import type { UsageEngine } from './engine.ts'
import { FileCache, type HeldFiles } from './file-cache.ts'
import type { UsageObject } from './names.ts'
import { datesBetween, isMerged, prefixesOf, usageKey, usageObject, usagePrefix } from './names.ts'
import { FOOTER_PAIRS } from './record-files.ts'

/** The metadata of a file. */
export interface UsageFooter {
  /** Names of all files whose records are in it, also of those that its inputs were merged from. */
  readonly inputs: readonly string[]
  /** Workspaces that have records in it. */
  readonly workspaces: readonly string[]
}

/** Longest that the store may take for one file. */
const TRANSFER_MS = 120_000
/** Footers that are remembered: files never change, and each is some kilobytes to read and a list of names to keep. */
const FOOTERS_KEPT = 500
/** Days of which it is remembered what their files are; a question over a year asks for each. */
const DAYS_KEPT = 800

/**
 * The files of usage in the object store. The records of a segment are in a file as soon as that was put; a merged file
 * takes the place of its inputs as soon as it was put, whether they are still there or not.
 */
export class UsageLake {
  readonly #objects: Objects
  readonly #engine: Pick<UsageEngine, 'run' | 'folder'>
  readonly #cache: FileCache
  readonly #clock: Clock
  readonly #footers = new Map<string, Promise<UsageFooter>>()
  /** By date, what a listing of it was found to be. */
  readonly #days = new Map<string, { readonly keys: string; readonly day: UsageDay }>()

  constructor(objects: Objects, engine: Pick<UsageEngine, 'run' | 'folder'>, clock: Clock = systemClock) {
    this.#clock = clock
    this.#objects = objects
    this.#engine = engine
    this.#cache = new FileCache(objects, () => engine.folder(), clock)
  }

  /**
   * The files that have the records that ended from `fromMs` to `toMs`, exclusive, in whole days; each record is in one
   * of them.
   *
   * @throws GatewayError DEPENDENCY_UNAVAILABLE when the store fails
   */
  async files(fromMs: number, toMs: number): Promise<UsageObject[]> {
    const dates = datesBetween(fromMs, toMs)
    const listed = await Promise.all(prefixesOf(dates, usagePrefix).map((prefix) => this.#listed(prefix)))
    const byDate = Map.groupBy(listed.flat(), ({ date }) => date)
    const days = dates.map(async (date) => (await this.#dayOf(date, byDate.get(date) ?? [])).visible)
    return (await Promise.all(days)).flat()
  }

  /** The files of a day: those to read, and those whose records are in others. */
  async day(date: string): Promise<UsageDay> {
    return this.#dayOf(date, await this.#listed(usagePrefix(date)))
  }

  async #dayOf(date: string, files: readonly UsageObject[]): Promise<UsageDay> {
    const keys = files.map(({ key, modifiedAt }) => `${key} ${modifiedAt.getTime()}`).join()
    const known = this.#days.get(date)
    if (known?.keys === keys) return known.day
    const day = await this.#sorted(files)
    this.#days.delete(date)
    this.#days.set(date, { keys, day })
    const [oldest] = this.#days.keys()
    if (this.#days.size > DAYS_KEPT && oldest !== undefined) this.#days.delete(oldest)
    return day
  }

  /** Every day that has files, with all of them, whatever they have. */
  async listed(): Promise<ReadonlyMap<string, readonly UsageObject[]>> {
    return Map.groupBy(await this.#listed('usage/'), ({ date }) => date)
  }

  async footer(file: UsageObject): Promise<UsageFooter> {
    const known = this.#footers.get(file.key)
    if (known !== undefined) return known
    const footer = this.#readFooter(file)
    this.#footers.set(file.key, footer)
    const [oldest] = this.#footers.keys()
    if (this.#footers.size > FOOTERS_KEPT && oldest !== undefined) this.#footers.delete(oldest)
    footer.catch(() => this.#footers.delete(file.key))
    return footer
  }

  /** Has files be at paths of this machine until they are released. @throws as `files` */
  hold(files: readonly UsageObject[]): Promise<HeldFiles> {
    return this.#cache.hold(files)
  }

  /** Puts a file of this machine. @returns its bytes */
  async put(date: string, name: string, path: string): Promise<number> {
    const { size } = await stat(path)
    const key = usageKey(date, name)
    await this.#objects.put(key, createReadStream(path), size, { signal: deadline(this.#clock, TRANSFER_MS) })
    this.#footers.delete(key)
    return size
  }

  async remove({ key }: UsageObject): Promise<void> {
    await this.#objects.remove(key)
    this.#footers.delete(key)
  }

  /** Deletes sums that versions before put beside their files. @returns how many there were */
  async removeSums(): Promise<number> {
    let removed = 0
    for await (const { key } of this.#objects.list('aggregate/')) {
      await this.#objects.remove(key)
      removed += 1
    }
    return removed
  }

  async #listed(prefix: string): Promise<UsageObject[]> {
    const files: UsageObject[] = []
    for await (const info of this.#objects.list(prefix)) {
      const file = usageObject(info)
      if (file !== null) files.push(file)
    }
    return files
  }

  async #sorted(files: readonly UsageObject[]): Promise<UsageDay> {
    const merged = files.filter(({ name }) => isMerged(name))
    if (merged.length === 0 || files.length === 1) return { visible: files, superseded: [], overlapping: [] }
    const footers = await Promise.all(
      merged.map(async (file) => ({ file, inputs: new Set((await this.footer(file)).inputs) })),
    )
    return sortDay(files, footers)
  }

  async #readFooter(file: UsageObject): Promise<UsageFooter> {
    const { paths, release } = await this.hold([file])
    try {
      const sql = 'SELECT decode(key) AS key, decode(value) AS value FROM parquet_kv_metadata($1)'
      const [found] = await this.#engine.run([{ sql, values: [paths[0]!] }])
      const [keys = [], values = []] = found!.columns
      const listOf = (key: string) => {
        const text = values[keys.indexOf(key)]
        return text === undefined ? [] : (JSON.parse(text as string) as string[])
      }
      return { inputs: listOf(FOOTER_PAIRS.inputs), workspaces: listOf(FOOTER_PAIRS.workspaces) }
    } finally {
      release()
    }
  }
}

/** The files of one day. */
export interface UsageDay {
  /** The files to read. */
  readonly visible: readonly UsageObject[]
  /** Files whose records are in visible ones too: to be deleted. */
  readonly superseded: readonly UsageObject[]
  /** Visible ones that have inputs in common, as when two nodes merged at once: they have records twice. */
  readonly overlapping: readonly UsageObject[]
}

/** Tells the files to read from those that merged ones took the place of. */
export function sortDay(
  files: readonly UsageObject[],
  merged: readonly { readonly file: UsageObject; readonly inputs: ReadonlySet<string> }[],
): UsageDay {
  const isIn = ({ name }: UsageObject, inputs: ReadonlySet<string>) => inputs.has(name)
  const superseded = files.filter((file) => {
    const own = merged.find((other) => other.file === file)?.inputs
    return merged.some(
      (other) => other.file !== file && (isIn(file, other.inputs) || isPart(own, other.inputs)),
    )
  })
  const gone = new Set(superseded)
  const visible = files.filter((file) => !gone.has(file))
  const seen = new Map<string, UsageObject>()
  const overlapping = new Set<UsageObject>()
  for (const { file, inputs } of merged) {
    if (gone.has(file)) continue
    for (const input of inputs) {
      const other = seen.get(input)
      if (other === undefined) seen.set(input, file)
      else overlapping.add(other).add(file)
    }
  }
  return { visible, superseded, overlapping: [...overlapping] }
}

/** Whether all of the one, and not only they, are in the other. */
function isPart(own: ReadonlySet<string> | undefined, inputs: ReadonlySet<string>): boolean {
  return own !== undefined && own.size < inputs.size && [...own].every((input) => inputs.has(input))
}
