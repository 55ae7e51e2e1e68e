import type { ChatCall, ChatMessage, ChatPart } from '../../../contracts/chat.ts'
import type { JsonObject } from '../../../contracts/json.ts'

/**
 * The messages of a chat as `POST /chat/completions` takes them. A message that is one text is sent as a
 * string, the only form that older servers know.
 *
 * @returns a sentence for the log when a message holds what the format has no place for
 */
export function encodeMessages(
  messages: ChatCall['messages'],
): { readonly messages: readonly JsonObject[] } | { readonly issue: string } {
  for (const { role, parts } of messages) {
    if (role !== 'user' && parts.some(({ type }) => type !== 'text')) {
      return {
        issue: `messages: pictures and audio must be in user messages for this provider, not in a ${role} message`,
      }
    }
  }
  return { messages: messages.map(encodeMessage) }
}

function encodeMessage(message: ChatMessage): JsonObject {
  const { role, parts } = message
  const content = encodeContent(parts)
  if (role === 'tool') return { role, tool_call_id: message.tool_call_id, content }
  if (role !== 'assistant' || message.tool_calls.length === 0) return { role, content }
  return {
    role,
    content: parts.length === 0 ? null : content,
    tool_calls: message.tool_calls.map(({ id, name, arguments: given }) => ({
      id,
      type: 'function',
      function: { name, arguments: given },
    })),
  }
}

function encodeContent(parts: readonly ChatPart[]): string | readonly JsonObject[] {
  const [only] = parts
  if (only === undefined) return ''
  return parts.length === 1 && only.type === 'text' ? only.text : parts.map(encodePart)
}

function encodePart(part: ChatPart): JsonObject {
  if (part.type === 'text') return { type: 'text', text: part.text }
  if (part.type === 'audio') {
    return { type: 'input_audio', input_audio: { data: part.base64, format: part.format } }
  }
  const { source, detail } = part
  const url = source.kind === 'url' ? source.url : `data:${source.media_type};base64,${source.base64}`
  return { type: 'image_url', image_url: detail === null ? { url } : { url, detail } }
}
