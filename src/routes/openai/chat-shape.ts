import type { Outcome } from '../../gateway/settle.ts'
import type { Streaming } from '../../gateway/stream.ts'
import type { ChatDelta, ChatResult, FinishReason } from '../../schema/chat.ts'
import type { ChatShape } from '../chat-reply.ts'
import { largeText } from '../json-reply.ts'
import { completionShape } from './completion-shape.ts'
import { completionUsage } from './usage.ts'

/**
 * A chat as OpenAI answers it, whole or in chunks.
 *
 * @param includeUsage whether a stream ends with a chunk that tells the tokens
 */
export function chatShape(includeUsage: boolean): ChatShape<'chat'> {
  return completionShape(chatCompletion, (streaming, created) => chatChunks(streaming, includeUsage, created))
}

/** @param created Unix seconds */
export function chatCompletion({ envelope, result }: Outcome<'chat'>, created: number) {
  const { id, model } = envelope
  const usage = completionUsage(envelope)
  const choice = {
    index: 0,
    message: messageOf(id, result, created),
    finish_reason: finishReasonOf(result),
    logprobs: null,
  }
  const completion = { id, object: 'chat.completion' as const, created, model, choices: [choice] }
  return usage === null ? completion : { ...completion, usage }
}

function messageOf(id: string, { content, tool_calls: calls, audio }: ChatResult, created: number) {
  const called = calls.map((call) => ({
    id: call.id,
    type: 'function' as const,
    function: { name: call.name, arguments: call.arguments },
  }))
  // It is not kept, so that it cannot be referred to from the moment it is here.
  const spoken =
    audio === null
      ? {}
      : {
          audio: { id: audioId(id), data: largeText(audio.base64), expires_at: created, transcript: content },
        }
  return {
    role: 'assistant' as const,
    content: audio !== null || (content === '' && calls.length > 0) ? null : largeText(content),
    refusal: null,
    ...(called.length === 0 ? {} : { tool_calls: called }),
    ...spoken,
  }
}

/** OpenAI always gives a reason. */
function finishReasonOf({ finish_reason: reason, tool_calls: calls }: ChatResult): FinishReason {
  return reason ?? (calls.length > 0 ? 'tool_calls' : 'stop')
}

/** The chunks of a streamed chat. @param created Unix seconds */
export function chatChunks({ head, payload }: Streaming<'chat'>, includeUsage: boolean, created: number) {
  const { id, model } = head
  const common = { id, object: 'chat.completion.chunk' as const, created, model }
  const chunk = (delta: ChunkDelta, reason: FinishReason | null = null) => ({
    ...common,
    choices: [{ index: 0, delta, logprobs: null, finish_reason: reason }],
    ...(includeUsage ? { usage: null } : {}),
  })
  const spoken = payload.modalities.includes('audio') ? spokenPieces(audioId(id)) : null
  return {
    opening: [chunk({ role: 'assistant', content: spoken === null ? '' : null, refusal: null })],
    event: (delta: ChatDelta) => chunk(deltaOf(delta, spoken)),
    done({ envelope, result }: Outcome<'chat'>) {
      const spokenEnd = result.audio === null ? [] : [chunk({ audio: { expires_at: created } })]
      const last = [...spokenEnd, chunk({}, finishReasonOf(result))]
      return includeUsage ? [...last, { ...common, choices: [], usage: completionUsage(envelope) }] : last
    },
  }
}

interface ChunkDelta {
  readonly role?: 'assistant'
  readonly content?: string | null
  readonly refusal?: null
  readonly tool_calls?: {
    index: number
    id?: string
    type?: 'function'
    function: { name?: string; arguments: string }
  }[]
  readonly audio?: SpokenPiece & { readonly id?: string }
}

type SpokenPiece =
  | { readonly data: string }
  | { readonly transcript: string }
  | { readonly expires_at: number }

/** Clients string together what comes more than once: the id of the recording is in its first piece alone. */
function spokenPieces(id: string): (piece: SpokenPiece) => ChunkDelta {
  let named = false
  return (piece) => {
    const audio = named ? piece : { id, ...piece }
    named = true
    return { audio }
  }
}

/** @param spoken makes pieces of the recording, to which all text belongs; null: the answer is written */
function deltaOf(delta: ChatDelta, spoken: ((piece: SpokenPiece) => ChunkDelta) | null): ChunkDelta {
  switch (delta.type) {
    case 'text':
      return spoken === null ? { content: delta.text } : spoken({ transcript: delta.text })
    case 'audio':
      return spoken === null ? {} : spoken({ data: delta.base64 })
    case 'tool_call': {
      const { index, id, name, arguments: json } = delta
      const first = id === null ? {} : { id, type: 'function' as const }
      const called = { ...(name === null ? {} : { name }), arguments: json }
      return { tool_calls: [{ index, ...first, function: called }] }
    }
  }
}

function audioId(id: string): string {
  return `audio_${id}`
}
