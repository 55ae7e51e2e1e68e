import { readFileSync } from 'node:fs'

const FOLDER = new URL('../../fixtures/media/', import.meta.url)

/** What ffprobe and ffmpeg say of a file; see scripts/make-media-fixtures.mjs. */
export interface Verdict {
  readonly format: string
  readonly codec: string
  readonly channels: number
  /** Null when ffprobe has none. */
  readonly duration_seconds: number | null
  readonly decoded_seconds: number
}

export const VERDICTS: Readonly<Record<string, Verdict>> = JSON.parse(readText('ffprobe.json'))

/** Formats by the first word of a fixture's name; `none` is what must be refused. */
export const formatOf = (name: string): string => name.slice(0, name.indexOf('-'))

export function fixture(name: string): Buffer {
  return readFileSync(new URL(name, FOLDER))
}

function readText(name: string): string {
  return readFileSync(new URL(name, FOLDER), 'utf8')
}
