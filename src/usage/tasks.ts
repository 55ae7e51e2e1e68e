import { AggregateBuilder, type UsageAggregate } from './aggregate.ts'
import { AggregateFormatError, decodeAggregate, encodeAggregate } from './aggregate-file.ts'
import { idFilters } from './id-filters.ts'
import { GROUP_ROWS, UsageFile, UsageFileWriter } from './parquet.ts'
import { pairsOf } from './rolling.ts'
import { endedAtRows, idRows, recordIdRows, UsageRows, workspaceRows } from './rows.ts'

/*
 * What takes CPU, run in a thread of its own. Each task gets bytes and gives bytes: it has no connection to anything.
 */

/** Row groups of so many rows are copied as they are when files are merged. */
const COPY_ROWS = 4_096

/** Makes the sums of the records of a file, as they are beside it. */
export async function sumUp(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const file = new UsageFile(bytes)
  const builder = new AggregateBuilder()
  for (const place of file.groups.keys()) {
    const rows = await file.read(place)
    for (let row = 0; row < rows.length; row += 1) builder.add(rows.record(row))
  }
  return Uint8Array.from(await encodeAggregate(builder.finish(), { withFewSums: true }))
}

export interface MergeInput {
  readonly file: Uint8Array<ArrayBuffer>
  /** Null: there are none, and they are made from the records. */
  readonly aggregate: Uint8Array<ArrayBuffer> | null
}

export interface MergeTask {
  readonly inputs: readonly MergeInput[]
  /** Names that the file says it has the records of. */
  readonly names: readonly string[]
  /** Workspaces whose records are left out. */
  readonly expired: readonly string[]
}

export interface Merged {
  readonly rows: number
  /** Records that were left out because another has their `record_id`. */
  readonly duplicates: number
  /** Records that were left out because they are of a workspace that keeps them no longer. */
  readonly expired: number
  readonly file: Uint8Array<ArrayBuffer>
  readonly aggregate: Uint8Array<ArrayBuffer>
}

/**
 * Makes one file of some: every record once, by its `record_id`. Of those with the same the one that ended last stays:
 * it knew what had become of the others. Row groups of some size of which nothing is left out are copied; the rows of
 * others are gathered into large ones.
 */
export async function merge({ inputs, names, expired }: MergeTask): Promise<Merged> {
  const merging = new Merging(new Set(expired))
  for (const { file } of inputs) await merging.look(new UsageFile(file))
  await merging.write()
  const aggregate = await encodeAggregate(await merging.sums(inputs), { withFewSums: true })
  return {
    rows: merging.writer.rows,
    duplicates: merging.duplicates,
    expired: merging.expired,
    // Without the memory behind it, which would be handed over with it.
    file: merging.writer.finish(pairsOf(names, merging.workspaces)).slice(),
    aggregate: Uint8Array.from(aggregate),
  }
}

/** A row group, and which of its rows stay. */
interface LookedAt {
  readonly file: UsageFile
  readonly place: number
  /** Rows of the groups before it. */
  readonly from: number
  readonly endedAt: Float64Array
  /** 1 where the row stays. */
  readonly stays: Uint8Array
}

class Merging {
  readonly writer = new UsageFileWriter()
  readonly workspaces = new Set<string>()
  duplicates = 0
  expired = 0
  readonly #leftOut: ReadonlySet<string>
  /** By id the row that stays, counted over all groups. */
  readonly #rowOf = new Map<string, number>()
  readonly #groups: LookedAt[] = []
  #rows = 0

  constructor(leftOut: ReadonlySet<string>) {
    this.#leftOut = leftOut
  }

  /** Finds out which rows of a file stay. */
  async look(file: UsageFile): Promise<void> {
    for (const place of file.groups.keys()) {
      const rows = await file.read(place, ['record_id', 'workspace', 'ended_at'])
      const stays = new Uint8Array(rows.length).fill(1)
      const endedAt = endedAtRows(rows).values
      const group = { file, place, from: this.#rows, endedAt, stays }
      this.#groups.push(group)
      this.#rows += rows.length
      this.#lookAt(group, rows)
    }
  }

  async write(): Promise<void> {
    const gathered = new UsageRows()
    const flush = () => {
      if (gathered.length === 0) return
      this.writer.add(gathered)
      this.writer.filter(idFilters((column) => idRows(gathered, column)))
      gathered.clear()
    }
    for (const { file, place, stays } of this.#groups) {
      const kept = rowsThatStay(stays)
      if (kept.length === stays.length && kept.length >= COPY_ROWS && file.hasPresentColumns) {
        this.writer.copy(file, place)
        this.writer.filter(idFilters((column) => file.texts(place, column)))
        continue
      }
      if (kept.length === 0) continue
      gathered.take(await file.read(place), kept)
      if (gathered.length >= GROUP_ROWS) flush()
    }
    flush()
  }

  /** The sums of what stayed: those of the inputs, unless a record was left out that they count. */
  async sums(inputs: readonly MergeInput[]): Promise<UsageAggregate> {
    const added = this.duplicates === 0 ? await this.#addedUp(inputs) : null
    if (added !== null) return added
    const builder = new AggregateBuilder()
    for (const { file, place, stays } of this.#groups) {
      const rows = await file.read(place)
      for (const row of rowsThatStay(stays)) builder.add(rows.record(row))
    }
    return builder.finish()
  }

  /** Null: of some input there are no sums, or none that can be read. */
  async #addedUp(inputs: readonly MergeInput[]): Promise<UsageAggregate | null> {
    const builder = new AggregateBuilder()
    try {
      for (const { aggregate } of inputs) {
        if (aggregate === null) return null
        builder.merge(await decodeAggregate(aggregate), (workspace) => !this.#leftOut.has(workspace))
      }
    } catch (error) {
      if (!(error instanceof AggregateFormatError)) throw error
      return null
    }
    return builder.finish()
  }

  #lookAt({ from, stays }: LookedAt, rows: UsageRows): void {
    const { words, indexes } = workspaceRows(rows)
    const ids = recordIdRows(rows)
    const isExpired = words.map((workspace) => this.#leftOut.has(workspace))
    for (let row = 0; row < rows.length; row += 1) {
      if (isExpired[indexes[row]!] === true) {
        stays[row] = 0
        this.expired += 1
        continue
      }
      const id = ids.at(row)!
      const before = this.#rowOf.get(id)
      if (before === undefined) this.#rowOf.set(id, from + row)
      else this.#settle(id, before, from + row)
    }
    for (const [place, workspace] of words.entries()) if (!isExpired[place]) this.workspaces.add(workspace)
  }

  /** Two rows have the same id. */
  #settle(id: string, before: number, row: number): void {
    const [one, other] = [this.#groupOf(before), this.#groupOf(row)]
    const isNewer = other.endedAt[row - other.from]! > one.endedAt[before - one.from]!
    if (isNewer) {
      one.stays[before - one.from] = 0
      this.#rowOf.set(id, row)
    } else other.stays[row - other.from] = 0
    this.duplicates += 1
  }

  #groupOf(row: number): LookedAt {
    return this.#groups.findLast(({ from }) => from <= row)!
  }
}

function rowsThatStay(stays: Uint8Array): Uint32Array {
  const rows = new Uint32Array(stays.length)
  let count = 0
  for (let row = 0; row < stays.length; row += 1) if (stays[row] === 1) rows[count++] = row
  return rows.subarray(0, count)
}
