import { errorReply, GatewayError, toGatewayError } from '../errors.ts'
import type { CallContext } from '../gateway/call-context.ts'
import type { Exchange, Reply } from '../inbound/exchange.ts'
import { jsonPieces } from './json-reply.ts'

/** An answer that goes out piece by piece as `text/event-stream`. */
export interface EventStream<Delta> {
  /** Read at the pace of the caller; left when the caller leaves. */
  readonly deltas: AsyncGenerator<Delta, void>
  /** Events before the first piece. */
  readonly opening?: readonly object[]
  /** The event that a piece becomes. */
  event(delta: Delta): object
  /** The events that follow the last piece; members may be `Large<string>`. */
  done(): readonly object[]
  /** Data of a last event that ends the stream; null: there is none. */
  readonly terminator: string | null
  /** It begins while the body of the request is still coming. */
  readonly duplex?: true
  /** Headers beside those of every such answer. */
  readonly headers?: Readonly<Record<string, string>>
}

const HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store',
  // nginx, and proxies that learned it from there, would hold the pieces back.
  'x-accel-buffering': 'no',
}

/**
 * An answer of server-sent events. What breaks off behind the first piece can no longer become a status: it
 * is told in an event `error`, noted on the context for the log, and no terminator follows.
 */
export function eventStreamReply<Delta>(
  stream: EventStream<Delta>,
  exchange: Exchange,
  context: CallContext,
): Reply {
  // A client that leaves before the first piece is asked for leaves a generator that never began.
  exchange.onFinished(() => void stream.deltas.return().catch(() => {}))
  const headers = { ...stream.headers, ...HEADERS }
  const body = { stream: events(stream, exchange.requestId, context) }
  return { status: 200, headers, body: stream.duplex ? { ...body, duplex: true } : body }
}

async function* events<Delta>(
  stream: EventStream<Delta>,
  requestId: string,
  context: CallContext,
): AsyncGenerator<string, void> {
  // Stays when the caller leaves: then nothing behind the `yield` is run.
  context.failure = new GatewayError('CLIENT_CLOSED')
  try {
    for (const event of stream.opening ?? []) yield written(event)
    for await (const delta of stream.deltas) yield written(stream.event(delta))
    for (const event of stream.done()) {
      const [first = '', ...others] = await jsonPieces<string>(event)
      yield `data: ${first}`
      yield* others
      yield '\n\n'
    }
    if (stream.terminator !== null) yield `data: ${stream.terminator}\n\n`
    context.failure = null
  } catch (thrown) {
    const error = toGatewayError(thrown)
    context.failure = error
    const { body } = errorReply(error, requestId)
    yield written({ type: 'error', ...body })
  }
}

function written(event: object): string {
  return `data: ${JSON.stringify(event)}\n\n`
}
