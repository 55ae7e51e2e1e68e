import { randomBytes } from 'node:crypto'
import type { ObjectKind } from '../../contracts/objects.ts'

export const OBJECT_KINDS = [
  ...['spool', 'upload', 'resumable', 'job', 'result', 'slot', 'cache', 'pair', 'usage', 'aggregate'],
  'state',
] as const satisfies readonly ObjectKind[]
const KINDS: ReadonlySet<string> = new Set(OBJECT_KINDS)
const SEGMENT = /^[A-Za-z0-9_-][A-Za-z0-9_.-]*$/
/** A Hive partition, by which readers of a lake know what lies below. */
const PARTITION = /^date=\d{4}-\d{2}-\d{2}$/
/** The folder store makes one file name of a key, and file systems end at 255 bytes. */
const MAX_KEY_LENGTH = 200
/** Random names in stock: asked for one by one, their bytes take 3 % of a call with 8 KiB of audio. */
const names: string[] = []

/**
 * Refuses every key that is not `<kind>/<segment>/…` out of `[A-Za-z0-9_.-]`, no segment beginning with a dot, but for
 * a partition of usage: what is left cannot leave its folder and needs no escaping in a URL other than `=`. A refusal
 * is a fault of the caller in this process.
 */
export function checkKey(key: string): string {
  if (!isKey(key)) throw new Error('storage: not an object key')
  return key
}

export function isKey(key: string): boolean {
  const [kind = '', ...rest] = key.split('/')
  const isPartitioned = kind !== 'usage' || PARTITION.test(rest[0] ?? '')
  const segments = kind === 'usage' ? rest.slice(1) : rest
  const isWhole = segments.length > 0 && segments.every((segment) => SEGMENT.test(segment))
  return KINDS.has(kind) && isPartitioned && isWhole && key.length <= MAX_KEY_LENGTH
}

/** Turns a name that others chose, such as a request id that a caller sent, into one segment of a key. */
export function keySegment(name: string): string {
  return name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 64) || '_'
}

/** The end of a name that no other object has, 64 random bits. The pieces of an upload are found by its form. */
export function randomName(): string {
  if (names.length === 0) names.push(...(randomBytes(2_048).toString('hex').match(/.{16}/g) ?? []))
  return names.pop()!
}
