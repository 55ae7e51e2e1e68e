import type { ChatFacts, ChatResult, ToolCall } from '../../../contracts/chat.ts'
import type { ChatTokenLogprob, Logprobs } from '../../../contracts/logprobs.ts'
import type { Envelope, Outcome } from '../../call/attempt/outcome.ts'
import { type Large, largeText } from '../json-reply.ts'
import { warningsIn } from './door.ts'
import type { ResponseFields } from './responses-request.ts'

/** @param nowSeconds Unix seconds */
export function wholeResponse(outcome: Outcome<'chat'>, fields: ResponseFields, nowSeconds: number): object {
  const { id } = outcome.envelope
  const { content, tool_calls: calls } = outcome.result
  const said: readonly Place[] = content === '' && calls.length > 0 ? [] : ['message']
  const times = { created: nowSeconds, completed: nowSeconds }
  return endedResponse(outcome, fields, times, itemsOf(id, outcome.result, [...said, ...calls.keys()]))
}

/** An item of the output: the message, or the call of this index. */
export type Place = 'message' | number

export type Status = 'in_progress' | 'completed' | 'incomplete'

/** Items of a whole answer. Of one that was broken off the last item is incomplete. */
export function itemsOf(id: string, result: ChatResult, places: readonly Place[]) {
  const broken = incompleteReason(result) !== null
  return places.map((place, index) => {
    const status = broken && index === places.length - 1 ? 'incomplete' : 'completed'
    if (place === 'message')
      return messageItem(id, status, [textPart(largeText(result.content), logprobTokens(result))])
    const { id: callId = '', name = '', arguments: given = '' } = result.tool_calls[place] ?? {}
    return callItem(id, place, { id: callId, name, arguments: given }, status)
  })
}

export function messageItem(id: string, status: Status, content: readonly ReturnType<typeof textPart>[]) {
  return { id: messageId(id), type: 'message' as const, status, role: 'assistant' as const, content }
}

export function callItem(id: string, index: number, call: ToolCall, status: Status) {
  const { id: callId, name, arguments: given } = call
  const item = { id: callItemId(id, index), type: 'function_call' as const, status }
  return { ...item, call_id: callId, name, arguments: largeText(given) }
}

/** @param logprobs of its tokens, where they were asked for */
export function textPart(text: string | Large<string>, logprobs: readonly ChatTokenLogprob[] = []) {
  return { type: 'output_text' as const, text, annotations: [], logprobs }
}

/** Tokens of an answer, or of a piece of one, with their figures; none where there are no figures. */
export function logprobTokens({ logprobs }: { readonly logprobs?: Logprobs }): readonly ChatTokenLogprob[] {
  return logprobs !== undefined && 'content' in logprobs ? (logprobs.content ?? []) : []
}

export function messageId(id: string): string {
  return `msg_${id}`
}

export function callItemId(id: string, index: number): string {
  return `fc_${id}_${index}`
}

function incompleteReason({ finish_reason: reason }: ChatResult) {
  if (reason === 'length') return 'max_output_tokens' as const
  return reason === 'content_filter' ? reason : null
}

/** @param times Unix seconds */
export function endedResponse(
  { envelope, result }: Outcome<'chat'>,
  fields: ResponseFields,
  { created, completed }: { readonly created: number; readonly completed: number },
  output: readonly object[],
) {
  const reason = incompleteReason(result)
  const usage = responseUsage(envelope, result.facts)
  const { service_tier: tier } = result.facts ?? {}
  return {
    ...responseOf(envelope, fields, created),
    status: reason === null ? ('completed' as const) : ('incomplete' as const),
    completed_at: reason === null ? completed : null,
    incomplete_details: reason === null ? null : { reason },
    output,
    ...(tier === undefined ? {} : { service_tier: tier }),
    ...(usage === null ? {} : { usage }),
    ...warningsIn(envelope.warnings),
  }
}

/** A response that has just begun. What was asked for is repeated as it was sent. */
export function responseOf(
  { id, model }: Pick<Envelope, 'id' | 'model'>,
  fields: ResponseFields,
  created: number,
) {
  const { instructions = null, metadata, text, tools, tool_choice: choice } = fields
  return {
    id,
    object: 'response' as const,
    created_at: created,
    status: 'in_progress' as string,
    background: false,
    completed_at: null as number | null,
    error: null as object | null,
    incomplete_details: null as object | null,
    instructions: instructions === null ? null : largeText(instructions),
    max_output_tokens: fields.max_output_tokens ?? null,
    metadata: metadata ?? {},
    model,
    output: [] as readonly object[],
    parallel_tool_calls: fields.parallel_tool_calls !== false,
    previous_response_id: null,
    reasoning: { effort: fields.reasoning?.effort ?? null, summary: null },
    store: false,
    temperature: fields.temperature ?? null,
    text: {
      format: text?.format ?? { type: 'text' },
      ...((text?.verbosity ?? null) === null ? {} : { verbosity: text?.verbosity }),
    },
    tool_choice: choice ?? 'auto',
    tools: (tools ?? []).map(toolOf),
    top_p: fields.top_p ?? null,
    truncation: 'disabled',
  }
}

function toolOf({
  type,
  name,
  description = null,
  parameters = null,
  strict = null,
}: NonNullable<ResponseFields['tools']>[number]) {
  return { type, name, description, parameters, strict }
}

/** Null when the provider does not report all of it. The shape wants details: 0 where the provider tells none. */
function responseUsage({ usage }: Pick<Envelope, 'usage'>, facts: ChatFacts = {}) {
  const { input_tokens: input = null, output_tokens: output = null, total_tokens: total = null } = usage
  if (input === null || output === null || total === null) return null
  const cached = usage.cached_input_tokens ?? 0
  const { cached_tokens = cached, cache_write_tokens = 0 } = facts.prompt_tokens_details ?? {}
  const { reasoning_tokens = 0 } = facts.completion_tokens_details ?? {}
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens, cache_write_tokens },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens },
    total_tokens: total,
  }
}
