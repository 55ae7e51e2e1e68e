import type { Provider } from '../../../contracts/provider.ts'
import { objectsIn, replyJson } from '../json.ts'
import { modelList } from '../model-list.ts'
import { live } from './live.ts'
import { liveSpeech } from './live-speech.ts'
import { speech } from './speech.ts'
import { transcription } from './transcription.ts'
import { elevenlabsHeaders } from './wire.ts'

/** A key that sees the models may still lack the permission to speak: only speaking tells. */
const models = modelList({
  path: '/v1/models',
  headers: (target) => ({ accept: 'application/json', ...elevenlabsHeaders(target) }),
  names(reply) {
    const list = replyJson(reply)
    return Array.isArray(list) ? objectsIn(list).map(({ model_id: id }) => id) : null
  },
})

/** https://elevenlabs.io/docs/api-reference */
export const elevenlabs: Provider = {
  kind: 'elevenlabs',
  baseUrl: 'https://api.elevenlabs.io',
  needsCredential: true,
  transcription,
  live,
  speech,
  liveSpeech,
  models,
}
