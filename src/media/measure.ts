/** What a container tells of its audio. */
export interface Measure {
  /** Null when it does not tell. */
  readonly durationSeconds: number | null
  readonly channels: number | null
}

export const UNKNOWN: Measure = { durationSeconds: null, channels: null }
