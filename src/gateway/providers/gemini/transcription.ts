import type { AudioFormat } from '../../../contracts/audio.ts'
import type {
  TranscriptionCall,
  TranscriptionOptions,
  TranscriptionResult,
} from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Operation, Target, Unsupported } from '../../../contracts/provider.ts'
import { failed, refused } from '../failure.ts'
import { type LanguageHint, languageHint } from '../language.ts'
import {
  requiredFeatures,
  wantsSegments,
  wantsSpeakers,
  wantsWords,
  wholeTranscript,
} from '../transcript-needs.ts'
import { lackedFeatures, unsent, unsupportedField } from '../unsupported.ts'
import { wholeEnding } from './answer.ts'
import { readTranscript } from './transcript.ts'
import { methodUrl, postPieces } from './wire.ts'

/**
 * Models that transcribe. A general model ignores the settings of a transcription and talks about what it
 * hears; a live one speaks another protocol.
 */
const TRANSCRIBES = /transcribe(?!.*live)/

/** Largest request with audio inside, bytes: 20 MB, https://ai.google.dev/gemini-api/docs/audio */
const REQUEST_MAX_BYTES = 20_000_000
/** https://ai.google.dev/gemini-api/docs/generate-content/transcribe */
const KEYTERMS_MAX = 1000

const MEDIA_TYPES: Readonly<Record<AudioFormat, string>> = {
  mp3: 'audio/mp3',
  mp4: 'audio/m4a',
  mpeg: 'video/mpeg',
  wav: 'audio/wav',
  webm: 'audio/webm',
  ogg: 'audio/ogg',
  flac: 'audio/flac',
  other: 'application/octet-stream',
}

/** `generateContent` of a transcribing model, with the audio as base64 in the middle of the JSON. */
export const geminiTranscription: Operation<TranscriptionCall, TranscriptionResult> = {
  unsupported,
  start(call, target) {
    const issue = unsupported(call, target)
    if (issue !== null) return unsent(issue)
    const { audio, options } = call
    const mimeType = MEDIA_TYPES[audio.format]
    const config = encodeConfig(options)
    const head = Buffer.from(
      `{"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"${mimeType}","data":"`,
    )
    const settings = { generationConfig: { audioTranscriptionConfig: config } }
    const tail = Buffer.from(`"}}]}],${JSON.stringify(settings).slice(1)}`)
    if (head.length + 4 * Math.ceil(audio.decodedBytes / 3) + tail.length > REQUEST_MAX_BYTES)
      return failed(refused('audio: must fit in a request of 20 MB for this provider', 'too_large'))
    const body = [head, { audio, as: 'base64' } as const, tail]
    return {
      kind: 'send',
      request: postPieces(target, methodUrl(target, 'generateContent'), body),
      state: null,
    }
  },
  next: (_state, reply, { options }) =>
    wholeEnding(reply, ({ parts, finishReason, usage }) => {
      // Silence may come back without any part; an answer that did not even end is none.
      const silent = parts.length === 0 && finishReason === 'STOP'
      const dropped = options.smart_formatting && isTimed(options)
      const { warnings } = hintOf(options)
      const read = silent ? { ...SILENCE, warnings } : readTranscript(parts, wantsSpeakers(options), warnings)
      const counted = read === null || usage === null ? read : { ...read, tokens: usage }
      const formatted =
        counted === null || !dropped ? counted : { ...counted, warnings: [...counted.warnings, UNFORMATTED] }
      return wholeTranscript(formatted, options, reply)
    }),
}

const UNFORMATTED = 'smart_formatting: left out, the model does not take it beside times or speakers'

const SILENCE: TranscriptionResult = {
  text: '',
  language: null,
  languageConfidence: null,
  durationSeconds: null,
  segments: [],
  words: [],
  warnings: [],
}

/**
 * Only words have times, so whoever wants segments or speakers, which are segments too, asks for those of the
 * words. `mode` is VERBATIM unless asked otherwise.
 */
function encodeConfig(options: TranscriptionOptions): JsonObject {
  const { keyterms, smart_formatting: smart } = options
  const { language } = hintOf(options)
  return {
    ...(language === null ? {} : { languageCodes: [language] }),
    ...(keyterms.length === 0 ? {} : { customVocabulary: keyterms }),
    ...(isTimed(options) ? { wordTimestamp: true } : {}),
    ...(wantsSpeakers(options) ? { diarization: true } : {}),
    ...(smart && !isTimed(options) ? { mode: 'SMART' } : {}),
  }
}

const TIMED = ['word_timestamps', 'segment_timestamps', 'diarization'] as const

/** Google's page shows a vocabulary beside diarization, but the model refuses the two together. */
function unsupported({ options }: TranscriptionCall, { model }: Target): Unsupported | null {
  if (!TRANSCRIBES.test(model)) return { why: 'operation', reason: 'the model does not transcribe' }
  const { keyterms } = options
  const required = requiredFeatures(options)
  const timed = keyterms.length === 0 ? undefined : TIMED.find((feature) => required.includes(feature))
  const lacked = lackedFeatures(
    [
      options.redaction.length > 0 && 'redaction',
      options.multichannel && 'multichannel',
      options.mode === 'realtime' && 'realtime',
    ],
    timed === undefined ? {} : { conflict: ['keyterms', timed] },
  )
  if (lacked !== null) return lacked
  if (keyterms.length <= KEYTERMS_MAX) return null
  return unsupportedField('keyterms', `the provider takes up to ${KEYTERMS_MAX}`)
}

function isTimed(options: TranscriptionOptions): boolean {
  return wantsWords(options) || wantsSegments(options) || wantsSpeakers(options)
}

/** BCP 47: a tag stays one (`pt-BR`), a name becomes its code. */
function hintOf(options: TranscriptionOptions): LanguageHint {
  return languageHint(options, (code, given) => {
    const tag = given.replaceAll('_', '-')
    return /^[a-z]{2,3}(-[a-z0-9]{2,8}){1,3}$/i.test(tag) ? tag : code
  })
}
