import type { JsonObject } from '../../schema/json.ts'
import type { TokenUsage } from '../../schema/usage.ts'
import { asObject } from '../json.ts'

/**
 * The tokens of an answer: `prompt_tokens` and `completion_tokens` of the older endpoints, `input_tokens` and
 * `output_tokens` of the newer ones. Groq streams them inside `x_groq`. Null when there are none.
 */
export function readUsage({ usage, x_groq: groq }: JsonObject): TokenUsage | null {
  const counts = asObject(usage) ?? asObject(asObject(groq)?.usage)
  if (counts === null) return null
  return {
    input_tokens: count(counts.prompt_tokens ?? counts.input_tokens),
    output_tokens: count(counts.completion_tokens ?? counts.output_tokens),
  }
}

function count(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null
}
