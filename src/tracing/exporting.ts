import { setTimeout as sleep } from 'node:timers/promises'
import { SpanKind } from '@opentelemetry/api'
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
  ParentBasedSampler,
  type Sampler,
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
import type { Logger } from '../log.ts'
import { GEN_AI_OPERATION } from '../schema/gen-ai.ts'
import type { OperationName } from '../schema/operations.ts'
import type { TracedJob, TracedRequest, Tracing } from '../schema/tracing.ts'
import { CallTrace } from './call-trace.ts'
import type { Sampling, TracingOptions } from './environment.ts'
import { Outlet } from './outlet.ts'
import { readTraceContext } from './trace-context.ts'

/** How long a node that stops waits for the receiver to take what is left. */
const CLOSE_MS = 3_000

/** Makes the spans of this process and sends them by OTLP over HTTP. */
export function openTracing(options: TracingOptions, version: string, log: Logger): Tracing {
  const outlet = new Outlet(new OTLPTraceExporter(), options.batch, log)
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
      const over = new AbortController()
      const late = sleep(CLOSE_MS, undefined, { signal: over.signal }).catch(() => {})
      await Promise.race([provider.shutdown().catch(() => {}), late])
      over.abort()
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
    })
  }
}

/** What the environment says of the service counts more than what we know of it. */
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
