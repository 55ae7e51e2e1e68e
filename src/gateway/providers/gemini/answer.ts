import type { FinishReason } from '../../../contracts/chat.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Ending } from '../../../contracts/provider.ts'
import type { Failure, UpstreamReply } from '../../../contracts/upstream.ts'
import { type TokenUsage, tokenDetails } from '../../../contracts/usage.ts'
import { type Made, readEnding } from '../answer.ts'
import { unusable } from '../failure.ts'
import { asObject, objectsIn } from '../json.ts'

/** An answer of `generateContent`, or one event of its stream. Only fields that are used are read. */
export interface GeminiAnswer {
  /** Parts of the first candidate, without the model's thoughts. */
  readonly parts: readonly JsonObject[]
  /** As Gemini names it; null while the answer continues. */
  readonly finishReason: string | null
  /** Why the prompt was not let through to the model; null when it was. */
  readonly blockReason: string | null
  readonly usage: TokenUsage | null
}

/** Reasons for which Gemini withholds an answer, or cuts it. */
const CONTENT_REASONS: ReadonlySet<string> = new Set([
  ...['SAFETY', 'RECITATION', 'BLOCKLIST', 'PROHIBITED_CONTENT', 'SPII', 'IMAGE_SAFETY'],
  ...['IMAGE_PROHIBITED_CONTENT', 'IMAGE_RECITATION'],
])

/** https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse */
export function readAnswer(body: JsonObject): GeminiAnswer {
  const candidate = objectsIn(body.candidates)[0]
  const parts = objectsIn(asObject(candidate?.content)?.parts)
  return {
    parts: parts.filter(({ thought }) => thought !== true),
    finishReason: wordOf(candidate?.finishReason),
    blockReason: wordOf(asObject(body.promptFeedback)?.blockReason),
    usage: readUsage(body),
  }
}

/**
 * The end of an operation whose answer is of use only when whole: one that hit the limit of tokens is refused like one
 * that was cut for its content.
 */
export function wholeEnding<Result>(
  reply: UpstreamReply,
  read: (answer: GeminiAnswer) => Made<Result>,
): Ending<Result> {
  return readEnding(reply, (body) => {
    const answer = readAnswer(body)
    const isCut = answer.finishReason === 'MAX_TOKENS'
    return withheldOf(answer, reply) ?? (isCut ? unusable(reply, 'the answer was cut short') : read(answer))
  })
}

/** The failure that an answer withheld or cut for its content is; null for any other. */
export function withheldOf(
  { blockReason, finishReason }: Pick<GeminiAnswer, 'blockReason' | 'finishReason'>,
  { status }: Pick<UpstreamReply, 'status'>,
): Failure | null {
  if (blockReason !== null) return refusedContent(status, 'the provider blocked the prompt', blockReason)
  if (!isContentReason(finishReason)) return null
  return refusedContent(status, 'the provider withheld its answer', finishReason)
}

/** @param word what the provider calls it, for the log */
export function refusedContent(status: number, reason: string, word: string | null): Failure {
  return { kind: 'content', status, reason, retryAfterMs: null, providerMessage: word }
}

export function isContentReason(word: string | null): boolean {
  return word !== null && CONTENT_REASONS.has(word)
}

/** Null for reasons that the caller's interface has no word for. */
export function geminiFinishReason(word: string | null): FinishReason | null {
  if (word === 'STOP') return 'stop'
  if (word === 'MAX_TOKENS') return 'length'
  return isContentReason(word) ? 'content_filter' : null
}

/** Thoughts are charged as output. A count of nothing is left out, as protocol buffers do. */
function readUsage({ usageMetadata }: JsonObject): TokenUsage | null {
  const counts = asObject(usageMetadata)
  if (counts === null) return null
  const { promptTokenCount, toolUsePromptTokenCount, candidatesTokenCount, thoughtsTokenCount } = counts
  return {
    input_tokens: readCount(promptTokenCount) + readCount(toolUsePromptTokenCount),
    output_tokens: readCount(candidatesTokenCount) + readCount(thoughtsTokenCount),
    ...tokenDetails({
      cached_input_tokens: counts.cachedContentTokenCount,
      cache_write_tokens: undefined,
      audio_input_tokens: audioIn(counts.promptTokensDetails, 'tokenCount'),
      audio_output_tokens: audioIn(counts.candidatesTokensDetails, 'tokenCount'),
      service_tier: counts.serviceTier,
    }),
  }
}

/** Tokens of audio in a list of `{modality, tokenCount}`, or with `tokens` for the count; undefined: no list. */
export function audioIn(details: unknown, counted: 'tokenCount' | 'tokens'): number | undefined {
  if (!Array.isArray(details)) return undefined
  const audio = objectsIn(details).filter(
    ({ modality }) => typeof modality === 'string' && modality.toLowerCase() === 'audio',
  )
  return audio.reduce((sum, one) => sum + readCount(one[counted]), 0)
}

export function readCount(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0
}

/** A word of an enumeration, never prose. */
function wordOf(value: unknown): string | null {
  return typeof value === 'string' && /^[A-Z][A-Z_]{0,63}$/.test(value) && !value.endsWith('_UNSPECIFIED')
    ? value
    : null
}
