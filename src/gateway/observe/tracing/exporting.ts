import { SpanKind, TraceFlags } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
  serviceInstanceIdDetector,
} from '@opentelemetry/resources'
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type ReadableSpan,
  type Sampler,
  type Span,
  type SpanExporter,
  type SpanProcessor,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import {
  ATTR_HTTP_REQUEST_METHOD,
  ATTR_HTTP_ROUTE,
  ATTR_SERVICE_NAME,
  ATTR_SERVICE_VERSION,
} from '@opentelemetry/semantic-conventions'
import { ATTR_GEN_AI_OPERATION_NAME } from '@opentelemetry/semantic-conventions/incubating'
import { GEN_AI_OPERATION } from '../../../contracts/gen-ai.ts'
import type { Logger } from '../../../contracts/log.ts'
import type { OperationName } from '../../../contracts/operations.ts'
import { type Clock, within } from '../../../contracts/time.ts'
import type { TracedJob, TracedRequest, Tracing } from '../../../contracts/tracing.ts'
import { CallTrace } from './call-trace.ts'
import type { Sampling, TracingOptions } from './environment.ts'
import { readTraceContext } from './trace-context.ts'

type Result = Parameters<Parameters<SpanExporter['export']>[1]>[0]

/** `ExportResultCode.SUCCESS` of @opentelemetry/core. */
const TAKEN = 0
/** Lines about lost spans are no more frequent than this. */
const SAY_EVERY_MS = 60_000

interface LossDependencies {
  readonly log: Logger
  readonly clock: Clock
}

/**
 * The way of ended spans to their receiver: a queue of bounded length, sent in batches. A receiver that is away, slow
 * or full costs spans and nothing else; how many is said in the log.
 */
class ReportingSpanProcessor implements SpanProcessor {
  readonly #batches: BatchSpanProcessor
  readonly #exporter: SpanExporter
  readonly #queueMax: number
  readonly #deps: LossDependencies
  /** Spans that the queue holds, and those that are on their way. */
  #queued = 0
  #sending = 0
  #lost = 0
  #saidMs = Number.NEGATIVE_INFINITY

  constructor(exporter: SpanExporter, batch: TracingOptions['batch'], deps: LossDependencies) {
    this.#exporter = exporter
    this.#queueMax = batch.maxQueueSize
    this.#deps = deps
    this.#batches = new BatchSpanProcessor({
      ...batch,
      exporter: { export: (spans, done) => this.#send(spans, done), shutdown: () => exporter.shutdown() },
    })
  }

  onStart(): void {}

  /** The same bound as of the processor behind, which drops without a word. */
  onEnd(span: ReadableSpan & Span): void {
    if ((span.spanContext().traceFlags & TraceFlags.SAMPLED) === 0) return
    if (this.#queued >= this.#queueMax) {
      this.#lose(1, 'the queue is full')
    } else {
      this.#queued += 1
      this.#batches.onEnd(span)
    }
  }

  forceFlush(): Promise<void> {
    return this.#batches.forceFlush()
  }

  async shutdown(): Promise<void> {
    await this.#batches.shutdown()
  }

  /** Nothing is waited for any more: what was not taken by now is lost, and what is lost is said. */
  giveUp(): void {
    this.#lost += this.#queued + this.#sending
    if (this.#lost > 0) this.#say('not taken before the end')
  }

  #send(spans: ReadableSpan[], done: (result: Result) => void): void {
    this.#queued -= spans.length
    this.#sending += spans.length
    this.#exporter.export(spans, (result) => {
      this.#sending -= spans.length
      if (result.code !== TAKEN) this.#lose(spans.length, exportReason(result.error))
      // They are counted here: the processor would print an error whose text is the receiver's.
      done({ code: TAKEN })
    })
  }

  #lose(count: number, reason: string): void {
    this.#lost += count
    if (this.#deps.clock.now() - this.#saidMs >= SAY_EVERY_MS) this.#say(reason)
  }

  #say(reason: string): void {
    const { log, clock } = this.#deps
    log.warn({ spans: this.#lost, reason }, 'spans were lost')
    this.#saidMs = clock.now()
    this.#lost = 0
  }
}

/** A status or a code; what else the error says may be the receiver's words. */
function exportReason(error: Error | undefined): string {
  const code = error !== undefined && 'code' in error ? error.code : undefined
  if (typeof code === 'number') return `the receiver answers ${code}`
  return typeof code === 'string' ? `the receiver is away: ${code}` : 'the receiver does not answer'
}

/** How long a node that stops waits for the receiver to take what is left. */
const CLOSE_MS = 3_000

/** Makes the spans of this process and sends them by OTLP over HTTP. */
export function openTracing(options: TracingOptions, version: string, deps: LossDependencies): Tracing {
  const { clock } = deps
  const outlet = new ReportingSpanProcessor(new OTLPTraceExporter(), options.batch, deps)
  const provider = new TracerProvider({
    resource: resourceOf(version),
    sampler: samplerOf(options.sampling),
    spanProcessors: [outlet],
  })
  const tracer = provider.getTracer('larkway', version)
  return {
    request: (request, route) => requestTrace(request, route),
    job: (job, operation) => jobTrace(job, operation),
    async close() {
      await within(CLOSE_MS, provider.shutdown(), clock).catch(() => {})
      outlet.giveUp()
    },
  }

  function requestTrace(request: TracedRequest, route: string): CallTrace {
    const { method, requestId, headers, elapsedMs } = request
    return new CallTrace(tracer, {
      name: `${method} ${route}`,
      kind: SpanKind.SERVER,
      facts: {
        [ATTR_HTTP_REQUEST_METHOD]: method,
        [ATTR_HTTP_ROUTE]: route,
        'larkway.request_id': requestId,
      },
      elapsedMs,
      caller: readTraceContext(headers),
      clock,
    })
  }

  /** A trace of its own: it may run much later, and more than once. */
  function jobTrace(job: TracedJob, operation: OperationName): CallTrace {
    const { id, requestId, fence, traceparent } = job
    const submission = readTraceContext({ traceparent: traceparent ?? undefined })
    return new CallTrace(tracer, {
      name: `job ${operation}`,
      kind: SpanKind.CONSUMER,
      facts: {
        [ATTR_GEN_AI_OPERATION_NAME]: GEN_AI_OPERATION[operation],
        'larkway.job.id': id,
        'larkway.job.claim': fence,
        'larkway.request_id': requestId,
      },
      elapsedMs: 0,
      caller: null,
      links: submission === null ? [] : [{ context: submission.span }],
      clock,
    })
  }
}

/** Describes this service; the environment overrides our own attributes. */
function resourceOf(version: string) {
  return defaultResource()
    .merge(detectResources({ detectors: [serviceInstanceIdDetector] }))
    .merge(resourceFromAttributes({ [ATTR_SERVICE_NAME]: 'larkway', [ATTR_SERVICE_VERSION]: version }))
    .merge(detectResources({ detectors: [envDetector] }))
}

function samplerOf({ root: name, parentBased, ratio }: Sampling): Sampler {
  const roots = {
    always_on: () => new AlwaysOnSampler(),
    always_off: () => new AlwaysOffSampler(),
    traceidratio: () => new TraceIdRatioBasedSampler(ratio),
  }
  const root = roots[name]()
  return parentBased ? new ParentBasedSampler({ root }) : root
}
