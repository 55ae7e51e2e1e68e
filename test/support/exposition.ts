/** One line of an exposition. */
export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Metrics as they were told at one moment. */
export interface Exposition {
  readonly text: string
  readonly samples: readonly Sample[]
  /** Name of the metric → its type; buckets, sums and counts of a histogram are not in here. */
  readonly types: ReadonlyMap<string, string>
  /** The sum of all series of that name with these labels; undefined: there is none. */
  value(name: string, labels?: Readonly<Record<string, string>>): number | undefined
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/s
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/y

/** @throws Error for a line that is none of the text format (version 0.0.4), and for a series that is told twice */
export function readExposition(text: string): Exposition {
  const samples: Sample[] = []
  const types = new Map<string, string>()
  const seen = new Set<string>()
  for (const line of text.split('\n')) {
    const [, typed, type] = /^# TYPE (\S+) (counter|gauge|histogram|summary)$/.exec(line) ?? []
    if (typed !== undefined && type !== undefined) {
      if (types.has(typed)) throw new Error(`${typed} has two types`)
      types.set(typed, type)
    } else if (line !== '' && !/^# HELP \S+ \S/.test(line)) {
      const sample = readSample(line)
      const series = `${sample.name} ${JSON.stringify(Object.entries(sample.labels).sort())}`
      if (seen.has(series)) throw new Error(`told twice: ${line}`)
      seen.add(series)
      samples.push(sample)
    }
  }
  return {
    text,
    samples,
    types,
    value(name, labels = {}) {
      const found = samples.filter(
        (sample) =>
          sample.name === name &&
          Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
      )
      return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0)
    },
  }
}

function readSample(line: string): Sample {
  const [, name, inBraces = '', number = ''] = LINE.exec(line) ?? []
  if (name === undefined) throw new Error(`no line of metrics: ${line}`)
  const labels: Record<string, string> = {}
  LABEL.lastIndex = 0
  while (LABEL.lastIndex < inBraces.length) {
    const [, key = '', value = ''] = LABEL.exec(inBraces) ?? []
    if (key === '') throw new Error(`no labels: ${line}`)
    labels[key] = value.replace(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped))
  }
  const value = number === '+Inf' ? Number.POSITIVE_INFINITY : Number(number)
  if (Number.isNaN(value) && !/^nan$/i.test(number)) throw new Error(`no number: ${line}`)
  return { name, labels, value }
}

/** Asks a node for its metrics. */
export async function scrape(port: number): Promise<Exposition> {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`)
  const text = await response.text()
  if (response.status !== 200) throw new Error(`the scrape was answered ${response.status}`)
  return readExposition(text)
}
