import { randomBytes } from 'node:crypto'
import type {
  ChatCall,
  ChatChoice,
  ChatFacts,
  ChatResult,
  FinishReason,
  ToolCall,
} from '../../contracts/chat.ts'
import { choicesAsked, extraValue, type WithExtras } from '../../contracts/extras.ts'
import type { Logprobs } from '../../contracts/logprobs.ts'
import type { UpstreamReply } from '../../contracts/upstream.ts'
import type { TokenUsage } from '../../contracts/usage.ts'
import type { Made } from './answer.ts'
import { unusable } from './failure.ts'

/** The parts of a request that decide what the answer must hold. */
export interface AskedOf {
  readonly call: Pick<ChatCall, 'modalities' | 'tool_choice' | 'response_schema' | 'extras'>
  readonly audioMediaType: string
  /** Warnings about options left out of the request. */
  readonly warnings: readonly string[]
}

/** One choice of an answer as the model gave it. */
export interface ChoiceAnswer {
  readonly text: string
  /** The model's own words for why it does not answer. */
  readonly refusal: string
  readonly toolCalls: readonly ToolCall[]
  readonly finishReason: FinishReason | null
  readonly audioBase64: string
  readonly logprobs?: Logprobs | null
}

/** An answer as the model gave it, before it is held against what was asked for. */
export interface ChatAnswer extends ChoiceAnswer {
  /** The choices beside it; absent: there are none. */
  readonly others?: readonly ChoiceAnswer[]
  readonly facts?: ChatFacts | null
  readonly usage: TokenUsage | null
}

/** Whether a call asks for the log probabilities of tokens. */
export function wantsLogprobs(call: WithExtras): boolean {
  return extraValue(call, 'logprobs') !== undefined
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
): Made<ChatResult> {
  if (answer === null) return unusable(head, 'the answer of the provider is no chat completion')
  const { usage, others = NONE, facts = null } = answer
  if (others.length + 1 < choicesAsked(call))
    return unusable(head, 'the answer lacks choices that were asked for')
  const lack = lackOf(answer, call) ?? firstLack(others, call)
  if (lack !== null) return unusable(head, lack)
  const first = choiceOf(answer, call, audioMediaType)
  const more = others.length === 0 ? {} : { others: others.map((one) => choiceOf(one, call, audioMediaType)) }
  return { result: { ...first, ...more, ...(facts === null ? {} : { facts }), usage, warnings } }
}

const NONE: readonly never[] = []

/** An id for a tool call that came without one: no other of the conversation has it, whichever turns are sent again. */
export function newCallId(): string {
  return `call_lk${randomBytes(8).toString('hex')}`
}

/** True of ids that this gateway gave, in earlier releases by counting. */
export function isOwnCallId(id: string): boolean {
  return /^call_(?:\d+|lk[0-9a-f]{16})$/.test(id)
}

function firstLack(choices: readonly ChoiceAnswer[], call: AskedOf['call']): string | null {
  for (const choice of choices) {
    const lack = lackOf(choice, call)
    if (lack !== null) return lack
  }
  return null
}

function choiceOf(answer: ChoiceAnswer, { modalities }: AskedOf['call'], mediaType: string): ChatChoice {
  const { text, refusal, toolCalls, audioBase64, logprobs = null } = answer
  const audio = modalities.includes('audio') ? audioBase64 : ''
  return {
    content: text || refusal,
    tool_calls: toolCalls,
    finish_reason: finishOf(answer),
    audio: audio === '' ? null : { base64: audio, media_type: mediaType },
    ...(logprobs === null ? {} : { logprobs }),
  }
}

/** OpenAI says `stop` when a tool was forced; the caller is told the same whichever way the call came about. */
function finishOf({ refusal, toolCalls, finishReason }: ChoiceAnswer): FinishReason | null {
  if (refusal !== '') return 'content_filter'
  return finishReason === 'stop' && toolCalls.length > 0 ? 'tool_calls' : finishReason
}

function lackOf(
  answer: ChoiceAnswer,
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
