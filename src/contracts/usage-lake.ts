/** Days to keep records after the one on which they ended. */
export interface UsageRetention {
  /** For workspaces that are not named. */
  readonly days: number
  readonly byWorkspace: ReadonlyMap<string, number>
}

/** How far the records of a process are in the store. */
export interface UsageMark {
  /** Everything that ended before is there; epoch milliseconds. */
  readonly doneUntilMs: number
  /** When it was said, by its clock. */
  readonly notedAtMs: number
}

/** Says of every process that writes records how far they are in the store. Times and failures as in `Jobs`. */
export interface UsageMarks {
  /** @param writer unique to the process */
  note(writer: string, mark: UsageMark): Promise<void>
  /** These have no records any more that are not in the store: they were put, or are another one's. */
  forget(writers: readonly string[]): Promise<void>
  read(): Promise<ReadonlyMap<string, UsageMark>>
}

/** Figures of the files of usage, for metrics. */
export interface UsageWatch {
  /** A file of a segment was put. */
  rolled(records: number, bytes: number): void
  /** A file took the place of others. */
  merged(inputs: number, records: number, bytes: number): void
  /** A round of compaction ended well, or did not. */
  compacted(isDone: boolean): void
}
