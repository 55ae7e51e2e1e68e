import type { Entry } from '../schema/catalog.ts'
import type { ChatCall } from '../schema/chat.ts'
import type { Calls, OperationName } from '../schema/operations.ts'
import { type Metered, meter, NOTHING_TOLD, type Told } from './meter.ts'

/** English text has about four characters to a token. */
const CHARACTERS_PER_TOKEN = 4
/** What is supposed where the call does not say. */
const ANSWER_TOKENS = 1_000
const AUDIO: Told = { ...NOTHING_TOLD, seconds: 60, channels: 2 }
const VIDEO_SECONDS = 8

/** What a call would come to at an entry. */
export function estimateOf<K extends OperationName>(entry: Entry, operation: K, payload: Calls[K]): Metered {
  return meter(operation, payload, SUPPOSED[operation](payload), entry.facts.price)
}

/** What the provider is going to tell of the answer, by all that can be seen before. */
const SUPPOSED: { readonly [K in OperationName]: (payload: Calls[K]) => Told } = {
  transcription: () => AUDIO,
  translation: () => AUDIO,
  speech: () => NOTHING_TOLD,
  chat: supposeChat,
  vision: supposeChat,
  complete: ({ prompt, max_tokens }) => supposeTokens(prompt.length, max_tokens),
  embeddings: ({ input }) => supposeTokens(sum(input), 0),
  image: ({ n }) => ({ ...NOTHING_TOLD, images: n }),
  video: ({ duration_seconds }) => ({ ...NOTHING_TOLD, seconds: duration_seconds ?? VIDEO_SECONDS }),
}

function supposeChat({ messages, max_tokens }: ChatCall): Told {
  const texts = messages.flatMap(({ parts }) => parts.map((part) => (part.type === 'text' ? part.text : '')))
  return supposeTokens(sum(texts), max_tokens)
}

function supposeTokens(characters: number, answer: number | null): Told {
  const input_tokens = Math.ceil(characters / CHARACTERS_PER_TOKEN)
  return { ...NOTHING_TOLD, usage: { input_tokens, output_tokens: answer ?? ANSWER_TOKENS } }
}

function sum(texts: readonly string[]): number {
  return texts.reduce((characters, text) => characters + text.length, 0)
}
