import { parquetMetadataAsync } from 'hyparquet'
import type { ObjectInfo, Objects } from '../contracts/objects.ts'
import {
  aggregateKey,
  aggregatePrefix,
  datesBetween,
  isMerged,
  prefixesOf,
  type UsageObject,
  usageKey,
  usageObject,
  usagePrefix,
} from './names.ts'

/** What the metadata of a file says. */
export interface UsageFooter {
  /** Names of all files whose records are in it, also of those that its inputs were merged from. */
  readonly inputs: readonly string[]
  /** Workspaces that have records in it. */
  readonly workspaces: readonly string[]
}

/** Keys of the pairs in the metadata of a file. */
export const FOOTER_PAIRS = { inputs: 'larkway.inputs', workspaces: 'larkway.workspaces' } as const

/** Longest that the store may take for one file. */
const TRANSFER_MS = 120_000
/** Footers that are remembered: files never change, and each is some kilobytes to read and a list of names to keep. */
const FOOTERS_KEPT = 500
/** Days of which it is remembered what their files are; a question over a year asks for each. */
const DAYS_KEPT = 800
/** Bytes at the end of a file that are read first: the footers of most are in them. */
const FOOTER_BYTES = 64 * 1024

/**
 * The files of usage in the object store. The records of a segment are in a file as soon as that was put; a merged file
 * takes the place of its inputs as soon as it was put, whether they are still there or not.
 */
export class UsageLake {
  readonly #objects: Objects
  readonly #footers = new Map<string, Promise<UsageFooter>>()
  /** By date, what a listing of it was found to be. */
  readonly #days = new Map<string, { readonly keys: string; readonly day: UsageDay }>()

  constructor(objects: Objects) {
    this.#objects = objects
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

  /** All bytes of an object of known length. */
  async read({ key, bytes }: Pick<UsageObject, 'key' | 'bytes'>): Promise<Uint8Array<ArrayBuffer>> {
    return this.#range(key, 0, bytes)
  }

  /** Some bytes of an object; `to` is exclusive. */
  async readPart(key: string, from: number, to: number): Promise<Uint8Array<ArrayBuffer>> {
    return this.#range(key, from, to)
  }

  /** The file that an object is, where the store is a folder; else null. */
  fileOf({ key }: Pick<UsageObject, 'key'>): string | null {
    return this.#objects.fileOf(key)
  }

  /** For each file the object that has its sums; null where there is none. */
  async aggregates(files: readonly UsageObject[]): Promise<(ObjectInfo | null)[]> {
    const found = new Map<string, ObjectInfo>()
    const list = async (prefix: string) => {
      for await (const info of this.#objects.list(prefix)) found.set(info.key, info)
    }
    const dates = [...new Set(files.map(({ date }) => date))]
    await Promise.all(prefixesOf(dates, aggregatePrefix).map(list))
    return files.map(({ date, name }) => found.get(aggregateKey(date, name)) ?? null)
  }

  /** Puts a file and its sums, the sums first: whoever sees the file finds them. */
  async put(
    date: string,
    name: string,
    { file, aggregate }: { readonly file: Uint8Array; readonly aggregate: Uint8Array },
  ): Promise<void> {
    await this.#put(aggregateKey(date, name), aggregate)
    await this.#put(usageKey(date, name), file)
    this.#footers.delete(usageKey(date, name))
  }

  /** Deletes a file, then its sums. */
  async remove({ key, date, name }: UsageObject): Promise<void> {
    await this.#objects.remove(key)
    await this.#objects.remove(aggregateKey(date, name))
    this.#footers.delete(key)
  }

  /** Deletes the sums, put before `before`, of files of which none is listed. @returns how many there were */
  async removeOrphans(listed: ReadonlyMap<string, readonly UsageObject[]>, before: Date): Promise<number> {
    const known = new Set<string>()
    for (const files of listed.values())
      for (const { date, name } of files) known.add(aggregateKey(date, name))
    let removed = 0
    for await (const { key, modifiedAt } of this.#objects.list('aggregate/')) {
      if (known.has(key) || !(modifiedAt < before)) continue
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

  async #readFooter({ key, bytes }: UsageObject): Promise<UsageFooter> {
    const file = {
      byteLength: bytes,
      slice: async (from: number, to = bytes) => (await this.#range(key, from, to)).buffer,
    }
    const metadata = await parquetMetadataAsync(file, { initialFetchSize: FOOTER_BYTES })
    const listOf = (key: string) => {
      const text = metadata.key_value_metadata?.find((pair) => pair.key === key)?.value
      return text === undefined ? [] : (JSON.parse(text) as string[])
    }
    return { inputs: listOf(FOOTER_PAIRS.inputs), workspaces: listOf(FOOTER_PAIRS.workspaces) }
  }

  async #range(key: string, from: number, to: number): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = new Uint8Array(to - from)
    let at = 0
    for await (const chunk of await this.#objects.get(key, from, to, AbortSignal.timeout(TRANSFER_MS))) {
      bytes.set(chunk, at)
      at += chunk.length
    }
    return bytes
  }

  async #put(key: string, bytes: Uint8Array): Promise<void> {
    const body = (async function* () {
      yield bytes
    })()
    await this.#objects.put(key, body, bytes.length, { signal: AbortSignal.timeout(TRANSFER_MS) })
  }
}

/** The files of one day. */
export interface UsageDay {
  /** Those that have the records. */
  readonly visible: readonly UsageObject[]
  /** Those whose records are in visible ones too: to be deleted. */
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
