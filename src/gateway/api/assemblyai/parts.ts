import { GatewayError } from '../../../contracts/errors.ts'
import type { Exchange } from '../../edge/exchange.ts'
import { invalid, invalidField } from '../../edge/refusals.ts'
import { renderTranscript } from '../../media/render.ts'
import { groupWords, segmentsOf } from '../../providers/segments.ts'
import { type EndpointCall, endpoint } from '../endpoint.ts'
import { jsonReply } from '../json-reply.ts'
import { jobIdOf, ownJob } from '../native/transcription-jobs.ts'
import {
  AssemblyAiParagraphs,
  AssemblyAiSentences,
  AssemblyAiWordSearch,
} from '../openapi/assemblyai-answers.ts'
import { json } from '../openapi/operation.ts'
import { ASSEMBLYAI } from './door.ts'
import type { KeptTranscript } from './transcript.ts'
import { PHRASE_WORDS_MAX, paragraphsView, searchable, sentencesView, wordSearchView } from './transcript.ts'
import { keptTranscript, PATH } from './transcripts.ts'

const ONE = { ...ASSEMBLYAI, method: 'GET', kind: 'none', errors: ['JOB_NOT_FOUND', 'OVERLOADED'] } as const

export const showSentences = endpoint({
  ...ONE,
  path: `${PATH}/:job_id/sentences`,
  id: 'assemblyaiSentences',
  summary: 'Get the sentences of a transcript',
  answers: [
    { status: 200, description: 'the sentences', contents: [json(AssemblyAiSentences)], headers: [] },
  ],
  handle: async (call) => {
    const { id, kept } = await completed(call)
    return jsonReply(sentencesView(id, kept))
  },
})

export const showParagraphs = endpoint({
  ...ONE,
  path: `${PATH}/:job_id/paragraphs`,
  id: 'assemblyaiParagraphs',
  summary: 'Get the paragraphs of a transcript',
  description: 'They end where the speaker changes, and with a sentence before 1 s of silence.',
  answers: [
    { status: 200, description: 'the paragraphs', contents: [json(AssemblyAiParagraphs)], headers: [] },
  ],
  handle: async (call) => {
    const { id, kept } = await completed(call)
    return jsonReply(paragraphsView(id, kept))
  },
})

/** Phrases of one search. */
const PHRASES_MAX = 100

export const searchWords = endpoint({
  ...ONE,
  path: `${PATH}/:job_id/word-search`,
  id: 'assemblyaiWordSearch',
  summary: 'Search a transcript for words',
  description: `Finds words and phrases of up to ${PHRASE_WORDS_MAX} words, whatever their case and marks.`,
  parameters: [
    {
      name: 'words',
      in: 'query',
      description: `what to search for, divided by commas, at most ${PHRASES_MAX}`,
      required: true,
      style: 'form',
      explode: false,
      schema: { type: 'array', items: { type: 'string' }, minItems: 1, maxItems: PHRASES_MAX },
    },
  ],
  answers: [
    {
      status: 200,
      description: 'those that were found',
      contents: [json(AssemblyAiWordSearch)],
      headers: [],
    },
  ],
  handle: async (call) => {
    const { id, kept } = await completed(call)
    return jsonReply(wordSearchView(id, kept, phrasesIn(call.exchange)))
  },
})

/** Each once, as its words. @throws GatewayError INVALID_REQUEST */
function phrasesIn({ query }: Exchange): readonly (readonly string[])[] {
  const sent = new URLSearchParams(query).getAll('words').flatMap((list) => list.split(','))
  const phrases = new Map(
    sent.map((phrase) => {
      const words = phrase.split(/\s+/).map(searchable).filter(Boolean)
      return [words.join(' '), words]
    }),
  )
  phrases.delete('')
  if (phrases.size === 0 || phrases.size > PHRASES_MAX)
    throw invalidField('words', `must have 1 to ${PHRASES_MAX} words or phrases, divided by commas`)
  if ([...phrases.values()].some((words) => words.length > PHRASE_WORDS_MAX))
    throw invalidField('words', `must have phrases of at most ${PHRASE_WORDS_MAX} words`)
  return [...phrases.values()]
}

export const redactedAudio = endpoint({
  ...ONE,
  path: `${PATH}/:job_id/redacted-audio`,
  id: 'assemblyaiRedactedAudio',
  summary: 'Always 404',
  description: 'No audio is redacted here: `redact_pii_audio` is refused.',
  answers: [],
  errors: ['NOT_FOUND'],
  handle() {
    throw new GatewayError('NOT_FOUND', 'no audio is redacted here: `redact_pii_audio` is refused')
  },
})

const SUBTITLES = {
  ...ONE,
  parameters: [
    {
      name: 'chars_per_caption',
      in: 'query',
      description: 'longest caption in characters, but for longer words',
      schema: { type: 'integer', minimum: 1, maximum: 999_999 },
    },
  ],
}

function subtitlesAnswer(type: string) {
  const content = { type, schema: { type: 'string' } }
  return { status: 200, description: 'the subtitles', contents: [content], headers: [] } as const
}

export const showSrt = endpoint({
  ...SUBTITLES,
  path: `${PATH}/:job_id/srt`,
  id: 'assemblyaiSrt',
  summary: 'Get a transcript as SRT',
  answers: [subtitlesAnswer('application/x-subrip')],
  handle: (call) => subtitles('srt', call),
})

export const showVtt = endpoint({
  ...SUBTITLES,
  path: `${PATH}/:job_id/vtt`,
  id: 'assemblyaiVtt',
  summary: 'Get a transcript as WebVTT',
  answers: [subtitlesAnswer('text/vtt')],
  handle: (call) => subtitles('vtt', call),
})

async function subtitles(format: 'srt' | 'vtt', call: EndpointCall) {
  const most = captionLength(call.exchange)
  const { kept } = await completed(call)
  const { content: text, words } = kept
  const segments = most === null ? segmentsOf(words, text) : captionsOf(kept, most)
  const { body, contentType } = renderTranscript(format, { text, segments })
  return { status: 200, headers: { 'content-type': contentType }, body } as const
}

function captionsOf({ words, content }: KeptTranscript, most: number) {
  // The group has a blank after each word; not summed up for each word, since a caption may be as long as the text.
  let length = 0
  const groups = groupWords(words, content, (group, next) => {
    const last = group.at(-1)
    length = (group.length === 1 ? 0 : length) + (last?.word.length ?? 0) + 1
    return (
      length + next.word.length > most || last?.speaker !== next.speaker || last?.channel !== next.channel
    )
  })
  return groups.map(({ segment }) => segment)
}

/** @throws GatewayError INVALID_REQUEST */
function captionLength({ query }: Exchange): number | null {
  const sent = new URLSearchParams(query).get('chars_per_caption')
  if (sent === null) return null
  if (!/^[1-9]\d{0,5}$/.test(sent))
    throw invalidField('chars_per_caption', 'must be a whole number from 1 to 999999')
  return Number(sent)
}

/** @throws GatewayError INVALID_REQUEST where there is no transcript yet, or never will be; JOB_NOT_FOUND */
async function completed({ exchange, context, deps }: EndpointCall) {
  const id = jobIdOf(exchange, context)
  const job = ownJob(await deps.services.state.jobs.get(id), context.principal)
  if (job.erased) throw invalid('the transcript was deleted')
  const kept = await keptTranscript(job, exchange, deps)
  if (kept === null) throw invalid('the transcript is not completed')
  return { id, kept }
}
