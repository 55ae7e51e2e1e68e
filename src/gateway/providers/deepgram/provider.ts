import type { Provider } from '../../../contracts/provider.ts'
import { objectOf, objectsIn } from '../json.ts'
import { modelList } from '../model-list.ts'
import { withFlux } from './flux.ts'
import { liveOperation } from './live.ts'
import { speech } from './speech.ts'
import { transcription } from './transcription.ts'
import { deepgramHeaders, optOut } from './wire.ts'

/** https://developers.deepgram.com/reference/manage/models/list */
const models = modelList({
  path: '/v1/models',
  headers: (target) => ({ accept: 'application/json', ...deepgramHeaders(target) }),
  names(reply) {
    const { stt, tts } = objectOf(reply) ?? {}
    if (!Array.isArray(stt) && !Array.isArray(tts)) return null
    const listed = [...objectsIn(stt), ...objectsIn(tts)]
    return listed.map(({ canonical_name: canonical, name }) => canonical ?? name)
  },
})

/** https://developers.deepgram.com/reference */
export const deepgram: Provider = {
  kind: 'deepgram',
  baseUrl: 'https://api.deepgram.com',
  needsCredential: true,
  transcription,
  live: withFlux(liveOperation({ path: '/v1/listen', headers: deepgramHeaders, options: optOut })),
  speech,
  models,
}
