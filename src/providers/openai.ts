import type { Provider } from '../schema/provider.ts'
import { SPEECH_FORMATS, speechOperation } from './openai-speech.ts'
import { transcriptionOperation, translationOperation } from './openai-transcription.ts'

const plain = () => ({})

/** https://platform.openai.com/docs/api-reference/audio */
export const openai: Provider = {
  kind: 'openai',
  baseUrl: 'https://api.openai.com/v1',
  needsCredential: true,
  transcription: transcriptionOperation(plain),
  translation: translationOperation(plain),
  speech: speechOperation({ defaultVoice: 'alloy', defaultFormat: 'mp3', formats: SPEECH_FORMATS }, plain),
}
