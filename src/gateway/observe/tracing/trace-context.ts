import { createTraceState, type SpanContext } from '@opentelemetry/api'
import { readTraceparent } from './traceparent.ts'

/** A trace begun by the caller. */
export interface CallerContext {
  readonly span: SpanContext
  /**
   * Passed to whoever is asked next, and into no span: its contents are up to the caller. Empty when there is nothing.
   */
  readonly tracestate: string
}

type ContextHeaders = Readonly<Record<string, string | undefined>>

/** Reads the trace context of a caller or of a job's submission; null when there is none of a valid form. */
export function readTraceContext({
  traceparent = '',
  tracestate = '',
}: ContextHeaders): CallerContext | null {
  const parent = readTraceparent(traceparent)
  if (parent === null) return null
  const span = { ...parent, isRemote: true }
  // Invalid entries are left out, and so are those after the first 32.
  return { span, tracestate: tracestate === '' ? '' : createTraceState(tracestate).serialize() }
}

export function traceparentOf({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-0${traceFlags & 1}`
}
