import { readFile } from 'node:fs/promises'
import type { StreamReader } from '../../src/contracts/provider.ts'
import type { Failure } from '../../src/contracts/upstream.ts'

export interface Streamed<Result, Delta> {
  readonly deltas: readonly Delta[]
  /** Null when it failed. */
  readonly result: Result | null
  readonly failure: Failure | null
}

/** Reads a streamed answer in chunks of `size` bytes, until its end or the first failure. */
export function streamOf<Result, Delta>(
  reader: StreamReader<Result, Delta>,
  body: string | Uint8Array,
  size = 7,
): Streamed<Result, Delta> {
  const bytes = Buffer.from(body)
  const deltas: Delta[] = []
  for (let at = 0; at < bytes.length; at += size) {
    const pieces = reader.push(bytes.subarray(at, at + size))
    if ('kind' in pieces) return { deltas, result: null, failure: pieces }
    deltas.push(...pieces)
  }
  const end = reader.end()
  return 'result' in end
    ? { deltas, result: end.result, failure: null }
    : { deltas, result: null, failure: end }
}

/** A provider's streamed answer, out of `test/fixtures`. */
export function streamFixture(path: string): Promise<string> {
  return readFile(new URL(`../fixtures/${path}`, import.meta.url), 'utf8')
}

/** Events as a provider sends them; text goes as it is. */
export function sse(...events: readonly unknown[]): string {
  return events
    .map((event) => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`)
    .join('')
}
