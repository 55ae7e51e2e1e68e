import t from 'tap'
import type { WatchedExchange } from '../../../../src/gateway/observe/metrics/request-metrics.ts'
import { RequestMetrics } from '../../../../src/gateway/observe/metrics/request-metrics.ts'
import { readExposition } from '../../../support/exposition.ts'

/** An exchange at a moment of its life. */
function exchangeOf(over: Partial<WatchedExchange> = {}) {
  const callbacks: (() => void)[] = []
  const exchange = {
    ...{ method: 'POST', pattern: '/v1/speech', status: null, elapsedMs: 0, bodyMs: 0 },
    ...{ receivedBytes: 0, sentBytes: 0 },
    ...over,
    onFinished: (callback: () => void) => void callbacks.push(callback),
  }
  return {
    exchange,
    finish: () => {
      for (const callback of callbacks) callback()
    },
  }
}

const told = (metrics: RequestMetrics) =>
  readExposition(metrics.families.map((family) => [...family.render()].join('')).join('\n'))

const OVERHEAD = 'larkway_request_overhead_seconds'

t.test('overhead is what is left without the body and without others', async (t) => {
  for (const [elapsedMs, bodyMs, upstreamWaitMs, seconds] of [
    [5, 0, 0, 0.005],
    [1_005, 1_000, 0, 0.005],
    [3_005, 1_000, 2_000, 0.005],
    // Clocks are read one after the other.
    [3_000, 1_000, 2_000.01, 0],
  ] as const) {
    const metrics = new RequestMetrics()
    metrics.answered(exchangeOf({ elapsedMs, bodyMs }).exchange, upstreamWaitMs)
    const sum = told(metrics).value(`${OVERHEAD}_sum`) ?? Number.NaN
    t.ok(Math.abs(sum - seconds) < 1e-9, `${elapsedMs} - ${bodyMs} - ${upstreamWaitMs}: ${sum}`)
  }
})

t.test('an answer that nobody waits for any more has no overhead', async (t) => {
  const metrics = new RequestMetrics()
  metrics.answered(exchangeOf({ status: 499, elapsedMs: 60_000 }).exchange, 0)
  t.equal(told(metrics).value(`${OVERHEAD}_count`), undefined)
})

t.test('a request is counted when it is over', async (t) => {
  const metrics = new RequestMetrics()
  const over = { status: 200, elapsedMs: 1_500, receivedBytes: 100, sentBytes: 7 }
  const { exchange, finish } = exchangeOf(over)
  metrics.begun(exchange, null)
  t.equal(told(metrics).samples.length, 0)
  finish()
  const { value } = told(metrics)
  const labels = { route: '/v1/speech', method: 'POST' }
  t.equal(value('larkway_requests_total', { ...labels, status: '200' }), 1)
  t.equal(value('larkway_request_duration_seconds_sum', labels), 1.5)
  t.equal(value('larkway_request_body_bytes_total', labels), 100)
  t.equal(value('larkway_response_body_bytes_total', labels), 7)
  t.equal(value(`${OVERHEAD}_count`, labels), undefined, 'no endpoint has seen it')
})

t.test('what has no route is counted as that', async (t) => {
  const metrics = new RequestMetrics()
  for (const method of ['GET', 'PATCH']) {
    const { exchange, finish } = exchangeOf({ pattern: null, method, status: 404 })
    metrics.begun(exchange, null)
    finish()
  }
  t.equal(told(metrics).value('larkway_requests_total', { route: 'none', status: '404' }), 2)
})
