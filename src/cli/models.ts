import { DATED, factsOf } from '../providers/facts.ts'
import { PROVIDERS } from '../providers/index.ts'
import type { Price } from '../schema/facts.ts'
import { parse, UsageError } from './arguments.ts'
import { table } from './table.ts'

/**
 * `larkway models [kind]`: the built-in tables, what each model can do and costs, and how old that knowledge is.
 *
 * @throws UsageError for a kind that there is not
 */
export function listKnownModels(args: readonly string[], print: (text: string) => void): number {
  const [wanted] = parse(args, {}, 1).positionals
  if (wanted !== undefined && !PROVIDERS.has(wanted))
    throw new UsageError(`there is no kind "${wanted}"; there are ${[...PROVIDERS.keys()].sort().join(', ')}`)
  const rows = DATED.filter(({ kind }) => wanted === undefined || kind === wanted).map(
    ({ kind, model, asOf, endsOn }) => {
      const facts = factsOf(kind, model)
      return [
        kind,
        model,
        (facts?.capabilities ?? []).join(','),
        (facts?.features ?? []).join(',') || '-',
        priceText(facts?.price ?? null),
        asOf,
        endsOn ?? '-',
      ]
    },
  )
  print(table([['KIND', 'MODEL', 'CAPABILITIES', 'FEATURES', 'PRICE', 'AS OF', 'ENDS ON'], ...rows]))
  return 0
}

/** Main parts of a price in a few words; `larkway.yaml` may replace it. */
function priceText(price: Price | null): string {
  const parts: [number | undefined, string][] = [
    [price?.per_hour_usd, '/h'],
    [price?.per_1k_characters_usd, '/1k chars'],
    [price?.per_1m_input_tokens_usd, '/1M in'],
    [price?.per_1m_output_tokens_usd, '/1M out'],
    [price?.per_image_usd, '/image'],
    [price?.per_video_second_usd, '/video s'],
    [price?.per_credit_usd, '/credit'],
  ]
  const known = parts.filter(([usd]) => usd !== undefined).map(([usd, unit]) => `${usd}${unit}`)
  return known.join(' ') || 'unknown'
}
