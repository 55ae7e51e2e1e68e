import { readdirSync, readFileSync } from 'node:fs'
import type { IntervalHistogram } from 'node:perf_hooks'
import { monitorEventLoopDelay, PerformanceObserver, performance } from 'node:perf_hooks'
import { getHeapSpaceStatistics } from 'node:v8'
import { gauge, Histograms, type Reading, type Rendered, renderReading, total } from './family.ts'

/** How exactly the delay of the event loop is measured; each figure of it includes as much. */
const LAG_RESOLUTION_MS = 10
const GC_SECONDS = [0.001, 0.01, 0.1, 1, 2, 5] as const
/** https://nodejs.org/api/perf_hooks.html#performance-node-garbage-collection-details */
const GC_KINDS: Readonly<Record<number, string>> = { 1: 'minor', 4: 'major', 8: 'incremental', 16: 'weakcb' }

interface Collection {
  readonly duration: number
  readonly detail: { readonly kind: number }
}

/**
 * Metrics of the process and of Node, with the names that Prometheus' clients have for them. Creating it starts the
 * measurement of the event loop and of garbage collection.
 *
 * https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics
 */
export function createProcessMetrics(): () => readonly Rendered[] {
  const lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS })
  lag.enable()
  const collections = new Histograms(
    'nodejs_gc_duration_seconds',
    'Duration of garbage collections.',
    ['kind'],
    GC_SECONDS,
  )
  const observer = new PerformanceObserver((list) => {
    for (const { duration, detail } of list.getEntries() as unknown as readonly Collection[]) {
      collections.of(GC_KINDS[detail.kind] ?? 'other').observe(duration / 1_000)
    }
  })
  observer.observe({ entryTypes: ['gc'] })
  return () => [...[...ofProcess(), ...ofLoop(lag), ...ofNode()].map(rendered), collections]
}

function rendered(reading: Reading): Rendered {
  return { render: () => renderReading(reading) }
}

function ofProcess(): Reading[] {
  const { user, system } = process.cpuUsage()
  return [
    total('process_cpu_user_seconds_total', 'CPU time spent in user mode.', user / 1e6),
    total('process_cpu_system_seconds_total', 'CPU time spent in the kernel.', system / 1e6),
    total('process_cpu_seconds_total', 'CPU time spent.', (user + system) / 1e6),
    gauge('process_start_time_seconds', 'Start of the process, Unix time.', performance.timeOrigin / 1_000),
    gauge('process_resident_memory_bytes', 'Resident memory.', process.memoryUsage.rss()),
    ...ofProc(),
  ]
}

/** Linux alone tells these. */
function ofProc(): Reading[] {
  try {
    const pages = Number(readFileSync('/proc/self/statm', 'latin1').split(' ', 1)[0])
    const limits = readFileSync('/proc/self/limits', 'latin1')
    const most = /^Max open files +(\d+)/m.exec(limits)?.[1]
    return [
      gauge('process_virtual_memory_bytes', 'Virtual memory.', pages * 4_096),
      // The folder that is read is open meanwhile.
      gauge('process_open_fds', 'Open file descriptors.', readdirSync('/proc/self/fd').length - 1),
      ...(most === undefined ? [] : [gauge('process_max_fds', 'Most open file descriptors.', Number(most))]),
    ]
  } catch {
    return []
  }
}

/** The delay since the scrape before; NaN where none was measured since. */
function ofLoop(lag: IntervalHistogram): Reading[] {
  const of = (name: string, nanoseconds: number) => {
    const seconds = lag.count === 0 ? Number.NaN : nanoseconds / 1e9
    return gauge(`nodejs_eventloop_lag_${name}_seconds`, `Delay of the event loop, ${name}.`, seconds)
  }
  const readings = [
    of('min', lag.min),
    of('max', lag.max),
    of('mean', lag.mean),
    ...[50, 90, 99].map((percent) => of(`p${percent}`, lag.percentile(percent))),
  ]
  lag.reset()
  return readings
}

function ofNode(): Reading[] {
  const { heapTotal, heapUsed, external } = process.memoryUsage()
  const spaces = getHeapSpaceStatistics()
  const active = process.getActiveResourcesInfo().length
  return [
    gauge('nodejs_heap_size_total_bytes', 'Size of the heap.', heapTotal),
    gauge('nodejs_heap_size_used_bytes', 'Used part of the heap.', heapUsed),
    gauge('nodejs_external_memory_bytes', 'Memory outside of the heap that its objects hold.', external),
    {
      name: 'nodejs_heap_space_size_used_bytes',
      help: 'Used part of each space of the heap.',
      type: 'gauge',
      labels: ['space'],
      values: spaces.map((space) => [[space.space_name.replace(/_space$/, '')], space.space_used_size]),
    },
    gauge('nodejs_active_resources_total', 'Resources that keep the process alive.', active),
  ]
}
