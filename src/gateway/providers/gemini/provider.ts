import type { Provider } from '../../../contracts/provider.ts'
import { completionByChat } from '../completion.ts'
import { geminiChat } from './chat.ts'
import { geminiEmbeddings } from './embeddings.ts'
import { geminiImage } from './image.ts'
import { geminiLive } from './live.ts'
import { geminiSpeech } from './speech.ts'
import { geminiTranscription } from './transcription.ts'
import { geminiVideo } from './video.ts'
import { modelsOperation } from './wire.ts'

/**
 * The Gemini API of Google AI for Developers, https://ai.google.dev/api. It does not translate: a general model can
 * be told to, but then has neither times nor a way to tell a translation from a talk about what it heard.
 */
export const gemini: Provider = {
  kind: 'gemini',
  baseUrl: 'https://generativelanguage.googleapis.com/v1beta',
  needsCredential: true,
  transcription: geminiTranscription,
  live: geminiLive,
  speech: geminiSpeech,
  chat: geminiChat,
  complete: completionByChat(geminiChat),
  embeddings: geminiEmbeddings,
  image: geminiImage,
  video: geminiVideo,
  models: modelsOperation,
}
