/*
 * Times that views tell of. The server reads ahead what a view will ask about: nothing here needs a browser.
 */

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** Longer times are told by day. */
const HOURLY_MAX_MS = 2 * DAY_MS
/** As far as questions of usage go. */
const LONGEST_MS = 1_100 * DAY_MS

/** A time of which usage is told. */
export interface Range {
  /** `24h`, `7d`, …; `custom`: of two dates. */
  readonly name: string
  /** Epoch milliseconds, at which an hour begins; to: exclusive. */
  readonly fromMs: number
  readonly toMs: number
  readonly step: 'hour' | 'day'
}

/** Ranges up to now, and what they are called. */
const SPANS = {
  '24h': { label: '24 hours', hours: 24, step: 'hour' },
  '7d': { label: '7 days', hours: 7 * 24, step: 'day' },
  '30d': { label: '30 days', hours: 30 * 24, step: 'day' },
  '90d': { label: '90 days', hours: 90 * 24, step: 'day' },
} as const
/** Whole days and months in UTC. */
const CALENDAR = {
  today: { label: 'Today', step: 'hour' },
  yesterday: { label: 'Yesterday', step: 'hour' },
  month: { label: 'This month', step: 'day' },
  'last-month': { label: 'Last month', step: 'day' },
} as const
export type SpanName = keyof typeof SPANS | keyof typeof CALENDAR

/** Times that the overview looks back over, beside the last hour, and their steps: days of a week say too little. */
export const OVERVIEW_STEPS = { '24h': 'hour', '7d': 'hour', '30d': 'day' } as const
export type OverviewSpan = keyof typeof OVERVIEW_STEPS
export const OVERVIEW_SPANS = Object.keys(OVERVIEW_STEPS) as readonly OverviewSpan[]

/** Time that the page of one provider looks back over. */
export const PROVIDER_SPAN: SpanName = '30d'

export function isSpan(name: string | null): name is SpanName {
  return name !== null && Object.hasOwn({ ...SPANS, ...CALENDAR }, name)
}

function isCalendar(name: SpanName): name is keyof typeof CALENDAR {
  return Object.hasOwn(CALENDAR, name)
}

function calendarSpan(name: keyof typeof CALENDAR, nowMs: number): Range {
  const now = new Date(nowMs)
  const monthMs = (later: number) => Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + later)
  const { step } = CALENDAR[name]
  const todayMs = Math.floor(nowMs / DAY_MS) * DAY_MS
  if (name === 'today') return { name, fromMs: todayMs, toMs: todayMs + DAY_MS, step }
  if (name === 'yesterday') return { name, fromMs: todayMs - DAY_MS, toMs: todayMs, step }
  if (name === 'last-month') return { name, fromMs: monthMs(-1), toMs: monthMs(0), step }
  return { name, fromMs: monthMs(0), toMs: todayMs + DAY_MS, step }
}

/** The last hours or days, the present one among them: whole steps in UTC, so that it stays the same for an hour. */
export function spanOf(name: SpanName, nowMs: number): Range {
  if (isCalendar(name)) return calendarSpan(name, nowMs)
  const { hours, step } = SPANS[name]
  const unitMs = step === 'hour' ? HOUR_MS : DAY_MS
  const toMs = (Math.floor(nowMs / HOUR_MS) + 1) * HOUR_MS
  const fromMs = (Math.ceil(toMs / unitMs) - (hours * HOUR_MS) / unitMs) * unitMs
  return { name, fromMs, toMs, step }
}

/**
 * The time before a range that it is compared with: as long as what has passed of it, and for a month the beginning of
 * the month before. Null: there is none.
 */
export function rangeBefore({ name, fromMs, toMs, step }: Range, nowMs: number): Range | null {
  const passedMs = Math.min(toMs, (Math.floor(nowMs / HOUR_MS) + 1) * HOUR_MS) - fromMs
  const from = new Date(fromMs)
  const startMs =
    name === 'month' || name === 'last-month'
      ? Date.UTC(from.getUTCFullYear(), from.getUTCMonth() - 1)
      : fromMs - (toMs - fromMs)
  if (passedMs <= 0 || startMs < 0) return null
  return { name: 'custom', fromMs: startMs, toMs: Math.min(startMs + passedMs, fromMs), step }
}

/** True if usage can be asked for between two moments. */
export function isAskable(fromMs: number, toMs: number): boolean {
  return fromMs >= 0 && fromMs < toMs && toMs - fromMs <= LONGEST_MS
}

/** The range that an address names by `from` and `to`, or by `range`. */
export function rangeIn(query: URLSearchParams, fallback: SpanName, nowMs: number): Range {
  const name = query.get('range')
  const [fromMs, toMs] = ['from', 'to'].map((field) => Date.parse(query.get(field) ?? ''))
  if (fromMs !== undefined && toMs !== undefined && isAskable(fromMs, toMs)) {
    const whole = {
      fromMs: Math.floor(fromMs / HOUR_MS) * HOUR_MS,
      toMs: Math.ceil(toMs / HOUR_MS) * HOUR_MS,
    }
    return { name: 'custom', ...whole, step: whole.toMs - whole.fromMs > HOURLY_MAX_MS ? 'day' : 'hour' }
  }
  return spanOf(isSpan(name) ? name : fallback, nowMs)
}

/** Dates as their fields have them: `2026-11-24`, or with a time `2026-11-24T10:00`; empty: open. */
export interface Dates {
  readonly from: string
  readonly to: string
}

/**
 * Decides on two dates that are being typed: `wait` while one of them is unfinished. A year is a past one until its
 * last digit.
 *
 * @param mayBeOpen whether a date may be left out
 */
export function judgeDates({ from, to }: Dates, mayBeOpen: boolean): 'wait' | 'reversed' | 'apply' {
  const isWhole = (text: string) => (text === '' ? mayBeOpen : /^[1-9]\d{3}-\d\d-\d\d(T|$)/.test(text))
  if (!isWhole(from) || !isWhole(to)) return 'wait'
  // Both have one format, so they compare as strings.
  return from !== '' && to !== '' && from > to ? 'reversed' : 'apply'
}

/** A range between two days in UTC, the second among them; where one is not changed the range keeps its own moment. */
export function rangeOf(range: Range, changed: Partial<Dates>): Range {
  const { from, to } = changed
  return {
    ...range,
    name: 'custom',
    fromMs: from === undefined ? range.fromMs : Date.parse(from),
    toMs: to === undefined ? range.toMs : Date.parse(to) + DAY_MS,
  }
}

/** When each step of a range begins, epoch milliseconds. */
export function stepsIn({ fromMs, toMs, step }: Pick<Range, 'fromMs' | 'toMs' | 'step'>): readonly number[] {
  const stepMs = step === 'hour' ? HOUR_MS : DAY_MS
  const first = Math.floor(fromMs / stepMs)
  return Array.from({ length: Math.ceil(toMs / stepMs) - first }, (_, at) => (first + at) * stepMs)
}

export function stepMsOf({ step }: Pick<Range, 'step'>): number {
  return step === 'hour' ? HOUR_MS : DAY_MS
}

/** `2026-11-03` of days, else the whole moment: what `from` and `to` take. */
export function timeText(ms: number): string {
  const text = new Date(ms).toISOString()
  return ms % DAY_MS === 0 ? text.slice(0, 10) : text.replace(':00.000Z', 'Z')
}

const LOCALE = 'en-US'

/** "Nov 3" of a day in UTC; of an hour "14:00" in the reader's own time zone. */
function stepLabel(ms: number, step: Range['step']): string {
  const at = new Date(ms)
  if (step === 'day')
    return at.toLocaleDateString(LOCALE, { month: 'short', day: 'numeric', timeZone: 'UTC' })
  return at.toTimeString().slice(0, 5)
}

/** A time axis, whatever is drawn over it: charts of one time have the same. All are epoch milliseconds. */
export interface TimeAxis {
  readonly fromMs: number
  readonly toMs: number
  readonly marks: readonly { readonly atMs: number; readonly label: string }[]
}

/** Marks that fit into a chart on a phone. */
const MARKS_MAX = 7
/** More hours than that are named by their days. */
const HOURS_NAMED = 48
/** Shortest span of an axis of moments: less than this is drawn at its end instead of stretched over it. */
const SPAN_MIN_MS = 600_000
/** Distances between the marks of an hour or less. */
const MARK_STEPS_MS = [120_000, 300_000, 600_000]

/** The axis of steps, each named at its middle. @param times when each step begins, without gaps */
export function axisOfSteps(times: readonly number[], step: Range['step']): TimeAxis {
  const stepMs = stepMsOf({ step })
  const each = Math.max(1, Math.ceil(times.length / MARKS_MAX))
  const isLong = step === 'hour' && times.length > HOURS_NAMED
  const isNamed = (time: number, at: number) =>
    isLong ? time % DAY_MS === 0 : at % each === Math.floor(each / 2)
  const marks = times
    .filter(isNamed)
    .map((time) => ({ atMs: time + stepMs / 2, label: stepLabel(time, isLong ? 'day' : step) }))
  return { fromMs: times[0] ?? 0, toMs: (times.at(-1) ?? 0) + stepMs, marks }
}

/** The axis of moments within an hour. @param times of the moments, oldest first */
export function axisOfMoments(times: readonly number[]): TimeAxis {
  const toMs = times.at(-1) ?? 0
  const fromMs = Math.min(times[0] ?? 0, toMs - SPAN_MIN_MS)
  const stepMs = MARK_STEPS_MS.find((one) => (toMs - fromMs) / one < MARKS_MAX) ?? 1_200_000
  const first = Math.ceil(fromMs / stepMs)
  const marks = Array.from({ length: Math.floor(toMs / stepMs) - first + 1 }, (_, at) => {
    const atMs = (first + at) * stepMs
    return { atMs, label: stepLabel(atMs, 'hour') }
  })
  return { fromMs, toMs, marks }
}

/** The same with the date. */
export function stepName(ms: number, step: Range['step']): string {
  const at = new Date(ms)
  const date = { weekday: 'short', month: 'short', day: 'numeric' } as const
  if (step === 'day') return at.toLocaleDateString(LOCALE, { ...date, timeZone: 'UTC' })
  return `${at.toLocaleDateString(LOCALE, date)}, ${at.toTimeString().slice(0, 5)}`
}

export function spanLabel(name: SpanName): string {
  return isCalendar(name) ? CALENDAR[name].label : SPANS[name].label
}
