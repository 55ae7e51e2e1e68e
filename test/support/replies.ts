import { readFile } from 'node:fs/promises'
import type { UpstreamReply } from '../../src/contracts/upstream.ts'

/** A provider's answer; the body in two chunks, as it may come. Objects are sent as JSON. */
export function reply(body: unknown, status = 200, headers: Record<string, string> = {}): UpstreamReply {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  const half = bytes.length >> 1
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    body: [bytes.subarray(0, half), bytes.subarray(half)],
  }
}

/** The body of a provider's true answer, out of `test/fixtures`. */
export async function fixture(path: string): Promise<unknown> {
  return JSON.parse(await readFile(new URL(`../fixtures/${path}`, import.meta.url), 'utf8'))
}
