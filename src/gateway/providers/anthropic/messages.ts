import type { ChatCall, ChatMessage, ChatPart, ToolCall } from '../../../contracts/chat.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import { parseObject } from '../json.ts'

/** A conversation in the form of the Messages API, with the system prompt apart. */
export interface EncodedMessages {
  /** Text blocks; empty without a system prompt. */
  readonly system: readonly JsonObject[]
  /** User and assistant in turns. */
  readonly messages: readonly JsonObject[]
}

/** Why a conversation cannot be sent, as a sentence for the log. */
class Unsendable extends Error {}

const IMAGE_MEDIA_TYPES: ReadonlySet<string> = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp'])

/**
 * The messages of a chat as `POST /v1/messages` takes them. System messages become the system prompt
 * wherever they stood, the answer of a tool is a block in a turn of the user, and messages of one role in a
 * row are one turn. Texts of white space, which the API refuses, are left out.
 */
export function encodeMessages(messages: ChatCall['messages']): EncodedMessages | { readonly issue: string } {
  const system: JsonObject[] = []
  const turns: { readonly role: 'user' | 'assistant'; readonly content: JsonObject[] }[] = []
  try {
    for (const message of messages) {
      if (message.role === 'system') {
        for (const block of texts(message)) system.push(block)
        continue
      }
      const role = message.role === 'assistant' ? 'assistant' : 'user'
      const blocks = blocksOf(message)
      const last = turns.at(-1)
      // Pushed one by one: a turn may have more blocks than a call takes arguments.
      if (last?.role === role) for (const block of blocks) last.content.push(block)
      else if (blocks.length > 0) turns.push({ role, content: blocks })
    }
  } catch (error) {
    if (error instanceof Unsendable) return { issue: error.message }
    throw error
  }
  if (turns.length === 0) return { issue: 'messages: must contain one that is not a system message' }
  return { system, messages: turns.map(({ role, content }) => ({ role, content })) }
}

function blocksOf(message: Exclude<ChatMessage, { readonly role: 'system' }>): JsonObject[] {
  if (message.role === 'user') return message.parts.flatMap(encodePart)
  if (message.role === 'assistant') return [...texts(message), ...message.tool_calls.map(encodeToolCall)]
  const content = message.parts.flatMap(encodePart)
  const result = { type: 'tool_result', tool_use_id: message.tool_call_id }
  return [content.length === 0 ? result : { ...result, content }]
}

function texts({ role, parts }: ChatMessage): JsonObject[] {
  if (parts.some(({ type }) => type !== 'text')) {
    throw new Unsendable(`messages: ${role} messages must hold only text for this provider`)
  }
  return parts.flatMap(encodePart)
}

function encodePart(part: ChatPart): JsonObject[] {
  if (part.type === 'text') return part.text.trim() === '' ? [] : [{ type: 'text', text: part.text }]
  if (part.type === 'audio') throw new Unsendable('messages: must not contain audio for this provider')
  const { source } = part
  if (source.kind === 'url') return [{ type: 'image', source: { type: 'url', url: source.url } }]
  const mediaType = source.media_type.toLowerCase()
  if (!IMAGE_MEDIA_TYPES.has(mediaType)) {
    throw new Unsendable(`messages: pictures must be ${[...IMAGE_MEDIA_TYPES].join(', ')} for this provider`)
  }
  return [{ type: 'image', source: { type: 'base64', media_type: mediaType, data: source.base64 } }]
}

/** Models write arguments as text, which here must be an object again; no text at all stands for no arguments. */
function encodeToolCall({ id, name, arguments: given }: ToolCall): JsonObject {
  const input = given.trim() === '' ? {} : parseObject(given)
  if (input === null) throw new Unsendable('messages: the arguments of a tool call must be a JSON object')
  return { type: 'tool_use', id, name, input }
}
