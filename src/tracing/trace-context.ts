import { createTraceState, type SpanContext } from '@opentelemetry/api'

/** A later version is read as far as this one goes, and its further fields are ignored: W3C Trace Context, 4. */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const ZEROS = /^0+$/

/** A trace begun by the caller. */
export interface CallerContext {
  readonly span: SpanContext
  /**
   * Goes on to whoever is asked next, and into no span: what is in it is up to the caller. Empty when there is nothing.
   */
  readonly tracestate: string
}

type ContextHeaders = Readonly<Record<string, string | undefined>>

/** Reads the trace context of a caller or of a job's submission; null when there is none of a valid form. */
export function readTraceContext({
  traceparent = '',
  tracestate = '',
}: ContextHeaders): CallerContext | null {
  const [, version, traceId, spanId, flags, more] = TRACEPARENT.exec(traceparent) ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return null
  if (version === 'ff' || (version === '00' && more !== undefined)) return null
  if (ZEROS.test(traceId) || ZEROS.test(spanId)) return null
  const span = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true }
  // Invalid entries are left out, and so are those after the first 32.
  return { span, tracestate: tracestate === '' ? '' : createTraceState(tracestate).serialize() }
}

export function traceparentOf({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-0${traceFlags & 1}`
}
