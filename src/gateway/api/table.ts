import type { EdgeRoute } from '../edge/server.ts'
import { createJobWatch } from '../jobs/watch.ts'
import type { CallbackForm } from '../webhooks/callbacks.ts'
import { listTranscripts } from './assemblyai/list.ts'
import {
  redactedAudio,
  searchWords,
  showParagraphs,
  showSentences,
  showSrt,
  showVtt,
} from './assemblyai/parts.ts'
import { deleteTranscript, showTranscript, submitTranscript } from './assemblyai/transcripts.ts'
import { upload } from './assemblyai/upload.ts'
import type { Asset } from './assets.ts'
import { listen } from './deepgram/listen.ts'
import { listenFile } from './deepgram/listen-file.ts'
import { listenTurns } from './deepgram/listen-turns.ts'
import { deepgramModel, deepgramModels } from './deepgram/models.ts'
import { speak } from './deepgram/speak.ts'
import { speakLive } from './deepgram/speak-live.ts'
import { createDocs, type DocsNeeds, docsFile, docsPage, openapiJson } from './docs.ts'
import { speechToText } from './elevenlabs/speech-to-text.ts'
import {
  textToSpeech,
  textToSpeechStream,
  textToSpeechTimed,
  textToSpeechTimedStream,
} from './elevenlabs/text-to-speech.ts'
import { elevenlabsModels, voice, voices, voicesPage } from './elevenlabs/voices.ts'
import type { Dependencies, Endpoint } from './endpoint.ts'
import { healthz, type ReadinessNeeds, readyz } from './health.ts'
import { audio } from './native/audio.ts'
import { chat, complete, vision } from './native/chat.ts'

import { embeddings } from './native/embeddings.ts'
import { image } from './native/image.ts'
import { me } from './native/me.ts'
import { queue } from './native/queue.ts'
import { type ResultNeeds, result } from './native/results.ts'
import { speech } from './native/speech.ts'
import { speechStream } from './native/speech-stream.ts'
import { transcription, translation } from './native/transcription.ts'
import {
  cancelTranscriptionJob,
  type JobNeeds,
  showTranscriptionJob,
  submitTranscriptionJob,
} from './native/transcription-jobs.ts'
import { transcriptionReferences } from './native/transcription-references.ts'
import { transcriptionStream } from './native/transcription-stream.ts'
import { uploadTokens } from './native/upload-tokens.ts'
import {
  appendUpload,
  appendUploadByPost,
  createUpload,
  deleteUpload,
  oneUploadOptions,
  showUpload,
  uploadOptions,
} from './native/uploads.ts'
import { type UsageNeeds, usage } from './native/usage.ts'
import { video } from './native/video.ts'

import {
  deleteWebhook,
  putAudioUrlDomains,
  putWebhook,
  showAudioUrlDomains,
  showWebhook,
  type WebhookNeeds,
} from './native/workspace.ts'
import { chatCompletions } from './openai/chat.ts'
import { clientSecrets } from './openai/client-secrets.ts'
import { completions } from './openai/completions.ts'
import { openaiEmbeddings } from './openai/embeddings.ts'
import { imagesGenerations } from './openai/images.ts'
import { model, models } from './openai/models.ts'
import { realtime } from './openai/realtime.ts'
import { responses } from './openai/responses.ts'
import { audioSpeech } from './openai/speech.ts'
import { audioTranscriptions, audioTranslations } from './openai/transcriptions.ts'
import type { Operation } from './openapi/operation.ts'

/** Parts of a node that its endpoints work with. */
export interface ApiContext extends Dependencies, ReadinessNeeds, ResultNeeds, UsageNeeds, WebhookNeeds {
  /** Style sheet and script that give the API reference the look of the console; absent: it has none. */
  readonly docsLook?: Readonly<Record<string, Asset>>
  readonly webhooks: WebhookNeeds['webhooks']
  /** Operations of the node beside these; absent: there are none. */
  readonly moreOperations?: readonly Operation[]
}

type Needs = ApiContext & JobNeeds & DocsNeeds

/** Every path of the API, in the order of the reference. The compiler holds each name to its endpoint. */
export const ENDPOINTS = table({
  'POST /v1/transcription': transcription,
  'GET /v1/transcription/stream': transcriptionStream,
  'POST /v1/transcription/references': transcriptionReferences,
  'POST /v1/translation': translation,
  'POST /v1/speech': speech,
  'GET /v1/speech/stream': speechStream,
  'POST /v1/audio': audio,

  'POST /v1/chat': chat,
  'POST /v1/complete': complete,
  'POST /v1/vision': vision,
  'POST /v1/embeddings': embeddings,
  'POST /v1/image': image,
  'POST /v1/video': video,

  'POST /v1/transcription/jobs': submitTranscriptionJob,
  'GET /v1/transcription/jobs/:job_id': showTranscriptionJob,
  'DELETE /v1/transcription/jobs/:job_id': cancelTranscriptionJob,
  'POST /v1/queue': queue,

  'OPTIONS /v1/uploads': uploadOptions,
  'POST /v1/uploads': createUpload,
  'POST /v1/uploads/tokens': uploadTokens,
  'OPTIONS /v1/uploads/:upload_id': oneUploadOptions,
  'GET /v1/uploads/:upload_id': showUpload,
  'PATCH /v1/uploads/:upload_id': appendUpload,
  'POST /v1/uploads/:upload_id': appendUploadByPost,
  'DELETE /v1/uploads/:upload_id': deleteUpload,

  'POST /openai/v1/audio/transcriptions': audioTranscriptions,
  'POST /openai/v1/audio/translations': audioTranslations,
  'POST /openai/v1/audio/speech': audioSpeech,
  'GET /openai/v1/realtime': realtime,
  'POST /openai/v1/realtime/client_secrets': clientSecrets,
  'POST /openai/v1/chat/completions': chatCompletions,
  'POST /openai/v1/responses': responses,
  'POST /openai/v1/completions': completions,
  'POST /openai/v1/embeddings': openaiEmbeddings,
  'POST /openai/v1/images/generations': imagesGenerations,
  'GET /openai/v1/models': models,
  'GET /openai/v1/models/:model': model,

  'GET /deepgram/v1/listen': listen,
  'POST /deepgram/v1/listen': listenFile,
  'GET /deepgram/v2/listen': listenTurns,
  'GET /deepgram/v1/speak': speakLive,
  'POST /deepgram/v1/speak': speak,
  'GET /deepgram/v1/models': deepgramModels,
  'GET /deepgram/v1/models/:model': deepgramModel,

  'POST /elevenlabs/v1/speech-to-text': speechToText,
  'POST /elevenlabs/v1/text-to-speech/:voice_id': textToSpeech,
  'POST /elevenlabs/v1/text-to-speech/:voice_id/stream': textToSpeechStream,
  'POST /elevenlabs/v1/text-to-speech/:voice_id/with-timestamps': textToSpeechTimed,
  'POST /elevenlabs/v1/text-to-speech/:voice_id/stream/with-timestamps': textToSpeechTimedStream,
  'GET /elevenlabs/v1/voices': voices,
  'GET /elevenlabs/v1/voices/:voice_id': voice,
  'GET /elevenlabs/v2/voices': voicesPage,
  'GET /elevenlabs/v1/models': elevenlabsModels,

  'POST /assemblyai/v2/upload': upload,
  'POST /assemblyai/v2/transcript': submitTranscript,
  'GET /assemblyai/v2/transcript': listTranscripts,
  'GET /assemblyai/v2/transcript/:job_id': showTranscript,
  'DELETE /assemblyai/v2/transcript/:job_id': deleteTranscript,
  'GET /assemblyai/v2/transcript/:job_id/sentences': showSentences,
  'GET /assemblyai/v2/transcript/:job_id/paragraphs': showParagraphs,
  'GET /assemblyai/v2/transcript/:job_id/srt': showSrt,
  'GET /assemblyai/v2/transcript/:job_id/vtt': showVtt,
  'GET /assemblyai/v2/transcript/:job_id/word-search': searchWords,
  'GET /assemblyai/v2/transcript/:job_id/redacted-audio': redactedAudio,

  'GET /v1/me': me,
  'GET /v1/usage': usage,
  'GET /workspace/:tenant_id/audio-url-domains': showAudioUrlDomains,
  'PUT /workspace/:tenant_id/audio-url-domains': putAudioUrlDomains,
  'PUT /workspace/:tenant_id/stt-webhook': putWebhook,
  'GET /workspace/:tenant_id/stt-webhook': showWebhook,
  'DELETE /workspace/:tenant_id/stt-webhook': deleteWebhook,

  'GET /results/:token': result,
  'GET /healthz': healthz,
  'GET /readyz': readyz,
  'GET /openapi.json': openapiJson,
  'GET /docs': docsPage,
  'GET /docs/:file': docsFile,
})

/** Binds the endpoints of a node. */
export function createRoutes(context: ApiContext): EdgeRoute[] {
  // The node has no endpoint for results when the object store opens its URLs itself.
  const served = ENDPOINTS.filter((endpoint) => context.links !== null || endpoint !== result)
  const { services, jobs, docsLook = {}, moreOperations = [] } = context
  const watch = createJobWatch(services.state.jobs, jobs.signals, services.clock)
  const needs: Needs = { ...context, watch, docs: createDocs([...served, ...moreOperations], docsLook) }
  return served.map((endpoint) => endpoint.route(needs))
}

/** Endpoints whose requests, or sessions, have records of usage, such as `POST /v1/chat`. */
export const CALLS: ReadonlySet<string> = new Set(
  ENDPOINTS.filter(({ kind }) => kind !== 'none').map(({ method, path }) => `${method} ${path}`),
)

/** Paths whose requests the console lists, each once. */
export const RECORDED_PATHS: readonly string[] = [
  ...new Set(ENDPOINTS.filter(({ recorded }) => recorded).map(({ path }) => path)),
]

/** How the end of a job is told to its callback, by the name of the door that it came by. */
export const CALLBACK_FORMS: ReadonlyMap<string, CallbackForm> = new Map(
  ENDPOINTS.flatMap(({ door, callback }) => (door && callback ? [[door.name, callback] as const] : [])),
)

/** Lists endpoints, each under its method and path. */
function table<const Table extends { readonly [Name in keyof Table]: Named<Name> }>(
  endpoints: Table & Readonly<Record<string, Endpoint<Needs>>>,
): readonly Endpoint<Needs>[] {
  return Object.values<Endpoint<Needs>>(endpoints)
}

type Named<Name> = Name extends `${infer Method} ${infer Path}` ? Endpoint<Needs, Method, Path> : never
