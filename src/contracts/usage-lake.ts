/** What metrics are told of the files of usage. */
export interface UsageWatch {
  /** A file of a segment was put. */
  rolled(records: number, bytes: number): void
  /** A file took the place of others. */
  merged(inputs: number, records: number, bytes: number): void
  /** A round of compaction ended well, or did not. */
  compacted(isDone: boolean): void
}
