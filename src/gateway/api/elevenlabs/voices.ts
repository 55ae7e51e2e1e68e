import type { Entry, Principal } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import { endpoint } from '../endpoint.ts'
import { jsonReply } from '../json-reply.ts'
import { SPEECH_CHARACTERS_MAX } from '../native/speech.ts'
import { offeredModels, offeredVoices } from '../offered-models.ts'
import {
  ElevenLabsModels,
  ElevenLabsVoice,
  ElevenLabsVoices,
  ElevenLabsVoicesPage,
} from '../openapi/elevenlabs-answers.ts'
import { json } from '../openapi/operation.ts'
import { ELEVENLABS, elevenlabsAnswer } from './door.ts'

const LIST = { ...ELEVENLABS, method: 'GET', kind: 'none', limited: false } as const

export const voices = endpoint({
  ...LIST,
  path: '/elevenlabs/v1/voices',
  id: 'elevenlabsVoices',
  summary: 'List voices',
  answers: [elevenlabsAnswer([json(ElevenLabsVoices)])],
  handle: ({ context: { principal } }) => jsonReply({ voices: voicesOf(principal) }),
})

/** The list that its newer clients ask for: all of it is one page. */
export const voicesPage = endpoint({
  ...LIST,
  path: '/elevenlabs/v2/voices',
  id: 'elevenlabsVoicesPage',
  summary: 'List voices, as one page',
  answers: [elevenlabsAnswer([json(ElevenLabsVoicesPage)])],
  handle({ context: { principal } }) {
    return jsonReply(voicesPageOf(principal))
  },
})

/** All voices as one page. */
export function voicesPageOf(principal: Principal) {
  const voices = voicesOf(principal)
  return { voices, has_more: false, total_count: voices.length, next_page_token: null }
}

export const voice = endpoint({
  ...LIST,
  path: '/elevenlabs/v1/voices/:voice_id',
  id: 'elevenlabsVoice',
  summary: 'Get a voice',
  answers: [elevenlabsAnswer([json(ElevenLabsVoice)])],
  errors: ['NOT_FOUND'],
  handle({ exchange, context: { principal } }) {
    const [wanted] = exchange.params
    const found = voicesOf(principal).find(({ voice_id: id }) => id === wanted)
    if (found === undefined)
      throw new GatewayError('NOT_FOUND', 'the route of the key knows no such voice', { param: 'voice_id' })
    return jsonReply(found)
  },
})

export const elevenlabsModels = endpoint({
  ...LIST,
  path: '/elevenlabs/v1/models',
  id: 'elevenlabsModels',
  summary: 'List models',
  answers: [elevenlabsAnswer([json(ElevenLabsModels)])],
  handle({ context: { principal } }) {
    const body = JSON.stringify(speechModels(principal))
    return { status: 200, headers: { 'content-type': 'application/json' }, body }
  },
})

export function speechModels(principal: Principal) {
  return offeredModels(principal).map(({ id, owner, entries }) => ({
    model_id: id,
    name: id,
    description: owner,
    can_do_text_to_speech: entries.some(({ facts }) => facts.capabilities.includes('audio_output')),
    can_do_voice_conversion: false,
    can_be_finetuned: false,
    languages: [],
    // Speed is the only setting of a voice that is passed on, and keys have no tiers and no credits.
    ...{ can_use_style: false, can_use_speaker_boost: false, serves_pro_voices: false },
    ...{ requires_alpha_access: false, concurrency_group: 'standard', token_cost_factor: 1 },
    model_rates: { character_cost_multiplier: 1 },
    ...longestOf(entries),
  }))
}

/** How long a text may be that some entry takes. */
function longestOf(entries: readonly Entry[]) {
  const limits = entries.map(({ facts }) => facts.limits.max_input_characters ?? SPEECH_CHARACTERS_MAX)
  const most = Math.min(SPEECH_CHARACTERS_MAX, Math.max(0, ...limits))
  return {
    maximum_text_length_per_request: most,
    max_characters_request_free_user: most,
    max_characters_request_subscribed_user: most,
  }
}

/** Voices that the entries of the key's routes know by name; there may be others. */
export function voicesOf(principal: Principal) {
  return [...offeredVoices(principal)].map(([name, models]) => ({
    voice_id: name,
    name,
    category: 'premade' as const,
    labels: {},
    available_for_tiers: [] as string[],
    high_quality_base_model_ids: models,
  }))
}
