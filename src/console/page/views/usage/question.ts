import type { UsageSums } from '../../../server/answers/usage.ts'
import { type Range, rangeBefore, rangeIn, timeText } from '../../components/range.ts'
import { COLOURS } from '../../components/tones.ts'
import { compact, formatCount, minutes, usd } from '../../format.ts'
import { NONE, queryOf } from '../../paths.ts'

/** Dimensions to group and filter usage by, with their names. */
export const DIMENSIONS = {
  workspace: 'Workspace',
  provider: 'Provider',
  model: 'Model',
  app: 'App',
  key_id: 'API key',
  purpose: 'Purpose',
  route: 'Route',
  endpoint: 'Endpoint',
  operation: 'Operation',
  kind: 'Kind',
  region: 'Region',
  status: 'Status',
  error_code: 'Error code',
  outcome: 'Outcome',
  end_user: 'End user',
} as const
export type Dimension = keyof typeof DIMENSIONS
export const DIMENSION_NAMES = Object.keys(DIMENSIONS) as readonly Dimension[]

export function isDimension(name: string | null): name is Dimension {
  return name !== null && Object.hasOwn(DIMENSIONS, name)
}

/** Name of a dimension within a sentence. */
export function inSentence(name: Dimension): string {
  return name === 'key_id' ? DIMENSIONS[name] : DIMENSIONS[name].toLowerCase()
}

/** Measures of usage. */
export interface Measure {
  readonly label: string
  /** By which the API puts groups in order. */
  readonly sort: string
  readonly read: (sums: UsageSums) => number
  readonly format: (value: number) => string
}

export const MEASURES = {
  cost: { label: 'Cost', sort: 'cost_usd', read: (sums) => sums.cost_usd, format: money },
  calls: { label: 'Calls', sort: 'calls', read: (sums) => sums.calls, format: formatCount },
  errors: { label: 'Errors', sort: 'errors', read: (sums) => sums.errors, format: formatCount },
  tokens: {
    label: 'Tokens',
    sort: 'input_tokens',
    read: (sums) => sums.input_tokens + sums.output_tokens,
    format: formatCount,
  },
  audio: {
    label: 'Audio',
    sort: 'audio_seconds',
    read: (sums) => sums.audio_seconds / 60,
    format: minutes,
  },
  characters: {
    label: 'Characters',
    sort: 'characters',
    read: (sums) => sums.characters,
    format: formatCount,
  },
} as const satisfies Record<string, Measure>
export type MeasureName = keyof typeof MEASURES
export const MEASURE_NAMES = Object.keys(MEASURES) as readonly MeasureName[]

export function isMeasure(name: string | null): name is MeasureName {
  return name !== null && Object.hasOwn(MEASURES, name)
}

const MONEY_MAX = 99_999

/** In a column of amounts each has two decimals. */
export function money(value: number): string {
  return value > 0 && value < 0.01 ? '< $0.01' : value > MONEY_MAX ? `$${compact(value)}` : usd(round2(value))
}

const round2 = (value: number) => Math.round(value * 100) / 100

export type Filter = readonly [Dimension, string | null]

/** State of the page; the address keeps all of it. */
export interface UsageState {
  readonly range: Range
  readonly by: Dimension
  /** The second dimension of the table; null: it has one. */
  readonly and: Dimension | null
  readonly measure: MeasureName
  /** Records that have one value each; null: none. */
  readonly filters: readonly Filter[]
}

/** The state of an address, without values that make no sense. @param workspace null: all of them */
export function stateOf(query: URLSearchParams, workspace: string | null, nowMs: number): UsageState {
  const named = query.get('by')
  const show = query.get('show')
  const by =
    isDimension(named) && canGroup(named, workspace) ? named : workspace === null ? 'workspace' : 'model'
  const second = query.get('and')
  const filters = DIMENSION_NAMES.flatMap((name): Filter[] => {
    const value = query.get(name)
    if (value === null || value === '' || !canGroup(name, workspace)) return []
    return [[name, value === NONE ? null : value]]
  })
  const state = {
    range: rangeIn(query, '30d', nowMs),
    by: isOfUsers(filters) && !OF_USERS.has(by) ? ('end_user' as const) : by,
    and: null,
    measure: isMeasure(show) ? show : ('cost' as const),
    filters,
  }
  const isPair = isDimension(second) && canGroup(second, workspace) && isSecond(second, state)
  return { ...state, and: isPair ? second : null }
}

/** The only dimensions by which end users are counted. */
const OF_USERS: ReadonlySet<Dimension> = new Set<Dimension>(['end_user', 'workspace'])

function isOfUsers(filters: readonly Filter[]): boolean {
  return filters.some(([name]) => name === 'end_user')
}

type Grouped = Pick<UsageState, 'by' | 'and' | 'filters'>

function tellsOfUsers({ by, and, filters }: Grouped): boolean {
  return by === 'end_user' || and === 'end_user' || isOfUsers(filters)
}

/** True if the table can have it as a second dimension: end users are only told apart by workspace besides. */
export function isSecond(name: Dimension, state: Omit<Grouped, 'and'>): boolean {
  const isWithUsers = name === 'end_user' || state.by === 'end_user'
  return (
    name !== state.by &&
    isGrouping(name, state) &&
    (!isWithUsers || (OF_USERS.has(name) && OF_USERS.has(state.by)))
  )
}

/** The dimensions of the table. */
export function dimensionsOf({ by, and }: Pick<Grouped, 'by' | 'and'>): readonly Dimension[] {
  return and === null ? [by] : [by, and]
}

/** True if a filter applies to the figures: it is kept, also while it cannot be applied. */
export function isApplied(state: Grouped, [name]: Filter): boolean {
  return OF_USERS.has(name) || !tellsOfUsers(state)
}

function appliedFilters(state: Grouped): readonly Filter[] {
  return state.filters.filter((filter) => isApplied(state, filter))
}

/** True if the filters leave a grouping possible. */
export function isGrouping(name: Dimension, { filters }: Pick<Grouped, 'filters'>): boolean {
  return OF_USERS.has(name) || !isOfUsers(filters)
}

function canGroup(name: Dimension, workspace: string | null): boolean {
  return workspace === null || name !== 'workspace'
}

/** The dimensions that a page of one workspace, or (null) of all, can be grouped by. */
export function dimensionsFor(workspace: string | null): readonly Dimension[] {
  return DIMENSION_NAMES.filter((name) => canGroup(name, workspace))
}

/** The query of an address that shows a state. */
export function usageAddress({ range, by, and, measure, filters }: UsageState): string {
  const { name, fromMs, toMs } = range
  const time = name === 'custom' ? { from: timeText(fromMs), to: timeText(toMs) } : { range: name }
  return queryOf({
    ...time,
    by,
    and,
    show: measure === 'cost' ? null : measure,
    ...Object.fromEntries(filters.map(([dimension, value]) => [dimension, value ?? NONE])),
  })
}

/** The state after one group is chosen: only its records, by the next dimension. @param values of `dimensionsOf` */
export function drilled(state: UsageState, values: readonly (string | null)[]): UsageState {
  const { by, filters } = state
  const chosen = dimensionsOf(state).map((name, at): Filter => [name, values[at] ?? null])
  const own = new Set(chosen.map(([name]) => name))
  const others = filters.filter(([name]) => !own.has(name))
  const taken = new Set<Dimension>([...own, ...others.map(([name]) => name)])
  const next = tellsOfUsers(state)
    ? 'end_user'
    : (NEXT[by] ?? ['model', 'app', 'key_id']).find((one) => !taken.has(one))
  return { ...state, by: next ?? by, and: null, filters: [...others, ...chosen] }
}

/** The next dimension for a group: the first of these that is not filtered by yet. */
const NEXT: { readonly [Name in Dimension]?: readonly Dimension[] } = {
  workspace: ['app', 'provider', 'model', 'key_id'],
  provider: ['model', 'app', 'key_id', 'route'],
  model: ['app', 'key_id', 'route', 'provider'],
  app: ['key_id', 'model', 'provider', 'route'],
  key_id: ['model', 'provider', 'route', 'status'],
  status: ['error_code', 'provider', 'model', 'app'],
  error_code: ['provider', 'model', 'app', 'route'],
  outcome: ['error_code', 'provider', 'model', 'app'],
}

export function without({ filters, ...state }: UsageState, name: Dimension): UsageState {
  return { ...state, filters: filters.filter(([other]) => other !== name) }
}

/** Filters of the request log; the first of these can be looked for without a value. */
const LOGGED_WORDS: ReadonlySet<Dimension> = new Set<Dimension>([
  ...(['provider', 'model', 'app', 'key_id', 'purpose', 'route', 'endpoint', 'operation'] as const),
  ...(['error_code', 'end_user'] as const),
])
const LOGGED: ReadonlySet<Dimension> = new Set<Dimension>(['kind', 'status', 'outcome', 'workspace'])

/**
 * The address of the requests that a state is of, as far as the request log has the same filters. Usage counts what
 * the playground sends, too.
 */
export function requestsQuery(state: UsageState): string {
  const { range, measure } = state
  const same = appliedFilters(state).filter(
    ([name, value]) => LOGGED_WORDS.has(name) || (LOGGED.has(name) && value !== null),
  )
  return queryOf({
    tab: 'log',
    from: new Date(range.fromMs).toISOString(),
    to: new Date(range.toMs).toISOString(),
    playground: 'true',
    // The log cannot be asked for what has no status: only jobs have none.
    kind: appliedFilters(state).some(([name, value]) => name === 'status' && value === null) ? 'job' : null,
    outcome: measure === 'errors' ? 'error' : null,
    ...Object.fromEntries(same.map(([name, value]) => [name, value ?? NONE])),
  })
}

/** Query of the requests of a state: the log cannot be asked for a region. */
export function requestsWords(state: UsageState): string {
  return appliedFilters(state).some(([name]) => name === 'region')
    ? 'View requests of all regions'
    : 'View requests'
}

interface Asked {
  readonly step: 'none' | 'hour' | 'day'
  readonly by: readonly Dimension[]
  readonly limit?: number
  readonly format?: 'csv'
}

/** The path of a question to the console's API. */
export function questionPath(state: UsageState, workspace: string | null, asked: Asked): string {
  const { range, measure } = state
  const query = new URLSearchParams({
    from: timeText(range.fromMs),
    to: timeText(range.toMs),
    step: tellsOfUsers(state) && asked.step === 'hour' ? 'day' : asked.step,
    sort: MEASURES[measure].sort,
  })
  if (asked.by.length > 0) query.set('by', asked.by.join())
  if (asked.limit !== undefined) query.set('limit', String(asked.limit))
  if (asked.format !== undefined) query.set('format', asked.format)
  if (workspace !== null) query.set('workspace', workspace)
  for (const [name, value] of appliedFilters(state)) query.set(name, value ?? '')
  return `/usage?${query.toString()}`
}

/** Groups that the chart tells apart, and those that the table lists. */
const CHART_GROUPS = COLOURS
const TABLE_GROUPS = 100
/** Groups of the period before: most of the table's are among them. Twice as many are a third of all that is loaded. */
const GROUPS_BEFORE = 500

/** The paths of the questions of the page. */
export interface PageQuestions {
  readonly table: string
  /** The groups of the chart. */
  readonly parts: string
  /** All groups together, for the rest of the chart. */
  readonly whole: string
  /** The table of the period before; null: there is none. */
  readonly before: string | null
}

export function pageQuestions(state: UsageState, workspace: string | null, nowMs: number): PageQuestions {
  const step = chartStep(state)
  const by = dimensionsOf(state)
  const range = rangeBefore(state.range, nowMs)
  return {
    table: questionPath(state, workspace, { step: 'none', by, limit: TABLE_GROUPS }),
    parts: questionPath(state, workspace, { step, by: [state.by], limit: CHART_GROUPS }),
    whole: questionPath(state, workspace, { step, by: [] }),
    before:
      range === null
        ? null
        : questionPath({ ...state, range }, workspace, { step: 'none', by, limit: GROUPS_BEFORE }),
  }
}

/** End users are counted by day. */
export function chartStep(state: UsageState): Range['step'] {
  return tellsOfUsers(state) ? 'day' : state.range.step
}
