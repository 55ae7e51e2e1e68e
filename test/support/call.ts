import type { Audio } from '../../src/contracts/audio.ts'
import type { SpeechCall, TranscriptionOptions } from '../../src/contracts/calls.ts'
import type { ChatCall, ChatMessage, ChatPart, CompleteCall, Tool } from '../../src/contracts/chat.ts'
import type { Calls, OperationName } from '../../src/contracts/operations.ts'
import type { Call } from '../../src/gateway/call/facts/call.ts'

const SAMPLING = { max_tokens: null, temperature: null, top_p: null, stop: [], seed: null }

export const say = (text: string): ChatPart => ({ type: 'text', text })
export const user = (...parts: ChatPart[]): ChatMessage => ({ role: 'user', parts })

export const WEATHER: Tool = {
  name: 'get_weather',
  description: 'Current weather',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
}

export function chatCall(overrides: Partial<ChatCall> = {}): ChatCall {
  return {
    ...SAMPLING,
    messages: [user(say('Hello'))],
    tools: [],
    tool_choice: null,
    modalities: ['text'],
    audio: null,
    response_schema: null,
    ...overrides,
  }
}

export function completeCall(overrides: Partial<CompleteCall> = {}): CompleteCall {
  return { ...SAMPLING, prompt: 'Once upon a time', ...overrides }
}

export function audio(overrides: Partial<Audio> = {}): Audio {
  return {
    source: { kind: 'object', key: 'spool/acme/req_1/1' },
    offset: 0,
    length: 1000,
    encoding: 'identity',
    decodedBytes: 1000,
    canonical: true,
    mediaType: null,
    filename: null,
    format: 'wav',
    durationSeconds: 10,
    channels: 1,
    ...overrides,
  }
}

export function options(overrides: Partial<TranscriptionOptions> = {}): TranscriptionOptions {
  return {
    language: null,
    prompt: null,
    response_format: 'json',
    mode: 'batch',
    diarization: false,
    speaker_count_hint: null,
    timestamps: null,
    keyterms: [],
    smart_formatting: false,
    detect_language: false,
    profanity_filter: false,
    multichannel: false,
    redaction: [],
    seed: null,
    ...overrides,
  }
}

/** A call without selectors or warnings. */
export function callOf<K extends OperationName>(operation: K, payload: Calls[K]): Call<K> {
  return { operation, payload, selectors: { purpose: null, responseProfile: null }, warnings: [] }
}

export function transcriptionCall(
  overrides: { options?: Partial<TranscriptionOptions>; audio?: Partial<Audio> } = {},
  selectors: Partial<Call<'transcription'>['selectors']> = {},
): Call<'transcription'> {
  return {
    operation: 'transcription',
    payload: { audio: audio(overrides.audio), options: options(overrides.options) },
    selectors: { purpose: null, responseProfile: null, ...selectors },
    warnings: [],
  }
}

export function speechCall(overrides: Partial<SpeechCall> = {}): Call<'speech'> {
  return {
    operation: 'speech',
    payload: { input: 'hello', voice: null, response_format: null, speed: null, seed: null, ...overrides },
    selectors: { purpose: null, responseProfile: null },
    warnings: [],
  }
}
