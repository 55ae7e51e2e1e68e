import type { Principal } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import { endpoint } from '../endpoint.ts'
import { offeredModels } from '../offered-models.ts'
import { OpenAiModel, OpenAiModels } from '../openapi/openai-answers.ts'
import { json } from '../openapi/operation.ts'
import { OPENAI, openaiAnswer } from './door.ts'

interface Model {
  readonly id: string
  readonly object: 'model'
  /** Unix seconds. It is not known when a model was made, or a purpose declared. */
  readonly created: 0
  readonly owned_by: string
}

export const models = endpoint({
  ...OPENAI,
  method: 'GET',
  path: '/openai/v1/models',
  kind: 'none',
  id: 'openaiModels',
  summary: 'List models',
  limited: false,
  answers: [openaiAnswer([json(OpenAiModels)])],
  handle({ context: { principal } }) {
    return { status: 200, body: JSON.stringify({ object: 'list', data: listedModels(principal) }) }
  },
})

export const model = endpoint({
  ...OPENAI,
  method: 'GET',
  path: '/openai/v1/models/:model',
  kind: 'none',
  id: 'openaiModel',
  summary: 'Get a model',
  limited: false,
  answers: [openaiAnswer([json(OpenAiModel)])],
  errors: ['NOT_FOUND'],
  handle({ exchange, context: { principal } }) {
    const [wanted] = exchange.params
    const found = listedModels(principal).find(({ id }) => id === wanted)
    if (found === undefined) {
      throw new GatewayError('NOT_FOUND', 'the route of the key offers no such model', { param: 'model' })
    }
    return { status: 200, body: JSON.stringify(found) }
  },
})

function listedModels(principal: Principal): readonly Model[] {
  return offeredModels(principal).map(({ id, owner }) => ({
    id,
    object: 'model',
    created: 0,
    owned_by: owner,
  }))
}
