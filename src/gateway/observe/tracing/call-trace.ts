import type { Attributes, Context, Link, Span, Tracer } from '@opentelemetry/api'
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import {
  ATTR_ERROR_TYPE,
  ATTR_HTTP_RESPONSE_STATUS_CODE,
  ATTR_SERVER_ADDRESS,
  ATTR_SERVER_PORT,
} from '@opentelemetry/semantic-conventions'
import {
  ATTR_GEN_AI_OPERATION_NAME,
  ATTR_GEN_AI_PROVIDER_NAME,
  ATTR_GEN_AI_REQUEST_MODEL,
  ATTR_GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK,
  ATTR_GEN_AI_USAGE_INPUT_TOKENS,
  ATTR_GEN_AI_USAGE_OUTPUT_TOKENS,
} from '@opentelemetry/semantic-conventions/incubating'
import type { Entry } from '../../../contracts/catalog.ts'
import { ERRORS, type ErrorCode } from '../../../contracts/errors.ts'
import { GEN_AI_OPERATION, genAiProvider } from '../../../contracts/gen-ai.ts'
import type { OperationName } from '../../../contracts/operations.ts'
import type { Clock } from '../../../contracts/time.ts'
import type {
  SpanFacts,
  Trace,
  TracedAnswer,
  TraceEnd,
  TraceMoment,
  TraceStep,
} from '../../../contracts/tracing.ts'
import type { Failure } from '../../../contracts/upstream.ts'
import { type CallerContext, traceparentOf } from './trace-context.ts'

/** Beginning of the outermost span of a trace. */
export interface Outermost {
  readonly name: string
  readonly kind: SpanKind
  readonly facts: SpanFacts
  /** Milliseconds that have passed since it began. */
  readonly elapsedMs: number
  /** Trace that it continues; null when it begins one. */
  readonly caller: CallerContext | null
  readonly links?: Link[]
  readonly clock: Clock
}

/** An attempt whose answer is here; what it came to is known a moment later. */
interface Answered {
  readonly span: Span
  readonly endMs: number
}

const USAGE_NAMES: Readonly<Record<string, string>> = {
  input_tokens: ATTR_GEN_AI_USAGE_INPUT_TOKENS,
  output_tokens: ATTR_GEN_AI_USAGE_OUTPUT_TOKENS,
}

/** The spans of one request or job. All but the outermost one are its children; none is looked for in a context. */
export class CallTrace implements Trace {
  readonly traceId: string
  readonly traceparent: string
  readonly #tracer: Tracer
  readonly #span: Span
  readonly #inside: Context
  readonly #isServer: boolean
  /** When false only the ids are needed, which go to the providers. */
  readonly #isSampled: boolean
  readonly #tracestate: string
  readonly #clock: Clock
  /** Added to `Clock.now` it makes epoch milliseconds: one for all, or children would begin before parents. */
  readonly #epochMs: number
  #step: Span | null = null
  #attempt: Span | null = null
  #attemptStartMs = 0
  #attempts = 0
  #answered: Answered | null = null

  constructor(tracer: Tracer, { name, kind, facts, elapsedMs, caller, links = [], clock }: Outermost) {
    this.#clock = clock
    this.#epochMs = clock.wallNow() - clock.now()
    const outside = caller === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, caller.span)
    const startTime = this.#nowMs() - elapsedMs
    this.#tracer = tracer
    this.#span = tracer.startSpan(name, { kind, startTime, attributes: known(facts), links }, outside)
    this.#inside = trace.setSpan(ROOT_CONTEXT, this.#span)
    this.#isServer = kind === SpanKind.SERVER
    this.#isSampled = this.#span.isRecording()
    this.#tracestate = caller?.tracestate ?? ''
    const context = this.#span.spanContext()
    this.traceId = context.traceId
    this.traceparent = traceparentOf(context)
  }

  begin(step: TraceStep): void {
    this.end()
    if (this.#isSampled) this.#step = this.#child(step, SpanKind.INTERNAL, {})
  }

  end(): void {
    this.#step?.end(this.#nowMs())
    this.#step = null
  }

  failed(error: ErrorCode): void {
    if (this.#step !== null) this.#noteError(this.#step, error)
    this.end()
  }

  attempt(operation: OperationName, entry: Entry, baseUrl = entry.provider.baseUrl): void {
    this.end()
    this.#endAnswered()
    this.attemptLeft()
    this.#attempts += 1
    const name = `${GEN_AI_OPERATION[operation]} ${entry.model}`
    this.#attemptStartMs = this.#nowMs()
    const facts = this.#isSampled ? attemptFacts(operation, entry, baseUrl, this.#attempts) : {}
    this.#attempt = this.#child(name, SpanKind.CLIENT, facts)
  }

  headers(): Readonly<Record<string, string>> {
    const traceparent = traceparentOf((this.#attempt ?? this.#span).spanContext())
    return this.#tracestate === '' ? { traceparent } : { traceparent, tracestate: this.#tracestate }
  }

  begun(): void {
    const seconds = (this.#nowMs() - this.#attemptStartMs) / 1000
    this.#attempt?.setAttribute(ATTR_GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, seconds)
  }

  attemptEnded(status: number | null, failure: Failure | null): void {
    const span = this.#takeAttempt()
    if (span === null) return
    if (status !== null) span.setAttribute(ATTR_HTTP_RESPONSE_STATUS_CODE, status)
    if (failure === null) {
      this.#answered = { span, endMs: this.#nowMs() }
      return
    }
    span.setAttribute(ATTR_ERROR_TYPE, failure.kind)
    span.setStatus({ code: SpanStatusCode.ERROR })
    span.end(this.#nowMs())
  }

  attemptLeft(): void {
    const span = this.#takeAttempt()
    span?.setAttribute(ATTR_ERROR_TYPE, 'abandoned')
    span?.end(this.#nowMs())
  }

  metered({ usage, costUsd }: TracedAnswer): void {
    const span = this.#attempt ?? this.#answered?.span
    if (costUsd !== null) span?.setAttribute('larkway.cost_usd', costUsd)
    for (const [name, measure] of Object.entries(usage)) {
      if (measure !== null) span?.setAttribute(USAGE_NAMES[name] ?? `larkway.usage.${name}`, measure)
    }
    this.#endAnswered()
  }

  settling(settled: Promise<unknown> | null): void {
    this.#endAnswered()
    if (this.#step === null) this.begin('settle')
    const span = this.#step
    this.#step = null
    if (span === null) return
    if (settled === null) span.end(this.#nowMs())
    else void settled.finally(() => span.end(this.#nowMs()))
  }

  event(moment: TraceMoment, facts: SpanFacts): void {
    if (this.#isSampled) this.#span.addEvent(moment, known(facts), this.#nowMs())
  }

  finish({ status, error, facts }: TraceEnd): void {
    if (!this.#span.isRecording()) return
    this.end()
    this.#span.setAttributes(known({ [ATTR_HTTP_RESPONSE_STATUS_CODE]: status ?? undefined, ...facts }))
    if (error !== undefined) this.#noteError(this.#span, error)
    this.#span.end(this.#nowMs())
  }

  /** A caller's mistake is noted on a server span but is not its error: semantic conventions for HTTP spans. */
  #noteError(span: Span, error: ErrorCode): void {
    span.setAttribute('larkway.error', error)
    if (this.#isServer && ERRORS[error].status < 500) return
    span.setAttribute(ATTR_ERROR_TYPE, error)
    span.setStatus({ code: SpanStatusCode.ERROR })
  }

  #takeAttempt(): Span | null {
    const span = this.#attempt
    this.#attempt = null
    return span
  }

  #endAnswered(): void {
    this.#answered?.span.end(this.#answered.endMs)
    this.#answered = null
  }

  #child(name: string, kind: SpanKind, facts: SpanFacts): Span {
    return this.#tracer.startSpan(
      name,
      { kind, startTime: this.#nowMs(), attributes: known(facts) },
      this.#inside,
    )
  }

  #nowMs(): number {
    return this.#epochMs + this.#clock.now()
  }
}

function attemptFacts(
  operation: OperationName,
  { provider, model }: Entry,
  baseUrl: string,
  number: number,
): SpanFacts {
  const url = URL.parse(baseUrl)
  return {
    [ATTR_GEN_AI_OPERATION_NAME]: GEN_AI_OPERATION[operation],
    [ATTR_GEN_AI_PROVIDER_NAME]: genAiProvider(provider.kind),
    [ATTR_GEN_AI_REQUEST_MODEL]: model,
    [ATTR_SERVER_ADDRESS]: url?.hostname.replace(/^\[|\]$/g, ''),
    [ATTR_SERVER_PORT]: url === null ? undefined : Number(url.port || (url.protocol === 'https:' ? 443 : 80)),
    'larkway.provider': provider.name,
    'larkway.attempt': number,
  }
}

function known(facts: SpanFacts): Attributes {
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined))
}
