import type { Result, Row } from './harness/result.ts'
import { addedP50Ms, addedP99Ms, againstPair, DIRECT, isLarkway, ofStore } from './harness/result.ts'

type Column = readonly [header: string, cell: (row: Row) => string]

/** A result as a table for terminals. */
export function textTable(result: Result): string {
  const columns = columnsOf(result)
  const cells = [
    columns.map(([header]) => header),
    ...result.rows.map((row) => columns.map(([, cell]) => cell(row))),
  ]
  const widths = columns.map((_, index) => Math.max(...cells.map((line) => line[index]?.length ?? 0)))
  const lines = cells.map((line) =>
    line
      .map((text, index) => (index < 2 ? text.padEnd(widths[index] ?? 0) : text.padStart(widths[index] ?? 0)))
      .join('  '),
  )
  const skipped = result.skipped.map(
    ({ candidate, reason }) => `not measured: ${candidate}: ${reason.split('\n')[0]}`,
  )
  return [result.title, ...lines, ...skipped].join('\n')
}

/** A result as a Markdown table; Larkway's rows are bold where there are others. */
export function markdownTable(result: Result): string {
  const columns = columnsOf(result)
  const hasPeers = !result.rows.every(({ candidate }) => isLarkway(candidate))
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const rows = result.rows.map((row) => {
    const cells = columns.map(([, cell]) => cell(row))
    return line(hasPeers && isLarkway(row.candidate) ? cells.map((text) => `**${text}**`) : cells)
  })
  const rule = columns.map((_, index) => (index < 2 ? '---' : '---:'))
  return [line(columns.map(([header]) => header)), line(rule), ...rows].join('\n')
}

function columnsOf({ cpuUnit, rows }: Result): Column[] {
  const mostRuns = Math.max(...rows.map(({ runs }) => runs.length))
  const perGb = cpuUnit === 's/GB'
  const pings: Column[] = [
    ['health p99, idle', ({ pings }) => milliseconds(pings?.idleP99Ms)],
    ['health p99, beside', ({ pings }) => milliseconds(pings?.p99Ms)],
  ]
  const isLive = rows.some(({ sessionKib }) => sessionKib !== undefined)
  const addedP99: Column[] = [['added p99', (row) => milliseconds(addedP99Ms(rows, row))]]
  const perSession: Column[] = [['RSS per session', ({ sessionKib }) => kibibytes(sessionKib)]]
  const added: Column[] = [['added p50', (row) => milliseconds(addedP50Ms(rows, row))]]
  const paired: Column[] = [['against its pair', (row) => change(againstPair(rows, row))]]
  const stored: Column[] = [['of the store’s', (row) => share(ofStore(rows, row))]]
  return [
    ['load', (row) => row.load],
    ['server', ({ label, runs }) => (runs.length < mostRuns ? `${label} (runs: ${runs.length})` : label)],
    perGb
      ? ['CPU s per GB', (row) => row.cpu.toFixed(2)]
      : ['CPU µs per request', (row) => row.cpu.toFixed(1)],
    ...(rows.some(({ against }) => against) ? paired : []),
    perGb
      ? ['MB/s', (row) => Math.round(row.bodyBytes / 1e6 / row.seconds).toString()]
      : ['requests/s', (row) => Math.round(row.requests / row.seconds).toString()],
    ...(rows.some((row) => ofStore(rows, row) !== undefined) ? stored : []),
    ['p50', (row) => milliseconds(row.p50Ms)],
    ...(rows.some(({ candidate }) => candidate === DIRECT) ? added : []),
    ['p99', (row) => milliseconds(row.p99Ms)],
    ...(rows.some(({ pings }) => pings) ? pings : []),
    ...(isLive && rows.some(({ against }) => against) ? addedP99 : []),
    ['peak RSS', (row) => `${Math.round(row.peakRssMib)} MiB`],
    ...(isLive ? perSession : []),
    ['CPU server / client', (row) => `${percent(row.serverLoad)} / ${percent(row.clientLoad)}`],
    ['waits for', (row) => row.bottleneck],
    ...(rows.some(({ failures }) => failures > 0)
      ? [['failed', (row) => String(row.failures)] satisfies Column]
      : []),
  ]
}

function milliseconds(ms: number | undefined): string {
  if (ms === undefined || ms === null || Number.isNaN(ms)) return '–'
  return `${ms < 10 ? ms.toFixed(2) : ms.toFixed(0)} ms`
}

function kibibytes(kib: number | undefined): string {
  return kib === undefined ? '–' : `${Math.round(kib)} KiB`
}

function share(share: number | undefined): string {
  return share === undefined ? '–' : percent(share)
}

function change(ratio: number | undefined): string {
  if (ratio === undefined) return '–'
  return `${ratio < 1 ? '−' : '+'}${Math.abs((ratio - 1) * 100).toFixed(1)} %`
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`
}
