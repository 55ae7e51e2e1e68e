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
  const texts = input.filter((text) => typeof text === 'string' && text !== '')
  if (texts.length !== input.length || texts.length === 0 || texts.length > INPUTS_MAX)
    throw new Refusal(400, `input takes 1 to ${INPUTS_MAX} texts`, { param: 'input' })
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
    const vector = embed(String(text), dimensions)
    const embedding = packed ? Buffer.from(vector.buffer).toString('base64') : [...vector]
    return { object: 'embedding', index, embedding }
  })
  const characters = texts.reduce<number>((sum, text) => sum + String(text).length, 0)
  const prompt_tokens = Math.ceil(characters / 4)
  return json(200, { object: 'list', data, model, usage: { prompt_tokens, total_tokens: prompt_tokens } })
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
