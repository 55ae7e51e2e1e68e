import type { VideoCall, VideoResult } from '../../contracts/generation.ts'
import type { Operation, Step, Target } from '../../contracts/provider.ts'
import type { Failure, UpstreamReply, UpstreamRequest } from '../../contracts/upstream.ts'
import { endingOf, errorInside, isGood, type Made } from './answer.ts'
import { classify, failed, refused } from './failure.ts'
import { asObject, objectOf } from './json.ts'
import { pollTrouble } from './poll.ts'

/** State of a create-and-poll operation for videos. Plain JSON, so that a job can go on in another process. */
interface VideoJob {
  /** The provider's name for it. */
  readonly id: string
  /** How long to wait before the next poll. */
  readonly everyMs: number
  /** Polls in a row that went wrong. */
  readonly troubles: number
}

/** No provider's id is longer; characters are escaped where it is used. */
const ID_MAX_LENGTH = 256

/** An order in the words of a provider, which is polled for until the video is made. */
interface VideoProtocol {
  readonly takesSeed?: true
  /** Pause before the first poll. */
  readonly pollMs: number
  /** Pause after another; absent: the same. */
  readonly nextMs?: (everyMs: number) => number
  /** The answer to the order tells the state of the job, not its id alone. */
  readonly tellsAtOnce: boolean
  /** The order; a text: why it cannot be made, for the log. */
  order(call: VideoCall, target: Target): UpstreamRequest | string
  look(id: string, target: Target): UpstreamRequest
  cancel(id: string, target: Target): UpstreamRequest
  /** Reads the state of the job; null: the video is not made yet. */
  read(reply: UpstreamReply, call: VideoCall, target: Target, id: string): Made<VideoResult> | null
}

/** An operation that orders a video once and polls for it, in another process too. */
export function videoJobOperation(protocol: VideoProtocol): Operation<VideoCall, VideoResult> {
  const { takesSeed, pollMs, nextMs = (everyMs) => everyMs, tellsAtOnce } = protocol
  const poll = (job: VideoJob, target: Target): Step<VideoResult> => {
    const state: VideoJob = { ...job, everyMs: nextMs(job.everyMs), troubles: 0 }
    return { kind: 'wait', waitMs: job.everyMs, request: protocol.look(job.id, target), state }
  }
  const read = (job: VideoJob, reply: UpstreamReply, call: VideoCall, target: Target) => {
    const made = protocol.read(reply, call, target, job.id)
    return made === null ? poll(job, target) : endingOf(made)
  }
  return {
    createsOnce: true,
    ...(takesSeed === undefined ? {} : { takesSeed }),
    start(call, target) {
      const request = protocol.order(call, target)
      return typeof request === 'string' ? failed(refused(request)) : { kind: 'send', request, state: null }
    },
    next(state, reply, call, target) {
      const job = readVideoJob(state)
      if (job === null) {
        const id = isGood(reply) ? objectOf(reply)?.id : null
        const ordered = readVideoJob({ id, everyMs: pollMs, troubles: 0 })
        if (ordered === null) return failed(orderFailure(reply))
        return tellsAtOnce ? read(ordered, reply, call, target) : poll(ordered, target)
      }
      const trouble = pollTrouble<VideoResult>(reply, job, {
        request: protocol.look(job.id, target),
        everyMs: job.everyMs,
        again: (troubles) => ({ ...job, troubles }),
      })
      if (trouble?.kind === 'failed') return failed(videoLost(reply, trouble.failure))
      return trouble ?? read(job, reply, call, target)
    },
    /** The state may be of a process of another version, so that polling begins anew. */
    resume(state, target) {
      const job = readVideoJob({ id: asObject(state)?.id, everyMs: pollMs, troubles: 0 })
      return job === null ? null : poll(job, target)
    },
    abandon(state, target) {
      const job = readVideoJob(state)
      return job === null ? null : protocol.cancel(job.id, target)
    },
  }
}

/** A state as a job; null before there is one, and for anything that is none. */
function readVideoJob(state: unknown): VideoJob | null {
  const { id, everyMs, troubles } = asObject(state) ?? {}
  if (typeof id !== 'string' || id === '' || id.length > ID_MAX_LENGTH) return null
  // It becomes part of a path: `..` would be a way out of it, half a character cannot be escaped.
  if (/^\.+$/.test(id) || !id.isWellFormed()) return null
  return typeof everyMs === 'number' && typeof troubles === 'number' ? { id, everyMs, troubles } : null
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
function orderFailure(reply: UpstreamReply): Failure {
  if (!isGood(reply)) {
    const failure = classify(reply)
    return LOST_BETWEEN.has(reply.status) ? videoLost(reply, failure) : failure
  }
  return errorInside(objectOf(reply) ?? {}, reply) ?? videoLost(reply)
}
