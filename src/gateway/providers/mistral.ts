import type {
  Segment,
  SpeechCall,
  SpeechResult,
  TranscriptionCall,
  TranscriptionOptions,
  TranscriptionResult,
} from '../../contracts/calls.ts'
import type { EmbeddingsCall, EmbeddingsResult } from '../../contracts/generation.ts'
import type { JsonObject } from '../../contracts/json.ts'
import type { Deltas } from '../../contracts/operations.ts'
import type { Operation, Provider, StreamReader, Target, Unsupported } from '../../contracts/provider.ts'
import type { Failure, UpstreamStream } from '../../contracts/upstream.ts'
import { brokenOff, type Made, readEnding } from './answer.ts'
import { noAudio } from './audio-answer.ts'
import { base64Bytes } from './base64-bytes.ts'
import { classify, failed, refused, unusable } from './failure.ts'
import { encodeForm, type FormField } from './form.ts'
import { asObject, objectsIn } from './json.ts'
import { JsonEvents } from './json-events.ts'
import { type LanguageHint, languageCode, languageHint } from './language.ts'
import { mistralLive } from './mistral-live.ts'
import { quantityOf, secondsOf, spanOf } from './numbers.ts'
import { embeddingsOperation } from './openai/embeddings.ts'
import { bearerHeaders, jsonRequest, modelsOperation } from './openai/wire.ts'
import { labelSpeakers } from './speakers.ts'
import {
  untimedWarnings,
  wantsSegments,
  wantsSpeakers,
  wantsWords,
  wholeTranscript,
} from './transcript-needs.ts'
import { lackedFeatures, unsent, unsupportedField, unsupportedTokens } from './unsupported.ts'

type Head = Pick<UpstreamStream, 'status' | 'headers'>

/** Mistral's requests need nothing beside the key. */
const plain = () => ({})

/** Sheila, US English: a request names a voice or brings a recording of one. */
const DEFAULT_VOICE = 'voice_478'
const DEFAULT_FORMAT = 'mp3'

/** Audio no longer than this may hold nothing that is worth a word. */
const SILENCE_SECONDS = 3

/**
 * Formats it makes, mono at 24 kHz. Its `pcm` is left out: 32-bit floating point, where everybody else's is 16-bit
 * integers. https://docs.mistral.ai/studio/audio/specs-and-limits/audio-formats
 */
const SPEECH_MEDIA_TYPES: ReadonlyMap<string, string> = new Map([
  ['mp3', 'audio/mpeg'],
  ['wav', 'audio/wav'],
  ['flac', 'audio/flac'],
  ['opus', 'audio/ogg'],
])

/**
 * `POST /audio/transcriptions`: OpenAI's path with other fields, and an answer of its own.
 * https://docs.mistral.ai/studio/audio/speech-to-text/transcribe-files; @mistralai/mistralai 2.7.0
 */
const transcription: Operation<TranscriptionCall, TranscriptionResult, string> = {
  unsupported: ({ options }) => unsupportedOptions(options),
  start: (call, target) => transcribe(call, target, []),
  next: (_state, reply, call) => readEnding(reply, (body) => readTranscript(body, call, reply)),
  // A form without its end is no request; the price is for the minutes that were transcribed.
  billsWholeBody: {
    source:
      'https://docs.mistral.ai/studio/audio/speech-to-text/transcribe-files; https://mistral.ai/pricing',
    asOf: '2026-11-21',
  },
  streamed: {
    // Segments are events of their own there, and come without pieces of the text.
    applies: ({ options }) => !needsSegments(options),
    start: (call, target) => transcribe(call, target, [['stream', 'true']]),
    refused: classify,
    read: (head, call) => new TranscriptReader(head, call),
  },
}

/** `POST /audio/speech`: the audio comes as base64 in JSON, or in events while it is made. */
const speech: Operation<SpeechCall, SpeechResult, Deltas['speech']> = {
  unsupported: unsupportedSpeech,
  start: (call, target) => speak(call, target, false),
  next: (_state, reply, call) =>
    readEnding(reply, (body) => {
      const audio = base64Bytes(body.audio_data)
      return audio === null
        ? noAudio(reply)
        : { result: { audio: [audio], mediaType: speechMediaType(call) } }
    }),
  streamed: {
    start: (call, target) => speak(call, target, true),
    refused: classify,
    read: (head, call) => new SpeechReader(head, speechMediaType(call)),
  },
}

const embed = embeddingsOperation(false, plain)

/** As OpenAI's, but for tokens, and the number of dimensions, which no model of the table lets anybody choose. */
const embeddings: Operation<EmbeddingsCall, EmbeddingsResult> = {
  ...embed,
  unsupported: unsupportedTokens,
  start(call, target) {
    const issue = unsupportedTokens(call)
    if (issue !== null) return unsent(issue)
    return call.dimensions === null
      ? embed.start(call, target)
      : failed(refused('dimensions: must be left out for this provider'))
  },
}

/** https://docs.mistral.ai/api */
export const mistral: Provider = {
  kind: 'mistral',
  baseUrl: 'https://api.mistral.ai/v1',
  needsCredential: true,
  transcription,
  live: mistralLive,
  speech,
  embeddings,
  models: modelsOperation(plain),
}

function transcribe({ audio, options }: TranscriptionCall, target: Target, more: readonly FormField[]) {
  const issue = unsupportedOptions(options)
  if (issue !== null) return unsent(issue)
  const url = `${target.baseUrl}/audio/transcriptions`
  const form = encodeForm(url, [...formFields(options, target), ...more], { name: 'file', audio })
  const headers = { ...bearerHeaders(target, plain), 'content-type': form.contentType }
  const request = { method: 'POST', url, headers, body: form.body } as const
  return { kind: 'send', request, state: null } as const
}

function unsupportedOptions(options: TranscriptionOptions): Unsupported | null {
  return lackedFeatures([
    wantsWords(options) && 'word_timestamps',
    options.redaction.length > 0 && 'redaction',
    options.multichannel && 'multichannel',
    options.mode === 'realtime' && 'realtime',
  ])
}

function formFields(options: TranscriptionOptions, { model }: Target): FormField[] {
  const fields: FormField[] = [['model', model]]
  const { language } = hintOf(options)
  if (language !== null) fields.push(['language', language])
  // Speakers are those of segments: without these the request is refused.
  if (needsSegments(options)) fields.push(['timestamp_granularities', 'segment'])
  if (wantsSpeakers(options)) fields.push(['diarize', 'true'])
  for (const term of options.keyterms) fields.push(['context_bias', term])
  return fields
}

function needsSegments(options: TranscriptionOptions): boolean {
  return wantsSegments(options) || wantsSpeakers(options)
}

/**
 * Two letters: anything longer is answered with 422, also where there is nothing shorter (`haw`). Beside segments a
 * language is left out: "timestamp_granularities is currently not compatible with language", and models that do not
 * refuse the two were seen to answer 200 with an empty text. Whether Voxtral 3 still does is not known.
 */
function hintOf(options: TranscriptionOptions): LanguageHint {
  return languageHint(options, (code) => (code.length === 2 && !needsSegments(options) ? code : null))
}

/** The transcript in a good answer, or what is wrong with it. Only fields that are used are looked at. */
function readTranscript(
  { text, language, segments, usage }: JsonObject,
  { audio, options }: TranscriptionCall,
  head: Head,
): Made<TranscriptionResult> {
  if (typeof text !== 'string') return unusable(head, 'the answer of the provider is no transcript')
  const { prompt_audio_seconds: seconds, completion_tokens: tokens } = asObject(usage) ?? {}
  if (isHollow(text, audio.durationSeconds ?? secondsOf(seconds), tokens)) {
    return unusable(head, 'the provider wrote tokens, and the transcript is empty')
  }
  const items = objectsIn(segments)
  const spoken = items.flatMap((item) => readSegment(item, options))
  spoken.sort((a, b) => a.start - b.start)
  const transcript = {
    text: text.trim(),
    language: typeof language === 'string' ? languageCode(language) : null,
    languageConfidence: null,
    durationSeconds: secondsOf(seconds),
    ...labelSpeakers(
      [],
      spoken.map((segment, id) => ({ ...segment, id })),
    ),
    warnings: [...hintOf(options).warnings, ...untimedWarnings('segments', items, 'text', spoken.length)],
  }
  return wholeTranscript(transcript, options, head)
}

/**
 * Whether a transcript was lost on its way: silence has no tokens, and what is shorter may have none that are words.
 * Nothing of the kind is known of other providers: there an empty transcript is silence.
 */
function isHollow(text: string, seconds: number | null, tokens: unknown): boolean {
  return text.trim() === '' && (seconds ?? 0) > SILENCE_SECONDS && (quantityOf(tokens) ?? 0) > 0
}

/** `{text, start, end, score, speaker_id}`; `score` is nowhere explained, so it is no confidence. */
function readSegment(
  { text, start, end, speaker_id: id }: JsonObject,
  options: TranscriptionOptions,
): Segment[] {
  const span = spanOf(start, end)
  if (span === null || typeof text !== 'string') return []
  const speaker = wantsSpeakers(options) && typeof id === 'string' ? { speaker: id } : {}
  return [{ id: 0, ...span, text: text.trim(), ...speaker }]
}

/** `transcription.language` and `transcription.text.delta`, until `transcription.done` with the whole answer. */
class TranscriptReader implements StreamReader<TranscriptionResult, string> {
  readonly #head: Head
  readonly #call: TranscriptionCall
  readonly #events: JsonEvents
  #language: unknown = null
  #done: JsonObject | null = null

  constructor(head: Head, call: TranscriptionCall) {
    this.#head = head
    this.#call = call
    this.#events = new JsonEvents(head, ({ type }) => type === 'transcription.done')
  }

  push(chunk: Uint8Array): readonly string[] | Failure {
    const events = this.#events.push(chunk)
    return Array.isArray(events) ? events.flatMap((event) => this.#read(event)) : events
  }

  end(): { readonly result: TranscriptionResult } | Failure {
    if (this.#done === null) return brokenOff(this.#head)
    const body = { ...this.#done, language: this.#done.language ?? this.#language }
    return readTranscript(body, this.#call, this.#head)
  }

  #read(event: JsonObject): string[] {
    const { type, text, audio_language: language } = event
    if (type === 'transcription.language') this.#language = language
    if (type === 'transcription.done') this.#done = event
    return type === 'transcription.text.delta' && typeof text === 'string' && text !== '' ? [text] : []
  }
}

function speak(call: SpeechCall, target: Target, stream: boolean) {
  const issue = unsupportedSpeech(call)
  if (issue !== null) return unsent(issue)
  const body = {
    model: target.model,
    input: call.input,
    voice_id: call.voice ?? DEFAULT_VOICE,
    response_format: call.response_format ?? DEFAULT_FORMAT,
    stream,
  }
  return { kind: 'send', request: jsonRequest(target, '/audio/speech', body, plain), state: null } as const
}

/** Finds options that the provider does not support. They are never replaced: the caller would not notice. */
function unsupportedSpeech({ response_format: format, speed }: SpeechCall): Unsupported | null {
  if (format !== null && !SPEECH_MEDIA_TYPES.has(format)) {
    return unsupportedField(
      'response_format',
      `the provider makes ${[...SPEECH_MEDIA_TYPES.keys()].join(', ')}`,
    )
  }
  return speed === null || speed === 1 ? null : unsupportedField('speed', 'the provider has one only')
}

function speechMediaType({ response_format: format }: SpeechCall): string {
  return SPEECH_MEDIA_TYPES.get(format ?? DEFAULT_FORMAT) ?? 'application/octet-stream'
}

/** `speech.audio.delta`, each with audio in base64 of its own, until `speech.audio.done`. */
class SpeechReader implements StreamReader<SpeechResult, Deltas['speech']> {
  readonly #head: Head
  readonly #mediaType: string
  readonly #events: JsonEvents
  #hasAudio = false

  constructor(head: Head, mediaType: string) {
    this.#head = head
    this.#mediaType = mediaType
    this.#events = new JsonEvents(head, ({ type }) => type === 'speech.audio.done')
  }

  push(chunk: Uint8Array): readonly Deltas['speech'][] | Failure {
    const events = this.#events.push(chunk)
    if (!Array.isArray(events)) return events
    const deltas: Deltas['speech'][] = []
    for (const { type, audio_data: data } of events) {
      if (type !== 'speech.audio.delta') continue
      const bytes = base64Bytes(data)
      if (bytes === null) return noAudio(this.#head)
      deltas.push({ bytes, mediaType: this.#mediaType })
    }
    this.#hasAudio ||= deltas.length > 0
    return deltas
  }

  end(): { readonly result: SpeechResult } | Failure {
    if (!this.#events.done) return brokenOff(this.#head)
    return this.#hasAudio ? { result: { audio: [], mediaType: this.#mediaType } } : noAudio(this.#head)
  }
}
