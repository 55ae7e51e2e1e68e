import type { ChatCall, ChatMessage, ChatPart, ImageSource, ToolCall } from '../../schema/chat.ts'
import type { JsonObject } from '../../schema/json.ts'
import { asObject } from '../json.ts'

/** The messages of a chat in Gemini's words, or a sentence for the log that says why they cannot be. */
export type EncodedMessages =
  | { readonly system: readonly JsonObject[]; readonly contents: readonly JsonObject[] }
  | { readonly fault: string }

type Parts = { readonly parts: readonly JsonObject[] } | { readonly fault: string }

/**
 * Stands for the thought signature of a function call that the model did not make in this very conversation.
 * Gemini 3 refuses a call that comes back without its signature; here there is none, since the call may have
 * been another provider's and signatures have no place in the caller's interface.
 * https://ai.google.dev/gemini-api/docs/thought-signatures
 */
const NO_SIGNATURE = 'skip_thought_signature_validator'

/** Ids that this gateway gave to calls that had none; Gemini never heard of them. */
const OWN_ID = /^call_\d+$/

/** Media types of pictures that Gemini reads, by the extension of their URL. */
const IMAGE_TYPES: Readonly<Record<string, string>> = {
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  png: 'image/png',
  webp: 'image/webp',
  heic: 'image/heic',
  heif: 'image/heif',
}

/** The id of the answer's next function call when Gemini gives none: unique within the conversation. */
export function ownId({ messages }: Pick<ChatCall, 'messages'>, index: number): string {
  const before = messages.flatMap((message) => (message.role === 'assistant' ? message.tool_calls : []))
  return `call_${before.length + index}`
}

/**
 * System messages, wherever they stand, become the system instruction. Neighbours of one role become one
 * content, since Gemini wants the answers to the calls of one turn together in the next.
 */
export function encodeMessages(messages: ChatCall['messages']): EncodedMessages {
  const system: JsonObject[] = []
  const turns: { readonly from: ChatMessage['role']; readonly parts: JsonObject[] }[] = []
  for (const [index, message] of messages.entries()) {
    const encoded = encodeMessage(message, messages.slice(0, index))
    if ('fault' in encoded) return encoded
    const last = turns.at(-1)
    if (message.role === 'system') system.push(...encoded.parts)
    else if (last?.from === message.role) last.parts.push(...encoded.parts)
    else if (encoded.parts.length > 0) turns.push({ from: message.role, parts: [...encoded.parts] })
  }
  if (turns.length === 0)
    return { fault: 'messages: the provider takes no chat without a message of the user' }
  const contents = turns.map(({ from, parts }) => ({ role: from === 'assistant' ? 'model' : 'user', parts }))
  return { system, contents }
}

function encodeMessage(message: ChatMessage, before: readonly ChatMessage[]): Parts {
  const { role, parts } = message
  if (role !== 'user' && parts.some(({ type }) => type !== 'text')) {
    return {
      fault: `messages: the provider takes pictures and audio from the user, not in a ${role} message`,
    }
  }
  if (role === 'tool') return encodeToolAnswer(message.tool_call_id, parts, before)
  const encoded: JsonObject[] = []
  for (const part of parts) {
    // An empty text makes Gemini refuse the whole request.
    if (part.type === 'text' && part.text === '') continue
    const data = encodePart(part)
    if (data === null) return { fault: 'messages: the provider fetches pictures by https only' }
    encoded.push(data)
  }
  if (role !== 'assistant') return { parts: encoded }
  for (const [index, call] of message.tool_calls.entries()) {
    const args = argumentsOf(call)
    if (args === null) return { fault: 'messages: the arguments of a tool call are no JSON object' }
    const functionCall = { ...idOf(call.id), name: call.name, args }
    encoded.push(index === 0 ? { functionCall, thoughtSignature: NO_SIGNATURE } : { functionCall })
  }
  return { parts: encoded }
}

/** Gemini tells answers apart by the name of the function: it is looked up in the nearest call of that id. */
function encodeToolAnswer(id: string, parts: readonly ChatPart[], before: readonly ChatMessage[]): Parts {
  const calls = before.flatMap((message) => (message.role === 'assistant' ? message.tool_calls : []))
  const call = calls.findLast((candidate) => candidate.id === id)
  if (call === undefined) return { fault: 'messages: a tool message answers no call before it' }
  const output = parts.map((part) => (part.type === 'text' ? part.text : '')).join('')
  return { parts: [{ functionResponse: { ...idOf(id), name: call.name, response: { output } } }] }
}

function idOf(id: string): { readonly id?: string } {
  return OWN_ID.test(id) ? {} : { id }
}

/** Null for a picture that Gemini cannot fetch. */
function encodePart(part: ChatPart): JsonObject | null {
  if (part.type === 'text') return { text: part.text }
  if (part.type === 'audio') return { inlineData: { mimeType: `audio/${part.format}`, data: part.base64 } }
  return encodeImage(part.source)
}

/** Public URLs are taken since January 2026, https://ai.google.dev/gemini-api/docs/changelog */
function encodeImage(source: ImageSource): JsonObject | null {
  if (source.kind === 'base64') return { inlineData: { mimeType: source.media_type, data: source.base64 } }
  const url = URL.parse(source.url)
  if (url === null || url.protocol !== 'https:') return null
  const extension = /\.([a-z]{3,4})$/i.exec(url.pathname)?.[1]?.toLowerCase() ?? ''
  const mimeType = IMAGE_TYPES[extension]
  return { fileData: { ...(mimeType === undefined ? {} : { mimeType }), fileUri: source.url } }
}

/** Arguments of a function that takes none may be an empty string. */
function argumentsOf({ arguments: given }: ToolCall): JsonObject | null {
  if (given.trim() === '') return {}
  try {
    return asObject(JSON.parse(given))
  } catch {
    return null
  }
}
