import type { Feature, TranscriptionOptions, TranscriptionResult } from '../../contracts/calls.ts'
import type { JsonObject } from '../../contracts/json.ts'
import type { UpstreamReply } from '../../contracts/upstream.ts'
import type { Made } from './answer.ts'
import { unusable } from './failure.ts'

/** Features that a transcription requires, by its options and by its answer's format. */
export function requiredFeatures(options: TranscriptionOptions): Feature[] {
  const needed: Feature[] = []
  if (wantsWords(options)) needed.push('word_timestamps')
  if (wantsSegments(options)) needed.push('segment_timestamps')
  if (wantsSpeakers(options)) needed.push('diarization')
  if (options.redaction.length > 0) needed.push('redaction')
  if (options.keyterms.length > 0) needed.push('keyterms')
  if (options.multichannel) needed.push('multichannel')
  if (options.mode === 'realtime') needed.push('realtime')
  return needed
}

export function wantsWords({ timestamps }: TranscriptionOptions): boolean {
  return timestamps === 'word' || timestamps === 'both'
}

/** Segment times are asked for by name, or by a format that is made of them. */
export function wantsSegments({ timestamps, response_format: format }: TranscriptionOptions): boolean {
  const timed = format === 'srt' || format === 'vtt' || format === 'verbose_json'
  return timed || timestamps === 'segment' || timestamps === 'both'
}

export function wantsSpeakers({ diarization, response_format: format }: TranscriptionOptions): boolean {
  return diarization || format === 'diarized_json'
}

/**
 * Names requested parts that the transcript lacks, as a sentence; null when it has them all. A provider that ignores a
 * parameter would otherwise degrade the transcript silently. An empty transcript lacks nothing: silence has no words.
 */
export function lackOf(
  { text, segments, words }: TranscriptionResult,
  options: TranscriptionOptions,
): string | null {
  if (text.trim() === '') return null
  const lacks = (what: string) => `the answer lacks the ${what} that were asked for`
  if (wantsWords(options) && words.length === 0) return lacks('word times')
  const spoken = options.character_times === true ? words.filter(({ kind }) => kind !== 'event') : []
  if (spoken.length > 0 && !spoken.some(({ characters }) => characters !== undefined))
    return lacks('times of characters')
  if (wantsSegments(options) && segments.length === 0) return lacks('segment times')
  if (wantsSpeakers(options) && !segments.some(({ speaker }) => speaker !== undefined))
    return lacks('speakers')
  const channelled = [...segments, ...words].some(({ channel }) => channel !== undefined)
  return options.multichannel && !channelled ? lacks('channels') : null
}

/** The transcript of an answer, if it has all that was asked for. @param read null: there is no text in the answer */
export function wholeTranscript(
  read: TranscriptionResult | null,
  options: TranscriptionOptions,
  head: Pick<UpstreamReply, 'status'>,
): Made<TranscriptionResult> {
  if (read === null) return unusable(head, 'the answer of the provider is no transcript')
  const lack = lackOf(read, options)
  return lack === null ? { result: read } : unusable(head, lack)
}

/**
 * Warns of what a provider wrote down without times: it is in the content, but in no list of words or segments.
 *
 * @param given its items, whose `key` is their text
 * @param kept how many of them could be read
 */
export function untimedWarnings(
  what: 'words' | 'segments',
  given: readonly JsonObject[],
  key: string,
  kept: number,
): string[] {
  const said = given.filter((item) => typeof item[key] === 'string' && item[key].trim() !== '').length
  if (said <= kept) return []
  return [`${what}: ${said - kept} of ${said} came without times and were left out; content is not affected`]
}
