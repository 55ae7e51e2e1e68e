import type { Word } from '../../../contracts/calls.ts'
import { groupWords } from '../../providers/segments.ts'
import { type Channel, channelsOf, type Heard, paragraphsIn } from '../heard.ts'
import { largeList, largeMember } from '../json-reply.ts'
import { vendorId } from './door.ts'
import { deepgramWord, meanConfidence, speakerOf } from './words.ts'

/** Silence that ends an utterance unless `utt_split` says another, seconds. */
export const UTTERANCE_GAP_SECONDS = 0.8
/** Stands before the place of an utterance where the caller's own id of the request is no UUID. */
const NO_REQUEST = '00000000-0000-0000-0000-'

/** Parts of an answer that the options of a request name. Plain data, since a job keeps it until its callback. */
export interface ListenView {
  readonly utterances: boolean
  readonly uttSplit: number
  readonly paragraphs: boolean
  readonly detectsLanguage: boolean
  readonly multichannel: boolean
  readonly tags: readonly string[]
  readonly extra: Readonly<Record<string, string>>
}

/** The answer of `POST /v1/listen`; what is made of many words is `Large`. */
export function listenResponse(heard: Heard, view: ListenView) {
  const { utterances: wantsUtterances, uttSplit } = view
  const channels = channelsOf(heard, view.multichannel)
  const utterances = () => utterancesIn(channels, uttSplit, vendorId(heard.requestId))
  return {
    metadata: metadataOf(heard, view, channels.length),
    results: {
      channels: channels.map((channel) => channelResult(channel, heard, view)),
      ...(wantsUtterances ? { utterances: largeList(heard.words.length, utterances, utteranceOf) } : {}),
    },
  }
}

function metadataOf({ model, provider, ...heard }: Heard, { tags, extra }: ListenView, channels: number) {
  return {
    transaction_key: 'deprecated',
    request_id: vendorId(heard.requestId),
    sha256: '',
    created: heard.created,
    duration: heard.durationSeconds,
    channels,
    models: [model],
    model_info: { [model]: { name: model, version: '', arch: provider } },
    ...(tags.length === 0 ? {} : { tags }),
    ...(Object.keys(extra).length === 0 ? {} : { extra }),
  }
}

function channelResult(channel: Channel, heard: Heard, { detectsLanguage, paragraphs }: ListenView) {
  const { text, words } = channel
  const { language, languageConfidence } = heard
  const detected = detectsLanguage && language !== null
  return {
    alternatives: [
      {
        transcript: text,
        confidence: text === '' ? 0 : meanConfidence(words),
        words: wordList(words),
        ...(paragraphs ? { paragraphs: largeMember(words.length, () => paragraphsOf(channel)) } : {}),
      },
    ],
    ...(detected ? { detected_language: language } : {}),
    ...(detected && languageConfidence !== null ? { language_confidence: languageConfidence } : {}),
  }
}

function wordList(words: readonly Word[]) {
  return largeList(words.length, () => words, deepgramWord)
}

/** Utterances end where the speaker changes and after silences: the same for every provider. */
function utterancesIn(channels: readonly Channel[], gapSeconds: number, requestId: string) {
  const own = /^[0-9a-f-]{24}/.exec(requestId)?.[0] ?? NO_REQUEST
  const idOf = (channel: number, index: number) =>
    `${own}${(channel * 2 ** 32 + index).toString(16).padStart(12, '0')}`
  return channels
    .flatMap(({ text, words }, channel) =>
      groupWords(
        words,
        text,
        (group, next) => isOther(group.at(-1), next) || next.start - lastWordEnd(group) >= gapSeconds,
      ).map((group, index) => ({ ...group, channel, id: idOf(channel, index) })),
    )
    .sort((one, other) => one.segment.start - other.segment.start)
}

function utteranceOf({ segment, words, channel, id }: ReturnType<typeof utterancesIn>[number]) {
  return {
    start: segment.start,
    end: segment.end,
    confidence: meanConfidence(words),
    channel,
    transcript: segment.text,
    words: wordList(words),
    ...speakerOf(segment.speaker),
    id,
  }
}

function paragraphsOf(channel: Channel) {
  const paragraphs = paragraphsIn(channel, isOther).map((group) => ({
    sentences: group.map(({ segment: { text: said, start, end } }) => ({ text: said, start, end })),
    num_words: group.reduce((sum, one) => sum + one.words.length, 0),
    start: group[0]?.segment.start ?? 0,
    end: group.at(-1)?.segment.end ?? 0,
    ...speakerOf(group[0]?.segment.speaker),
  }))
  const written = paragraphs.map(({ sentences: said, speaker }) => {
    const paragraph = said.map((sentence) => sentence.text).join(' ')
    return speaker === undefined ? paragraph : `Speaker ${speaker}: ${paragraph}`
  })
  const transcript = written.length === 0 ? '' : `\n${written.join('\n\n')}`
  return { transcript, paragraphs: largeList(channel.words.length, () => paragraphs) }
}

function isOther(one: Word | undefined, { speaker }: Word): boolean {
  return one?.speaker !== speaker
}

function lastWordEnd(words: readonly Word[]): number {
  return words.at(-1)?.end ?? 0
}
