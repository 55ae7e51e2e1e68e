import type { CharacterTimes, SpeechResult, SpeechTimes } from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Deltas } from '../../../contracts/operations.ts'
import type { Step, StreamReader } from '../../../contracts/provider.ts'
import type { Failure, UpstreamReply, UpstreamStream } from '../../../contracts/upstream.ts'
import { brokenOff, errorInside, readEnding } from '../answer.ts'
import { noAudio } from '../audio-answer.ts'
import { base64Bytes } from '../base64-bytes.ts'
import { unusable } from '../failure.ts'
import { asObject, parseObject } from '../json.ts'
import { quantityOf } from '../numbers.ts'

type Head = Pick<UpstreamStream, 'status' | 'headers'>

/**
 * Speech with the times of its characters, out of an answer of `/with-timestamps`: JSON with the audio in base64.
 * https://elevenlabs.io/docs/api-reference/text-to-speech/convert-with-timestamps
 */
export function readTimed(reply: UpstreamReply, mediaType: string): Step<SpeechResult> {
  return readEnding(reply, (body) => {
    const piece = pieceOf(body, reply, mediaType)
    if ('kind' in piece) return piece
    const { bytes, times } = piece
    if (bytes.byteLength === 0) return noAudio(reply)
    return times === undefined ? noTimes(reply) : { result: { audio: [bytes], mediaType, times } }
  })
}

/**
 * The same out of `/stream/with-timestamps`: one JSON object a line, each with a piece of the audio. What their times
 * count from is not documented; they are told as they come.
 * https://elevenlabs.io/docs/api-reference/text-to-speech/stream-with-timestamps
 */
export class TimedReader implements StreamReader<SpeechResult, Deltas['speech']> {
  readonly #head: Head
  readonly #mediaType: string
  readonly #decoder = new TextDecoder()
  /** Pieces of the line that has not ended. */
  #unread: string[] = []
  #hasAudio = false
  #hasTimes = false

  constructor(head: Head, mediaType: string) {
    this.#head = head
    this.#mediaType = mediaType
  }

  push(chunk: Uint8Array): readonly Deltas['speech'][] | Failure {
    const deltas: Deltas['speech'][] = []
    const lines = this.#decoder.decode(chunk, { stream: true }).split('\n')
    const unended = lines.pop() ?? ''
    for (const text of lines) {
      const line = this.#unread.join('') + text
      this.#unread = []
      if (line.trim() === '') continue
      const piece = this.#pieceIn(line)
      if ('kind' in piece) return piece
      this.#hasAudio ||= piece.bytes.byteLength > 0
      this.#hasTimes ||= piece.times !== undefined
      deltas.push(piece)
    }
    this.#unread.push(unended)
    return deltas
  }

  end(): { readonly result: SpeechResult } | Failure {
    if (this.#unread.join('').trim() !== '') return brokenOff(this.#head)
    if (!this.#hasAudio) return noAudio(this.#head)
    if (!this.#hasTimes) return noTimes(this.#head)
    return { result: { audio: [], mediaType: this.#mediaType } }
  }

  #pieceIn(line: string): Deltas['speech'] | Failure {
    const body = parseObject(line)
    if (body === null) return unusable(this.#head, 'the stream of the provider cannot be read')
    return errorInside(body, this.#head) ?? pieceOf(body, this.#head, this.#mediaType)
  }
}

/** Audio and times of one object; no bytes where it has times alone. */
function pieceOf(body: JsonObject, head: Head, mediaType: string): Deltas['speech'] | Failure {
  const { audio_base64: audio, alignment, normalized_alignment: normalizedAlignment } = body
  const bytes = audio === '' ? new Uint8Array() : base64Bytes(audio)
  if (bytes === null) return noAudio(head)
  const [text, normalized] = [timesOf(alignment), timesOf(normalizedAlignment)]
  if (text === undefined || normalized === undefined) return noTimes(head)
  if (text === null && normalized === null) return { bytes, mediaType }
  const times: SpeechTimes = { text, normalized }
  return { bytes, mediaType, times }
}

/** Null: there are none; undefined: what is there is no times. */
function timesOf(alignment: unknown): CharacterTimes | null | undefined {
  if (alignment === undefined || alignment === null) return null
  const {
    characters,
    character_start_times_seconds: starts,
    character_end_times_seconds: ends,
  } = asObject(alignment) ?? {}
  if (!isListOf(characters, isText) || !isListOf(starts, isTime) || !isListOf(ends, isTime)) return undefined
  const agree = starts.length === characters.length && ends.length === characters.length
  return agree ? { characters, starts, ends } : undefined
}

function isListOf<Item>(value: unknown, is: (item: unknown) => item is Item): value is readonly Item[] {
  return Array.isArray(value) && value.every(is)
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function isTime(value: unknown): value is number {
  return quantityOf(value) !== null
}

function noTimes(head: Head): Failure {
  return unusable(head, 'the answer of the provider has no times')
}
