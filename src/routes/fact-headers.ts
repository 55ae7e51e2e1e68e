import type { Envelope } from '../gateway/settle.ts'

type Facts = Pick<
  Envelope,
  'provider' | 'model' | 'usage' | 'cost_usd' | 'lk_applied_purpose' | 'lk_purpose_source'
>

/** The envelope's facts beside a body that is not JSON. */
export function factHeaders({
  usage,
  cost_usd,
  lk_applied_purpose,
  ...facts
}: Facts): Record<string, string> {
  const headers: Record<string, string> = {
    'x-lk-provider': facts.provider,
    'x-lk-model': facts.model,
    'x-lk-purpose-source': facts.lk_purpose_source,
  }
  for (const [name, value] of Object.entries(usage)) {
    if (value !== null) headers[`x-lk-usage-${name.replaceAll('_', '-')}`] = String(value)
  }
  if (cost_usd !== null) headers['x-lk-cost-usd'] = String(cost_usd)
  if (lk_applied_purpose !== null) headers['x-lk-applied-purpose'] = encodeURIComponent(lk_applied_purpose)
  return headers
}
