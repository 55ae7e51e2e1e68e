import type { OperationName } from '../../src/schema/operations.ts'
import { spelled } from './answers.ts'
import { listOf, type Schema } from './contract.ts'
import type { RequestHabits } from './requests.ts'

type Json = Record<string, unknown>

/** What an answer of a transcription says, however it is made up. */
export interface Heard {
  /** Every one has to be in the transcript. */
  readonly texts: readonly string[]
  readonly words: readonly Schema[]
}

/** A vendor whose published contract the adapters are held to. */
export interface Vendor extends RequestHabits {
  readonly name: string
  /** Names under which the contract may lie in the folder. */
  readonly files: readonly string[]
  /** Kinds of providers that speak it. */
  readonly kinds: readonly string[]
  /** Which of several answers a request gets, by the names of their schemas; absent: the contract names one. */
  readonly answerTo?: (operation: OperationName, request: { path: string; fields: string }) => string | null
  /** Makes the parts of an answer agree, and puts what has to be there for the call to come to an end. */
  readonly align?: (answer: Json) => void
  readonly heard: (answer: Schema, options: { readonly multichannel: boolean }) => Heard
}

const plainText = ({ text, words }: Schema): Heard => ({ texts: [`${text ?? ''}`], words: listOf(words) })

export const VENDORS: readonly Vendor[] = [
  {
    name: 'OpenAI',
    files: ['openai.yaml', 'openai.yml', 'openai.json'],
    kinds: ['openai'],
    root: 'https://api.openai.com/v1',
    bracketLists: true,
    answerTo: (operation, { fields }) => {
      if (operation !== 'transcription' && operation !== 'translation') return null
      const kind = operation === 'translation' ? 'Translation' : 'Transcription'
      const format = /(?:^|\n)(verbose_json|diarized_json|json)(?:\r?\n|$)/.exec(fields)?.[1] ?? 'json'
      const shape = { verbose_json: 'VerboseJson', diarized_json: 'DiarizedJson', json: 'Json' }[format]
      return `Create${kind}Response${shape}`
    },
    heard: plainText,
  },
  {
    name: 'Deepgram',
    files: ['deepgram.yml', 'deepgram.yaml', 'deepgram.json'],
    kinds: ['deepgram'],
    root: 'https://api.deepgram.com',
    rawAudio: ['post /v1/listen'],
    answerTo: (operation) => (operation === 'transcription' ? 'ListenV1Response' : null),
    align(answer) {
      const { channels, utterances } = (answer.results ?? {}) as { channels?: Json[]; utterances?: Json[] }
      for (const [index, turn] of (utterances ?? []).entries()) {
        const [best] = listOf(channels?.[index]?.alternatives)
        if (best === undefined) continue
        if (turn.transcript !== undefined) turn.transcript = best.transcript ?? ''
        if (turn.words !== undefined) turn.words = best.words ?? []
        if (turn.channel !== undefined) turn.channel = index
      }
    },
    heard: (answer, { multichannel }) => {
      const channels = listOf((answer.results as Json | undefined)?.channels)
      const best = (multichannel ? channels : channels.slice(0, 1)).flatMap(({ alternatives }) =>
        listOf(alternatives).slice(0, 1),
      )
      return {
        texts: best.map(({ transcript }) => `${transcript ?? ''}`),
        words: best.flatMap(({ words }) => listOf(words)),
      }
    },
  },
  {
    name: 'ElevenLabs',
    files: ['elevenlabs.json', 'elevenlabs.yaml', 'elevenlabs.yml'],
    kinds: ['elevenlabs'],
    root: 'https://api.elevenlabs.io',
    answerTo: (operation, { fields }) => {
      if (operation !== 'transcription') return null
      return /"use_multi_channel"\r?\n\r?\ntrue/.test(fields)
        ? 'MultichannelSpeechToTextResponseModel'
        : 'SpeechToTextChunkResponseModel'
    },
    align(answer) {
      for (const [index, part] of listOf(answer.transcripts).entries())
        if ((part as Json).channel_index !== undefined) (part as Json).channel_index = index
    },
    heard: (answer) => {
      const parts = answer.transcripts === undefined ? [answer] : listOf(answer.transcripts)
      return {
        texts: parts.map(({ text }) => `${text ?? ''}`),
        words: parts.flatMap(({ words }) => listOf(words)).filter(({ type }) => type === 'word'),
      }
    },
  },
  {
    name: 'AssemblyAI',
    files: ['assemblyai.yml', 'assemblyai.yaml', 'assemblyai.json'],
    kinds: ['assemblyai'],
    root: 'https://api.assemblyai.com',
    align(answer) {
      if (!('audio_url' in answer) && !('status' in answer)) return
      answer.status = 'completed'
      answer.id = '9ea68fd3-f953-42c1-9742-976c447fb463'
      delete answer.error
      const words = listOf(answer.words)
      for (const [index, turn] of listOf(answer.utterances).entries())
        (turn as Json).text = spelled(words[index] ?? {})
    },
    heard: plainText,
  },
  {
    name: 'Mistral',
    files: ['mistral.yaml', 'mistral.yml', 'mistral.json'],
    kinds: ['mistral'],
    root: 'https://api.mistral.ai',
    heard: plainText,
  },
]
