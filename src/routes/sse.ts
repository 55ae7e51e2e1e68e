import { errorReply, GatewayError, toGatewayError } from '../errors.ts'
import type { Trail } from '../gateway/gateway.ts'
import type { Exchange, Reply } from '../inbound/exchange.ts'
import { jsonPieces } from './json-reply.ts'

/** An answer that goes out piece by piece as `text/event-stream`. */
export interface EventStream<Delta> {
  /** Read at the pace of the caller; left when the caller leaves. */
  readonly deltas: AsyncGenerator<Delta, void>
  /** The event that a piece becomes. */
  event(delta: Delta): object
  /** The event that follows the last piece; members may be `Large<string>`. */
  done(): object
  /** Data of a last event that ends the stream; null: there is none. */
  readonly terminator: string | null
}

const HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store',
  // nginx, and proxies that learned it from there, would hold the pieces back.
  'x-accel-buffering': 'no',
}

/**
 * An answer of server-sent events. What breaks off behind the first piece can no longer become a status: it
 * is told in an event `error`, noted on the trail for the log, and no terminator follows.
 */
export function eventStreamReply<Delta>(stream: EventStream<Delta>, exchange: Exchange, trail: Trail): Reply {
  // A client that leaves before the first piece is asked for leaves a generator that never began.
  exchange.onFinished(() => void stream.deltas.return().catch(() => {}))
  return { status: 200, headers: HEADERS, body: { stream: events(stream, exchange.requestId, trail) } }
}

async function* events<Delta>(
  stream: EventStream<Delta>,
  requestId: string,
  trail: Trail,
): AsyncGenerator<string, void> {
  // Stays when the caller leaves: then nothing behind the `yield` is run.
  trail.failure = new GatewayError('CLIENT_CLOSED')
  try {
    for await (const delta of stream.deltas) yield `data: ${JSON.stringify(stream.event(delta))}\n\n`
    const done = await jsonPieces<string>(stream.done())
    yield 'data: '
    for (const piece of done) yield piece
    yield stream.terminator === null ? '\n\n' : `\n\ndata: ${stream.terminator}\n\n`
    trail.failure = null
  } catch (thrown) {
    const error = toGatewayError(thrown)
    trail.failure = error
    const { body } = errorReply(error, requestId)
    yield `data: ${JSON.stringify({ type: 'error', ...body })}\n\n`
  }
}
