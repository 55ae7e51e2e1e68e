/** A later version is read as far as this one goes, and its further fields are ignored: W3C Trace Context, 4. */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const ZEROS = /^0+$/

/** A span as its `traceparent` names it. */
export interface ParentSpan {
  /** 32 hex digits. */
  readonly traceId: string
  /** 16 hex digits. */
  readonly spanId: string
  /** 1: it is sampled, else 0. */
  readonly traceFlags: number
}

/** Reads a `traceparent`; null: it is not valid. Loads no package, since it is read without tracing too. */
export function readTraceparent(text: string): ParentSpan | null {
  const [, version, traceId, spanId, flags, more] = TRACEPARENT.exec(text) ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return null
  if (version === 'ff' || (version === '00' && more !== undefined)) return null
  if (ZEROS.test(traceId) || ZEROS.test(spanId)) return null
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1 }
}
