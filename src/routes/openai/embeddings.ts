import { Type } from 'typebox'
import { run } from '../../gateway/run.ts'
import { EmbeddingsBody, readEmbeddings } from '../embeddings.ts'
import { callerOf, type Handle } from '../endpoint.ts'
import { type Large, largeRows } from '../json-reply.ts'
import { optional } from '../json-request.ts'
import { factReply } from './fact-reply.ts'
import { MODEL_FIELD, openaiRequest } from './request.ts'

const OpenAiEmbeddingsBody = Type.Object({
  model: MODEL_FIELD,
  ...EmbeddingsBody.properties,
  encoding_format: optional(
    Type.Enum(['float', 'base64']),
    'float unless said; base64 is of little-endian 32-bit floats',
  ),
})

export const openaiEmbeddingsRequest = openaiRequest('embeddings', OpenAiEmbeddingsBody, readEmbeddings, [
  'user',
])

/** POST /openai/v1/embeddings */
export const openaiEmbeddings: Handle = async (exchange, trail, { services }) => {
  const { call, body } = await openaiEmbeddingsRequest.receive(exchange, trail, services)
  const outcome = await run(services, { ...callerOf(exchange), operation: 'embeddings', trail, call })
  exchange.onFinished(outcome.release)
  const { envelope, result } = outcome
  // The shape has no word for tokens that the provider does not tell; the warning about it is in the headers.
  const tokens = envelope.usage.input_tokens ?? 0
  return factReply(envelope, {
    object: 'list',
    data: itemsOf(result.embeddings, body.encoding_format === 'base64'),
    model: envelope.model,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  })
}

function itemsOf(rows: readonly (readonly number[])[], base64: boolean): Large<string> {
  return largeRows(rows, (row, index) => ({
    object: 'embedding',
    index,
    embedding: base64 ? base64Of(row) : row,
  }))
}

function base64Of(row: readonly number[]): string {
  const bytes = Buffer.alloc(row.length * Float32Array.BYTES_PER_ELEMENT)
  for (const [index, value] of row.entries())
    bytes.writeFloatLE(value, index * Float32Array.BYTES_PER_ELEMENT)
  return bytes.toString('base64')
}
