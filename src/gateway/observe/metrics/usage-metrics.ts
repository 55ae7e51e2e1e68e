import type { UsageWatch } from '../../../contracts/usage-lake.ts'
import { Counters, type Rendered } from './family.ts'

/** Metrics of what becomes of the files of the usage ledger. */
export class UsageMetrics implements UsageWatch {
  readonly #files = new Counters(
    'larkway_usage_files_total',
    'Files of usage that this node has put (`rolled`, `merged`), and those that merged ones took the place of.',
    ['event'],
  )
  readonly #records = new Counters('larkway_usage_file_records_total', 'Records in files that it has put.', [
    'event',
  ])
  readonly #bytes = new Counters('larkway_usage_file_bytes_total', 'Bytes of files that it has put.', [
    'event',
  ])
  readonly #rounds = new Counters(
    'larkway_usage_compactions_total',
    'Rounds of compaction on this node, by whether they came to their end.',
    ['outcome'],
  )

  constructor() {
    for (const event of ['rolled', 'merged', 'replaced']) this.#files.of(event)
    for (const counters of [this.#records, this.#bytes])
      for (const event of ['rolled', 'merged']) counters.of(event)
    for (const outcome of ['done', 'failed']) this.#rounds.of(outcome)
  }

  rolled(records: number, bytes: number): void {
    this.#put('rolled', records, bytes)
  }

  merged(inputs: number, records: number, bytes: number): void {
    this.#put('merged', records, bytes)
    this.#files.of('replaced').add(inputs)
  }

  compacted(isDone: boolean): void {
    this.#rounds.of(isDone ? 'done' : 'failed').add(1)
  }

  get families(): readonly Rendered[] {
    return [this.#files, this.#records, this.#bytes, this.#rounds]
  }

  #put(event: 'rolled' | 'merged', records: number, bytes: number): void {
    this.#files.of(event).add(1)
    this.#records.of(event).add(records)
    this.#bytes.of(event).add(bytes)
  }
}
