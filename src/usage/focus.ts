import type { UsageAnswerRow, UsageDimension, UsageQuestion } from './answer.ts'
import type { CsvCell } from './csv.ts'
import { DAY_MS } from './names.ts'
import type { UsageReader } from './reader.ts'

const COLUMNS = [
  ...['BilledCost', 'BillingAccountId', 'BillingAccountName', 'BillingCurrency', 'BillingPeriodEnd'],
  ...['BillingPeriodStart', 'ChargeCategory', 'ChargeClass', 'ChargeDescription', 'ChargeFrequency'],
  ...['ChargePeriodEnd', 'ChargePeriodStart', 'ConsumedQuantity', 'ConsumedUnit', 'ContractedCost'],
  ...['EffectiveCost', 'InvoiceId', 'InvoiceIssuerName', 'ListCost', 'PricingCategory', 'PricingQuantity'],
  ...['PricingUnit', 'ProviderName', 'PublisherName', 'RegionId', 'RegionName', 'ServiceCategory'],
  ...['ServiceName', 'ServiceSubcategory', 'SkuId', 'SkuPriceId', 'SubAccountId', 'SubAccountName', 'Tags'],
  ...['x_Calls', 'x_KeyId', 'x_Kind', 'x_UnpricedCalls'],
] as const

const NUMBERS: readonly string[] = [
  ...['BilledCost', 'ConsumedQuantity', 'ContractedCost', 'EffectiveCost', 'ListCost', 'PricingQuantity'],
  ...['x_Calls', 'x_UnpricedCalls'],
]

/**
 * Usage in the columns of the FinOps Open Cost and Usage Specification, FOCUS 1.2 (https://focus.finops.org): all that
 * are mandatory, those that are conditional and have a value here, and what only Larkway knows as `x_` columns. A row
 * is the charge of one day for one app, key and model; workspaces are billing accounts, apps sub accounts.
 */
export const FOCUS_COLUMNS = COLUMNS.map((name) => ({ name, isNumber: NUMBERS.includes(name) }))

const BY = [
  ...['workspace', 'app', 'key_id', 'kind', 'purpose', 'operation', 'route', 'provider', 'model', 'region'],
] as const satisfies readonly UsageDimension[]

export interface FocusQuestion extends Pick<UsageQuestion, 'fromMs' | 'toMs'> {
  readonly where: Omit<UsageQuestion['where'], 'end_user'>
  /** Names of workspaces by their ids; one without a name is written as its id. */
  readonly names: ReadonlyMap<string, string>
}

/** Groups that are asked for at a time. */
const PAGE = 10_000

/** FOCUS requires names that Larkway may not know: the provider of a job whose node died is not recorded. */
const UNKNOWN = 'unknown'

/**
 * The charges of whole days, day after day, each in the order of `FOCUS_COLUMNS`.
 *
 * @param where any dimension but `end_user`, whose charges are not known by provider
 * @throws TooManyGroups, GatewayError DEPENDENCY_UNAVAILABLE
 */
export async function* focusRows(
  reader: UsageReader,
  { fromMs, toMs, where, names }: FocusQuestion,
): AsyncGenerator<CsvCell[]> {
  for (let dayMs = Math.floor(fromMs / DAY_MS) * DAY_MS; dayMs < toMs; dayMs += DAY_MS) {
    const time = { fromMs: dayMs, toMs: dayMs + DAY_MS, step: 'none' } as const
    const day = { ...time, where, by: BY, sort: 'cost_usd' } as const
    for (let offset = 0, groups = 1; offset < groups; offset += PAGE) {
      const answer = await reader.ask({ ...day, offset, limit: PAGE })
      groups = answer.groups
      // A record without a provider call is no charge unless it has a cost.
      for (const row of answer.rows)
        if (row.values[BY.indexOf('provider')] !== null || row.sums.cost_usd !== 0)
          yield chargeOf(row, dayMs, names)
    }
  }
}

function chargeOf({ values, sums }: UsageAnswerRow, dayMs: number, names: FocusQuestion['names']): CsvCell[] {
  const of = Object.fromEntries(BY.map((name, index) => [name, values[index] ?? null])) as Record<
    (typeof BY)[number],
    string | null
  >
  const cost = sums.cost_usd / 1_000_000
  const { quantity, unit } = quantityOf(sums)
  const day = new Date(dayMs)
  const operation = of.operation ?? 'call'
  const provider = of.provider ?? UNKNOWN
  const sku = `${provider}/${of.model ?? UNKNOWN}/${operation}`
  const tags = Object.entries({ key_id: of.key_id, purpose: of.purpose, route: of.route })
  const charge: Record<(typeof COLUMNS)[number], CsvCell> = {
    BilledCost: cost,
    BillingAccountId: of.workspace,
    BillingAccountName: names.get(of.workspace ?? '') ?? of.workspace,
    BillingCurrency: 'USD',
    BillingPeriodEnd: timeOf(Date.UTC(day.getUTCFullYear(), day.getUTCMonth() + 1)),
    BillingPeriodStart: timeOf(Date.UTC(day.getUTCFullYear(), day.getUTCMonth())),
    ChargeCategory: 'Usage',
    ChargeClass: null,
    ChargeDescription: `${operation} with ${of.model ?? 'an unknown model'} of ${of.provider ?? 'an unknown provider'}`,
    ChargeFrequency: 'Usage-Based',
    ChargePeriodEnd: timeOf(dayMs + DAY_MS),
    ChargePeriodStart: timeOf(dayMs),
    ...{ ConsumedQuantity: quantity, ConsumedUnit: unit },
    ...{ ContractedCost: cost, EffectiveCost: cost },
    ...{ InvoiceId: null, InvoiceIssuerName: provider, ProviderName: provider, PublisherName: provider },
    ListCost: cost,
    PricingCategory: 'Standard',
    ...{ PricingQuantity: quantity, PricingUnit: unit },
    ...{ RegionId: of.region, RegionName: of.region },
    ServiceCategory: 'AI and Machine Learning',
    ServiceName: operation,
    ServiceSubcategory: 'Generative AI',
    ...{ SkuId: sku, SkuPriceId: sku },
    ...{ SubAccountId: of.app, SubAccountName: of.app },
    Tags: JSON.stringify(Object.fromEntries(tags.filter(([, value]) => value !== null))),
    x_Calls: sums.calls,
    x_KeyId: of.key_id,
    x_Kind: of.kind,
    x_UnpricedCalls: sums.unpriced,
  }
  return FOCUS_COLUMNS.map(({ name }) => charge[name])
}

/** The unit that a charge is counted in, as FOCUS writes units: the first that was metered. */
function quantityOf(sums: UsageAnswerRow['sums']): { readonly quantity: number; readonly unit: string } {
  if (sums.billable_audio_seconds > 0)
    return { quantity: sums.billable_audio_seconds / 1000, unit: 'Seconds' }
  if (sums.video_seconds > 0) return { quantity: sums.video_seconds / 1000, unit: 'Seconds' }
  if (sums.images > 0) return { quantity: sums.images, unit: 'Images' }
  if (sums.characters > 0) return { quantity: sums.characters, unit: 'Characters' }
  const tokens = sums.input_tokens + sums.output_tokens
  if (tokens > 0) return { quantity: tokens, unit: 'Tokens' }
  return { quantity: sums.calls, unit: 'Requests' }
}

/** FOCUS has moments without fractions of a second. */
function timeOf(ms: number): string {
  return new Date(ms).toISOString().replace('.000Z', 'Z')
}
