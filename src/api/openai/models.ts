import type { Principal } from '../../contracts/catalog.ts'
import { GatewayError } from '../../errors.ts'
import { entitledEntries } from '../../gateway/eligibility.ts'
import { isUsable } from '../../gateway/selection.ts'
import { endpoint } from '../endpoint.ts'
import { OpenAiModel, OpenAiModels } from '../openapi/openai-answers.ts'
import { json } from '../openapi/operation.ts'
import { OPENAI, openaiAnswer } from './door.ts'

interface Model {
  readonly id: string
  readonly object: 'model'
  /** Unix seconds. Nobody knows when a model was made, or a purpose declared. */
  readonly created: 0
  readonly owned_by: string
}

export const models = endpoint({
  ...OPENAI,
  method: 'GET',
  path: '/openai/v1/models',
  id: 'openaiModels',
  summary: 'List models',
  limited: false,
  answers: [openaiAnswer([json(OpenAiModels)])],
  handle({ context: { principal } }) {
    return { status: 200, body: JSON.stringify({ object: 'list', data: modelsOf(principal) }) }
  },
})

export const model = endpoint({
  ...OPENAI,
  method: 'GET',
  path: '/openai/v1/models/:model',
  id: 'openaiModel',
  summary: 'Get a model',
  limited: false,
  answers: [openaiAnswer([json(OpenAiModel)])],
  errors: ['NOT_FOUND'],
  handle({ exchange, context: { principal } }) {
    const [wanted] = exchange.params
    const found = modelsOf(principal).find(({ id }) => id === wanted)
    if (found === undefined) {
      throw new GatewayError('NOT_FOUND', 'the route of the key offers no such model', { param: 'model' })
    }
    return { status: 200, body: JSON.stringify(found) }
  },
})

/**
 * Lists what can serve a key: first the purposes, which are what `model` chooses, then the models of its routes, which
 * the routes choose among. Of a provider no more is told than its name, as every answer tells it.
 */
function modelsOf(principal: Principal): readonly Model[] {
  const { route, capabilityRoutes, purposes, workspace } = principal
  const usable = purposes.filter((purpose) => isUsable(purpose, workspace))
  const routes = [route, ...capabilityRoutes.values(), ...usable.flatMap((purpose) => purpose.route ?? [])]
  const offered = [
    ...usable.map(({ purpose }) => modelOf(purpose, workspace.id)),
    ...routes
      .flatMap((each) => entitledEntries(each, workspace))
      .map((entry) => modelOf(entry.model, entry.provider.name)),
  ]
  return [...new Map(offered.toReversed().map((each) => [each.id, each])).values()].toReversed()
}

function modelOf(id: string, owner: string): Model {
  return { id, object: 'model', created: 0, owned_by: owner }
}
