import type { OperationName } from './operations.ts'

/**
 * Names of our operations in the GenAI semantic conventions (`gen_ai.operation.name`). These have no names for audio,
 * images and video yet; those keep our names, which the conventions allow.
 * https://github.com/open-telemetry/semantic-conventions-genai
 */
export const GEN_AI_OPERATION: Readonly<Record<OperationName, string>> = {
  transcription: 'transcription',
  translation: 'translation',
  speech: 'speech',
  chat: 'chat',
  complete: 'text_completion',
  embeddings: 'embeddings',
  image: 'image',
  vision: 'chat',
  video: 'video',
}

/** Names a kind of provider as these conventions do (`gen_ai.provider.name`). */
export function genAiProvider(kind: string): string {
  return kind === 'gemini' ? 'gcp.gemini' : kind
}
