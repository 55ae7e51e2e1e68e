import type { Entry } from '../schema/catalog.ts'
import type { ChatCall } from '../schema/chat.ts'
import type { Calls, OperationName } from '../schema/operations.ts'
import { exactCost, type Metered, meter, meterAt, NOTHING_TOLD, type Told } from './meter.ts'
import { type PriceOfDay, priceForSize, priceOn } from './price.ts'

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

/** Expected cost of a call at an entry, unrounded so that entries compare; Infinity when it is not known. */
export function expectedCost<K extends OperationName>(entry: Entry, operation: K, payload: Calls[K]): number {
  return exactCost(operation, payload, SUPPOSED[operation](payload), entry.facts.price)
}

/**
 * The most that a call would come to at an entry, at any of the prices that its size may fall under; null when that is
 * not known.
 */
export function highestCost<K extends OperationName>(
  { facts }: Entry,
  operation: K,
  payload: Calls[K],
  atMs = Date.now(),
): number | null {
  const price = priceOn(facts.price ?? {}, atMs)
  const told = SUPPOSED[operation](payload)
  const costs = pricesFor(price, told, payload).map((one) => meterAt(operation, payload, told, one).costUsd)
  return costs.reduce((most, cost) => (most === null || cost === null ? null : Math.max(most, cost)))
}

/** The price of the size that is supposed, and of every other that the call may turn out to have. */
function pricesFor(price: PriceOfDay, told: Told, payload: unknown): [PriceOfDay, ...PriceOfDay[]] {
  const supposed = told.usage?.input_tokens ?? null
  const first = priceForSize(price, supposed)
  if (price.tiers === undefined || supposed === null) return [first]
  const most = mostTokens(payload)
  const reached = price.tiers.map((tier) => tier.over_input_tokens + 1).filter((tokens) => tokens <= most)
  return [first, ...reached.map((tokens) => priceForSize(price, Math.max(tokens, supposed)))]
}

/**
 * As many tokens as there may be: one for each character, since not every language is as short as English. Pictures
 * and sound count as their provider likes, so that nothing is known of a call with such.
 */
function mostTokens(payload: unknown): number {
  const { messages = [] } = payload as Partial<ChatCall>
  const isText = messages.every(({ parts }) => parts.every(({ type }) => type === 'text'))
  return isText ? JSON.stringify(payload).length : Number.POSITIVE_INFINITY
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
