/** A token and how probable it was, as OpenAI's format has it. */
export interface TokenLogprob {
  readonly token: string
  readonly logprob: number
  /** Its UTF-8 bytes; null where it has none of its own. */
  readonly bytes: readonly number[] | null
}

/** The same of a transcript. */
export interface SpokenLogprob extends Omit<TokenLogprob, 'bytes'> {
  readonly bytes?: readonly number[]
}

/** The same of a chat. */
export interface ChatTokenLogprob extends TokenLogprob {
  /** The likeliest tokens in its place, where they were asked for. */
  readonly top_logprobs: readonly TokenLogprob[]
}

interface ChatLogprobs {
  readonly content: readonly ChatTokenLogprob[] | null
  readonly refusal: readonly ChatTokenLogprob[] | null
}

/** Form of a text completion: lists with one member for each token. */
interface TextLogprobs {
  readonly tokens: readonly string[]
  readonly token_logprobs: readonly (number | null)[]
  readonly top_logprobs: readonly (Readonly<Record<string, number>> | null)[] | null
  readonly text_offset: readonly number[]
}

export type Logprobs = ChatLogprobs | TextLogprobs
