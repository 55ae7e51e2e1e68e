import type { FinishReason, ToolCall } from '../../../contracts/chat.ts'
import { choicesAsked, type WithExtras } from '../../../contracts/extras.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import { type ChatAnswer, type ChoiceAnswer, newCallId, wantsLogprobs } from '../chat-answer.ts'
import { asObject, jsonText, objectsIn } from '../json.ts'
import { readLogprobs } from './logprobs.ts'
import { readFacts, readUsage } from './wire.ts'

const FINISH_REASON_OF: Readonly<Record<string, FinishReason>> = {
  stop: 'stop',
  length: 'length',
  tool_calls: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'content_filter',
}

const NONE: readonly never[] = []

/**
 * A chat or text completion; null when there is no message in it. Only fields that are used are looked at.
 *
 * @param call whose choices and figures are looked for
 */
export function readChat(body: JsonObject, call: WithExtras): ChatAnswer | null {
  const choices = objectsIn(body.choices)
  const count = choicesAsked(call)
  const [first, ...others] = count === 1 ? choices.slice(0, 1) : inOrder(choices).slice(0, count)
  const wantsTokens = wantsLogprobs(call)
  const answer = first === undefined ? null : readChoice(first, wantsTokens)
  if (answer === null) return null
  const read = others.map((choice) => readChoice(choice, wantsTokens)).filter((choice) => choice !== null)
  const more = read.length === 0 ? {} : { others: read }
  return { ...answer, ...more, facts: readFacts(body), usage: readUsage(body) }
}

function inOrder(choices: readonly JsonObject[]): readonly JsonObject[] {
  const indexed = choices.map((choice, at) => ({ choice, index: indexOf(choice) ?? at }))
  return indexed.sort((a, b) => a.index - b.index).map(({ choice }) => choice)
}

/** Place of a choice; null where it says none. */
export function indexOf({ index }: JsonObject): number | null {
  return typeof index === 'number' ? index : null
}

function readChoice(choice: JsonObject, wantsTokens: boolean): ChoiceAnswer | null {
  const message = messageOf(choice, choice.message)
  if (message === null) return null
  const { data, transcript } = asObject(message.audio) ?? {}
  return {
    text: contentText(message.content) || contentText(transcript),
    refusal: contentText(message.refusal),
    toolCalls: Array.isArray(message.tool_calls) ? objectsIn(message.tool_calls).flatMap(readToolCall) : NONE,
    finishReason: readFinishReason(choice.finish_reason),
    audioBase64: typeof data === 'string' ? data : '',
    logprobs: wantsTokens ? readLogprobs(choice.logprobs) : null,
  }
}

/** A choice's message, or a piece of one; a text completion has `text` in its place. */
export function messageOf({ text }: JsonObject, message: unknown): JsonObject | null {
  return asObject(message) ?? (typeof text === 'string' ? { content: text } : null)
}

/** A string, or the texts of a list of parts, which some servers send. */
export function contentText(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return objectsIn(content)
    .map(({ text }) => (typeof text === 'string' ? text : ''))
    .join('')
}

export function readFinishReason(reason: unknown): FinishReason | null {
  return typeof reason === 'string' && Object.hasOwn(FINISH_REASON_OF, reason)
    ? (FINISH_REASON_OF[reason] ?? null)
    : null
}

function readToolCall(call: JsonObject): ToolCall[] {
  const { name, arguments: given } = asObject(call.function) ?? {}
  if (typeof name !== 'string' || name === '') return []
  const id = typeof call.id === 'string' && call.id !== '' ? call.id : newCallId()
  return [{ id, name, arguments: argumentsText(given) }]
}

/** Arguments are JSON in a string; some servers send the object itself. */
export function argumentsText(given: unknown): string {
  if (typeof given === 'string') return given
  return asObject(given) === null ? '' : jsonText(given)
}
