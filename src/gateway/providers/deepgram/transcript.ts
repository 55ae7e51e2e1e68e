import type { Segment, TranscriptionOptions, TranscriptionResult, Word } from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import { asObject, objectsIn } from '../json.ts'
import { languageCode } from '../language.ts'
import { fractionOf, secondsOf, spanOf } from '../numbers.ts'
import { mergeChannels, segmentsOf } from '../segments.ts'
import { labelSpeakers } from '../speakers.ts'
import { untimedWarnings, wantsSegments, wantsSpeakers } from '../transcript-needs.ts'

/** Names of models become part of the answer. */
const MODEL_WORD = /^[a-z0-9]+(?:[-.][a-z0-9]+){0,7}$/

interface Channel {
  readonly text: string
  readonly words: readonly Word[]
  /** As they came, with those that have no times. */
  readonly items: readonly JsonObject[]
  readonly language: string | null
  readonly confidence: number | null
}

/**
 * Reads the answer of `POST /v1/listen`. Only fields that are used are looked at; items without times are
 * left out, with a warning.
 *
 * @param sent the model that was asked for, and warnings of what was left out of the request
 * @returns null when there is no text, or with channels one has text without segments and so no place in time
 */
export function readListening(
  { metadata, results }: JsonObject,
  options: TranscriptionOptions,
  { model, warnings }: { readonly model: string; readonly warnings: readonly string[] },
): TranscriptionResult | null {
  const { channels: given, utterances } = asObject(results) ?? {}
  const channels = objectsIn(given).map((channel, index) => readChannel(channel, index, options))
  const [first] = channels
  if (first === undefined || channels.some((channel) => channel === null)) return null
  const read = channels.filter((channel) => channel !== null)
  const segments = segmentsFor(read, utterances, options)
  if (options.multichannel && isUnplaced(read, segments)) return null
  const merged = options.multichannel
    ? mergeChannels(
        read.flatMap((one, at) => (one.text === '' ? [] : [{ ...one, segments: ofChannel(segments, at) }])),
      )
    : { text: first?.text ?? '', segments, words: first?.words ?? [] }
  const other = otherModel(metadata, model)
  const kept = options.multichannel ? read : read.slice(0, 1)
  // The channel with the most to say tells the language.
  const main = read.reduce((best, channel) => (channel.text.length > best.text.length ? channel : best))
  return {
    text: merged.text,
    // It reports the language that it detected, not the one that it was told.
    language: main.language ?? toldLanguage(options),
    languageConfidence: main.confidence,
    durationSeconds: secondsOf(asObject(metadata)?.duration),
    ...labelSpeakers(merged.words, merged.segments),
    ...(other === null ? {} : { model: other }),
    warnings: [
      ...warnings,
      ...(other === null
        ? []
        : [`model: the provider used ${other} for the language that it heard; the cost is that of ${model}`]),
      ...untimedWarnings(
        'words',
        kept.flatMap(({ items }) => items),
        'word',
        kept.flatMap(({ words }) => words).length,
      ),
    ],
  }
}

/**
 * The model that answered, where it is another than was asked for: one that lacks the language that is detected gives
 * way to one that has it. `metadata.model_info` has the family as `arch` and the variant within the name, which is
 * written as `general-nova-3` or `2-general-nova`.
 */
function otherModel(metadata: unknown, asked: string): string | null {
  for (const value of Object.values(asObject(asObject(metadata)?.model_info) ?? {})) {
    const { name, arch } = asObject(value) ?? {}
    if (typeof name !== 'string' || typeof arch !== 'string') continue
    if (!MODEL_WORD.test(name) || !MODEL_WORD.test(arch)) continue
    const family = arch.split('-')
    const variant = name
      .split('-')
      .filter((part) => !/^\d+$/.test(part) && part !== 'general' && !family.includes(part))
    const served = [arch, ...variant].join('-')
    if (served !== asked.replace(/-general$/, '')) return served
  }
  return null
}

/** The first of several languages in a recording is the one that was spoken most. */
function languageIn(detected: unknown, heard: unknown): string | null {
  const [first] = Array.isArray(heard) ? (heard as unknown[]) : []
  const language = detected ?? first
  return typeof language === 'string' ? languageCode(language) : null
}

function toldLanguage({ language, detect_language: detect }: TranscriptionOptions): string | null {
  return language === null || detect ? null : languageCode(language)
}

function readChannel(channel: JsonObject, index: number, options: TranscriptionOptions): Channel | null {
  const { detected_language: language, language_confidence: confidence } = channel
  const [best] = objectsIn(channel.alternatives)
  if (best === undefined || typeof best.transcript !== 'string') return null
  const items = objectsIn(best.words)
  return {
    text: best.transcript.trim(),
    words: items.flatMap((item) => readWord(item, index, options)),
    items,
    language: languageIn(language, best.languages),
    confidence: fractionOf(confidence),
  }
}

export function readWord(item: JsonObject, channel: number, options: TranscriptionOptions): Word[] {
  const { punctuated_word: punctuated, word } = item
  const span = spanOf(item.start, item.end)
  const text = typeof punctuated === 'string' ? punctuated : word
  if (span === null || typeof text !== 'string' || text.trim() === '') return []
  return [{ word: text.trim(), ...span, ...whoAndWhere(item, channel, options) }]
}

/**
 * With channels each counts its speakers from 0, so a speaker is known by both. Anything that the caller did not ask
 * for is left out.
 */
function whoAndWhere(
  { speaker, confidence: given }: JsonObject,
  channel: number,
  options: TranscriptionOptions,
): Pick<Word, 'speaker' | 'channel' | 'confidence'> {
  const confidence = fractionOf(given)
  const known = wantsSpeakers(options) && typeof speaker === 'number'
  return {
    ...(known ? { speaker: options.multichannel ? `${channel}:${speaker}` : String(speaker) } : {}),
    ...(options.multichannel ? { channel } : {}),
    ...(confidence === null ? {} : { confidence }),
  }
}

function saysSomething({ transcript, words }: JsonObject): boolean {
  return typeof transcript === 'string' ? transcript.trim() !== '' : objectsIn(words).length > 0
}

/** The provider's own utterances; where it sent none, or one without its times or text, segments out of its words. */
function segmentsFor(
  channels: readonly Channel[],
  utterances: unknown,
  options: TranscriptionOptions,
): Segment[] {
  if (!wantsSegments(options) && !wantsSpeakers(options) && !options.multichannel) return []
  const given = objectsIn(utterances).filter(saysSomething)
  const own = given.flatMap((item): Omit<Segment, 'id'>[] => {
    const { transcript, channel } = item
    const span = spanOf(item.start, item.end)
    const at = typeof channel === 'number' && Number.isInteger(channel) && channel >= 0 ? channel : 0
    if (span === null || typeof transcript !== 'string' || transcript.trim() === '') return []
    return [{ ...span, text: transcript.trim(), ...whoAndWhere(item, at, options) }]
  })
  const isWhole = own.length > 0 && own.length === given.length
  const segments = isWhole ? own : channels.flatMap(({ words, text }) => segmentsOf(words, text))
  return segments.sort((a, b) => a.start - b.start).map((segment, id) => ({ ...segment, id }))
}

function ofChannel(segments: readonly Segment[], channel: number): Segment[] {
  return segments.filter((segment) => segment.channel === channel)
}

function isUnplaced(channels: readonly Channel[], segments: readonly Segment[]): boolean {
  return channels.some(({ text }, index) => text !== '' && !segments.some(({ channel }) => channel === index))
}

/** The languages that were heard, a channel at a time; null for one that is not known. Silent channels have none. */
export function languagesHeard(
  { results }: JsonObject,
  options: TranscriptionOptions,
): readonly (string | null)[] {
  return objectsIn(asObject(results)?.channels)
    .map((channel, index) => readChannel(channel, index, options))
    .filter((channel) => channel !== null && channel.text !== '')
    .map((channel) => channel?.language ?? toldLanguage(options))
}
