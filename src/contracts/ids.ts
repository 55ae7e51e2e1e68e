import { hash, randomFillSync } from 'node:crypto'
import { systemClock } from './time.ts'

/**
 * Prefixes of identifiers: request, transcription job, queue job, webhook event, event for a job's own callback, key,
 * key of the playground, kept video, upload, call of the gateway, grant of credits, record of a request, session in
 * OpenAI's protocol, open live session, segment of the usage ledger, incident of an alert, generation of the state.
 */
export type IdPrefix =
  | 'req'
  | 'tj'
  | 'qj'
  | 'evt'
  | 'cbk'
  | 'key'
  | 'pgk'
  | 'vid'
  | 'upl'
  | 'call'
  | 'grant'
  | 'rec'
  | 'sess'
  | 'live'
  | 'seg'
  | 'inc'
  | 'gen'

/** Crockford's base 32 in lower case, as ULIDs are written (https://github.com/ulid/spec). */
export const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'
const TIME_CHARACTERS = 10
const RANDOM_CHARACTERS = 16

/** Random characters in stock: asked for one by one they take half of the CPU time of a small request. */
const drawn = Buffer.alloc(4096)
let stock = ''
let used = 0

let timeMs = 0
let timeText = ''

/**
 * A time-ordered, lower-case identifier such as `req_01kaf2…`: the prefix and a ULID of 48 bits of time, 80 random. Its
 * time is the machine's, so that identifiers of several processes are in order.
 *
 * @param atMs the time that it tells, epoch milliseconds, where that is another
 */
export function newId(prefix: IdPrefix, atMs = systemClock.wallNow()): string {
  if (atMs !== timeMs) {
    timeText = encodeTime(atMs)
    timeMs = atMs
  }
  if (used === stock.length) draw()
  const random = stock.slice(used, used + RANDOM_CHARACTERS)
  used += RANDOM_CHARACTERS
  return `${prefix}_${timeText}${random}`
}

function draw(): void {
  randomFillSync(drawn)
  for (let at = 0; at < drawn.length; at++) drawn[at] = ALPHABET.charCodeAt(drawn[at]! & 31)
  stock = drawn.toString('latin1')
  used = 0
}

/** Workspaces are spread over so many partitions of the jobs; it is part of the ids of jobs, so it never changes. */
export const PARTITIONS = 16

/**
 * The id of a job of a workspace: as `newId`, but that the first of its random characters is the partition, so that a
 * job is found by its id alone.
 */
export function newJobId(prefix: 'tj' | 'qj', workspace: string): string {
  const id = newId(prefix)
  const at = prefix.length + 1 + TIME_CHARACTERS
  return `${id.slice(0, at)}${ALPHABET[partitionOf(workspace)]}${id.slice(at + 1)}`
}

export function partitionOf(workspace: string): number {
  return hash('sha256', workspace, 'buffer').readUInt32BE() % PARTITIONS
}

const JOB_ID = /^[tq]j_[0-7][0-9a-hjkmnp-tv-z]{9}([0-9a-g])[0-9a-hjkmnp-tv-z]{15}$/

/** Null: no id of a job. */
export function jobPartition(id: string): number | null {
  const [, partition] = JOB_ID.exec(id) ?? []
  return partition === undefined ? null : ALPHABET.indexOf(partition)
}

/** Where events of alerts are kept, which belong to no job. */
export const ALERTS_PARTITION = 0

const EVENT_ID = /^evt_[0-7][0-9a-hjkmnp-tv-z]{25}$/

/** The partition of an event by the id of its job, or by its own where it has none; null: it is neither. */
export function eventPartition(id: string): number | null {
  return EVENT_ID.test(id) ? ALERTS_PARTITION : jobPartition(id)
}

const OWN_ID = /^[a-z]+_[0-7][0-9a-hjkmnp-tv-z]{25}(?![0-9a-z])/

/** Whether it has the form of an identifier of ours; callers may send others, and may send such ones. */
export function isOwnId(id: string): boolean {
  return OWN_ID.test(id)
}

/** When an identifier was made, on the clock of the node that made it, epoch milliseconds. */
export function idTimeMs(id: string): number {
  const time = id.slice(id.indexOf('_') + 1).slice(0, TIME_CHARACTERS)
  return [...time].reduce((ms, digit) => ms * 32 + ALPHABET.indexOf(digit), 0)
}

/** Smaller than the id of every job that is made from a moment on, and greater than those from before it. */
export function firstJobId(prefix: 'tj' | 'qj', atMs: number): string {
  return `${prefix}_${encodeTime(Math.max(0, atMs))}`
}

function encodeTime(ms: number): string {
  let text = ''
  for (let rest = ms; text.length < TIME_CHARACTERS; rest = Math.floor(rest / 32))
    text = ALPHABET[rest % 32] + text
  return text
}
