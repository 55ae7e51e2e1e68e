import type { Statistics } from 'hyparquet'
import { BloomFilter } from './bloom.ts'

/*
 * What a merged file says of the ids in a row group. Ids of ours begin with their time, so that bounds say where one
 * can be; of traces, and of requests whose callers chose the id, bounds say nothing, and there are Bloom filters.
 */

/** Columns of ids that are looked for without a time. */
const FILTERED = ['request_id', 'trace_id'] as const
type FilteredColumn = (typeof FILTERED)[number]

/** How our own ids of requests begin. */
const OWN = Buffer.from('req_')

/** Texts, where they stand in some bytes, and of how many bytes they are; -1: there is none. */
export interface PlacedTexts {
  readonly bytes: Buffer
  readonly starts: ArrayLike<number>
  readonly lengths: ArrayLike<number>
}

export interface IdFilter {
  readonly column: FilteredColumn
  readonly bounds: Pick<Statistics, 'min_value' | 'max_value'> | null
  readonly bloom: BloomFilter | null
}

/** @param textsOf the texts of a column in a row group; null: it has none, or they cannot be read so */
export function idFilters(textsOf: (column: FilteredColumn) => PlacedTexts | null): IdFilter[] {
  return FILTERED.flatMap((column) => {
    const texts = textsOf(column)
    return texts === null ? [] : [{ column, ...filterOf(column, texts) }]
  })
}

function filterOf(column: FilteredColumn, texts: PlacedTexts): Omit<IdFilter, 'column'> {
  if (column === 'trace_id') return { bounds: null, bloom: bloomOf(texts) }
  const [least, most] = boundsOf(texts)
  if (least === null || most === null) return { bounds: null, bloom: null }
  const isOwn = [least, most].every((bound) => bound.subarray(0, OWN.length).equals(OWN))
  return {
    bounds: { min_value: Uint8Array.from(least), max_value: Uint8Array.from(most) },
    bloom: isOwn ? null : bloomOf(texts),
  }
}

function boundsOf({
  bytes,
  starts,
  lengths,
}: PlacedTexts): readonly [least: Buffer | null, most: Buffer | null] {
  let [least, most] = [-1, -1]
  const compare = (one: number, other: number) =>
    bytes.compare(
      bytes,
      starts[other]!,
      starts[other]! + lengths[other]!,
      starts[one]!,
      starts[one]! + lengths[one]!,
    )
  for (let row = 0; row < lengths.length; row += 1) {
    if (lengths[row]! < 0) continue
    if (least < 0 || compare(row, least) < 0) least = row
    if (most < 0 || compare(row, most) > 0) most = row
  }
  const at = (row: number) => (row < 0 ? null : bytes.subarray(starts[row]!, starts[row]! + lengths[row]!))
  return [at(least), at(most)]
}

function bloomOf({ bytes, starts, lengths }: PlacedTexts): BloomFilter | null {
  let count = 0
  for (let row = 0; row < lengths.length; row += 1) if (lengths[row]! >= 0) count += 1
  if (count === 0) return null
  const bloom = new BloomFilter(count)
  for (let row = 0; row < lengths.length; row += 1)
    if (lengths[row]! >= 0) bloom.add(bytes, starts[row]!, starts[row]! + lengths[row]!)
  return bloom
}
