import { type Static, Type } from 'typebox'

/** A region as vendors name it: `eu`, or a part of one such as `eu-west-1`. */
const REGION = '^[a-z][a-z0-9]*(-[a-z0-9]+)*$'
const Region = Type.String({ pattern: REGION, maxLength: 32 })
const Days = Type.Object(
  { days: Type.Integer({ minimum: 0, maximum: 36_500, description: 'most days that it is kept' }) },
  { additionalProperties: false },
)

const Retention = Type.Union([Type.Enum(['zero']), Days])
type Retention = Static<typeof Retention>

/** Promises of an account at a provider about the content that it is sent. An absent one is not known. */
export const RESIDENCY_SHAPES = {
  region: Type.With(Region, { description: 'where the content is handled, e.g. eu or eu-west-1' }),
  retention: Type.With(Retention, { description: 'how long the content is kept: zero, or days' }),
  training: Type.Enum(['never', 'allowed'], { description: 'whether models are trained with the content' }),
} as const

/** Promises of an account at a provider about the content that it is sent. */
export interface Residency {
  readonly region?: string | undefined
  readonly retention?: Retention | undefined
  readonly training?: 'never' | 'allowed' | undefined
}

export type ResidencyPromise = keyof typeof RESIDENCY_SHAPES

/** Demands of a workspace, a purpose or a call on every entry that its content may be sent to. */
export const RequireShape = Type.Object(
  {
    region: Type.Optional(
      Type.Union([Region, Type.Array(Region, { minItems: 1, maxItems: 16, uniqueItems: true })], {
        description: 'where the content may be handled; a name holds for its parts: eu for eu-west-1',
      }),
    ),
    retention: Type.Optional(
      Type.With(Retention, { description: 'how long it may be kept at most: zero, or days' }),
    ),
    training: Type.Optional(Type.Enum(['never'], { description: 'no model may be trained with it' })),
  },
  { additionalProperties: false },
)
export type RequireFields = Readonly<Static<typeof RequireShape>>

/** Demands that were made by one side or several. Plain data, so that a job record can hold it. */
export interface Requirements {
  /** Lists of which each has to hold the region. */
  readonly regions: readonly (readonly string[])[]
  /** Most days that content may be kept, 0 for not at all; null: it does not matter. */
  readonly retentionDays: number | null
  readonly noTraining: boolean
}

export function requirementsOf({ region, retention, training }: RequireFields): Requirements {
  const regions = typeof region === 'string' ? [region] : region
  return {
    regions: regions === undefined ? [] : [regions],
    retentionDays: retention === undefined ? null : daysOf(retention),
    noTraining: training === 'never',
  }
}

/** All demands together; null where there are none. */
export function allRequirements(sides: readonly (Requirements | null | undefined)[]): Requirements | null {
  const made = sides.filter((side) => side !== null && side !== undefined)
  const [first] = made
  if (first === undefined || made.length === 1) return first ?? null
  const days = made.flatMap(({ retentionDays }) => retentionDays ?? [])
  return {
    regions: made.flatMap(({ regions }) => regions),
    retentionDays: days.length === 0 ? null : Math.min(...days),
    noTraining: made.some(({ noTraining }) => noTraining),
  }
}

/** Lists what an entry does not promise, or too little of, each in words. What is not known is not promised. */
export function brokenPromises(
  { region, retention, training }: Residency,
  { regions, retentionDays, noTraining }: Requirements,
): { readonly promise: ResidencyPromise; readonly words: string }[] {
  const broken: { promise: ResidencyPromise; words: string }[] = []
  const wanted = regions.find((list) => region === undefined || !list.some((name) => isWithin(region, name)))
  if (wanted !== undefined)
    broken.push({
      promise: 'region',
      words: `its region is ${region ?? NOT_KNOWN}, not ${wanted.join(' or ')}`,
    })
  if (retentionDays !== null && (retention === undefined || daysOf(retention) > retentionDays)) {
    const kept = retention === undefined ? NOT_KNOWN : inDays(daysOf(retention))
    broken.push({ promise: 'retention', words: `its retention is ${kept}, not ${inDays(retentionDays)}` })
  }
  if (noTraining && training !== 'never') {
    const words =
      training === undefined ? `whether it trains is ${NOT_KNOWN}` : 'it may train with the content'
    broken.push({ promise: 'training', words })
  }
  return broken
}

const NOT_KNOWN = 'not known'

function isWithin(region: string, name: string): boolean {
  return region === name || region.startsWith(`${name}-`)
}

function daysOf(retention: Retention): number {
  return retention === 'zero' ? 0 : retention.days
}

function inDays(days: number): string {
  return days === 0 ? 'zero' : days === 1 ? '1 day' : `${days} days`
}

/**
 * Reads demands as a header or a field writes them: `region=eu|us, retention=zero, training=never`; a number of days
 * stands as `retention=30`.
 *
 * @returns null where it is not that
 */
export function readRequirements(text: string): RequireFields | null {
  const fields: Record<string, unknown> = {}
  for (const part of text.split(',')) {
    const [name = '', value = '', ...more] = part.split('=').map((one) => one.trim())
    if (name === '' && value === '' && more.length === 0) continue
    if (more.length > 0 || Object.hasOwn(fields, name)) return null
    fields[name] = name === 'region' ? value.split('|') : name === 'retention' ? readRetention(value) : value
  }
  return fields as RequireFields
}

function readRetention(value: string): unknown {
  return /^\d{1,5}$/.test(value) ? { days: Number(value) } : value
}
