import type { Calls, Deltas, Results, StreamedName } from '../schema/operations.ts'
import type { StreamedOperation, Target } from '../schema/provider.ts'
import {
  type Failure,
  type OpenStream,
  UpstreamFailure,
  type UpstreamReply,
  type UpstreamRequest,
  type UpstreamStream,
} from '../schema/upstream.ts'
import { adapt, targetOf } from './adapt.ts'
import { attemptWhole, operationAt, suspectEmpty } from './attempt.ts'
import type { Missed, Turn } from './failover.ts'
import type { CallRequest, Services } from './gateway.ts'
import { type Held, holdBytes } from './held.ts'
import { bytesOf, piecesOf } from './pieces.ts'
import { isGood, LATE, traceContextOf, traced } from './step.ts'

/** As of a whole answer. */
const STREAM_BYTES_MAX = 64 * 1024 * 1024
/** What is read of an answer that says what is wrong. */
const ERROR_BYTES_MAX = 64 * 1024

const TOO_LARGE: Failure = Object.freeze({
  kind: 'server',
  status: null,
  reason: 'its answer is over 64 MiB',
  retryAfterMs: null,
  providerMessage: null,
})

/** An answer that has begun to come. */
export interface Opened<K extends StreamedName> {
  /** The first piece, or the whole when it has no pieces. */
  readonly first: IteratorResult<Deltas[K], Results[K]>
  /** False: the entry was asked for the whole. */
  readonly streamed: boolean
  /** What follows. Throws UpstreamFailure when it breaks off. */
  readonly rest: AsyncIterator<Deltas[K], Results[K]>
  readonly warnings: readonly string[]
  /** Ends the request at the provider, at once. */
  leave(): void
  /** Gives the memory of the answer back. Idempotent. */
  release(): void
}

/**
 * One entry's answer, once its first piece is here: until then another may be asked. An entry that does not stream is
 * asked for the whole.
 *
 * @param deadlineAtMs when the last piece has to be here, on the clock of `performance.now()`
 * @throws whatever keeps the gateway from going on: the signal's reason when the caller left, a store's failure
 */
export async function openAttempt<K extends StreamedName>(
  services: Services,
  request: CallRequest<K>,
  turn: Turn,
  deadlineAtMs: number,
): Promise<{ readonly got: Opened<K> } | Missed> {
  const { call } = request
  const { candidate } = turn
  const { streamed } = operationAt(services, request.operation, candidate)
  const adapted = adapt(request.operation, call.payload, candidate.entry)
  const target = targetOf(candidate.entry)
  if (streamed === undefined || streamed.applies?.(adapted.payload, target) === false) {
    return openWhole(services, request, turn)
  }
  const step = streamed.start(adapted.payload, target)
  if (step.kind === 'failed') return { failure: step.failure, blamed: false, unknown: false }

  const left = new AbortController()
  const held = holdBytes(services.budget, request.trail)
  const unread = holdBytes(services.budget, request.trail)
  const rest = readAnswer({
    streamed: streamed as StreamedOperation<Calls[K], Results[K], Deltas[K]>,
    upstream: traced(step.request, traceContextOf(request)),
    payload: adapted.payload,
    target,
    open: services.open,
    signal: AbortSignal.any([request.signal, left.signal]),
    deadlineAtMs,
    held,
    unread,
    waiting: holdBytes(services.budget, request.trail),
  })
  const late = () => left.abort(new UpstreamFailure(LATE))
  const timer = setTimeout(late, Math.max(1, turn.deadlineAtMs - performance.now()))
  try {
    const first = await rest.next()
    const suspect = first.done === true ? suspectEmpty(call.payload, first.value, candidate, turn.last) : null
    if (suspect === null) {
      const { warnings } = adapted
      const leave = () => left.abort()
      return { got: { first, streamed: true, rest, warnings, leave, release: held.release } }
    }
    held.release()
    return suspect
  } catch (error) {
    left.abort()
    held.release()
    request.signal.throwIfAborted()
    if (error instanceof UpstreamFailure) return { failure: error.failure, blamed: true, unknown: false }
    throw error
  } finally {
    clearTimeout(timer)
  }
}

async function openWhole<K extends StreamedName>(
  services: Services,
  request: CallRequest<K>,
  turn: Turn,
): Promise<{ readonly got: Opened<K> } | Missed> {
  const whole = await attemptWhole(services, request, turn)
  if ('failure' in whole) return whole
  const { result, warnings, release } = whole.got
  const rest = piecesOf(request.operation, result)
  const first = await rest.next()
  return { got: { first, streamed: false, rest, warnings, leave: () => {}, release } }
}

interface Reading<K extends StreamedName> {
  readonly streamed: StreamedOperation<Calls[K], Results[K], Deltas[K]>
  readonly upstream: UpstreamRequest
  readonly payload: Calls[K]
  readonly target: Target
  readonly open: OpenStream
  readonly signal: AbortSignal
  readonly deadlineAtMs: number
  /** What the pieces hold. */
  readonly held: Held
  /** What came since the last piece. */
  readonly unread: Held
  /** What came and nobody has read. */
  readonly waiting: Held
}

/** Sends the request and reads its answer, piece by piece as they are asked for. @throws UpstreamFailure */
async function* readAnswer<K extends StreamedName>(
  reading: Reading<K>,
): AsyncGenerator<Deltas[K], Results[K], void> {
  const { streamed, upstream, payload, target, open, signal, held, unread, waiting } = reading
  const deadlineMs = Math.max(1, reading.deadlineAtMs - performance.now())
  const stream = await open(upstream, { deadlineMs, signal, onHeld: waiting.charge })
  if (!isGood(stream)) throw new UpstreamFailure(streamed.refused(await readError(stream)))
  const reader = streamed.read(stream, payload, target)
  let bytes = 0
  try {
    for await (const chunk of stream.chunks) {
      bytes += chunk.byteLength
      if (bytes > STREAM_BYTES_MAX) throw new UpstreamFailure(TOO_LARGE)
      const pieces = reader.push(chunk)
      if ('kind' in pieces) throw new UpstreamFailure(pieces)
      if (pieces.length === 0) unread.charge(chunk.byteLength)
      else unread.release()
      for (const piece of pieces) {
        held.charge(bytesOf(piece))
        yield piece
      }
    }
  } finally {
    unread.release()
  }
  const ended = reader.end()
  if ('result' in ended) return ended.result
  throw new UpstreamFailure(ended)
}

async function readError({ status, headers, chunks }: UpstreamStream): Promise<UpstreamReply> {
  const body: Uint8Array[] = []
  let leftBytes = ERROR_BYTES_MAX
  for await (const chunk of chunks) {
    body.push(chunk.subarray(0, leftBytes))
    leftBytes -= chunk.byteLength
    if (leftBytes <= 0) break
  }
  return { status, headers, body }
}
