import type { WithExtras } from './extras.ts'
import type { JsonObject } from './json.ts'
import type { Logprobs } from './logprobs.ts'
import type { TokenUsage } from './usage.ts'

/** A picture of a message: where the provider fetches it, or the picture itself. */
export type ImageSource =
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'base64'; readonly media_type: string; readonly base64: string }

export type ChatPart =
  | { readonly type: 'text'; readonly text: string }
  | {
      readonly type: 'image'
      readonly source: ImageSource
      /** How closely the model should look; null: its own choice. */
      readonly detail: 'auto' | 'low' | 'high' | null
    }
  | { readonly type: 'audio'; readonly base64: string; readonly format: 'wav' | 'mp3' }

export interface ToolCall {
  readonly id: string
  readonly name: string
  /** JSON as the model wrote it, which need not be valid. */
  readonly arguments: string
}

export type ChatMessage =
  /** `developer`, the newer word for it, is read as `system`. */
  | { readonly role: 'system'; readonly parts: readonly ChatPart[] }
  | { readonly role: 'user'; readonly parts: readonly ChatPart[] }
  | {
      readonly role: 'assistant'
      readonly parts: readonly ChatPart[]
      readonly tool_calls: readonly ToolCall[]
    }
  | { readonly role: 'tool'; readonly tool_call_id: string; readonly parts: readonly ChatPart[] }

export interface Tool {
  readonly name: string
  readonly description: string | null
  /** JSON Schema of the arguments; null: none are taken. */
  readonly parameters: JsonObject | null
  /** True: the arguments keep to the schema to the letter; absent: as the provider likes. */
  readonly strict?: boolean
}

export type ToolChoice = 'auto' | 'none' | 'required' | { readonly name: string }

/** Sampling options that chat and text completion share. Null: the provider's default. */
export interface Sampling extends WithExtras {
  readonly max_tokens: number | null
  readonly temperature: number | null
  readonly top_p: number | null
  readonly stop: readonly string[]
  readonly seed: number | null
}

/** A chat; vision is the same with pictures. */
export interface ChatCall extends Sampling {
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly Tool[]
  readonly tool_choice: ToolChoice | null
  /** At least one. */
  readonly modalities: readonly ('text' | 'audio')[]
  /** How `modalities: [audio]` is to sound; null: the provider's defaults. */
  readonly audio: { readonly voice: string | null; readonly format: string | null } | null
  /** JSON Schema that the answer has to follow. */
  readonly response_schema: JsonObject | null
  /** True: the schema is to be kept to the letter; absent: where it can be, as `isStrictSchema` says. */
  readonly response_strict?: boolean
}

/** True where a schema asks for any JSON object at all. */
export function isAnyObject(schema: JsonObject): boolean {
  return schema.type === 'object' && Object.keys(schema).length === 1
}

export interface CompleteCall extends Sampling {
  readonly prompt: string
}

export const FINISH_REASONS = ['stop', 'length', 'tool_calls', 'content_filter'] as const
export type FinishReason = (typeof FINISH_REASONS)[number]

/** One of the answers to a chat or a text completion. */
export interface ChatChoice {
  readonly content: string
  readonly tool_calls: readonly ToolCall[]
  /** Null when the provider gives none that is known. */
  readonly finish_reason: FinishReason | null
  /** Spoken answer, as the provider encodes it; null without. */
  readonly audio: { readonly base64: string; readonly media_type: string } | null
  /** Where they were asked for. */
  readonly logprobs?: Logprobs
}

/** How a provider has scheduled a call. */
export const SERVICE_TIERS = ['auto', 'default', 'flex', 'scale', 'priority', 'fast'] as const

/** Facts of an answer in OpenAI's format beside its choices; each is absent where the provider does not tell it. */
export interface ChatFacts {
  readonly system_fingerprint?: string
  readonly service_tier?: (typeof SERVICE_TIERS)[number]
  readonly prompt_tokens_details?: Readonly<Record<string, number>>
  readonly completion_tokens_details?: Readonly<Record<string, number>>
}

/** The answer to a chat or a text completion. */
export interface ChatResult extends ChatChoice {
  /** The choices beside it, where several were asked for. */
  readonly others?: readonly ChatChoice[]
  readonly facts?: ChatFacts
  readonly usage: TokenUsage | null
  /** Options that were left out, e.g. `temperature: …`. */
  readonly warnings: readonly string[]
}

/** A piece of a streamed answer. `choice` is which of several it belongs to; absent: the first. */
export type ChatDelta =
  | { readonly type: 'text'; readonly text: string; readonly choice?: number; readonly logprobs?: Logprobs }
  | {
      readonly type: 'tool_call'
      readonly choice?: number
      /** Which of the answer's calls it belongs to, from 0. */
      readonly index: number
      /** With the first piece of each call, else null. */
      readonly id: string | null
      readonly name: string | null
      /** Goes behind what came before. */
      readonly arguments: string
    }
  | { readonly type: 'audio'; readonly base64: string; readonly choice?: number }
