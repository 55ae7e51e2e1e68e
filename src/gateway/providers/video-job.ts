import type { Failure, UpstreamReply } from '../../contracts/upstream.ts'
import { errorInside, isGood } from './answer.ts'
import { classify } from './failure.ts'
import { asObject, objectOf } from './json.ts'

/** State of a create-and-poll operation for videos. Plain JSON, so that a job can go on in another process. */
export interface VideoJob {
  /** The provider's name for it. */
  readonly id: string
  /** How long to wait before the next poll. */
  readonly everyMs: number
  /** Polls in a row that went wrong. */
  readonly troubles: number
}

/** No provider's id is longer; characters are escaped where it is used. */
const ID_MAX_LENGTH = 256

/** A state as a job; null before there is one, and for anything that is none. */
export function readVideoJob(state: unknown): VideoJob | null {
  const { id, everyMs, troubles } = asObject(state) ?? {}
  if (typeof id !== 'string' || id === '' || id.length > ID_MAX_LENGTH) return null
  // It becomes part of a path: `..` would be a way out of it, half a character cannot be escaped.
  if (/^\.+$/.test(id) || !id.isWellFormed()) return null
  return typeof everyMs === 'number' && typeof troubles === 'number' ? { id, everyMs, troubles } : null
}

/**
 * A job that another process has polled for before: what it kept may be of another version, so that its polling begins
 * anew. Null: it names no job.
 *
 * @param everyMs how long to wait before a poll; the last one may have been a moment ago
 */
export function resumedVideoJob(state: unknown, everyMs: number): VideoJob | null {
  return readVideoJob({ id: asObject(state)?.id, everyMs, troubles: 0 })
}

/**
 * The video may be made, or being made, and cannot be had: it is paid for, so that no other entry may be asked.
 *
 * @param found what the answer means by itself
 */
export function videoLost(reply: UpstreamReply, found?: Failure): Failure {
  return {
    kind: 'ambiguous',
    status: reply.status,
    reason: 'the provider may have made the video, but does not give it',
    retryAfterMs: found?.retryAfterMs ?? null,
    providerMessage: found?.providerMessage ?? null,
  }
}

/** Gateways answer so, and Cloudflare where the server may have the request: no good answer, and none in time. */
const LOST_BETWEEN: ReadonlySet<number> = new Set([502, 504, 520, 524])

/**
 * An answer to an order that names no job. A refusal with a status or a reason is known to have ended it; a
 * gateway's comes from something in between, behind which the order may have gone through.
 */
export function orderFailure(reply: UpstreamReply): Failure {
  if (!isGood(reply)) {
    const failure = classify(reply)
    return LOST_BETWEEN.has(reply.status) ? videoLost(reply, failure) : failure
  }
  return errorInside(objectOf(reply) ?? {}, reply) ?? videoLost(reply)
}
