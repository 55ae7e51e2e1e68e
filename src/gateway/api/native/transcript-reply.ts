import type { TranscriptionTask } from '../../../contracts/operations.ts'
import type { WholeResult } from '../../../contracts/slot-results.ts'
import type { Outcome } from '../../call/attempt/outcome.ts'
import { renderedText, transcriptEnvelope } from '../../call/attempt/transcript.ts'
import { factHeaders } from '../fact-headers.ts'
import { Transcript, TranscriptEvent } from '../openapi/answers.ts'
import { TRANSCRIPT_FACTS } from '../openapi/headers.ts'
import { type Answer, type Content, events, json } from '../openapi/operation.ts'
import type { Json } from '../openapi/schema.ts'

const plain = (description: string): Json => ({ type: 'string', description })

/** Documented answers of text formats. */
export const RENDERED: readonly Content[] = [
  { type: 'text/plain', schema: plain('`response_format: text`') },
  { type: 'application/x-subrip', schema: plain('`response_format: srt`') },
  { type: 'text/vtt', schema: plain('`response_format: vtt`') },
]

/** Documented answer of a streamed transcription. */
export const TRANSCRIPT_EVENTS = events(
  TranscriptEvent,
  'With `stream: true`: one object per event, in `data:`, the last with the full transcript. A failure ' +
    'after the first chunk is sent as an `error` event with the error envelope, and nothing follows it.',
)

/** Documents the answer of a transcription or translation. */
export function transcriptAnswer(contents: readonly Content[] = [], headers: Answer['headers'] = []): Answer {
  return {
    status: 200,
    description: 'the transcript; for text formats the envelope’s metadata is in the headers',
    contents: [json(Transcript), ...RENDERED, ...contents],
    headers: ['X-LK-Idempotent-Replay', ...TRANSCRIPT_FACTS, ...headers],
  }
}

/** Renders the answer in the requested format: the envelope, or its text with the envelope's facts in headers. */
export function renderTranscriptReply(outcome: Outcome<TranscriptionTask>): WholeResult {
  const { envelope, payload, result } = outcome
  const rendered = renderedText(payload.options, result)
  if (rendered === null) {
    const text = JSON.stringify(transcriptEnvelope(outcome))
    return { status: 200, headers: { 'content-type': 'application/json' }, text }
  }
  const { body, contentType } = rendered
  return { status: 200, headers: { 'content-type': contentType, ...factHeaders(envelope) }, text: body }
}
