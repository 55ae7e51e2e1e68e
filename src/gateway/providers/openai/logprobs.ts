import type { JsonObject } from '../../../contracts/json.ts'
import type { ChatTokenLogprob, Logprobs, TokenLogprob } from '../../../contracts/logprobs.ts'
import { asObject, objectsIn } from '../json.ts'

/** The log probabilities of a choice, or of a piece of one; null when there are none. */
export function readLogprobs(value: unknown): Logprobs | null {
  const given = asObject(value)
  if (given === null) return null
  if (Array.isArray(given.tokens)) return textLogprobs(given)
  return { content: chatTokens(given.content), refusal: chatTokens(given.refusal) }
}

/** Tokens of a list; those without a figure are left out. */
export function readTokens(value: unknown): readonly TokenLogprob[] {
  return objectsIn(value).flatMap((item) => readToken(item) ?? [])
}

function chatTokens(value: unknown): readonly ChatTokenLogprob[] | null {
  if (!Array.isArray(value)) return null
  return objectsIn(value).flatMap((item) => {
    const token = readToken(item)
    return token === null ? [] : [{ ...token, top_logprobs: readTokens(item.top_logprobs) }]
  })
}

function readToken({ token, logprob, bytes }: JsonObject): TokenLogprob | null {
  if (typeof token !== 'string' || typeof logprob !== 'number') return null
  return { token, logprob, bytes: Array.isArray(bytes) ? bytes.filter(isNumber) : null }
}

/** The lists of a text completion. */
function textLogprobs(given: JsonObject): Logprobs {
  const { tokens, token_logprobs: figures, top_logprobs: tops, text_offset: offsets } = given
  return {
    tokens: listIn(tokens).map(String),
    token_logprobs: listIn(figures).map((figure) => (isNumber(figure) ? figure : null)),
    top_logprobs: Array.isArray(tops) ? tops.map(figuresIn) : null,
    text_offset: listIn(offsets).filter(isNumber),
  }
}

function figuresIn(value: unknown): Readonly<Record<string, number>> | null {
  const given = asObject(value)
  if (given === null) return null
  return Object.fromEntries(
    Object.entries(given).filter((pair): pair is [string, number] => isNumber(pair[1])),
  )
}

export class LogprobPieces {
  #lists: Map<string, unknown[] | null> | null = null

  add(piece: Logprobs): void {
    this.#lists ??= new Map()
    for (const [name, more] of Object.entries(piece) as [string, readonly unknown[] | null][]) {
      const list = this.#lists.get(name) ?? null
      if (list === null) this.#lists.set(name, more === null ? null : [...more])
      else for (const item of more ?? []) list.push(item)
    }
  }

  /** Null when none came. */
  whole(): Logprobs | null {
    return this.#lists === null ? null : (Object.fromEntries(this.#lists) as unknown as Logprobs)
  }
}

function listIn(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number'
}
