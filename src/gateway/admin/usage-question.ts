import { MOMENT_EXAMPLES, momentMs } from '../../contracts/instants.ts'
import {
  CALL_DIMENSIONS,
  isAboutEndUsers,
  isOfEndUsers,
  USAGE_MEASURES,
  USAGE_STEPS,
  type UsageDimension,
  type UsageQuestion,
} from '../../usage/answer.ts'
import { DAY_MS, HOUR_MS } from '../../usage/names.ts'
import { invalidField, MUST } from '../edge/refusals.ts'

/** Dimensions to group by and to filter by. */
export const USAGE_DIMENSIONS: readonly UsageDimension[] = [...CALL_DIMENSIONS, 'end_user']

/** A question as a door has it: the values of each parameter, as they were sent. */
export type UsageInput = ReadonlyMap<string, readonly string[]>

/** Parameters beside the dimensions, each with what the manual says of it. */
export const USAGE_PARAMETERS = {
  from: 'date or time, such as `2026-11-01` or `2026-11-01T12:00:00Z`; by default 30 days before `to`',
  to: 'the same, exclusive; by default now',
  step: 'one sum for each `hour` or `day`, or `none` (default): one for the whole time',
  by: 'dimensions, between commas: one sum for each combination of their values that there is',
  sort: 'measure by which groups are in order, the most first; by default `cost_usd`',
  limit: 'most groups to tell of, 1 to 10000; 100 by default',
  offset: 'groups to leave out at the beginning',
} as const

const DEFAULT_DAYS = 30
/** Three years and some; hours are for less. */
const DAYS_MAX = 1_100
const HOURLY_DAYS_MAX = 93
const LIMIT = 100
const LIMIT_MAX = 10_000
const OFFSET_MAX = 500_000
const BY_MAX = 6
const VALUES_MAX = 100
const VALUE_LENGTH_MAX = 512

/**
 * Reads a question. Times are widened to whole hours, or to whole days where it is about end users.
 *
 * @throws GatewayError INVALID_REQUEST naming the parameter
 */
export function readUsageQuestion(input: UsageInput, nowMs: number): UsageQuestion {
  const known: readonly string[] = [...Object.keys(USAGE_PARAMETERS), ...USAGE_DIMENSIONS]
  for (const name of input.keys())
    if (!known.includes(name)) throw invalidField(name, 'is not a parameter of usage')
  const by = dimensionsIn(input)
  const where = filtersIn(input)
  const step = oneOf(input, 'step', USAGE_STEPS, 'none')
  const isOfUsers = isAboutEndUsers({ by, where })
  if (isOfUsers) requireEndUserDimensions([...by, ...(Object.keys(where) as UsageDimension[])])
  if (isOfUsers && step === 'hour') throw invalidField('step', 'must be `day` or `none` with `end_user`')
  const unitMs = isOfUsers || step === 'day' ? DAY_MS : HOUR_MS
  const toMs = timeIn(input, 'to') ?? nowMs
  const fromMs = timeIn(input, 'from') ?? Math.floor((toMs - DEFAULT_DAYS * DAY_MS) / DAY_MS) * DAY_MS
  const question: UsageQuestion = {
    fromMs: Math.floor(fromMs / unitMs) * unitMs,
    toMs: Math.ceil(toMs / unitMs) * unitMs,
    step,
    by,
    where,
    sort: oneOf(input, 'sort', USAGE_MEASURES, 'cost_usd'),
    offset: wholeIn(input, 'offset', [0, OFFSET_MAX]) ?? 0,
    limit: wholeIn(input, 'limit', [1, LIMIT_MAX]) ?? LIMIT,
  }
  checkTimes(question)
  return question
}

function checkTimes(question: UsageQuestion): void {
  const { fromMs, toMs, step } = question
  if (fromMs >= toMs) throw invalidField('to', 'must be after `from`')
  const days = step === 'hour' ? HOURLY_DAYS_MAX : DAYS_MAX
  if (toMs - fromMs > days * DAY_MS)
    throw invalidField(
      'from',
      `must be at most ${days} days before \`to\`${step === 'hour' ? ' by hour' : ''}`,
    )
}

function requireEndUserDimensions(named: readonly UsageDimension[]): void {
  const other = named.find((name) => !isOfEndUsers(name))
  if (other !== undefined)
    throw invalidField(other, 'cannot be combined with `end_user`, which only `workspace` can')
}

function dimensionsIn(input: UsageInput): UsageDimension[] {
  const names = (input.get('by') ?? []).flatMap((list) => list.split(',')).filter((name) => name !== '')
  const by = [...new Set(names)].map((name) => {
    const dimension = USAGE_DIMENSIONS.find((known) => known === name)
    if (dimension === undefined) throw invalidField('by', `${MUST.beOneOf(USAGE_DIMENSIONS)}, between commas`)
    return dimension
  })
  if (by.length > BY_MAX) throw invalidField('by', MUST.haveItems(BY_MAX))
  return by
}

/** A value that is empty stands for none. */
function filtersIn(input: UsageInput): UsageQuestion['where'] {
  const where: { [Name in UsageDimension]?: readonly (string | null)[] } = {}
  for (const name of USAGE_DIMENSIONS) {
    const values = input.get(name)
    if (values === undefined) continue
    if (values.length > VALUES_MAX) throw invalidField(name, MUST.haveItems(VALUES_MAX))
    if (values.some((value) => value.length > VALUE_LENGTH_MAX))
      throw invalidField(name, MUST.haveCharacters(VALUE_LENGTH_MAX))
    where[name] = values.map((value) => (value === '' ? null : value))
  }
  return where
}

function textIn(input: UsageInput, name: string): string | null {
  const values = input.get(name) ?? []
  if (values.length > 1) throw invalidField(name, 'must be given once')
  return values[0] ?? null
}

function oneOf<const Choice extends string>(
  input: UsageInput,
  name: string,
  choices: readonly Choice[],
  otherwise: Choice,
): Choice {
  const value = textIn(input, name)
  if (value === null) return otherwise
  const chosen = choices.find((choice) => choice === value)
  if (chosen === undefined) throw invalidField(name, MUST.beOneOf(choices))
  return chosen
}

function wholeIn(input: UsageInput, name: string, [least, most]: readonly [number, number]): number | null {
  const value = textIn(input, name)
  if (value === null) return null
  const number = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN
  if (!(number >= least && number <= most))
    throw invalidField(name, `must be a whole number from ${least} to ${most}`)
  return number
}

function timeIn(input: UsageInput, name: 'from' | 'to'): number | null {
  const value = textIn(input, name)
  if (value === null) return null
  const ms = momentMs(value)
  if (ms !== null) return ms
  throw invalidField(name, `must be ${MOMENT_EXAMPLES}`)
}
