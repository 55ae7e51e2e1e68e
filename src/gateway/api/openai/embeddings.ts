import { type Static, Type } from 'typebox'
import type { EmbeddingInput, EmbeddingsCall } from '../../../contracts/generation.ts'
import type { Outcome } from '../../call/attempt/outcome.ts'
import { run } from '../../call/pipeline.ts'
import { endpoint } from '../endpoint.ts'
import { type Large, largeRows } from '../json-reply.ts'
import { optional } from '../json-request.ts'
import { EmbeddingsBody } from '../native/embeddings.ts'
import { TOKEN_FACTS } from '../openapi/headers.ts'
import { OpenAiEmbeddings } from '../openapi/openai-answers.ts'
import { CALL_ERRORS, json } from '../openapi/operation.ts'
import { factReply, MODEL_FIELD, OPENAI, openaiAnswer, openaiRequest, USER_FIELD } from './door.ts'

const Text = Type.String({ minLength: 1 })
/** Most tokens of one input, and most inputs: what a model takes is less. */
const TOKENS_MAX = 100_000
const INPUTS_MAX = 2_048
const Tokens = Type.Array(Type.Integer({ minimum: 0, maximum: 0xffff_ffff }), {
  minItems: 1,
  maxItems: TOKENS_MAX,
})

const OpenAiEmbeddingsBody = Type.Object({
  model: MODEL_FIELD,
  ...EmbeddingsBody.properties,
  input: Type.Union(
    [
      Text,
      Type.Array(Text, { minItems: 1, maxItems: INPUTS_MAX }),
      Tokens,
      Type.Array(Tokens, { minItems: 1, maxItems: INPUTS_MAX }),
    ],
    { description: 'text, or its tokens; or up to 2048 of them; tokens by entries that take them' },
  ),
  encoding_format: optional(
    Type.Enum(['float', 'base64']),
    'default: float; base64 is of little-endian 32-bit floats',
  ),
  ...USER_FIELD,
})

const openaiEmbeddingsRequest = openaiRequest('embeddings', OpenAiEmbeddingsBody, readInputs)

function readInputs({ input, dimensions }: Static<typeof OpenAiEmbeddingsBody>): EmbeddingsCall {
  return { input: inputsOf(input), dimensions: dimensions ?? null }
}

/** One list of tokens is one input. */
function inputsOf(input: Static<typeof OpenAiEmbeddingsBody>['input']): readonly EmbeddingInput[] {
  if (typeof input === 'string') return [input]
  return isTokens(input) ? [input] : input
}

function isTokens(input: readonly unknown[]): input is readonly number[] {
  return typeof input[0] === 'number'
}

export const openaiEmbeddings = endpoint({
  ...OPENAI,
  method: 'POST',
  path: '/openai/v1/embeddings',
  kind: 'call',
  id: 'openaiEmbeddings',
  summary: 'Embeddings',
  body: openaiEmbeddingsRequest,
  answers: [openaiAnswer([json(OpenAiEmbeddings)], TOKEN_FACTS)],
  errors: CALL_ERRORS,
  async handle({ exchange, context, deps: { services }, body: { call, fields } }) {
    const outcome = await run(services, context, { mode: 'whole', call })
    exchange.onFinished(outcome.release)
    return factReply(outcome.envelope, embeddingsResponse(outcome, fields.encoding_format === 'base64'))
  },
})

function embeddingsResponse({ envelope, result }: Outcome<'embeddings'>, base64: boolean) {
  // The shape has no word for tokens that the provider does not tell; the warning about it is in the headers.
  const tokens = envelope.usage.input_tokens ?? 0
  return {
    object: 'list',
    data: itemsOf(result.embeddings, base64),
    model: envelope.model,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  }
}

function itemsOf(rows: readonly ArrayLike<number>[], base64: boolean): Large<string> {
  return largeRows(rows, (row, index) => ({
    object: 'embedding',
    index,
    embedding: base64 ? base64Of(row) : Array.from(row),
  }))
}

function base64Of(row: ArrayLike<number>): string {
  const { buffer } = row instanceof Float32Array ? row : Float32Array.from(row)
  return Buffer.from(buffer).toString('base64')
}
