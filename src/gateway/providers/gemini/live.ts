import type { LiveAudio, LiveCall } from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { LiveFrame } from '../../../contracts/live.ts'
import type { Target, Unsupported } from '../../../contracts/provider.ts'
import type { Failure } from '../../../contracts/upstream.ts'
import { defineLive, type LiveWire } from '../define-live.ts'
import { asObject } from '../json.ts'
import { type LanguageHint, languageHint } from '../language.ts'
import type { Received } from '../live.ts'
import { base64Of, broken, closeFailure, failureInside, NOTHING, socketUrl, TEXT_MAX } from '../live.ts'
import { UTTERANCE_ANSWER_MS, Utterances } from '../live-utterances.ts'
import { wantsSegments, wantsSpeakers, wantsWords } from '../transcript-needs.ts'
import { lackedFeatures } from '../unsupported.ts'
import { headersOf } from './wire.ts'

/** All that it takes is 16 kHz, mono. */
const AUDIO: LiveAudio = { encoding: 'pcm_s16le', sampleRate: 16_000, channels: 1 }

const PATH = '/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent'

/**
 * Live transcription over the Live API: `BidiGenerateContent` as a WebSocket, JSON frames with audio in base64. The
 * session says where speech begins and ends (`activityStart`, `activityEnd`): so it knows which audio a transcript is
 * of. Times of words and speakers have fields in the protocol; which model heeds them is not known, so that neither is
 * asked for. https://ai.google.dev/gemini-api/docs/live-api/live-transcribe; @google/genai 3.1.0,
 * AudioTranscriptionConfig
 */
export const geminiLive = defineLive({
  unsupported: ({ options }) => unsupported(options),
  handshake: (_call, target) => ({
    // The version of the API is a part of the name of the method here.
    url: `${socketUrl({ ...target, baseUrl: target.baseUrl.replace(/\/v\d\w*$/, '') }, PATH)}`,
    headers: headersOf(target),
    audio: AUDIO,
  }),
  answersWithinMs: UTTERANCE_ANSWER_MS,
  readsBytes: true,
  hint: hintOf,
  wire: (call, target) => new GeminiWire(call, target),
})

function unsupported(options: LiveCall['options']): Unsupported | null {
  return lackedFeatures([
    wantsWords(options) && 'word_timestamps',
    wantsSegments(options) && 'segment_timestamps',
    wantsSpeakers(options) && 'diarization',
    options.redaction.length > 0 && 'redaction',
    options.multichannel && 'multichannel',
  ])
}

function hintOf({ options }: LiveCall): LanguageHint {
  return languageHint(options, (_code, tag) => tag.replaceAll('_', '-'))
}

function setupOf(call: LiveCall, { model }: Target): string {
  const { language } = hintOf(call)
  return JSON.stringify({
    setup: {
      model: `models/${model}`,
      generationConfig: { responseModalities: ['TEXT'] },
      realtimeInputConfig: { automaticActivityDetection: { disabled: true } },
      inputAudioTranscription: {
        mode: 'VERBATIM',
        ...(language === null ? {} : { languageCodes: [language] }),
        ...(call.options.keyterms.length > 0 ? { customVocabulary: call.options.keyterms } : {}),
      },
    },
  })
}

const BEGIN = ['{"realtimeInput":{"activityStart":{}}}']
const FINISH = ['{"realtimeInput":{"activityEnd":{}}}']

/** Text is built by hand: the audio is most of it, and needs no escaping. */
function append(bytes: Uint8Array): string {
  return `{"realtimeInput":{"audio":{"mimeType":"audio/pcm;rate=16000","data":"${base64Of(bytes)}"}}}`
}

class GeminiWire extends Utterances implements LiveWire {
  readonly #setup: string
  #isReady = false
  #isLeaving = false
  #final = ''

  constructor(call: LiveCall, target: Target) {
    super(AUDIO, call.live, { begin: BEGIN, finish: FINISH, append })
    this.#setup = setupOf(call, target)
  }

  opened(): readonly LiveFrame[] {
    return [this.#setup]
  }

  override finalize(): readonly LiveFrame[] {
    // Another end of what has ended changes nothing, and says that an answer is to come.
    const frames = super.finalize()
    return frames.length > 0 ? frames : FINISH
  }

  read(message: JsonObject): Received {
    const failure = this.hear()
    if (failure !== null) return { events: [failure] }
    if (message.setupComplete !== undefined) return this.#begin()
    if (message.goAway !== undefined) return this.#goAway()
    const error = asObject(message.error)
    if (error !== null)
      return { events: [{ kind: 'failed', failure: failureInside({ error }, errorStatus(error)) }] }
    return this.#content(message)
  }

  failureOf(code: number, reason: string): Failure {
    return endFailure(code, reason)
  }

  #begin(): Received {
    if (this.#isReady) return NOTHING
    this.#isReady = true
    return { events: [{ kind: 'ready' }], reply: BEGIN }
  }

  #goAway(): Received {
    if (this.#isLeaving) return NOTHING
    this.#isLeaving = true
    return { events: [{ kind: 'leaving' }] }
  }

  /** The final text replaces what was heard so far, piece by piece; the utterance is over when all is generated. */
  #content(message: JsonObject): Received {
    const content = asObject(message.serverContent) ?? {}
    const interim = asObject(content.interimInputTranscription)?.text
    const final = asObject(content.inputTranscription)?.text
    if (typeof final === 'string') this.#final = joinedText(this.#final, final)
    const text = joinedText(this.#final, typeof interim === 'string' ? interim : '')
    const isNews = typeof final === 'string' || typeof interim === 'string'
    const written = isNews ? [this.write(text)] : []
    if (!this.#isGenerated(message, content)) return written.length === 0 ? NOTHING : { events: written }
    const finalText = this.#final === '' ? this.text : this.#final
    this.#final = ''
    return this.done(finalText)
  }

  /** Silence has neither a text nor an end of its own: there the end of the activity is all that comes. */
  #isGenerated(message: JsonObject, content: JsonObject): boolean {
    if (!this.isFinishing) return false
    const isEnd = asObject(message.voiceActivity)?.type === 'ACTIVITY_END'
    return content.generationComplete === true || (isEnd && this.text.trim() === '')
  }
}

function joinedText(before: string, more: string): string {
  const text = more.trim()
  return (before === '' || text === '' ? before + text : `${before} ${text}`).slice(0, TEXT_MAX)
}

const INVALID_PAYLOAD = 1007

/**
 * All that is wrong with what it was sent comes as one code, a key that is not valid, not found or expired among it:
 * @google/genai 3.1.0 is told so, too, and rejects with those words.
 */
function endFailure(code: number, reason: string): Failure {
  const isKey = code === INVALID_PAYLOAD && /^API key\b/i.test(reason)
  return isKey
    ? broken(`the provider closed the connection with ${code}`, 'credential')
    : closeFailure(code, reason)
}

/** Its errors have the status of an answer as their code. */
function errorStatus({ code }: JsonObject): number {
  return typeof code === 'number' && code >= 400 && code <= 599 ? code : 500
}
