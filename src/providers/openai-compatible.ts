import type { Provider } from '../schema/provider.ts'
import { speechOperation } from './openai-speech.ts'
import { transcriptionOperation, translationOperation } from './openai-transcription.ts'

const plain = () => ({})

/**
 * Any server that speaks OpenAI's wire format at a base URL of its own: Groq, vLLM, Speaches, LocalAI, a
 * proxy. What its models can do is the configuration's to say; a transcription asks for no more than the call
 * needs, because such servers know different parts of the format.
 */
export const openaiCompatible: Provider = {
  kind: 'openai-compatible',
  baseUrl: null,
  needsCredential: false,
  transcription: transcriptionOperation(plain),
  translation: translationOperation(plain),
  speech: speechOperation({ defaultVoice: 'alloy', defaultFormat: null, formats: null }, plain),
}
