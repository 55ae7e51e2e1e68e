import type { Provider } from '../../../contracts/provider.ts'
import { modelList } from '../model-list.ts'
import { live } from './live.ts'
import { speech } from './speech.ts'
import { ASSEMBLYAI_OPTIONS, requestHeaders, transcription } from './transcription.ts'

/** There is no list of models; the list of transcripts, cut to one, tells whether the credential is taken. */
const models = modelList({ path: '/v2/transcript?limit=1', headers: requestHeaders, names: () => [] })

/** https://www.assemblyai.com/docs; `https://api.eu.assemblyai.com` keeps the audio in Europe. It takes no seed. */
export const assemblyai: Provider = {
  kind: 'assemblyai',
  baseUrl: 'https://api.assemblyai.com',
  needsCredential: true,
  optionsSchema: ASSEMBLYAI_OPTIONS,
  transcription,
  live,
  speech,
  models,
}
