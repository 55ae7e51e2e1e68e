import type { ChatCall, ChatResult, FinishReason, ToolCall } from '../contracts/chat.ts'
import type { Ending } from '../contracts/provider.ts'
import type { Failure, UpstreamReply } from '../contracts/upstream.ts'
import type { TokenUsage } from '../contracts/usage.ts'
import { unusable } from './failure.ts'

/** The parts of a request that decide what the answer must hold. */
export interface AskedOf {
  readonly call: Pick<ChatCall, 'modalities' | 'tool_choice' | 'response_schema'>
  readonly audioMediaType: string
  /** Warnings about options left out of the request. */
  readonly warnings: readonly string[]
}

/** An answer as the model gave it, before it is held against what was asked for. */
export interface ChatAnswer {
  readonly text: string
  /** The model's own words for why it does not answer. */
  readonly refusal: string
  readonly toolCalls: readonly ToolCall[]
  readonly finishReason: FinishReason | null
  readonly audioBase64: string
  readonly usage: TokenUsage | null
}

/**
 * The answer as a result, or why it cannot be one. A refusal in the model's own words is an answer, and
 * marked as one that was filtered. What was required must have come: a server that ignores a field would
 * otherwise degrade the answer silently.
 */
export function settleChat(
  answer: ChatAnswer | null,
  { call, audioMediaType, warnings }: AskedOf,
  head: Pick<UpstreamReply, 'status'>,
): { readonly result: ChatResult } | { readonly failure: Failure } {
  if (answer === null) {
    return { failure: unusable(head, 'the answer of the provider is no chat completion') }
  }
  const lack = lackOf(answer, call)
  if (lack !== null) return { failure: unusable(head, lack) }
  const { text, refusal, toolCalls, audioBase64, usage } = answer
  const audio = call.modalities.includes('audio') ? audioBase64 : ''
  const result = {
    content: text || refusal,
    tool_calls: toolCalls,
    finish_reason: finishOf(answer),
    audio: audio === '' ? null : { base64: audio, media_type: audioMediaType },
    usage,
    warnings,
  }
  return { result }
}

/** Turns the result of `settleChat` into the end of an operation. */
export function endingOf(settled: ReturnType<typeof settleChat>): Ending<ChatResult> {
  return 'result' in settled
    ? { kind: 'done', result: settled.result }
    : { kind: 'failed', failure: settled.failure }
}

/**
 * OpenAI says `stop` when a tool was forced; the caller is told the same whichever way the call came about.
 */
function finishOf({ refusal, toolCalls, finishReason }: ChatAnswer): FinishReason | null {
  if (refusal !== '') return 'content_filter'
  return finishReason === 'stop' && toolCalls.length > 0 ? 'tool_calls' : finishReason
}

function lackOf(
  answer: ChatAnswer,
  { modalities, tool_choice: choice, response_schema: schema }: AskedOf['call'],
): string | null {
  const { text, refusal, toolCalls, finishReason, audioBase64 } = answer
  const cut = finishReason === 'length' || finishReason === 'content_filter'
  if (cut || refusal !== '' || toolCalls.length > 0) return null
  if (choice === 'required' || (typeof choice === 'object' && choice !== null)) {
    return 'the answer lacks the tool call that was required'
  }
  if (modalities.includes('audio') && audioBase64 === '') {
    return 'the answer lacks the audio that was asked for'
  }
  return schema !== null && !isJson(text) ? 'the answer is not the JSON that was asked for' : null
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Warns where arguments of functions were to keep to their schema, and the provider has no word for that. */
export function strictWarnings({ tools }: Pick<ChatCall, 'tools'>): readonly string[] {
  return tools.some(({ strict }) => strict === true)
    ? ['tools: the provider does not take `strict`; it was left out']
    : []
}
