import { type Static, Type } from 'typebox'
import type { ChatCall, ChatDelta, ChatResult, ToolChoice } from '../../../contracts/chat.ts'
import { extraValue } from '../../../contracts/extras.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Operation, Target } from '../../../contracts/provider.ts'
import type { UpstreamReply, UpstreamRequest } from '../../../contracts/upstream.ts'
import { readEnding } from '../answer.ts'
import { type ChatAnswer, settleChat, strictWarnings } from '../chat-answer.ts'
import { classify, failed, refused } from '../failure.ts'
import { readMessage } from './answer.ts'
import { encodeMessages } from './messages.ts'
import { MessageStreamReader } from './stream.ts'

/** The current version of the API. It has no `temperature`, `top_p` and `top_k`, and answers 400 to them. */
const CURRENT_VERSION = '2026-10-21'
const SAMPLING_VERSION = '2023-06-01'

/** The API needs a limit, and most callers give none. What a model thinks counts towards it. */
const DEFAULT_MAX_TOKENS = 4096

export const ANTHROPIC_OPTIONS = Type.Object(
  {
    version: Type.Optional(
      Type.Enum([CURRENT_VERSION, SAMPLING_VERSION], {
        description: `of the API; ${SAMPLING_VERSION} takes temperature and top_p where the model does`,
      }),
    ),
    max_tokens: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 128_000,
        description: `of an answer and its thinking, for calls without; ${DEFAULT_MAX_TOKENS} when absent`,
      }),
    ),
  },
  { additionalProperties: false },
)

/**
 * Models that refuse a `tool_choice` that forces a tool.
 * https://platform.claude.com/docs/en/models/opus-5-5/whats-new-opus-5-5 and
 * https://platform.claude.com/docs/en/models/sonnet-5-5/overview
 */
const UNFORCEABLE = /^claude-((opus|sonnet)-5-5|(fable|mythos)-5-[12])$/

/**
 * Models that go on with an answer that the caller has begun; since 4.6 they refuse a conversation that ends
 * with one. https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-6
 */
const CONTINUING = /-4-5(-|$)/

/** `POST /v1/messages`, https://platform.claude.com/docs/en/api/messages */
export function messagesOperation(): Operation<ChatCall, ChatResult, ChatDelta> {
  const startWith = (call: ChatCall, target: Target, stream: boolean) => {
    const encoded = encodeChat(call, target, stream)
    if ('failure' in encoded) return failed(encoded.failure)
    const body = [Buffer.from(JSON.stringify(encoded.body))]
    const url = `${target.baseUrl}/v1/messages`
    const headers = { ...requestHeaders(target), 'content-type': 'application/json' }
    const request: UpstreamRequest = { method: 'POST', url, headers, body }
    return { kind: 'send', request, state: null } as const
  }
  return {
    takesExtra: ({ name }) => name === 'parallel_tool_calls',
    start: (call, target) => startWith(call, target, false),
    next: (_state, reply, call, target) =>
      readEnding(reply, (body) => settle(readMessage(body), call, target, reply)),
    streamed: {
      start: (call, target) => startWith(call, target, true),
      refused: classify,
      read: (head, call, target) =>
        new MessageStreamReader(head, (answer) => settle(answer, call, target, head)),
    },
  }
}

/** Headers of every request. */
export function requestHeaders(target: Target): Record<string, string> {
  const key = target.credential === null ? {} : { 'x-api-key': target.credential }
  return { accept: '*/*', ...key, 'anthropic-version': targetOptions(target).version ?? CURRENT_VERSION }
}

function encodeChat(call: ChatCall, target: Target, stream: boolean) {
  const issue = unsupportedFields(call, target)
  if (issue !== null) return { failure: issue }
  const encoded = encodeMessages(call.messages)
  // Other providers take what this one has no place for.
  if ('issue' in encoded) return { failure: refused(encoded.issue) }
  if (encoded.messages.at(-1)?.role === 'assistant' && !CONTINUING.test(target.model)) {
    return { failure: refused('messages: the last one must not be an assistant message') }
  }
  const { stop, response_schema: schema } = call
  const body: JsonObject = {
    model: target.model,
    max_tokens: call.max_tokens ?? defaultLimit(target),
    ...(encoded.system.length === 0 ? {} : { system: encoded.system }),
    messages: encoded.messages,
    ...samplingOf(call, target).sent,
    ...(stop.length === 0 ? {} : { stop_sequences: stop }),
    ...encodeTools(call),
    ...(schema === null ? {} : { output_config: { format: { type: 'json_schema', schema } } }),
    ...(stream ? { stream: true } : {}),
  }
  return { body }
}

/** Finds options that the API refuses or lacks, and that others may support. */
function unsupportedFields(
  { modalities, tools, tool_choice: choice, stop, temperature }: ChatCall,
  target: Target,
) {
  const forced = choice === 'required' || isNamed(choice)
  if (forced && tools.length === 0) return refused('tool_choice: must come with tools')
  if (forced && UNFORCEABLE.test(target.model)) {
    return refused('tool_choice: must be auto or none for this model')
  }
  if (modalities.includes('audio')) return refused('modalities: must be text only for this provider')
  if (stop.some((sequence) => sequence.trim() === '')) {
    return refused('stop: must not be white space alone for this provider')
  }
  if (samples(target) && temperature !== null && temperature > 1) {
    return refused('temperature: must be 0 to 1 for this provider')
  }
  return null
}

/** Without tools the API takes no `tool_choice`. */
function encodeTools(call: ChatCall): JsonObject {
  const { tools, tool_choice: choice } = call
  if (tools.length === 0) return {}
  const encoded = tools.map(({ name, description, parameters }) => ({
    name,
    ...(description === null ? {} : { description }),
    input_schema: { type: 'object', ...(parameters ?? { properties: {} }) },
  }))
  if (extraValue(call, 'parallel_tool_calls') === false && choice !== 'none') {
    const single = { ...encodeChoice(choice ?? 'auto'), disable_parallel_tool_use: true }
    return { tools: encoded, tool_choice: single }
  }
  return choice === null ? { tools: encoded } : { tools: encoded, tool_choice: encodeChoice(choice) }
}

function encodeChoice(choice: ToolChoice): JsonObject {
  if (isNamed(choice)) return { type: 'tool', name: choice.name }
  return { type: choice === 'required' ? 'any' : choice }
}

function isNamed(choice: ToolChoice | null): choice is { readonly name: string } {
  return typeof choice === 'object' && choice !== null
}

/** Holds an answer against what was asked for, and says what was left out. */
function settle(
  answer: ChatAnswer | null,
  call: ChatCall,
  target: Target,
  head: Pick<UpstreamReply, 'status'>,
) {
  const left = samplingOf(call, target).left.map(
    (name) => `${name}: ${target.model} does not take it; it was left out`,
  )
  const looks = call.messages.some(({ parts }) =>
    parts.some((part) => part.type === 'image' && (part.detail === 'low' || part.detail === 'high')),
  )
  const cut = call.max_tokens === null && answer?.finishReason === 'length'
  const warnings = [
    ...left,
    ...strictWarnings(call),
    ...(looks ? [`detail: ${target.model} does not take it; it was left out`] : []),
    ...(cut
      ? [`max_tokens: none was given, and the provider needs one; it was ${defaultLimit(target)}`]
      : []),
  ]
  return settleChat(answer, { call, audioMediaType: '', warnings }, head)
}

/**
 * `temperature` and `top_p` as far as this version of the API takes them; recent models refuse both
 * together, and temperature is the one that callers know.
 */
function samplingOf({ temperature, top_p: topP }: ChatCall, target: Target) {
  const given = [
    ...(temperature === null ? [] : [['temperature', temperature] as const]),
    ...(topP === null ? [] : [['top_p', topP] as const]),
  ]
  const sent = samples(target) ? given.slice(0, 1) : []
  return { sent: Object.fromEntries(sent), left: given.slice(sent.length).map(([name]) => name) }
}

function samples(target: Target): boolean {
  return targetOptions(target).version === SAMPLING_VERSION
}

function defaultLimit(target: Target): number {
  return targetOptions(target).max_tokens ?? DEFAULT_MAX_TOKENS
}

/** Checked against the schema when the configuration was read. */
function targetOptions({ options }: Target): Static<typeof ANTHROPIC_OPTIONS> {
  return options
}
