import type { Outcome } from '../../gateway/settle.ts'
import { renderTranscript } from '../../media/render.ts'
import { languageName } from '../../providers/language.ts'
import type { Segment, TranscriptionOptions, Word } from '../../schema/calls.ts'
import type { WholeResult } from '../../schema/slot-results.ts'
import { factHeaders, streamFacts } from '../fact-headers.ts'
import type { HearingShape } from '../transcription.ts'
import type { HearingTask } from '../transcription-request.ts'
import { readOpenAiHearing } from './hearing-request.ts'

type Heard = Outcome<HearingTask>

/** SubRip is plain text at OpenAI. */
const CONTENT_TYPES = {
  text: 'text/plain; charset=utf-8',
  srt: 'text/plain; charset=utf-8',
  vtt: 'text/vtt; charset=utf-8',
}

/** What a recording without a known language is in: the shape wants a word. */
const UNKNOWN = 'unknown'

/** Transcriptions or translations as OpenAI answers them. */
export function hearingShape(task: HearingTask): HearingShape {
  return {
    name: 'openai',
    read: readOpenAiHearing,
    whole: (outcome) => ({ status: 200, ...wholeOf(task, outcome) }),
    events: (streaming, call) => ({
      headers: streamFacts(streaming, call),
      done: ({ result, payload }) => lastEvents(result, payload.options),
    }),
  }
}

function wholeOf(task: HearingTask, outcome: Heard): Omit<WholeResult, 'status'> {
  const { envelope, payload, result } = outcome
  const facts = factHeaders(envelope)
  const { response_format: format } = payload.options
  if (format === 'text' || format === 'srt' || format === 'vtt') {
    const { body } = renderTranscript(format, result)
    return { headers: { 'content-type': CONTENT_TYPES[format], ...facts }, text: body }
  }
  const headers = { 'content-type': 'application/json', ...facts }
  return { headers, text: JSON.stringify(jsonOf(task, format, outcome)) }
}

function jsonOf(
  task: HearingTask,
  format: 'json' | 'verbose_json' | 'diarized_json',
  outcome: Heard,
): object {
  if (format === 'diarized_json') {
    const diarized = diarizedTranscript(outcome)
    return task === 'transcription' ? diarized : { ...diarized, task: 'translate' }
  }
  if (format === 'json') return task === 'transcription' ? transcript(outcome) : { text: outcome.result.text }
  const verbose = verboseTranscript(outcome)
  return task === 'transcription'
    ? { task: 'transcribe', ...verbose, ...usageOf(outcome) }
    : { task: 'translate', ...verbose, language: 'english' }
}

export function transcript(outcome: Heard) {
  return { text: outcome.result.text, ...usageOf(outcome) }
}

/** Segments unless only words were asked for. */
export function verboseTranscript(outcome: Heard) {
  const { text, language, segments, words } = outcome.result
  const { timestamps } = outcome.payload.options
  return {
    language: language === null ? UNKNOWN : languageName(language),
    duration: durationOf(outcome),
    text,
    ...(timestamps === 'word' ? {} : { segments: segments.map(verboseSegment) }),
    ...(timestamps === 'word' || timestamps === 'both' ? { words: words.map(bareWord) } : {}),
  }
}

export function diarizedTranscript(outcome: Heard) {
  const { text, segments } = outcome.result
  const told = segments.map(diarizedSegment)
  return {
    task: 'transcribe' as const,
    duration: durationOf(outcome),
    text,
    segments: told,
    ...usageOf(outcome),
  }
}

/** The events behind the last piece: with diarization each segment, then the whole. */
export function lastEvents(
  { text, segments, tokens }: Heard['result'],
  { response_format: format }: Pick<TranscriptionOptions, 'response_format'>,
) {
  const done = { type: 'transcript.text.done' as const, text, ...tokensOf(tokens) }
  return format === 'diarized_json' ? [...segments.map(diarizedSegment), done] : [done]
}

/**
 * What only Whisper tells of a segment has values that no filter for doubtful segments takes offence at; a confidence
 * that the provider gives is its probability.
 */
function verboseSegment({ id, start, end, text, confidence }: Segment) {
  return {
    id,
    seek: 0,
    start,
    end,
    text,
    tokens: [],
    temperature: 0,
    avg_logprob: confidence === undefined || confidence <= 0 ? 0 : Math.log(Math.min(1, confidence)),
    compression_ratio: 1,
    no_speech_prob: 0,
  }
}

function diarizedSegment({ id, start, end, text, speaker }: Segment) {
  const type = 'transcript.text.segment' as const
  return {
    type,
    id: `seg_${id}`,
    start,
    end,
    text,
    speaker: speaker === undefined ? UNKNOWN : letterOf(speaker),
  }
}

/** `speaker_0` is A, `speaker_25` Z, `speaker_26` AA. */
function letterOf(speaker: string): string {
  const number = /^speaker_(\d{1,6})$/.exec(speaker)?.[1]
  if (number === undefined) return speaker
  let letters = ''
  for (let rest = Number(number); rest >= 0; rest = Math.floor(rest / 26) - 1) {
    letters = String.fromCharCode(65 + (rest % 26)) + letters
  }
  return letters
}

function bareWord({ word, start, end }: Word) {
  return { word, start, end }
}

function durationOf({ payload, result }: Heard): number {
  return payload.audio.durationSeconds ?? result.durationSeconds ?? 0
}

/** The usage of a stream is in tokens and nothing else: left out where the provider counts none. */
function tokensOf(tokens: Heard['result']['tokens']) {
  const { input_tokens: input = null, output_tokens: output = null } = tokens ?? {}
  if (input === null || output === null) return {}
  const usage = {
    type: 'tokens' as const,
    input_tokens: input,
    output_tokens: output,
    total_tokens: input + output,
  }
  return { usage }
}

/** Whole seconds, as OpenAI bills and tells them. Left out where nobody knows how long the audio is. */
function usageOf({ envelope }: Heard) {
  const { audio_seconds: seconds = null } = envelope.usage
  return seconds === null ? {} : { usage: { type: 'duration' as const, seconds: Math.ceil(seconds) } }
}
