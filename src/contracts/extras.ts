/** Names of options that OpenAI's format has and other formats lack, as its requests have them. */
export const EXTRA_NAMES = [
  ...['background', 'best_of', 'echo', 'frequency_penalty', 'include', 'instructions', 'known_speaker_names'],
  ...['known_speaker_references', 'logit_bias', 'logprobs', 'messages[].name', 'moderation', 'n'],
  ...['output_compression', 'parallel_tool_calls', 'prediction', 'presence_penalty', 'prompt_cache_key'],
  ...['prompt_cache_options', 'prompt_cache_retention', 'reasoning_effort', 'response_format'],
  ...['service_tier', 'style', 'suffix', 'temperature', 'top_logprobs', 'verbosity'],
] as const
export type ExtraName = (typeof EXTRA_NAMES)[number]

/** An option that goes as it was sent to entries whose protocol takes it. */
export interface ExtraOption {
  readonly name: ExtraName
  /** JSON; of `messages[].name` the name in each message, or null. */
  readonly value: unknown
  /** An entry that does not take it is not tried; else it is left out there, with a warning. */
  readonly required: boolean
  /** As the caller names it, in a format that has another name for it. */
  readonly param?: string
}

/** A call that may have such options. */
export interface WithExtras {
  /** Absent: there are none. */
  readonly extras?: readonly ExtraOption[]
}

/** The value of an option; undefined where it was not sent. */
export function extraValue({ extras }: WithExtras, name: ExtraName): unknown {
  return extras?.find((extra) => extra.name === name)?.value
}

/** How many choices a chat or a text completion asks for. */
export function choicesAsked(call: WithExtras): number {
  const n = extraValue(call, 'n')
  return typeof n === 'number' ? n : 1
}
