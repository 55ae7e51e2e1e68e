import type { FinishReason, ToolCall } from '../../../contracts/chat.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import { type TokenUsage, tokenDetails } from '../../../contracts/usage.ts'
import { type ChatAnswer, newCallId } from '../chat-answer.ts'
import { asObject, jsonText, objectsIn } from '../json.ts'

/**
 * `pause_turn` and a full context window leave an answer that could go on, as a full `max_tokens` does.
 * https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons
 */
const FINISH_REASONS: ReadonlyMap<unknown, FinishReason> = new Map([
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['pause_turn', 'length'],
  ['tool_use', 'tool_calls'],
  ['refusal', 'content_filter'],
])

/** Null for a reason that is not known. */
export function finishReasonOf(stopReason: unknown): FinishReason | null {
  return FINISH_REASONS.get(stopReason) ?? null
}

/** A whole message; null when it is none. Thinking, and kinds of blocks that are not known, are passed over. */
export function readMessage(body: JsonObject): ChatAnswer | null {
  if (body.type !== 'message' || !Array.isArray(body.content)) return null
  const blocks = objectsIn(body.content)
  const written = blocks.flatMap(({ type, text }) =>
    type === 'text' && typeof text === 'string' ? [text] : [],
  )
  return {
    text: written.join(''),
    refusal: '',
    toolCalls: blocks.flatMap((block) => beginToolCall(block) ?? []).map(named),
    finishReason: finishReasonOf(body.stop_reason),
    audioBase64: '',
    usage: tokenUsage(readCounts(body.usage)),
  }
}

/** A block as a call of a tool, with the arguments that it holds so far; null when it is none. */
export function beginToolCall({ type, id, name, input }: JsonObject): ToolCall | null {
  if (type !== 'tool_use' || typeof name !== 'string' || name === '') return null
  return { id: typeof id === 'string' ? id : '', name, arguments: jsonText(asObject(input) ?? {}) }
}

/** A call that the provider gave no id gets one, so that the caller can name it. */
function named(call: ToolCall): ToolCall {
  return call.id === '' ? { ...call, id: newCallId() } : call
}

/** Tokens by the names of the wire; what has not been told is absent. */
type Counts = Readonly<Partial<Record<(typeof COUNTED)[number], number>>> & {
  readonly service_tier?: unknown
}

const COUNTED = [
  'input_tokens',
  'cache_creation_input_tokens',
  'cache_read_input_tokens',
  'output_tokens',
] as const

/** The counts of `usage`, over those that came before: a stream tells some at its beginning, the totals at its end. */
export function readCounts(usage: unknown, before: Counts = {}): Counts {
  const counts = asObject(usage) ?? {}
  const known = COUNTED.filter((name) => Number.isSafeInteger(counts[name]) && Number(counts[name]) >= 0)
  const { service_tier: tier = before.service_tier } = counts
  return {
    ...before,
    ...Object.fromEntries(known.map((name) => [name, counts[name]])),
    service_tier: tier,
  }
}

/** `input_tokens` alone leaves out what went into the prompt cache and what came from it. */
export function tokenUsage(counts: Counts): TokenUsage | null {
  const { input_tokens: input, output_tokens: output } = counts
  if (input === undefined && output === undefined) return null
  const { cache_creation_input_tokens: written, cache_read_input_tokens: cached } = counts
  const { service_tier: tier } = counts
  return {
    input_tokens: input === undefined ? null : input + (written ?? 0) + (cached ?? 0),
    output_tokens: output ?? null,
    ...tokenDetails({
      ...NO_PARTS,
      cached_input_tokens: cached,
      cache_write_tokens: written,
      service_tier: tier,
    }),
  }
}

/** Messages have no audio. */
const NO_PARTS = { audio_input_tokens: undefined, audio_output_tokens: undefined }
