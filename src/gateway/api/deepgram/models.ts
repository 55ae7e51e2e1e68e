import type { Capability } from '../../../contracts/calls.ts'
import type { Principal } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import { endpoint } from '../endpoint.ts'
import { jsonReply } from '../json-reply.ts'
import { type OfferedModel, offeredModels, offeredVoices } from '../offered-models.ts'
import { DeepgramModel, DeepgramModels } from '../openapi/deepgram-answers.ts'
import { json } from '../openapi/operation.ts'
import { DEEPGRAM, deepgramAnswer, modelId } from './door.ts'

export const deepgramModels = endpoint({
  ...DEEPGRAM,
  method: 'GET',
  path: '/deepgram/v1/models',
  kind: 'none',
  id: 'deepgramModels',
  summary: 'List models and voices',
  limited: false,
  answers: [deepgramAnswer([json(DeepgramModels)])],
  handle: ({ context: { principal } }) => jsonReply(speechModels(principal)),
})

export const deepgramModel = endpoint({
  ...DEEPGRAM,
  method: 'GET',
  path: '/deepgram/v1/models/:model',
  kind: 'none',
  id: 'deepgramModel',
  summary: 'Get a model or a voice',
  limited: false,
  answers: [deepgramAnswer([json(DeepgramModel)])],
  errors: ['NOT_FOUND'],
  handle({ exchange, context: { principal } }) {
    const [wanted] = exchange.params
    const { stt, tts } = speechModels(principal)
    const found = [...stt, ...tts].find(({ uuid, name }) => uuid === wanted || name === wanted)
    if (found === undefined)
      throw new GatewayError('NOT_FOUND', 'the route of the key offers no such model', { param: 'model' })
    return jsonReply(found)
  },
})

/** Names that may be sent as `model`: to transcribe, a purpose or a model of the routes; to speak, a voice too. */
export function speechModels(principal: Principal) {
  const offered = offeredModels(principal)
  const able = (capability: Capability) =>
    offered.filter(({ entries }) => entries.some(({ facts }) => facts.capabilities.includes(capability)))
  const voices = [...offeredVoices(principal)].map(([name, [model = '']]) => namedModel(name, model))
  return {
    stt: able('audio_input').map((model) => ({
      ...namedModel(model.id, model.owner),
      batch: true,
      streaming: model.entries.some(({ facts }) => facts.live !== undefined),
      formatted_output: formats(model),
    })),
    tts: [...able('audio_output').map(({ id, owner }) => namedModel(id, owner)), ...voices],
  }
}

function formats({ entries }: OfferedModel): boolean {
  return entries.some(({ facts }) => facts.hints.includes('smart_formatting'))
}

function namedModel(name: string, architecture: string) {
  const named = { name, canonical_name: name, architecture, languages: [] as string[] }
  return { ...named, version: '', uuid: modelId(name) }
}
