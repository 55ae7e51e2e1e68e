import type { Word } from '../../../contracts/calls.ts'
import type { Job, JobStatus } from '../../../contracts/jobs.ts'
import { trimWhere } from '../../../contracts/trim.ts'
import { ERASED_URL, erasedSpec } from '../../jobs/erase.ts'
import { groupWords } from '../../providers/segments.ts'
import type { CallbackTerms } from '../../webhooks/callbacks.ts'
import { type Channel, type Group, paragraphsIn, sentencesIn } from '../heard.ts'
import { largeList } from '../json-reply.ts'

/** The result of a job, as its worker kept it. */
export interface KeptTranscript {
  readonly content: string
  readonly language: string | null
  readonly language_confidence: number | null
  readonly duration_seconds: number | null
  readonly words: readonly Word[]
  readonly model: string
  readonly warnings: readonly string[]
}

const STATUSES: Readonly<Record<JobStatus, string>> = {
  queued: 'queued',
  processing: 'processing',
  succeeded: 'completed',
  failed: 'error',
  cancelled: 'error',
}

/** A word without a confidence is certain. */
const UNKNOWN_CONFIDENCE = 1

export function jobStatus({ status }: Pick<Job, 'status'>): string {
  return STATUSES[status]
}

/** Why there is no transcript; null: there is one, or may be. */
export function jobErrorText({ status, error }: Pick<Job, 'status' | 'error'>): string | null {
  if (status === 'cancelled') return 'the transcript was deleted before it was made'
  return error === null ? null : `${error.code}: ${error.message}`
}

/** Where the audio of a job was said to be. */
export function audioUrlOf({ door, work, erased }: Pick<Job, 'door' | 'work' | 'erased'>): string {
  if (erased) return ERASED_URL
  if (door !== undefined) return door.audioUrl
  return 'audio' in work && 'url' in work.audio ? work.audio.url : ''
}

/** Text of AssemblyAI's in place of a transcript that was deleted. */
const DELETED_TEXT = 'Deleted by user.'

/**
 * A transcript as AssemblyAI has it; what is made of many words is `Large`, here and in the views of its parts.
 *
 * @param kept null: there is none, or not yet
 * @param callback null: its end is told to no URL of its own
 */
export function transcriptView(job: Job, kept: KeptTranscript | null, callback: CallbackTerms | null) {
  // A worker may still need what was sent.
  const { work, door } = job.erased ? erasedSpec(job) : job
  if (!('options' in work)) throw new Error('a transcription has options')
  const { options } = work
  const error = jobErrorText(job)
  const isDivided = options.diarization || options.multichannel
  return {
    id: job.id,
    status: jobStatus(job),
    audio_url: audioUrlOf(job),
    text: job.erased ? DELETED_TEXT : (kept?.content ?? null),
    words: kept === null ? null : wordList(kept.words),
    utterances:
      kept !== null && isDivided ? largeList(kept.words.length, () => utterancesIn(kept), utteranceOf) : null,
    confidence: kept === null ? null : meanConfidence(kept.words),
    audio_duration: kept === null ? null : Math.round(kept.duration_seconds ?? 0),
    ...(error === null ? {} : { error }),
    language_code: kept?.language ?? options.language?.replace('-', '_') ?? null,
    language_confidence: kept?.language_confidence ?? null,
    ...{ language_codes: null, language_confidence_threshold: null },
    language_detection: options.detect_language,
    ...{ language_model: 'assemblyai_default', acoustic_model: 'assemblyai_default' },
    speech_model: door?.models[0] ?? null,
    speech_models: door?.models ?? null,
    ...(kept === null ? {} : { speech_model_used: kept.model }),
    ...{ punctuate: true, format_text: options.smart_formatting, filter_profanity: options.profanity_filter },
    ...{ multichannel: options.multichannel, dual_channel: options.multichannel },
    ...{ speaker_labels: options.diarization, speakers_expected: options.speaker_count_hint },
    keyterms_prompt: options.keyterms,
    redact_pii: options.redaction.length > 0,
    webhook_url: job.erased && callback?.url ? ERASED_URL : (callback?.url ?? null),
    webhook_status_code: null,
    webhook_auth: Object.keys(callback?.headers ?? {}).length > 0,
    ...{ auto_highlights: false, summarization: false, throttled: false },
  }
}

/** A word of AssemblyAI's: times in ms, speakers by letters, channels from 1. */
function transcriptWord({ word, start, end, confidence = UNKNOWN_CONFIDENCE, speaker, channel }: Word) {
  return {
    text: word,
    start: msOf(start),
    end: msOf(end),
    confidence,
    speaker: speakerOf(speaker, channel),
    ...channelOf(channel),
  }
}

function wordList(words: readonly Word[]) {
  return largeList(words.length, () => words, transcriptWord)
}

function utterancesIn({ words, content }: KeptTranscript): readonly Group[] {
  return groupWords(words, content, (group, next) => isOther(group.at(-1), next))
}

function utteranceOf(group: Group) {
  const part = partOf(group)
  return { ...part, speaker: part.speaker ?? letterOf(0), ...channelOf(group.words[0]?.channel) }
}

function partOf({ segment, words }: Group) {
  const [first] = words
  return {
    text: segment.text,
    start: msOf(segment.start),
    end: msOf(segment.end),
    confidence: meanConfidence(words),
    speaker: speakerOf(first?.speaker, first?.channel),
    words: wordList(words),
  }
}

/** Members that all answers about parts of a transcript have. */
function wholeTranscript(id: string, kept: KeptTranscript) {
  return {
    id,
    confidence: meanConfidence(kept.words),
    audio_duration: Math.round(kept.duration_seconds ?? 0),
    speech_model_used: kept.model,
  }
}

/** Longest phrase that can be searched for, in words. */
export const PHRASE_WORDS_MAX = 5

/**
 * Where phrases are said, whatever their case and the marks around their words.
 *
 * @param phrases each of 1 to 5 words
 */
export function wordSearchView(
  id: string,
  { words }: KeptTranscript,
  phrases: readonly (readonly string[])[],
) {
  const said = words.map(({ word }) => searchable(word))
  const byFirst = Map.groupBy(
    phrases.map((phrase) => ({ phrase, indexes: [] as number[] })),
    ({ phrase }) => phrase[0],
  )
  for (const [at, word] of said.entries())
    for (const { phrase, indexes } of byFirst.get(word) ?? [])
      if (phrase.every((part, index) => said[at + index] === part)) indexes.push(at)
  const matches = [...byFirst.values()].flat().flatMap(({ phrase, indexes }) => {
    if (indexes.length === 0) return []
    const timestamps = indexes.map((at) => [
      msOf(words[at]?.start ?? 0),
      msOf(words[at + phrase.length - 1]?.end ?? 0),
    ])
    return [{ text: phrase.join(' '), count: indexes.length, timestamps, indexes }]
  })
  return { id, total_count: matches.reduce((sum, { count }) => sum + count, 0), matches }
}

/** A word as it is compared: its marks do not matter, nor its case. */
export function searchable(word: string): string {
  return trimWhere(word.normalize('NFC').toLowerCase(), isMark)
}

const LETTER_OR_DIGIT = /[\p{L}\p{N}]/u
const isMark = (point: number): boolean => !LETTER_OR_DIGIT.test(String.fromCodePoint(point))

export function sentencesView(id: string, kept: KeptTranscript) {
  return {
    ...wholeTranscript(id, kept),
    sentences: largeList(kept.words.length, () => sentencesIn(channelIn(kept), isOther), partOf),
  }
}

export function paragraphsView(id: string, kept: KeptTranscript) {
  return {
    ...wholeTranscript(id, kept),
    paragraphs: largeList(kept.words.length, () => paragraphsIn(channelIn(kept), isOther), paragraphOf),
  }
}

function channelIn({ content, words }: KeptTranscript): Channel {
  return { text: content, words }
}

function paragraphOf(sentences: readonly Group[]) {
  const words = sentences.flatMap((sentence) => sentence.words)
  return {
    text: sentences.map(({ segment }) => segment.text).join(' '),
    start: msOf(sentences[0]?.segment.start ?? 0),
    end: msOf(sentences.at(-1)?.segment.end ?? 0),
    confidence: meanConfidence(words),
    words: wordList(words),
  }
}

function meanConfidence(words: readonly Word[]): number {
  const sure = words.map(({ confidence = UNKNOWN_CONFIDENCE }) => confidence)
  return sure.length === 0 ? UNKNOWN_CONFIDENCE : sure.reduce((sum, one) => sum + one, 0) / sure.length
}

function isOther(one: Word | undefined, { speaker, channel }: Word): boolean {
  return one !== undefined && (one.speaker !== speaker || one.channel !== channel)
}

function msOf(seconds: number): number {
  return Math.round(seconds * 1000)
}

const LETTERS = 26

/** `speaker_0` is A, in the second channel 2A; a channel whose speakers are not told apart is one speaker. */
function speakerOf(speaker: string | undefined, channel: number | undefined): string | null {
  const prefix = channel === undefined ? '' : String(channel + 1)
  if (speaker === undefined) return prefix === '' ? null : prefix
  const number = Number(speaker.replace('speaker_', ''))
  return prefix + (Number.isInteger(number) ? letterOf(number) : speaker)
}

function letterOf(number: number): string {
  const before = Math.floor(number / LETTERS)
  const letter = String.fromCharCode('A'.charCodeAt(0) + (number % LETTERS))
  return before === 0 ? letter : letterOf(before - 1) + letter
}

function channelOf(channel: number | undefined): { readonly channel?: string } {
  return channel === undefined ? {} : { channel: String(channel + 1) }
}
