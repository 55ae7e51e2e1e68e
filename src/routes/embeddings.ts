import { type Static, Type } from 'typebox'
import { run } from '../gateway/run.ts'
import type { EmbeddingsCall } from '../schema/generation.ts'
import { callerOf, type Handle } from './endpoint.ts'
import { jsonReply, largeRows } from './json-reply.ts'
import { jsonRequest, optional, receiveJson } from './json-request.ts'

const Text = Type.String({ minLength: 1 })

export const EmbeddingsBody = Type.Object({
  input: Type.Union([Text, Type.Array(Text, { minItems: 1, maxItems: 2_048 })], {
    description: 'text, or up to 2048 texts',
  }),
  dimensions: optional(
    Type.Integer({ minimum: 1, maximum: 1_000_000 }),
    'length of each vector, where the model can choose',
  ),
})

export const embeddingsRequest = jsonRequest('embeddings', EmbeddingsBody, readEmbeddings)

export function readEmbeddings({ input, dimensions }: Static<typeof EmbeddingsBody>): EmbeddingsCall {
  return { input: typeof input === 'string' ? [input] : input, dimensions: dimensions ?? null }
}

/** POST /v1/embeddings: one vector for each text, in order. */
export const embeddings: Handle = async (exchange, trail, { services }) => {
  const { call } = await receiveJson(embeddingsRequest, exchange, trail, services)
  const outcome = await run(services, { ...callerOf(exchange), operation: 'embeddings', trail, call })
  exchange.onFinished(outcome.release)
  const { warnings, ...common } = outcome.envelope
  return jsonReply({ ...common, embeddings: largeRows(outcome.result.embeddings), warnings })
}
