import type {
  Capability,
  SpeechCall,
  SpeechResult,
  SpeechTimes,
  TranscriptionCall,
  TranscriptionResult,
} from './calls.ts'
import type { ChatCall, ChatDelta, ChatResult, CompleteCall } from './chat.ts'
import type {
  EmbeddingsCall,
  EmbeddingsResult,
  ImageCall,
  ImageResult,
  VideoCall,
  VideoResult,
} from './generation.ts'

/** Payload of each operation. */
export interface Calls {
  readonly transcription: TranscriptionCall
  readonly translation: TranscriptionCall
  readonly speech: SpeechCall
  readonly chat: ChatCall
  readonly complete: CompleteCall
  readonly embeddings: EmbeddingsCall
  readonly image: ImageCall
  readonly vision: ChatCall
  readonly video: VideoCall
}

export interface Results {
  readonly transcription: TranscriptionResult
  readonly translation: TranscriptionResult
  readonly speech: SpeechResult
  readonly chat: ChatResult
  readonly complete: ChatResult
  readonly embeddings: EmbeddingsResult
  readonly image: ImageResult
  readonly vision: ChatResult
  readonly video: VideoResult
}

/** A piece of speech. */
interface SpeechPiece {
  readonly bytes: Uint8Array
  readonly mediaType: string
  /** Times of its characters, where the call requires them and the provider tells them with this piece. */
  readonly times?: SpeechTimes
}

/** A piece of an answer that is streamed. */
export interface Deltas {
  readonly transcription: string
  readonly speech: SpeechPiece
  readonly chat: ChatDelta
  readonly complete: ChatDelta
  readonly vision: ChatDelta
}

export type OperationName = keyof Calls
/** The operations whose answer can be streamed. */
export type StreamedName = keyof Deltas

/** Capability that each operation needs of a model, whatever its request holds. */
export const CAPABILITY_OF: Readonly<Record<OperationName, Capability>> = {
  transcription: 'audio_input',
  translation: 'audio_input',
  speech: 'audio_output',
  chat: 'text',
  complete: 'completion',
  embeddings: 'embeddings',
  image: 'image',
  vision: 'vision',
  video: 'video_generation',
}

export const OPERATION_NAMES = Object.keys(CAPABILITY_OF) as readonly OperationName[]

/** Operations that turn audio into text. */
export const TRANSCRIPTION_TASKS = ['transcription', 'translation'] as const
export type TranscriptionTask = (typeof TRANSCRIPTION_TASKS)[number]
