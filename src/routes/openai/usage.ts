import type { Envelope } from '../../gateway/settle.ts'

interface CompletionUsage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
}

/** Tokens in OpenAI's words; null when the provider does not say all of them. */
export function completionUsage({ usage }: Pick<Envelope, 'usage'>): CompletionUsage | null {
  const { input_tokens: prompt = null, output_tokens: completion = null, total_tokens: total = null } = usage
  if (prompt === null || completion === null || total === null) return null
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total }
}
