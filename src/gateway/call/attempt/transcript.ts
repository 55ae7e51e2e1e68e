import type { Segment, TranscriptionOptions, TranscriptionResult, Word } from '../../../contracts/calls.ts'
import type { TranscriptionTask } from '../../../contracts/operations.ts'
import { renderTranscript } from '../../media/render.ts'
import { subtitleSegments } from '../../media/subtitles.ts'
import type { Outcome } from './outcome.ts'

/** Builds the JSON envelope of a transcript for every format; a rendered text is in `content`. */
export function transcriptEnvelope({
  envelope,
  payload: { audio, options },
  result,
}: Outcome<TranscriptionTask>): object {
  const { warnings, ...common } = envelope
  const { segments, words } = requestedParts(result, options)
  return {
    ...common,
    content: renderedText(options, result)?.body ?? result.text,
    status: 'succeeded',
    language: result.language,
    language_confidence: result.languageConfidence,
    duration_seconds: audio.durationSeconds ?? result.durationSeconds,
    segments,
    words,
    ...(result.parts === undefined ? {} : { parts: result.parts }),
    ...(result.skippedSeconds === undefined ? {} : { skipped_silence_seconds: result.skippedSeconds }),
    warnings,
  }
}

/** Renders the transcript as text, SRT or WebVTT; null for formats that are JSON. */
export function renderedText(
  { response_format: format, subtitles }: TranscriptionOptions,
  result: TranscriptionResult,
) {
  if (format !== 'text' && format !== 'srt' && format !== 'vtt') return null
  const { text } = result
  const segments = subtitles === undefined ? result.segments : subtitleSegments(result, subtitles)
  return renderTranscript(format, { text, segments })
}

/** Keeps the parts that were asked for, by `timestamps` or by the format. */
function requestedParts(
  { segments, words }: TranscriptionResult,
  { timestamps, response_format: format, diarization }: TranscriptionOptions,
): { segments: readonly Segment[]; words: readonly Word[] } {
  const wantsWords = timestamps === 'word' || timestamps === 'both'
  const wantsSegments = timestamps === 'segment' || timestamps === 'both' || diarization || format !== 'json'
  return { segments: wantsSegments ? segments : [], words: wantsWords ? words : [] }
}
