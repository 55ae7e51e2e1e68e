import type { ErrorCode } from '../../../contracts/errors.ts'
import { type Counter, Counters, type Histogram, Histograms, type Rendered } from './family.ts'

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]
const OVERHEAD_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10]
/** The route of requests without one: a path or method that is not served, or a request refused as it is. */
const NO_ROUTE = 'none'

/** An HTTP request and its answer, as far as they are counted. */
export interface WatchedExchange {
  readonly method: string
  /** Pattern of its path; null when it has no route. */
  readonly pattern: string | null
  readonly status: number | null
  /** Since the request's headers arrived. */
  readonly elapsedMs: number
  /** How long its body was waited for, pauses of ours not counted. */
  readonly bodyMs: number
  readonly receivedBytes: number
  readonly sentBytes: number
  onFinished(callback: () => void): void
}

/** Requests of the main door. Labels are patterns and statuses of ours: nothing that a caller can make up. */
export class RequestMetrics {
  readonly #families = requestFamilies()
  readonly #routes = new Map<string | null, Map<string, RouteSeries>>()

  /**
   * Counts an exchange when it is over.
   *
   * @param refusal why no endpoint gets to see it; null: one does, and tells how it failed
   */
  begun(exchange: WatchedExchange, refusal: ErrorCode | null): void {
    exchange.onFinished(() => {
      if (refusal !== null) this.failed(refusal)
      const series = this.#of(exchange.pattern, exchange.method)
      series.answered(exchange.status ?? 0)
      series.seconds.observe(exchange.elapsedMs / 1000)
      series.receivedBytes.add(exchange.receivedBytes)
      series.sentBytes.add(exchange.sentBytes)
    })
  }

  /**
   * Counts what this node itself took for an exchange: from its headers until its answer was there, of a streamed one
   * the first piece, less what was waited for its body and for others. To be called at that moment.
   *
   * @param upstreamWaitMs of its context
   */
  answered({ pattern, method, status, elapsedMs, bodyMs }: WatchedExchange, upstreamWaitMs: number): void {
    // Its client has left: it is answered all the same, but no one reads the answer.
    if (status !== null) return
    this.#of(pattern, method).overhead.observe(Math.max(0, elapsedMs - bodyMs - upstreamWaitMs) / 1000)
  }

  failed(code: ErrorCode): void {
    this.#families.failures.of(code).add(1)
  }

  get families(): readonly Rendered[] {
    return Object.values(this.#families)
  }

  #of(route: string | null, method: string): RouteSeries {
    let methods = this.#routes.get(route)
    if (methods === undefined) {
      methods = new Map()
      this.#routes.set(route, methods)
    }
    let series = methods.get(method)
    if (series === undefined) {
      series = new RouteSeries(this.#families, route ?? NO_ROUTE, method)
      methods.set(method, series)
    }
    return series
  }
}

type Families = ReturnType<typeof requestFamilies>

function requestFamilies() {
  const labels = ['route', 'method']
  return {
    requests: new Counters(
      'larkway_requests_total',
      'HTTP requests, by the pattern of their path and the status of their answer; 499: the client left.',
      [...labels, 'status'],
    ),
    seconds: new Histograms(
      'larkway_request_duration_seconds',
      'Seconds from the headers of a request to the last byte of its answer.',
      labels,
      SECONDS,
    ),
    overhead: new Histograms(
      'larkway_request_overhead_seconds',
      'Seconds from the headers of a request until its answer was there, less what others were waited for.',
      labels,
      OVERHEAD_SECONDS,
    ),
    received: new Counters('larkway_request_body_bytes_total', 'Bytes of bodies of requests.', labels),
    sent: new Counters('larkway_response_body_bytes_total', 'Bytes of bodies of answers.', labels),
    failures: new Counters(
      'larkway_request_failures_total',
      'Requests that ended with an error, by its code.',
      ['code'],
    ),
  }
}

class RouteSeries {
  readonly seconds: Histogram
  readonly receivedBytes: Counter
  readonly sentBytes: Counter
  readonly #families: Families
  readonly #labels: readonly [route: string, method: string]
  readonly #statuses = new Map<number, Counter>()
  #overhead: Histogram | null = null

  constructor(families: Families, route: string, method: string) {
    this.seconds = families.seconds.of(route, method)
    this.receivedBytes = families.received.of(route, method)
    this.sentBytes = families.sent.of(route, method)
    this.#families = families
    this.#labels = [route, method]
  }

  /** Only of requests that get to an endpoint. */
  get overhead(): Histogram {
    this.#overhead ??= this.#families.overhead.of(...this.#labels)
    return this.#overhead
  }

  answered(status: number): void {
    let counter = this.#statuses.get(status)
    if (counter === undefined) {
      counter = this.#families.requests.of(...this.#labels, String(status))
      this.#statuses.set(status, counter)
    }
    counter.add(1)
  }
}
