import type { OperationName } from './operations.ts'

/**
 * What the GenAI semantic conventions call our operations (`gen_ai.operation.name`). They know nothing of audio, images
 * and video by now; those keep our names, which the conventions allow.
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

/** What they call a kind of provider (`gen_ai.provider.name`). */
export function genAiProvider(kind: string): string {
  return kind === 'gemini' ? 'gcp.gemini' : kind
}
