import { errorReply, GatewayError, toGatewayError } from '../../contracts/errors.ts'
import type { CallContext } from '../call/context/call-context.ts'
import type { Exchange, Reply } from '../edge/exchange.ts'
import { jsonPieces } from './json-reply.ts'

/** An answer that goes out piece by piece as `text/event-stream`. */
export interface EventStream<Delta> {
  /** Read at the pace of the caller; left when the caller leaves. */
  readonly deltas: AsyncGenerator<Delta, void>
  /** Events before the first piece; members may be `Large<string>`. */
  readonly opening?: readonly object[]
  /** The event that a piece becomes, or all of them. */
  event(delta: Delta): object | readonly object[]
  /** The events that follow the last piece; members may be `Large<string>`. */
  done(): readonly object[]
  /** The events that tell a failure after the first piece; absent: one `error` with the envelope of errors. */
  failed?(body: ReturnType<typeof errorReply>['body']): readonly object[]
  /** Data of a last event that ends the stream; null: there is none. */
  readonly terminator: string | null
  /** Each event is named by its `type` before its data. */
  readonly named?: true
  /** It begins while the body of the request is still coming. */
  readonly duplex?: true
  /** Headers beside those of every such answer. */
  readonly headers?: Readonly<Record<string, string>>
}

/** Stays when the caller leaves: then nothing after a `yield` runs. One for all, since each would hold a stack. */
export const CALLER_LEFT = new GatewayError('CLIENT_CLOSED')

const HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store',
  // nginx, and proxies that learned it from there, would hold the pieces back.
  'x-accel-buffering': 'no',
}

/**
 * An answer of server-sent events. A failure after the first piece can no longer become a status: it
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
  context.failure = CALLER_LEFT
  const named = stream.named === true
  try {
    for (const event of stream.opening ?? []) yield* pieces(event, named)
    for await (const delta of stream.deltas) {
      const event = stream.event(delta)
      if (!Array.isArray(event)) yield writtenEvent(event, named)
      else if (event.length > 0) yield event.map((each) => writtenEvent(each, named)).join('')
    }
    for (const event of stream.done()) yield* pieces(event, named)
    if (stream.terminator !== null) yield `data: ${stream.terminator}\n\n`
    context.failure = null
  } catch (thrown) {
    context.failure = toGatewayError(thrown)
    const { body } = errorReply(context.failure, requestId)
    for (const event of stream.failed?.(body) ?? [{ type: 'error', ...body }]) yield* pieces(event, named)
  }
}

/** An event whose members may be large. */
async function* pieces(event: object, named: boolean): AsyncGenerator<string, void> {
  const [first = '', ...others] = await jsonPieces<string>(event)
  const begun = `${nameLine(event, named)}data: ${first}`
  if (others.length === 0) return yield `${begun}\n\n`
  yield begun
  yield* others
  yield '\n\n'
}

function writtenEvent(event: object, named: boolean): string {
  return `${nameLine(event, named)}data: ${JSON.stringify(event)}\n\n`
}

function nameLine(event: object, named: boolean): string {
  return named && 'type' in event ? `event: ${event.type}\n` : ''
}
