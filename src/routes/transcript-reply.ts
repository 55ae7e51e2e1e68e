import type { Outcome } from '../gateway/settle.ts'
import { renderTranscript } from '../media/render.ts'
import type { Segment, TranscriptionOptions, TranscriptionResult, Word } from '../schema/calls.ts'
import type { WholeResult } from '../schema/slot-results.ts'
import { factHeaders } from './fact-headers.ts'

type Heard = Outcome<'transcription' | 'translation'>

/** The answer in the format that was asked for: the envelope, or its text with the envelope's facts in headers. */
export function renderTranscriptReply(outcome: Heard): WholeResult {
  const { envelope, payload, result } = outcome
  const rendered = renderedText(payload.options, result)
  if (rendered === null) {
    const text = JSON.stringify(transcriptEnvelope(outcome))
    return { status: 200, headers: { 'content-type': 'application/json' }, text }
  }
  const { body, contentType } = rendered
  return { status: 200, headers: { 'content-type': contentType, ...factHeaders(envelope) }, text: body }
}

/** The envelope of a transcript, whatever the format: a rendered text stands in `content`. */
export function transcriptEnvelope({ envelope, payload: { audio, options }, result }: Heard): object {
  const { warnings, ...common } = envelope
  const { segments, words } = askedParts(result, options)
  return {
    ...common,
    content: renderedText(options, result)?.body ?? result.text,
    status: 'succeeded',
    language: result.language,
    language_confidence: result.languageConfidence,
    duration_seconds: audio.durationSeconds ?? result.durationSeconds,
    segments,
    words,
    warnings,
  }
}

/** Null for the formats that are JSON. */
function renderedText({ response_format: format }: TranscriptionOptions, result: TranscriptionResult) {
  if (format !== 'text' && format !== 'srt' && format !== 'vtt') return null
  return renderTranscript(format, result)
}

/** The envelope holds the parts that were asked for, by `timestamps` or by the format. */
function askedParts(
  { segments, words }: TranscriptionResult,
  { timestamps, response_format: format, diarization }: TranscriptionOptions,
): { segments: readonly Segment[]; words: readonly Word[] } {
  const wantsWords = timestamps === 'word' || timestamps === 'both'
  const wantsSegments = timestamps === 'segment' || timestamps === 'both' || diarization || format !== 'json'
  return { segments: wantsSegments ? segments : [], words: wantsWords ? words : [] }
}
