import { TraceFlags } from '@opentelemetry/api'
import {
  BatchSpanProcessor,
  type ReadableSpan,
  type Span,
  type SpanExporter,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace'
import type { Logger } from '../log.ts'
import type { TracingOptions } from './environment.ts'

type Result = Parameters<Parameters<SpanExporter['export']>[1]>[0]

/** `ExportResultCode.SUCCESS` of @opentelemetry/core. */
const TAKEN = 0
/** Lines about lost spans are no more frequent than this. */
const SAY_EVERY_MS = 60_000

/**
 * The way of ended spans to their receiver: a queue of bounded length, sent in batches. A receiver that is away, slow
 * or full costs spans and nothing else; how many is said in the log.
 */
export class Outlet implements SpanProcessor {
  readonly #batches: BatchSpanProcessor
  readonly #exporter: SpanExporter
  readonly #queueMax: number
  readonly #log: Logger
  /** Spans that the queue holds, and those that are on their way. */
  #queued = 0
  #sending = 0
  #lost = 0
  #saidMs = Number.NEGATIVE_INFINITY

  constructor(exporter: SpanExporter, batch: TracingOptions['batch'], log: Logger) {
    this.#exporter = exporter
    this.#queueMax = batch.maxQueueSize
    this.#log = log
    this.#batches = new BatchSpanProcessor({
      ...batch,
      exporter: {
        export: (spans, done) => this.#send(spans, done),
        shutdown: () => exporter.shutdown(),
      },
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
      if (result.code !== TAKEN) this.#lose(spans.length, reasonOf(result.error))
      // They are counted here: the processor would print an error whose text is the receiver's.
      done({ code: TAKEN })
    })
  }

  #lose(count: number, reason: string): void {
    this.#lost += count
    if (performance.now() - this.#saidMs >= SAY_EVERY_MS) this.#say(reason)
  }

  #say(reason: string): void {
    this.#log.warn({ spans: this.#lost, reason }, 'spans were lost')
    this.#saidMs = performance.now()
    this.#lost = 0
  }
}

/** A status or a code; what else the error says may be the receiver's words. */
function reasonOf(error: Error | undefined): string {
  const code = error !== undefined && 'code' in error ? error.code : undefined
  if (typeof code === 'number') return `the receiver answers ${code}`
  return typeof code === 'string' ? `the receiver is away: ${code}` : 'the receiver does not answer'
}
