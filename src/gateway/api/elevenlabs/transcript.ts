import type { CharacterTimes, Word } from '../../../contracts/calls.ts'
import { type Channel, channelsOf, type Heard } from '../heard.ts'
import { largeList } from '../json-reply.ts'

/** Choices of a request about its answer, beside the options of the call. */
export interface ScribeView {
  /** Words have times; without them there is no list of words. */
  readonly timed: boolean
  /** `combined`: one transcript, whose words name their channels. */
  readonly channels: 'one' | 'separate' | 'combined'
}

/** The same of the event that a webhook is sent. */
export interface ScribeEventView extends ScribeView {
  /** JSON that comes back as it was sent; null without any. */
  readonly metadata: unknown
}

/** The answer of `POST /v1/speech-to-text`; a long list of words is `Large`. */
export function scribeResponse(heard: Heard, view: ScribeView) {
  const common = { transcription_id: heard.requestId, audio_duration_secs: heard.durationSeconds }
  if (view.channels !== 'separate') {
    return { ...chunkOf({ text: heard.text, words: heard.words }, heard, view), ...common }
  }
  const transcripts = channelsOf(heard, true).map((channel, index) => ({
    ...chunkOf(channel, heard, view),
    channel_index: index,
  }))
  return { transcripts, ...common }
}

function chunkOf({ text, words }: Channel, { language, languageConfidence }: Heard, view: ScribeView) {
  return {
    language_code: language ?? '',
    language_probability: languageConfidence ?? 1,
    text,
    words: view.timed ? largeList(words.length, () => itemsOf(words, text, view)) : [],
  }
}

/** Words, and the text between each two of them. */
function* itemsOf(words: readonly Word[], text: string, view: ScribeView) {
  // The cursor never goes back: a word that is not after it never will be, and to look again would cost the whole text.
  const missing = new Set<string>()
  let cursor = 0
  let before: Word | null = null
  for (const word of words) {
    const found = missing.has(word.word) ? -1 : text.indexOf(word.word, cursor)
    if (found < 0) missing.add(word.word)
    // A word that the text has elsewhere, as where channels are merged, is behind a blank.
    const gap = found < 0 || found - cursor > GAP_LENGTH_MAX ? ' ' : text.slice(cursor, found)
    if (before !== null && gap !== '') {
      const times = { start: before.end, end: Math.max(before.end, word.start) }
      const { characters: _, ...rest } = before
      yield itemOf('spacing', { ...rest, ...times, word: gap }, view)
    }
    yield itemOf(word.kind === 'event' ? 'audio_event' : 'word', word, view)
    if (found >= 0) cursor = found + word.word.length
    before = word
  }
}

/** The text between two words is shorter. */
const GAP_LENGTH_MAX = 64

function itemOf(type: 'word' | 'spacing' | 'audio_event', word: Word, { channels }: ScribeView) {
  const { word: text, start, end, speaker, channel, confidence = 1, characters } = word
  return {
    text,
    ...{ start, end, type },
    logprob: confidence > 0 ? Math.log(Math.min(1, confidence)) : LOGPROB_MIN,
    ...(speaker === undefined ? {} : { speaker_id: speaker }),
    ...(channels === 'combined' && channel !== undefined ? { channel_index: channel } : {}),
    ...(characters === undefined ? {} : { characters: charactersOf(characters) }),
  }
}

function charactersOf({ characters, starts, ends }: CharacterTimes) {
  return characters.map((text, index) => ({ text, start: starts[index], end: ends[index] }))
}

/** In place of minus infinity, which JSON lacks. */
const LOGPROB_MIN = -100
