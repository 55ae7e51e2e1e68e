import type { LiveFacts, Price } from '../contracts/facts.ts'
import type { DatedModel } from '../contracts/models.ts'
import { systemClock } from '../contracts/time.ts'
import { type PriceOfDay, priceOn } from '../gateway/call/facts/price.ts'
import { factsOf, SHIPPED, staleness } from '../gateway/providers/facts.ts'
import { PROVIDERS } from '../gateway/providers/index.ts'
import { parse, table, UsageError } from './arguments.ts'

/**
 * `larkway models [kind] [--stale]`: the built-in tables, what each model can do and costs, and how old that knowledge
 * is; or what of them has to be looked at.
 *
 * @throws UsageError for a kind that there is not
 */
export function listKnownModels(
  args: readonly string[],
  print: (text: string) => void,
  nowMs = systemClock.wallNow(),
): number {
  const { values, positionals } = parse(args, { stale: { type: 'boolean' } }, 1)
  const [wanted] = positionals
  if (wanted !== undefined && !PROVIDERS.has(wanted))
    throw new UsageError(`there is no kind "${wanted}"; there are ${[...PROVIDERS.keys()].sort().join(', ')}`)
  const models = SHIPPED.all().filter(({ kind }) => wanted === undefined || kind === wanted)
  print(values.stale === true ? staleTable(models, nowMs) : factsTable(models, nowMs))
  return 0
}

function factsTable(models: readonly DatedModel[], nowMs: number): string {
  const rows = models.map(({ kind, model, asOf, endsOn, note }) => {
    const facts = factsOf(kind, model)
    return [
      kind,
      model,
      (facts?.capabilities ?? []).join(','),
      (facts?.features ?? []).join(',') || '-',
      facts?.live === undefined ? '-' : facts.live.features.join(',') || 'text',
      priceText(facts?.price ?? null, nowMs, facts?.live),
      asOf,
      endsOn ?? '-',
      note ?? '',
    ]
  })
  return table([
    ['KIND', 'MODEL', 'CAPABILITIES', 'FEATURES', 'LIVE', 'PRICE', 'AS OF', 'ENDS ON', 'NOTE'],
    ...rows,
  ])
}

function staleTable(models: readonly DatedModel[], nowMs: number): string {
  const rows = models.flatMap((one) => {
    const why = staleness(one, nowMs)
    return why.length === 0 ? [] : [[one.kind, one.model, one.asOf, one.endsOn ?? '-', why.join('; ')]]
  })
  if (rows.length === 0) return 'No model ends within 90 days, and all were looked up within the last 90.\n'
  return table([['KIND', 'MODEL', 'AS OF', 'ENDS ON', 'WHY'], ...rows])
}

/** A price in a few words: what holds today, for long prompts, later, and live; `larkway.yaml` may replace it. */
function priceText(price: Price | null, nowMs: number, live?: LiveFacts): string {
  const heard = live === undefined ? [] : [`live ${priceText(live.price ?? null, nowMs)}`]
  if (price === null) return heard.join('') || 'unknown'
  const today = priceOn(price, nowMs)
  const day = new Date(nowMs).toISOString().slice(0, 10)
  const long = (today.tiers ?? []).map((tier) => `over ${tier.over_input_tokens} tokens ${partsText(tier)}`)
  const tiers = Object.keys(today.by_service_tier ?? {})
  const others = tiers.length === 0 ? [] : [`others for ${tiers.join(' ')}`]
  const later = (price.periods ?? []).flatMap(({ from = day, ...parts }) =>
    from > day ? [`from ${from} ${partsText(parts)}`] : [],
  )
  return [partsText(today) || 'unknown', ...long, ...others, ...later, ...heard].join(', ')
}

function partsText(price: PriceOfDay): string {
  const parts: [number | undefined, string][] = [
    [price.per_hour_usd, '/h'],
    [price.per_1k_characters_usd, '/1k chars'],
    [price.per_1m_input_tokens_usd, '/1M in'],
    [price.per_1m_output_tokens_usd, '/1M out'],
    [price.per_1m_cached_input_tokens_usd, '/1M cached in'],
    [price.per_1m_audio_input_tokens_usd, '/1M audio in'],
    [price.per_1m_audio_output_tokens_usd, '/1M audio out'],
    [price.per_image_usd, '/image'],
    [price.per_video_second_usd, '/video s'],
    [price.per_credit_usd, '/credit'],
    ...Object.entries(price.add_ons_per_hour_usd ?? {}).map(([feature, usd]): [number, string] => [
      usd,
      `/h with ${feature}`,
    ]),
    [price.by_language?.one?.per_hour_usd, '/h with a named language'],
    [price.by_language?.several?.per_hour_usd, '/h with several languages'],
  ]
  const known = parts.filter(([usd]) => usd !== undefined).map(([usd, unit]) => `${usd}${unit}`)
  return known.join(' ')
}
