import { promisify } from 'node:util'
import { deflate } from 'node:zlib'
import type { Audio, AudioReader } from '../../../contracts/audio.ts'
import type {
  TranscriptionCall,
  TranscriptionOptions,
  TranscriptionResult,
} from '../../../contracts/calls.ts'
import type { CancelSignal } from '../../../contracts/cancellation.ts'
import { toAbortSignal } from '../../../contracts/cancellation.ts'
import type { AcceptRule, AcceptRules } from '../../../contracts/catalog.ts'
import type { Calls, OperationName, Results } from '../../../contracts/operations.ts'
import type { Failure } from '../../../contracts/upstream.ts'
import type { DoubtOutcome } from '../../../contracts/watch.ts'
import { speechSeconds } from '../../media/speech-level.ts'
import type { ActiveCall } from '../context/services.ts'
import type { Candidate } from '../select/selection.ts'
import type { Attempt } from './failover.ts'
import type { Answer, Attempted, Spare } from './operation.ts'

type JudgedAttempt = Pick<Attempt, 'candidate' | 'last'>

/** A transcript beside what it was made of. */
export interface HeardText {
  readonly audio: Audio
  readonly options: TranscriptionOptions
  readonly result: TranscriptionResult
  /** The text is in another language than the audio. */
  readonly translated: boolean
}

/** Longest run of words that is looked for when they come again. */
const REPEATED_WORDS_MAX = 24
/** Half a minute of speech, over which Whisper takes its own ratio: longer text compresses better by itself. */
const COMPRESSED_CHARACTERS = 600
/** Shorter audio may hold a word and a pause, or none. */
const RATED_SECONDS = 3
/** Letters that a script is told by. */
const SCRIPT_LETTERS = 12
/** Share of the letters that have to be in the script of the language: names and terms keep their own. */
const SCRIPT_SHARE = 0.5
/** More words than anybody says while sound is heard; characters count as words where there is no space between. */
const WORDS_PER_SPEECH_SECOND = 20

const compress = promisify(deflate)

/**
 * Lets an entry's answer pass, or refuses it as a failure that another entry may cure: an empty transcript and one that
 * breaks a rule of the entry, where that says so. Nothing else is judged, and nothing is awaited for it.
 *
 * Audio that is still coming is judged when it is whole, by whoever asked for it early.
 *
 * @throws the failure of a store, where the audio is read for it; the signal's reason when the caller left
 */
export function judge<K extends OperationName>(
  active: ActiveCall<K>,
  attempt: JudgedAttempt,
  got: Answer<K>,
): Attempted<Answer<K>> | Promise<Attempted<Answer<K>>> {
  const { payload } = active.call
  const { entry } = attempt.candidate
  if ((!entry.retryEmpty && entry.accept === null) || !('options' in payload)) return { got }
  if (payload.audio.source.kind === 'arriving') return { got }
  if (entry.accept !== null) return judgeByRules(active, attempt, got, entry.accept)
  return judgeEmpty(payload, got.result, attempt, got)
}

/**
 * Treats the empty transcript of audio that is long enough to hold speech as a failure, where the entry says so. It is
 * given all the same if no other entry has an answer.
 */
export function judgeEmpty<Got extends { release(): void }>(
  payload: Calls[OperationName],
  result: Results[OperationName],
  { candidate, last }: JudgedAttempt,
  got: Got,
): Attempted<Got> {
  if (last || !candidate.entry.retryEmpty || !('options' in payload && 'text' in result)) return { got }
  if (result.text.trim() !== '' || (payload.audio.durationSeconds ?? 0) < RATED_SECONDS) return { got }
  return qualityRefusal('an empty transcript', { got, end: (isGiven) => isGiven || got.release() })
}

/** Whether an answer may be refused once it is whole, so that no part of it may be given before. */
export function isGated({ entry }: Candidate): boolean {
  return entry.accept !== null && entry.accept.shadow !== true
}

async function judgeByRules<K extends OperationName>(
  { services, call, signal }: ActiveCall<K>,
  attempt: JudgedAttempt,
  got: Answer<K>,
  rules: AcceptRules,
): Promise<Attempted<Answer<K>>> {
  const { audio, options } = call.payload as TranscriptionCall
  const heard = {
    audio,
    options,
    result: got.result as TranscriptionResult,
    translated: call.operation === 'translation',
  }
  let broken: readonly AcceptRule[]
  try {
    broken = await brokenRules(rules, heard, services.audio, signal)
  } catch (error) {
    got.release()
    throw error
  }
  const count = (how: DoubtOutcome) => {
    for (const rule of broken) services.watch?.doubted(attempt.candidate.entry, call.operation, rule, how)
  }
  if (rules.shadow === true) count('shadow')
  if (rules.shadow === true || broken.length === 0) return judgeEmpty(call.payload, got.result, attempt, got)
  const reason = `a transcript that breaks accept: ${broken.join(', ')}`
  const warned = { ...got, warnings: [...got.warnings, reason] }
  const end = (isGiven: boolean) => {
    count(isGiven ? 'last_resort' : 'refused')
    if (!isGiven) got.release()
  }
  if (rules.last_resort === true && !attempt.last) return qualityRefusal(reason, { got: warned, end })
  end(rules.last_resort === true)
  return rules.last_resort === true ? { got: warned } : qualityRefusal(reason)
}

/** The caller chooses the audio, so its contents are not the entry's fault and must not open its breaker. */
function qualityRefusal<Got = never>(reason: string, spare?: Spare<Got>): Attempted<Got> {
  const failure: Failure = { kind: 'server', status: 200, reason, retryAfterMs: null, providerMessage: null }
  return { failure, blamed: false, unknown: false, ...(spare === undefined ? {} : { spare }) }
}

/** Lists the rules that a transcript breaks, in the order of their cost. The audio is read only for `silence`. */
export async function brokenRules(
  rules: AcceptRules,
  heard: HeardText,
  reader: AudioReader,
  signal: CancelSignal,
): Promise<readonly AcceptRule[]> {
  const { audio, result } = heard
  const words = wordsOf(result.text)
  const seconds = audio.durationSeconds ?? result.durationSeconds
  const broken: AcceptRule[] = []
  if (rules.confidence !== undefined && (meanConfidence(result) ?? 1) < rules.confidence)
    broken.push('confidence')
  if (rules.words_per_second !== undefined && seconds !== null)
    if (!isRateWithin(words.length, seconds, rules.words_per_second)) broken.push('words_per_second')
  if (rules.language === true && isOtherLanguage(heard)) broken.push('language')
  if (rules.repeats !== undefined && mostRepeats(words) > rules.repeats) broken.push('repeats')
  if (rules.compression_ratio !== undefined)
    if ((await largestRatio(result.text)) > rules.compression_ratio) broken.push('compression_ratio')
  if (rules.silence === true && words.length > 0) {
    const speech = await speechSeconds(reader, audio, toAbortSignal(signal))
    if (speech !== null && words.length > speech * WORDS_PER_SPEECH_SECOND) broken.push('silence')
  }
  return broken
}

/** Words in lower case, without marks; every character of a script that has no spaces is one. */
export function wordsOf(text: string): string[] {
  return text.toLowerCase().match(WORD) ?? []
}

const UNSPACED = ['Han', 'Hiragana', 'Katakana', 'Thai', 'Lao', 'Khmer', 'Myanmar']
  .map((script) => `\\p{Script=${script}}`)
  .join('')
export const WORD = new RegExp(String.raw`[${UNSPACED}]|(?:(?![${UNSPACED}])[\p{L}\p{N}\p{M}'’])+`, 'gu')

/** How often the same 1 to 24 words follow one another at most: 1 where nothing comes twice in a row. */
export function mostRepeats(words: readonly string[]): number {
  let most = words.length === 0 ? 0 : 1
  for (let length = 1; length <= REPEATED_WORDS_MAX; length += 1) {
    let same = 0
    for (let at = length; at < words.length; at += 1) {
      same = words[at] === words[at - length] ? same + 1 : 0
      most = Math.max(most, Math.floor(same / length) + 1)
    }
  }
  return most
}

/**
 * The largest ratio of a stretch of 600 characters to the same compressed by zlib, as Whisper reckons it of its
 * windows.
 */
export async function largestRatio(text: string): Promise<number> {
  let largest = 0
  for (let at = 0; at < text.length; at += COMPRESSED_CHARACTERS) {
    const stretch = Buffer.from(text.slice(at, at + COMPRESSED_CHARACTERS).trim())
    if (stretch.length === 0) continue
    largest = Math.max(largest, stretch.length / (await compress(stretch)).length)
  }
  return largest
}

function isRateWithin(words: number, seconds: number, { min, max }: { min?: number; max?: number }): boolean {
  if (max !== undefined && words > max * seconds) return false
  return min === undefined || seconds < RATED_SECONDS || words >= min * seconds
}

/** Mean of what is said of words, else of segments; null where nothing is. */
function meanConfidence({ words, segments }: TranscriptionResult): number | null {
  const said = [words, segments]
    .map((parts) => parts.flatMap(({ confidence }) => confidence ?? []))
    .find((parts) => parts.length > 0)
  return said === undefined ? null : said.reduce((sum, one) => sum + one, 0) / said.length
}

/** Whether the provider heard another language than the hint says, or wrote in another script than that has. */
function isOtherLanguage({ options: { language }, result, translated }: HeardText): boolean {
  if (language === null || translated) return false
  if (result.language !== null && primary(result.language) !== primary(language)) return true
  const scripts = scriptsOf(language)
  const letters = result.text.match(/\p{L}/gu) ?? []
  if (scripts === null || letters.length < SCRIPT_LETTERS) return false
  return letters.filter((letter) => scripts.test(letter)).length < letters.length * SCRIPT_SHARE
}

/** The language itself, without region, in the shortest code that there is for it. */
function primary(tag: string): string {
  try {
    return new Intl.Locale(tag).language
  } catch {
    return tag.toLowerCase()
  }
}

/** Scripts that are several in Unicode. */
const JOINED_SCRIPTS: Readonly<Record<string, readonly string[]>> = {
  Jpan: ['Han', 'Hiragana', 'Katakana'],
  Kore: ['Hangul', 'Han'],
  Hans: ['Han'],
  Hant: ['Han'],
}

/** Matches a letter of the script that a language is written in; null where it is not known, or there are two. */
function scriptsOf(language: string): RegExp | null {
  if (TWO_SCRIPTS.has(primary(language))) return null
  try {
    const { script } = new Intl.Locale(language).maximize()
    if (script === undefined) return null
    const names = JOINED_SCRIPTS[script] ?? [script]
    return new RegExp(`[${names.map((name) => `\\p{Script=${name}}`).join('')}]`, 'u')
  } catch {
    return null
  }
}

/** Languages that are written in two scripts. */
const TWO_SCRIPTS = new Set(['sr', 'bs', 'az', 'uz', 'kk', 'mn', 'pa', 'ku', 'sd', 'ms', 'ha'])
