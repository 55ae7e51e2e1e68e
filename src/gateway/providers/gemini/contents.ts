import type { ChatCall, ChatMessage, ChatPart, ImageSource, ToolCall } from '../../../contracts/chat.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import { isOwnCallId } from '../chat-answer.ts'
import { parseObject } from '../json.ts'

/** The messages of a chat in Gemini's words, or a sentence for the log that says why they cannot be. */
export type EncodedMessages =
  | { readonly system: readonly JsonObject[]; readonly contents: readonly JsonObject[] }
  | { readonly issue: string }

type ReadContents = { readonly parts: readonly JsonObject[] } | { readonly issue: string }

/**
 * Stands for the thought signature of a function call that the model did not make in this very conversation.
 * Gemini 3 refuses a call that comes back without its signature; here there is none, since the call may have
 * been another provider's and signatures have no place in the caller's interface.
 * https://ai.google.dev/gemini-api/docs/thought-signatures
 */
const NO_SIGNATURE = 'skip_thought_signature_validator'

/**
 * Where Gemini keeps files: an address there is read with the key of the gateway, whose files are not the caller's.
 * https://ai.google.dev/api/files
 */
const FILE_HOST = /^generativelanguage\.googleapis\.com\.?$/

/** Media types of pictures that Gemini reads, by the extension of their URL. */
const IMAGE_TYPES: Readonly<Record<string, string>> = {
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  png: 'image/png',
  webp: 'image/webp',
  heic: 'image/heic',
  heif: 'image/heif',
}

/**
 * System messages, wherever they stand, become the system instruction. Neighbours of one role become one
 * content, since Gemini wants the answers to the calls of one turn together in the next.
 */
export function encodeMessages(messages: ChatCall['messages']): EncodedMessages {
  const system: JsonObject[] = []
  const turns: { readonly from: ChatMessage['role']; readonly parts: JsonObject[] }[] = []
  /** The function of each call so far, by the call's id. */
  const called = new Map<string, string>()
  for (const message of messages) {
    const encoded = encodeMessage(message, called)
    if ('issue' in encoded) return encoded
    if (message.role === 'assistant') for (const { id, name } of message.tool_calls) called.set(id, name)
    const last = turns.at(-1)
    const kept = message.role === 'system' ? system : last?.from === message.role ? last.parts : null
    // Pushed one by one: a turn may have more parts than a call takes arguments.
    if (kept !== null) for (const part of encoded.parts) kept.push(part)
    else if (encoded.parts.length > 0) turns.push({ from: message.role, parts: [...encoded.parts] })
  }
  if (turns.length === 0) return { issue: 'messages: must contain a user message for this provider' }
  const contents = turns.map(({ from, parts }) => ({ role: from === 'assistant' ? 'model' : 'user', parts }))
  return { system, contents }
}

function encodeMessage(message: ChatMessage, called: ReadonlyMap<string, string>): ReadContents {
  const { role, parts } = message
  if (role !== 'user' && parts.some(({ type }) => type !== 'text')) {
    return {
      issue: `messages: pictures and audio must be in user messages for this provider, not in a ${role} message`,
    }
  }
  if (role === 'tool') return encodeToolAnswer(message.tool_call_id, parts, called)
  const encoded: JsonObject[] = []
  for (const part of parts) {
    // An empty text makes Gemini refuse the whole request.
    if (part.type === 'text' && part.text === '') continue
    const data = encodePart(part)
    if (data === null) return { issue: 'messages: picture URLs must be public and https for this provider' }
    encoded.push(data)
  }
  if (role !== 'assistant') return { parts: encoded }
  for (const [index, call] of message.tool_calls.entries()) {
    const args = argumentsOf(call)
    if (args === null) return { issue: 'messages: the arguments of a tool call must be a JSON object' }
    const functionCall = { ...callId(call.id), name: call.name, args }
    encoded.push(index === 0 ? { functionCall, thoughtSignature: NO_SIGNATURE } : { functionCall })
  }
  return { parts: encoded }
}

/** Gemini tells answers apart by the name of the function: that of the nearest call of that id. */
function encodeToolAnswer(
  id: string,
  parts: readonly ChatPart[],
  called: ReadonlyMap<string, string>,
): ReadContents {
  const name = called.get(id)
  if (name === undefined) return { issue: 'messages: a tool message must answer an earlier tool call' }
  const output = parts.map((part) => (part.type === 'text' ? part.text : '')).join('')
  return { parts: [{ functionResponse: { ...callId(id), name, response: { output } } }] }
}

function callId(id: string): { readonly id?: string } {
  // Gemini never heard of those that this gateway gave to calls that had none.
  return isOwnCallId(id) ? {} : { id }
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
  if (url === null || url.protocol !== 'https:' || FILE_HOST.test(url.hostname)) return null
  const extension = /\.([a-z]{3,4})$/i.exec(url.pathname)?.[1]?.toLowerCase() ?? ''
  const mimeType = IMAGE_TYPES[extension]
  return { fileData: { ...(mimeType === undefined ? {} : { mimeType }), fileUri: source.url } }
}

/** Arguments of a function that takes none may be an empty string. */
function argumentsOf({ arguments: given }: ToolCall): JsonObject | null {
  return given.trim() === '' ? {} : parseObject(given)
}
