import { type Answer, type CallBody, json, memberOf, Refusal } from './http.ts'

import { modelFor } from './models.ts'

const DIMENSIONS = 256
const INPUTS_MAX = 2048
/** FNV-1a, 32 bits. */
const HASH_OFFSET = 0x811c_9dc5
const HASH_PRIME = 0x0100_0193

/**
 * `POST /v1/embeddings`: how often each run of three characters occurs, hashed into the dimensions and of length 1, so
 * that texts with much in common are close.
 *
 * @throws Refusal
 */
export function embeddings(body: CallBody): Answer {
  const { name: model } = modelFor('embeddings', body)
  const given = memberOf(body.json, 'input')
  const input: unknown[] = Array.isArray(given) ? given : [given]
  // One list of tokens is one input.
  const inputs = input.some((one) => typeof one === 'number') ? [input] : input
  const texts = inputs.map(inputText).filter((text) => text !== '')
  if (texts.length !== inputs.length || texts.length === 0 || texts.length > INPUTS_MAX)
    throw new Refusal(400, `input takes 1 to ${INPUTS_MAX} texts, or lists of tokens`, { param: 'input' })
  const dimensions = memberOf(body.json, 'dimensions') ?? DIMENSIONS
  if (
    typeof dimensions !== 'number' ||
    !Number.isInteger(dimensions) ||
    dimensions < 1 ||
    dimensions > DIMENSIONS
  )
    throw new Refusal(400, `dimensions takes 1 to ${DIMENSIONS}`, { param: 'dimensions' })
  const packed = memberOf(body.json, 'encoding_format') === 'base64'
  const data = texts.map((text, index) => {
    const vector = embed(text, dimensions)
    const embedding = packed ? Buffer.from(vector.buffer).toString('base64') : [...vector]
    return { object: 'embedding', index, embedding }
  })
  const prompt_tokens = Math.ceil(inputs.reduce<number>((sum, one) => sum + countTokens(one), 0))
  return json(200, { object: 'list', data, model, usage: { prompt_tokens, total_tokens: prompt_tokens } })
}

/** A text; of tokens one that has a word for each. Empty: it is neither. */
function inputText(input: unknown): string {
  if (typeof input === 'string') return input
  const isTokens = Array.isArray(input) && input.every((token) => Number.isSafeInteger(token) && token >= 0)
  return isTokens ? input.map((token) => `<${token}>`).join(' ') : ''
}

function countTokens(input: unknown): number {
  return typeof input === 'string' ? input.length / 4 : (input as readonly unknown[]).length
}

function embed(text: string, dimensions: number): Float32Array {
  const vector = new Float32Array(dimensions)
  const padded = ` ${text.toLowerCase()} `
  for (let at = 0; at + 3 <= padded.length; at += 1) {
    const place = hash(padded.slice(at, at + 3)) % dimensions
    vector[place] = (vector[place] ?? 0) + 1
  }
  const length = Math.hypot(...vector)
  return vector.map((value) => value / length)
}

function hash(text: string): number {
  let value = HASH_OFFSET
  for (const byte of Buffer.from(text)) value = Math.imul(value ^ byte, HASH_PRIME) >>> 0
  return value
}
