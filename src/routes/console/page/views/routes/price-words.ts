import type { Price } from '../../../../../schema/facts.ts'

/** What a model costs, in short; null is a price that is not known. */
export function priceInWords(price: Price | null): string {
  if (price === null) return 'price not known'
  const charged = PER.flatMap(([field, unit]) => {
    const amount = price[field]
    return typeof amount === 'number' && amount > 0 ? [`${dollars(amount)} ${unit}`] : []
  })
  return charged.length === 0 ? 'free' : charged.join(' · ')
}

/** What can be added to it; empty: nothing. */
export function surchargesInWords(price: Price | null): string {
  const parts = Object.entries(price?.surcharges ?? {}).flatMap(([feature, share]) =>
    typeof share === 'number' && share > 0
      ? [`${feature.replaceAll('_', ' ')} +${Math.round(share * 100)} %`]
      : [],
  )
  for (const [feature, usd] of Object.entries(price?.add_ons_per_hour_usd ?? {}))
    if (typeof usd === 'number' && usd > 0)
      parts.push(`${feature.replaceAll('_', ' ')} +${dollars(usd)} per hour`)
  for (const { over_input_tokens: over } of price?.tiers ?? [])
    parts.push(`another price over ${over.toLocaleString('en')} tokens in`)
  if (price?.per_channel === true) parts.push('each channel charged')
  if (price?.minimum_seconds) parts.push(`at least ${price.minimum_seconds} s`)
  return parts.join(', ')
}

const PER: readonly (readonly [keyof Price, string])[] = [
  ['per_hour_usd', 'per hour'],
  ['per_1k_characters_usd', 'per 1k characters'],
  ['per_1m_input_tokens_usd', 'per 1M tokens in'],
  ['per_1m_output_tokens_usd', 'per 1M tokens out'],
  ['per_image_usd', 'per image'],
  ['per_video_second_usd', 'per second of video'],
  ['per_credit_usd', 'per credit'],
]

/** With as many decimals as it needs, at least two: `$0.36`, `$0.0043`. */
export function dollars(amount: number): string {
  const text = new Intl.NumberFormat('en', {
    minimumFractionDigits: 2,
    maximumFractionDigits: 6,
  }).format(amount)
  return `$${text}`
}
