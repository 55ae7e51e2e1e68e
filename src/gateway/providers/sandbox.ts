import { type Static, Type } from 'typebox'
import type { SpeechCall } from '../../contracts/calls.ts'
import { BUILT_IN_SANDBOX, type DatedSource, type Provider, type Target } from '../../contracts/provider.ts'
import { speechMediaType } from '../media/speech-form.ts'
import { completionByChat } from './completion.ts'
import { liveOperation } from './deepgram/live.ts'
import { readTimed } from './elevenlabs/timed-speech.ts'
import { chatOperation } from './openai/chat.ts'
import { embeddingsOperation } from './openai/embeddings.ts'
import { imageOperation } from './openai/image.ts'
import { speechOperation } from './openai/speech.ts'
import { transcriptionOperation, translationOperation } from './openai/transcription.ts'
import { videoOperation } from './openai/videos.ts'
import { modelsOperation } from './openai/wire.ts'

const MS = { minimum: 0, maximum: 86_400_000 }

/** Faults of live sessions; times are ms of audio received. */
const LIVE_FAULTS = {
  refuse: Type.Optional(Type.Boolean({ description: 'resets the connection in place of a handshake' })),
  silent_after_ms: Type.Optional(
    Type.Integer({ ...MS, description: 'takes audio and says nothing from then' }),
  ),
  close_after_ms: Type.Optional(Type.Integer({ ...MS, description: 'closes with `close_code` then' })),
  close_code: Type.Optional(
    Type.Integer({ minimum: 1000, maximum: 4999, description: 'of `close_after_ms`; default: 1011' }),
  ),
  reset_after_ms: Type.Optional(Type.Integer({ ...MS, description: 'resets the connection then' })),
  reset_in_word: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1_000_000,
      description: 'resets the connection in the middle of word N',
    }),
  ),
  stall_after_ms: Type.Optional(Type.Integer({ ...MS, description: 'stops reading from the socket then' })),
  disorder: Type.Optional(Type.Boolean({ description: 'swaps the transcripts of two items' })),
  linger: Type.Optional(Type.Boolean({ description: 'does not close at the end of the audio' })),
  session_ms: Type.Optional(Type.Integer({ ...MS, minimum: 1, description: 'ends a session that is older' })),
  idle_ms: Type.Optional(
    Type.Integer({ ...MS, minimum: 1, description: 'ends a session without audio for so long' }),
  ),
  max_speed_percent: Type.Optional(
    Type.Integer({
      minimum: 100,
      maximum: 100_000,
      description: 'ends a session with audio faster than this',
    }),
  ),
}

/** Faults that a route entry can order from the sandbox, so that failover can be watched without a real provider. */
export const SANDBOX_OPTIONS = Type.Object(
  {
    delay_ms: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 600_000, description: 'waits before it answers, after the body' }),
    ),
    status: Type.Optional(
      Type.Integer({ minimum: 400, maximum: 599, description: 'fails with this status and an error body' }),
    ),
    code: Type.Optional(
      Type.String({ pattern: '^[a-z0-9_]{1,64}$', description: 'error code that goes with `status`' }),
    ),
    retry_after: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 86_400,
        description: 'seconds, sent as Retry-After with `status`',
      }),
    ),
    hang: Type.Optional(Type.Boolean({ description: 'reads the request and never answers' })),
    cut: Type.Optional(Type.Boolean({ description: 'breaks the connection in the middle of the answer' })),
    empty: Type.Optional(Type.Boolean({ description: 'answers with an empty transcript' })),
    early: Type.Optional(Type.Boolean({ description: 'answers before it has read the body' })),
    piece_delay_ms: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 60_000,
        description: 'waits behind each piece of a streamed answer',
      }),
    ),
    read_bytes_per_second: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 1_000_000_000, description: 'reads the body no faster' }),
    ),
    ...LIVE_FAULTS,
    fail_after: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 1_000_000, description: 'the first N calls of `key` do not fail' }),
    ),
    fail_times: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 1_000_000, description: 'only the first N calls of `key` fail' }),
    ),
    key: Type.Optional(
      Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$', description: 'what `fail_times` counts by' }),
    ),
  },
  { additionalProperties: false },
)

export type SandboxOptions = Static<typeof SANDBOX_OPTIONS>

const chat = chatOperation(
  {
    maxTokens: 'max_completion_tokens',
    stopMax: 4,
    noStop: null,
    fixedSampling: null,
    audioOnly: null,
    audio: { voice: 'alloy', formats: ['wav'], streamed: null },
    takesExtra: ({ name }) => name === 'n' || name === 'parallel_tool_calls',
  },
  faultHeaders,
)

const plainSpeech = speechOperation(
  { defaultVoice: 'alloy', defaultFormat: 'wav', formats: ['wav', 'mp3'] },
  faultHeaders,
)

/** With times it is made whole, at a path of the sandbox's own, and answered as ElevenLabs does. */
const speech: typeof plainSpeech = {
  ...plainSpeech,
  tellsTimes: true,
  start(call, target) {
    const step = plainSpeech.start(call, target)
    if (call.times !== true || step.kind !== 'send') return step
    const url = `${step.request.url}/with-timestamps`
    return { ...step, request: { ...step.request, url } }
  },
  next: (state, reply, call, target) =>
    call.times === true
      ? readTimed(reply, speechMediaType(call.response_format ?? 'wav'))
      : plainSpeech.next(state, reply, call, target),
  ...(plainSpeech.streamed && {
    streamed: { ...plainSpeech.streamed, applies: ({ times }: SpeechCall) => times !== true },
  }),
}

/** It bills nothing. */
const WHOLE_BODY: DatedSource = { source: 'src/sandbox/server.ts', asOf: '2026-11-21' }

/**
 * Larkway's own stand-in for a provider: OpenAI's wire format, and faults on order. Without an address it is the one
 * that runs in the node itself.
 */
export const sandbox: Provider = {
  kind: 'sandbox',
  baseUrl: BUILT_IN_SANDBOX,
  needsCredential: false,
  optionsSchema: SANDBOX_OPTIONS,
  transcription: { ...transcriptionOperation(faultHeaders), billsWholeBody: WHOLE_BODY },
  // The one with times of words, of the two protocols that it speaks live.
  live: { ...liveOperation({ path: '/listen', headers: faultHeaders }), tellsTurns: () => true },
  translation: { ...translationOperation(faultHeaders), billsWholeBody: WHOLE_BODY },
  speech,
  chat,
  complete: completionByChat(chat),
  embeddings: embeddingsOperation(true, faultHeaders),
  image: imageOperation(false, faultHeaders),
  video: videoOperation(faultHeaders, 'video/quicktime'),
  models: modelsOperation(faultHeaders),
}

/** `delay_ms: 50` → `x-sandbox-delay-ms: 50`. Nothing but known names leaves: options may come unchecked. */
function faultHeaders({ options }: Target): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const name of Object.keys(SANDBOX_OPTIONS.properties)) {
    const value = options[name]
    if (value === undefined || value === false) continue
    headers[`x-sandbox-${name.replaceAll('_', '-')}`] = String(value)
  }
  return headers
}
