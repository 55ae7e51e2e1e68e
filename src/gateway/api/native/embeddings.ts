import { type Static, Type } from 'typebox'
import type { EmbeddingsCall } from '../../../contracts/generation.ts'
import { run } from '../../call/pipeline.ts'
import { endpoint } from '../endpoint.ts'
import { jsonReply, largeRows } from '../json-reply.ts'
import { jsonRequest, optional } from '../json-request.ts'
import { Embeddings } from '../openapi/answers.ts'
import { CALL_ERRORS, json } from '../openapi/operation.ts'

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

export const embeddings = endpoint({
  method: 'POST',
  path: '/v1/embeddings',
  kind: 'call',
  id: 'embeddings',
  tag: 'Generation',
  summary: 'Embeddings',
  scope: 'inference',
  body: embeddingsRequest,
  answers: [{ status: 200, description: 'the embeddings', contents: [json(Embeddings)] }],
  errors: CALL_ERRORS,
  async handle({ exchange, context, deps: { services }, body: { call } }) {
    const outcome = await run(services, context, { mode: 'whole', call })
    exchange.onFinished(outcome.release)
    const { warnings, ...common } = outcome.envelope
    return jsonReply({ ...common, embeddings: largeRows(outcome.result.embeddings), warnings })
  },
})
