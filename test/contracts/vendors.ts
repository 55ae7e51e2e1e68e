import type { TranscriptionOptions } from '../../src/contracts/calls.ts'
import type { OperationName } from '../../src/contracts/operations.ts'
import { spelled } from './answers.ts'
import { assemblyaiDoor } from './assemblyai-door.ts'
import { type Contract, listOf, type Schema } from './contract.ts'
import { deepgramDoor } from './deepgram-door.ts'
import type { DoorCase } from './doors.ts'
import { elevenlabsDoor } from './elevenlabs-door.ts'
import type { RequestHabits } from './requests.ts'
import { responseCases } from './responses.ts'

type Json = Record<string, unknown>

/** Contents of a transcription's answer. */
export interface Heard {
  /** Every one has to be in the transcript. */
  readonly texts: readonly string[]
  readonly words: readonly Schema[]
  /** False when it lacks parts that the call asked for: then an adapter may refuse it. */
  readonly isWhole: boolean
}

/** A vendor whose published contract the adapters are held to. */
export interface Vendor extends RequestHabits {
  readonly name: string
  /** Names under which the contract may lie in the folder. */
  readonly files: readonly string[]
  /** Kinds of providers that speak it. */
  readonly kinds: readonly string[]
  /** Name of the schema of the answer, where a request chooses among several; null: the contract names one. */
  readonly answerTo?: (operation: OperationName, body: string) => string | null
  /** Makes the parts of an answer agree. @param asked method and path of the request */
  readonly align?: (answer: Json, asked: string) => void
  /** Repeats in an answer what the vendor repeats of the request. @param sent last JSON body of the call */
  readonly echo?: (answer: Json, sent: Schema) => void
  readonly heard: (answer: Schema, options: TranscriptionOptions) => Heard
  /** Name of the schema of refusals; absent: the contract has none for all of them. */
  readonly refusal?: string
  /** Exchanges at the gateway's own endpoints in the vendor's format, which are held to the contract too. */
  readonly door?: (contract: Contract) => Promise<readonly DoorCase[]>
}

function wantsSegments({ timestamps, response_format: format }: TranscriptionOptions): boolean {
  return timestamps === 'segment' || timestamps === 'both' || /srt|vtt|verbose_json/.test(format)
}

function wantsWords({ timestamps }: TranscriptionOptions): boolean {
  return timestamps === 'word' || timestamps === 'both'
}

function wantsSpeakers({ diarization, response_format: format }: TranscriptionOptions): boolean {
  return diarization || format === 'diarized_json'
}

const hasSpeaker = ({ speaker, speaker_id: id }: Schema) =>
  [speaker, id].some((one) => one !== undefined && one !== null)

/** One text, its words, and segments of the provider's own. */
function heardWhole(answer: Schema, options: TranscriptionOptions): Heard {
  const [words, segments] = [listOf(answer.words), listOf(answer.segments)]
  return {
    texts: [`${answer.text ?? ''}`],
    words,
    isWhole:
      (!wantsSegments(options) || segments.length > 0) &&
      (!wantsWords(options) || words.length > 0) &&
      (!wantsSpeakers(options) || segments.some(hasSpeaker)),
  }
}

function heardByDeepgram(answer: Schema, options: TranscriptionOptions): Heard {
  const { channels, utterances } = (answer.results ?? {}) as Json
  const given = listOf(channels)
  const best = given.map(({ alternatives }) => listOf(alternatives)[0] ?? {})
  const read = options.multichannel ? best : best.slice(0, 1)
  const words = read.flatMap((one) => listOf(one.words))
  const redacted =
    options.redaction.length === 0 || given.every((one) => typeof one.detected_language === 'string')
  return {
    texts: read.map(({ transcript }) => `${transcript ?? ''}`),
    words,
    isWhole:
      redacted &&
      best.length > 0 &&
      [...best, ...listOf(utterances)].every(({ transcript }) => typeof transcript === 'string') &&
      (!wantsSpeakers(options) || [...words, ...listOf(utterances)].some(hasSpeaker)) &&
      (!(wantsWords(options) || wantsSegments(options) || options.multichannel) || words.length > 0),
  }
}

export const VENDORS: readonly Vendor[] = [
  {
    name: 'OpenAI',
    files: ['openai.yaml', 'openai.yml', 'openai.json'],
    kinds: ['openai'],
    root: 'https://api.openai.com/v1',
    bracketLists: true,
    answerTo: (operation, body) => {
      if (operation !== 'transcription' && operation !== 'translation') return null
      const kind = operation === 'translation' ? 'Translation' : 'Transcription'
      const format = /"response_format"\r?\n\r?\n(\w+)/.exec(body)?.[1] ?? 'json'
      const shape = { verbose_json: 'VerboseJson', diarized_json: 'DiarizedJson' }[format] ?? 'Json'
      return `Create${kind}Response${shape}`
    },
    heard: heardWhole,
    door: () => responseCases(),
  },
  {
    name: 'Deepgram',
    files: ['deepgram.yml', 'deepgram.yaml', 'deepgram.json'],
    kinds: ['deepgram'],
    root: 'https://api.deepgram.com',
    rawAudio: ['post /v1/listen'],
    beyond: [{ fault: /query\/redact/, source: 'https://developers.deepgram.com/docs/redaction names phi' }],
    answerTo: (operation) => (operation === 'transcription' ? 'ListenV1Response' : null),
    align(answer) {
      const { channels, utterances } = (answer.results ?? {}) as Json
      for (const [index, turn] of (listOf(utterances) as Json[]).entries()) {
        const [best] = listOf(listOf(channels)[index]?.alternatives)
        if (best === undefined) continue
        if (turn.transcript !== undefined) turn.transcript = best.transcript ?? ''
        if (turn.words !== undefined) turn.words = best.words ?? []
        if (turn.channel !== undefined) turn.channel = index
      }
    },
    heard: heardByDeepgram,
    // The file gives the one of an answer for those of `/v1/listen`.
    refusal: 'ErrorResponse',
    door: async (contract) => deepgramDoor(contract),
  },
  {
    name: 'ElevenLabs',
    files: ['elevenlabs.json', 'elevenlabs.yaml', 'elevenlabs.yml'],
    kinds: ['elevenlabs'],
    root: 'https://api.elevenlabs.io',
    beyond: [
      {
        fault:
          /\((?:keyterms|entity_detection|entity_redaction|entity_redaction_mode|multichannel_output_style)\)/,
        source: '@elevenlabs/elevenlabs-js 2.73.0, BodySpeechToTextV1SpeechToTextPost',
      },
      {
        fault: /query\/output_format/,
        source: '@elevenlabs/elevenlabs-js 2.73.0, TextToSpeechConvertRequestOutputFormat',
      },
    ],
    answerTo: (operation, body) => {
      if (operation !== 'transcription') return null
      return /"use_multi_channel"\r?\n\r?\ntrue/.test(body)
        ? 'MultichannelSpeechToTextResponseModel'
        : 'SpeechToTextChunkResponseModel'
    },
    align(answer) {
      for (const [index, part] of (listOf(answer.transcripts) as Json[]).entries())
        if (typeof part.channel_index === 'number') part.channel_index = index
    },
    heard(answer, options) {
      const parts = answer.transcripts === undefined ? [answer] : listOf(answer.transcripts)
      const words = parts.flatMap((part) => listOf(part.words)).filter(({ type }) => type === 'word')
      return {
        texts: parts.map(({ text }) => `${text ?? ''}`),
        words,
        isWhole:
          words.length > 0 && (!wantsSpeakers(options) || options.multichannel || words.some(hasSpeaker)),
      }
    },
    door: async (contract) => elevenlabsDoor(contract),
  },
  {
    name: 'AssemblyAI',
    files: ['assemblyai.yml', 'assemblyai.yaml', 'assemblyai.json'],
    kinds: ['assemblyai'],
    root: 'https://api.assemblyai.com',
    beyond: [{ fault: /on_no_speech_detected/, source: 'assemblyai 4.41.5, openapi.generated.d.ts' }],
    refusal: 'Error',
    door: async (contract) => assemblyaiDoor(contract),
    align(answer, asked) {
      if (!('status' in answer)) return
      answer.status = asked.startsWith('POST') ? 'queued' : 'completed'
      answer.id = '9ea68fd3-f953-42c1-9742-976c447fb463'
      delete answer.error
      const words = listOf(answer.words)
      const turns = listOf(answer.utterances) as Json[]
      for (const [index, turn] of turns.entries())
        if (words.length > 0) turn.text = spelled(words[index] ?? {})
      for (const [index, one] of [...(words as Json[]), ...turns].entries())
        if (typeof one.channel === 'string') one.channel = String((index % 2) + 1)
    },
    echo(answer, sent) {
      for (const name of ['redact_pii', 'redact_pii_policies', 'multichannel'])
        if (sent[name] !== undefined) answer[name] = sent[name]
    },
    heard(answer, options) {
      const [words, turns] = [listOf(answer.words), listOf(answer.utterances)]
      const items = [...words, ...turns]
      return {
        texts: [`${answer.text ?? ''}`],
        words,
        isWhole:
          words.length > 0 &&
          (!wantsSpeakers(options) || items.some(hasSpeaker)) &&
          (!options.multichannel || items.some(({ channel }) => typeof channel === 'string')) &&
          (options.redaction.length === 0 || typeof answer.language_code === 'string'),
      }
    },
  },
  {
    name: 'Mistral',
    files: ['mistral.yaml', 'mistral.yml', 'mistral.json'],
    kinds: ['mistral'],
    root: 'https://api.mistral.ai',
    heard: heardWhole,
  },
]
