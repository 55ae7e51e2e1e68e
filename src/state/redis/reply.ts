/**
 * What a script replied, as a list of texts and nulls.
 *
 * @throws Error when it is something else
 */
export function textsOf(reply: unknown): readonly (string | null)[] {
  const isText = (item: unknown) => item === null || typeof item === 'string'
  if (!Array.isArray(reply) || !reply.every(isText))
    throw new Error('a script replied something else than texts')
  return reply
}

/** @throws Error when there is no text */
export function textOf(text: string | null | undefined): string {
  if (typeof text !== 'string') throw new Error('a script left out a text')
  return text
}

/** A whole number out of its digits; nothing is zero. @throws Error for any other text, and for what is not exact */
export function integerOf(text: string | null | undefined): number {
  const integer = Number(text ?? 0)
  if (!Number.isSafeInteger(integer) || text === '') throw new Error('a script replied a number that is none')
  return integer
}

/** Fields and values in turn, as Redis lists a hash. */
export function pairsOf(reply: unknown): [string, string][] {
  const texts = textsOf(reply)
  return Array.from({ length: texts.length / 2 }, (_, i) => [textOf(texts[2 * i]), textOf(texts[2 * i + 1])])
}
