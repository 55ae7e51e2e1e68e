/** Values of a metric's labels, in the order of their names. */
type LabelValues = readonly string[]

/** Most label sets of one metric. Those beyond are counted together, so that no metric grows without bound. */
const SERIES_MAX = 1_000
/** Value of every label of the series beyond that. */
const OTHER = 'other'
/** Series in a piece of a text, so that others get their turns between two. */
const PIECE_SERIES = 50

/** Counter of one label set: a plain field, so that counting costs one addition. */
export class Counter {
  value = 0

  add(amount: number): void {
    this.value += amount
  }
}

/** How often values were at most as large as each of some bounds, and their sum. */
export class Histogram {
  readonly bounds: readonly number[]
  /** By the smallest bound that holds them; the last one is of those above all bounds. Not cumulative. */
  readonly counts: number[]
  sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = new Array<number>(bounds.length + 1).fill(0)
  }

  observe(value: number): void {
    const { bounds } = this
    let at = 0
    while (at < bounds.length && value > bounds[at]!) at += 1
    this.counts[at]! += 1
    this.sum += value
  }
}

interface About {
  readonly name: string
  readonly help: string
  readonly labels: readonly string[]
}

/** A metric that can be told in the text format of Prometheus. */
export interface Rendered {
  /** Piece by piece, each of whole lines. */
  render(): Iterable<string>
}

/** A metric with a series for each label set that was met. Frequent callers keep the result of `of`. */
abstract class Family<Series> implements Rendered {
  protected readonly about: About
  readonly #series = new Map<string, Series>()
  readonly #make: () => Series

  constructor(about: About, make: () => Series) {
    this.about = about
    this.#make = make
  }

  /** The series of a label set, made when it is met for the first time. */
  of(...values: LabelValues): Series {
    const labels = labelsOf(this.about.labels, values)
    const known = this.#series.get(labels)
    if (known !== undefined) return known
    if (this.#series.size >= SERIES_MAX && values.some((value) => value !== OTHER))
      return this.of(...values.map(() => OTHER))
    const series = this.#make()
    this.#series.set(labels, series)
    return series
  }

  render(): Generator<string, void> {
    return inPieces({ ...this.about, type: this.type }, this.#series, (lines, [labels, one]) =>
      this.renderSeries(lines, labels, one),
    )
  }

  protected abstract readonly type: string
  protected abstract renderSeries(lines: string[], labels: string, series: Series): void
}

/** A count that only grows; its name ends in `_total`. */
export class Counters extends Family<Counter> {
  protected readonly type = 'counter'

  constructor(name: `${string}_total`, help: string, labels: readonly string[]) {
    super({ name, help, labels }, () => new Counter())
  }

  protected renderSeries(lines: string[], labels: string, { value }: Counter): void {
    lines.push(`${this.about.name}${braced(labels)} ${value}`)
  }
}

export class Histograms extends Family<Histogram> {
  protected readonly type = 'histogram'

  constructor(name: string, help: string, labels: readonly string[], bounds: readonly number[]) {
    super({ name, help, labels }, () => new Histogram(bounds))
  }

  protected renderSeries(lines: string[], labels: string, { bounds, counts, sum }: Histogram): void {
    const { name } = this.about
    const before = labels === '' ? '' : `${labels},`
    let count = 0
    for (const [at, bound] of bounds.entries()) {
      count += counts[at]!
      lines.push(`${name}_bucket{${before}le="${bound}"} ${count}`)
    }
    count += counts[bounds.length]!
    lines.push(`${name}_bucket{${before}le="+Inf"} ${count}`)
    lines.push(`${name}_sum${braced(labels)} ${sum}`, `${name}_count${braced(labels)} ${count}`)
  }
}

/** Metric that is read at a scrape: one value for each label set. */
export interface Reading {
  readonly name: string
  readonly help: string
  /** A counter is one that something else keeps. */
  readonly type: 'gauge' | 'counter'
  readonly labels: readonly string[]
  readonly values: Iterable<readonly [labels: LabelValues, value: number]>
}

/** A reading without labels. */
export function gauge(name: string, help: string, value: number): Reading {
  return { name, help, type: 'gauge', labels: [], values: [[[], value]] }
}

/** The same of a counter that something else keeps. */
export function total(name: `${string}_total`, help: string, value: number): Reading {
  return { ...gauge(name, help, value), type: 'counter' }
}

/** A reading in the text format of Prometheus, piece by piece, each of whole lines. */
export function renderReading(reading: Reading): Generator<string, void> {
  const { name, labels, values } = reading
  return inPieces(reading, values, (lines, [given, value]) => {
    lines.push(`${name}${braced(labelsOf(labels, given))} ${numberOf(value)}`)
  })
}

/** @param write adds the lines of a series */
function* inPieces<Series>(
  { name, help, type }: { readonly name: string; readonly help: string; readonly type: string },
  all: Iterable<Series>,
  write: (lines: string[], series: Series) => void,
): Generator<string, void> {
  let lines = [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`]
  let written = 0
  for (const series of all) {
    write(lines, series)
    written += 1
    if (written % PIECE_SERIES > 0) continue
    yield `${lines.join('\n')}\n`
    lines = []
  }
  if (lines.length > 0) yield `${lines.join('\n')}\n`
}

function labelsOf(names: readonly string[], values: LabelValues): string {
  return names.map((name, at) => `${name}="${escaped(values[at] ?? '')}"`).join(',')
}

/** https://prometheus.io/docs/instrumenting/exposition_formats/#comments-help-text-and-type-information */
function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}

function numberOf(value: number): string {
  return Number.isFinite(value) ? String(value) : String(value).replace('Infinity', 'Inf').replace(/^I/, '+I')
}

function braced(labels: string): string {
  return labels === '' ? '' : `{${labels}}`
}
