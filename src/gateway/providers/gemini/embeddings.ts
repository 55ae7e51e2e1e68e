import type { EmbeddingsCall, EmbeddingsResult } from '../../../contracts/generation.ts'
import type { Operation } from '../../../contracts/provider.ts'
import { readEnding } from '../answer.ts'
import { unusable } from '../failure.ts'
import { asObject, objectsIn } from '../json.ts'
import { quantityOf } from '../numbers.ts'
import { unsent, unsupportedTokens } from '../unsupported.ts'
import { methodUrl, postJson } from './wire.ts'

/** `POST /models/{model}:batchEmbedContents`, https://ai.google.dev/api/embeddings */
export const geminiEmbeddings: Operation<EmbeddingsCall, EmbeddingsResult> = {
  unsupported: unsupportedTokens,
  start({ input, dimensions }, target) {
    const issue = unsupportedTokens({ input })
    if (issue !== null) return unsent(issue)
    const requests = input.map((text) => ({
      model: `models/${target.model}`,
      content: { parts: [{ text }] },
      ...(dimensions === null ? {} : { outputDimensionality: dimensions }),
    }))
    const request = postJson(target, methodUrl(target, 'batchEmbedContents'), { requests })
    return { kind: 'send', request, state: null }
  },
  next: (_state, reply, { input, dimensions }) =>
    readEnding(reply, (body) => {
      const embeddings = objectsIn(body.embeddings).flatMap(({ values }) =>
        isVector(values) ? [values] : [],
      )
      if (embeddings.length !== input.length)
        return unusable(reply, 'the answer lacks the embedding of a text')
      if (dimensions !== null && embeddings.some(({ length }) => length !== dimensions))
        return unusable(reply, 'the answer has not the dimensions that were asked for')
      const tokens = quantityOf(asObject(body.usageMetadata)?.promptTokenCount)
      const usage = Number.isSafeInteger(tokens) ? { input_tokens: tokens, output_tokens: 0 } : null
      return { result: { embeddings, usage } }
    }),
}

function isVector(values: unknown): values is readonly number[] {
  return (
    Array.isArray(values) &&
    values.length > 0 &&
    values.every((value) => typeof value === 'number' && Number.isFinite(value))
  )
}
