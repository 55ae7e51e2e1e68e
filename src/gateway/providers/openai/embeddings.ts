import type { EmbeddingsCall, EmbeddingsResult } from '../../../contracts/generation.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Operation } from '../../../contracts/provider.ts'
import { goodObject } from '../answer.ts'
import { unusable } from '../failure.ts'
import { objectsIn } from '../json.ts'
import { type ExtraHeaders, jsonRequest, readUsage } from './wire.ts'

/** Bytes of one float32. */
const FLOAT_BYTES = 4

/**
 * `POST /embeddings`, https://platform.openai.com/docs/api-reference/embeddings/create
 *
 * @param base64 whether to ask for base64 of float32: a quarter of the bytes of numbers written out. Servers
 * that do not know the field answer with numbers, which are read as well.
 */
export function embeddingsOperation(
  base64: boolean,
  extra: ExtraHeaders,
): Operation<EmbeddingsCall, EmbeddingsResult> {
  return {
    start({ input, dimensions }, target) {
      const body = {
        model: target.model,
        input,
        ...(base64 ? { encoding_format: 'base64' } : {}),
        ...(dimensions === null ? {} : { dimensions }),
      }
      return { kind: 'send', request: jsonRequest(target, '/embeddings', body, extra), state: null }
    },
    next(_state, reply, call) {
      const answer = goodObject(reply)
      if ('failure' in answer) return { kind: 'failed', failure: answer.failure }
      const embeddings = readEmbeddings(answer.body, call)
      if (typeof embeddings === 'string') return { kind: 'failed', failure: unusable(reply, embeddings) }
      const inputTokens = readUsage(answer.body)?.input_tokens ?? null
      const usage = inputTokens === null ? null : { input_tokens: inputTokens, output_tokens: 0 }
      return { kind: 'done', result: { embeddings, usage } }
    },
  }
}

/**
 * One embedding for each text, in the order of the texts, whatever the order of the answer; else what is
 * wrong.
 */
function readEmbeddings(body: JsonObject, { input, dimensions }: EmbeddingsCall): number[][] | string {
  const items = objectsIn(body.data)
  if (items.length !== input.length) return 'the answer has another number of embeddings than there are texts'
  const ordered = new Map<number, number[]>()
  for (const [position, item] of items.entries()) {
    const embedding = readEmbedding(item.embedding)
    if (embedding === null) return 'an embedding of the answer cannot be read'
    if (dimensions !== null && embedding.length !== dimensions) {
      return 'the answer lacks the dimensions that were asked for'
    }
    ordered.set(typeof item.index === 'number' ? item.index : position, embedding)
  }
  const embeddings = input.flatMap((_text, index) => {
    const embedding = ordered.get(index)
    return embedding === undefined ? [] : [embedding]
  })
  return embeddings.length === input.length ? embeddings : 'the embeddings of the answer cannot be told apart'
}

/** Numbers, or base64 of little-endian float32; null for anything else. */
function readEmbedding(value: unknown): number[] | null {
  const numbers = typeof value === 'string' ? readFloats(value) : value
  if (!Array.isArray(numbers) || numbers.length === 0) return null
  return numbers.every((number) => typeof number === 'number' && Number.isFinite(number)) ? numbers : null
}

function readFloats(base64: string): number[] | null {
  const bytes = Buffer.from(base64, 'base64')
  if (bytes.byteLength % FLOAT_BYTES !== 0) return null
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return Array.from({ length: bytes.byteLength / FLOAT_BYTES }, (_, index) =>
    view.getFloat32(index * FLOAT_BYTES, true),
  )
}
