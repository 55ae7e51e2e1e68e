import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { GatewayError } from '../contracts/errors.ts'
import { systemClock } from '../contracts/time.ts'
import { askUsage } from '../gateway/admin/usage.ts'
import { readUsageQuestion, USAGE_DIMENSIONS, type UsageInput } from '../gateway/admin/usage-question.ts'
import { CatalogError } from '../gateway/catalog/watch.ts'
import { type CsvCell, csvLine } from '../usage/csv.ts'
import type { UsageEngine } from '../usage/engine.ts'
import { FOCUS_COLUMNS, focusRows } from '../usage/focus.ts'
import type { UsageLake } from '../usage/lake.ts'
import type { UsageReader } from '../usage/reader.ts'
import type { UsageReport } from '../usage/report.ts'
import { csvLines, reportCells, reportColumns, reportJson, rowsJson, shownGroups } from '../usage/report.ts'
import { CommandFailure, json, parse, rfc3339, table, UsageError } from './arguments.ts'
import { type CliContext, EXIT_HELP, environmentOf, operatorBy, servedAt, withState } from './context.ts'
import { completeUntilMs, withLake } from './usage-lake.ts'
import { askSql } from './usage-sql.ts'

const USAGE = `larkway usage [--by DIMENSIONS] [--from T] [--to T] [...]

Usage of all workspaces, as the servers with the same S3_BUCKET, else the same LARKWAY_DATA, have put it into the store.
Servers may be running; a record is there about a minute after its call. Beyond the time up to which REDIS_URL, else
the folder of segments, says that all are there, the answer names that time.

  --by D,D             one sum for each combination of values, of: ${USAGE_DIMENSIONS.slice(0, 8).join(', ')},
                       ${USAGE_DIMENSIONS.slice(8).join(', ')}; end_user goes with workspace alone
  --from T, --to T     dates or times, --to exclusive; default: the last 30 days
  --where D=VALUE      only records with that value, or with none: D= ; may be repeated
  --step hour|day      one sum for each hour or day
  --sort MEASURE       order of groups, the most first; default: cost_usd
  --limit N            most groups, default 100; --offset N leaves out the first
  --json, --csv, --parquet
                       instead of a table; --parquet needs --out
  --focus              charges by day in the columns of FOCUS 1.2 instead, as --csv or --parquet; no --where end_user
  --sql QUERY          answer from the records themselves, which are the view "usage", with DuckDB; --from and --to
                       name the days of whose records it consists
  --out FILE           write to a file

${EXIT_HELP}
`

const text = { type: 'string' } as const
const texts = { type: 'string', multiple: true } as const
const flag = { type: 'boolean' } as const
const FLAGS = {
  ...{ by: text, from: text, to: text, step: text, sort: text, limit: text, offset: text },
  ...{ where: texts, sql: text, out: text },
  ...{ json: flag, csv: flag, parquet: flag, focus: flag },
} as const

type Values = ReturnType<typeof parse<typeof FLAGS>>['values']
const FORMATS = ['json', 'csv', 'parquet'] as const
type Format = (typeof FORMATS)[number] | 'table'

/**
 * `larkway usage`: what was used, by whom.
 *
 * @returns the exit code
 * @throws UsageError, CommandFailure
 */
export async function usage(args: readonly string[], context: CliContext): Promise<number> {
  if (args.includes('--help')) {
    context.print(USAGE)
    return 0
  }
  const { values } = parse(args, FLAGS, 0)
  const format = outputFormat(values)
  if (format === 'parquet' && values.out === undefined) throw new UsageError('--parquet needs --out FILE')
  try {
    const answered = await withLake(context, ({ lake, engine, reader }) => {
      if (values.sql !== undefined) return sql(values.sql, { lake, engine, values, format })
      return values.focus === true
        ? focus({ engine, reader, values, format, context })
        : askEngine({ engine, reader, values, format, context })
    })
    if (values.out === undefined) context.print(String(answered))
    else await writeFile(values.out, answered)
  } catch (error) {
    throw usageRefusal(error)
  }
  return 0
}

function outputFormat(values: Values): Format {
  const named = FORMATS.filter((format) => values[format] === true)
  if (named.length > 1) throw new UsageError(`--${named.join(' and --')} exclude each other`)
  return named[0] ?? 'table'
}

/** The question of the flags, as the endpoint would have it. */
function usageInput(values: Values): UsageInput {
  const input = new Map<string, string[]>()
  for (const name of ['by', 'from', 'to', 'step', 'sort', 'limit', 'offset'] as const) {
    const value = values[name]
    if (value !== undefined) input.set(name, [value])
  }
  for (const filter of values.where ?? []) {
    const [, name = '', value = ''] = /^([a-z_]+)=(.*)$/s.exec(filter) ?? []
    if (!USAGE_DIMENSIONS.some((known) => known === name))
      throw new UsageError(`--where takes DIMENSION=VALUE, of ${USAGE_DIMENSIONS.join(', ')}`)
    input.set(name, [...(input.get(name) ?? []), value])
  }
  return input
}

interface Asked {
  readonly engine: UsageEngine
  readonly reader: UsageReader
  readonly values: Values
  readonly format: Format
  readonly context: CliContext
}

async function askEngine({ engine, reader, values, format, context }: Asked): Promise<string | Uint8Array> {
  const usage = {
    reader,
    nowMs: systemClock.wallNow,
    completeUntilMs: () => completeUntilMs(environmentOf(context)),
  }
  const report = await askUsage(operatorBy('usage'), usageInput(values), usage)
  if (format === 'json') return json({ ...reportJson(report), data: [...rowsJson(report)] })
  if (format === 'csv') return [...csvLines(report)].join('')
  if (format === 'table') return tableOf(report)
  const columns = reportColumns(report.question)
  const words = columns.filter((name) => name === 'time' || report.question.by.some((by) => by === name))
  return parquetOf(
    engine,
    columns.map((name) => ({ name, isNumber: !words.includes(name) })),
    report.answer.rows.map(reportCells),
  )
}

const SHOWN = ['calls', 'errors', 'cost_usd', 'audio_seconds', 'input_tokens', 'output_tokens'] as const

function tableOf(report: UsageReport): string {
  const { question, answer, completeUntilMs: untilMs } = report
  const { total } = reportJson(report)
  const groups = [...(question.step === 'none' ? [] : ['time']), ...question.by]
  const latencies = (row: typeof total) =>
    row.total_ms === null ? ['', ''] : [`${row.total_ms.p50}`, `${row.total_ms.p95}`]
  const cells = (row: typeof total) => [...SHOWN.map((name) => `${row[name]}`), ...latencies(row)]
  const rows = Array.from(rowsJson(report), (row) => [
    ...groups.map((name) => `${row[name] ?? '-'}`),
    ...cells(row),
  ])
  const head = [...groups, ...SHOWN, 'p50_ms', 'p95_ms']
  const summed =
    groups.length === 0 ? [] : [[...groups.map((_, at) => (at === 0 ? 'total' : '')), ...cells(total)]]
  const left = answer.groups - shownGroups(answer)
  const more = left > 0 ? `${left} more groups; see --limit and --offset\n` : ''
  const until = untilMs < question.toMs ? `complete until ${rfc3339(untilMs)}\n` : ''
  return table([head, ...rows, ...summed]) + more + until
}

async function focus({ engine, reader, values, format, context }: Asked): Promise<string | Uint8Array> {
  if (format !== 'csv' && format !== 'parquet') throw new UsageError('--focus needs --csv or --parquet')
  const question = readUsageQuestion(usageInput(values), systemClock.wallNow())
  // The cost of end users is not known by provider and model.
  if (question.where.end_user !== undefined) throw new UsageError('--focus excludes --where end_user')
  const names = await workspaceNames(context)
  const rows: CsvCell[][] = []
  for await (const row of focusRows(reader, { ...question, names })) rows.push(row)
  if (format === 'parquet') return parquetOf(engine, FOCUS_COLUMNS, rows)
  return [FOCUS_COLUMNS.map(({ name }) => name), ...rows].map(csvLine).join('')
}

/** Names of the workspaces that are served here, by their ids: records have none. */
async function workspaceNames(context: CliContext): Promise<ReadonlyMap<string, string>> {
  try {
    return await withState(environmentOf(context), async (state) => {
      const { apps } = (await servedAt(context, undefined, state)).current()
      const workspaces = [...apps.values()].flatMap((own) => [...own.values()].slice(0, 1))
      return new Map(workspaces.map(({ workspace }) => [workspace.id, workspace.name]))
    })
  } catch (error) {
    if (!(error instanceof CommandFailure || error instanceof CatalogError)) throw error
    context.complain?.(`names of workspaces are not known, and their ids stand for them: ${error.message}`)
    return new Map()
  }
}

interface SqlAsked extends Pick<Asked, 'engine' | 'values' | 'format'> {
  readonly lake: UsageLake
}

async function sql(query: string, { lake, engine, values, format }: SqlAsked): Promise<string> {
  if (format === 'parquet') throw new UsageError("--sql writes Parquet by itself: COPY (…) TO 'file.parquet'")
  const { fromMs, toMs } = readUsageQuestion(usageInput(values), systemClock.wallNow())
  const { names, rows } = await askSql(query, { lake, engine, fromMs, toMs })
  const cells = rows.map((row) => row.map((cell) => (isCell(cell) ? cell : JSON.stringify(cell))))
  if (format === 'csv') return [names, ...cells].map(csvLine).join('')
  if (format === 'table') return table([names, ...cells.map((row) => row.map((cell) => `${cell ?? '-'}`))])
  return json(rows.map((row) => Object.fromEntries(names.map((name, at) => [name, row[at]]))))
}

function isCell(value: unknown): value is CsvCell {
  return value === null || typeof value === 'string' || typeof value === 'number'
}

async function parquetOf(
  engine: UsageEngine,
  columns: readonly { readonly name: string; readonly isNumber?: boolean }[],
  rows: readonly (readonly CsvCell[])[],
): Promise<Uint8Array> {
  const types = columns.map(({ name, isNumber = false }) => `${name}: '${isNumber ? 'DOUBLE' : 'VARCHAR'}'`)
  const folder = await engine.folder()
  const [given, made] = ['rows.json', 'rows.parquet'].map((name) => join(folder, name))
  const lines = rows.map((row) =>
    JSON.stringify(Object.fromEntries(columns.map(({ name }, at) => [name, row[at]]))),
  )
  await writeFile(given!, lines.join('\n'))
  const read = `read_json('${given}', format = 'newline_delimited', columns = {${types.join(', ')}})`
  await engine.run([{ sql: `COPY (FROM ${read}) TO '${made}' (FORMAT parquet)` }])
  return readFile(made!)
}

/** A refusal in the words of the command line: flags instead of parameters. */
function usageRefusal(error: unknown): unknown {
  if (!(error instanceof GatewayError)) return error
  const { code, message, extra, cause } = error
  if (code === 'DEPENDENCY_UNAVAILABLE')
    return new CommandFailure(
      `the store does not answer${cause instanceof Error ? `: ${cause.message}` : ''}`,
    )
  if (extra.param === undefined) return new CommandFailure(message, { cause: error })
  const isFilter = USAGE_DIMENSIONS.some((name) => name === extra.param)
  return new UsageError(
    message.replace(`\`${extra.param}\``, isFilter ? `--where ${extra.param}` : `--${extra.param}`),
  )
}
