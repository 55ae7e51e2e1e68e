import type { EmbeddingsCall, EmbeddingsResult } from '../../../contracts/generation.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Operation } from '../../../contracts/provider.ts'
import { readEnding } from '../answer.ts'
import { unusable } from '../failure.ts'
import { objectsIn } from '../json.ts'
import { type ExtraHeaders, jsonRequest, readUsage } from './wire.ts'

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
    next: (_state, reply, call) =>
      readEnding(reply, (body) => {
        const embeddings = readEmbeddings(body, call)
        if (typeof embeddings === 'string') return unusable(reply, embeddings)
        const inputTokens = readUsage(body)?.input_tokens ?? null
        const usage = inputTokens === null ? null : { input_tokens: inputTokens, output_tokens: 0 }
        return { result: { embeddings, usage } }
      }),
  }
}

/** One embedding for each text, in the order of the texts, whatever the order of the answer; else what is wrong. */
function readEmbeddings(
  body: JsonObject,
  { input, dimensions }: EmbeddingsCall,
): ArrayLike<number>[] | string {
  const items = objectsIn(body.data)
  if (items.length !== input.length) return 'the answer has another number of embeddings than there are texts'
  const ordered = new Map<number, ArrayLike<number>>()
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

/** Numbers, or base64 of little-endian float32; null for anything else. A large answer has millions of them. */
function readEmbedding(value: unknown): ArrayLike<number> | null {
  const numbers = typeof value === 'string' ? readFloats(value) : value
  if (!(Array.isArray(numbers) || numbers instanceof Float32Array) || numbers.length === 0) return null
  for (const number of numbers) if (!Number.isFinite(number)) return null
  return numbers
}

/** The bytes as they are: little-endian is how the processors that this runs on keep a float. */
function readFloats(base64: string): Float32Array | null {
  const bytes = new Uint8Array(Buffer.from(base64, 'base64'))
  return bytes.length % Float32Array.BYTES_PER_ELEMENT === 0 ? new Float32Array(bytes.buffer) : null
}
