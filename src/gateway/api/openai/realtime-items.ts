import type { Segment } from '../../../contracts/calls.ts'
import { seconds } from '../../live/transcript.ts'

/** Tells the client an event, which gets its own id on the way. */
export type SendEvent = (event: { readonly type: string } & Readonly<Record<string, unknown>>) => void

const TRANSCRIPTION = 'conversation.item.input_audio_transcription'

/** A stretch of audio that becomes one transcript. */
interface Item {
  readonly id: string
  /** Its final text. */
  text: string
  /** The text of its deltas, which can be added to and not taken back. */
  heardText: string
  partial: string
  isStarted: boolean
  isStopped: boolean
  /** Second of the session at which the client has committed it; null: it has not. */
  readonly committedAt: number | null
  /** The client has cleared it: nothing is told of it. */
  readonly isCleared: boolean
}

/**
 * Items of a session. With turn detection each final segment is one; without, or where the client commits all the same,
 * an item is what came before the commit.
 */
export class RealtimeItems {
  readonly #send: SendEvent
  readonly #sessionId: string
  #count = 0
  /** The audio that is not committed yet. */
  #open: Item
  /** Audio that the client has committed or cleared and the entry has not settled, oldest first. */
  readonly #waiting: Item[] = []
  #previous: string | null = null
  /** Up to where usage has been told, seconds. */
  #toldUntil = 0

  constructor(sessionId: string, send: SendEvent) {
    this.#sessionId = sessionId
    this.#send = send
    this.#open = this.#next()
  }

  speechStarted(atSeconds: number): void {
    if (this.#waiting.length === 0) this.#start(this.#open, atSeconds)
  }

  utteranceEnd(atSeconds: number): void {
    if (this.#waiting.length === 0 && this.#open.isStarted) this.#stop(this.#open, atSeconds)
  }

  /** Tells the words that two partials in a row agree on; the last one of them may still become longer. */
  partial(text: string, startSeconds: number, isAuto: boolean): void {
    // While a commit waits for its answer, it is unknown on which side of it the partial lies.
    if (this.#waiting.length > 0) return
    const item = this.#open
    if (isAuto && text !== '') this.#start(item, startSeconds)
    const agreed = commonWords(item.partial, text)
    item.partial = text
    this.#tell(item, joinedText(item.text, agreed))
  }

  final(segment: Segment, isAuto: boolean): void {
    const [waiting] = this.#waiting
    const item = waiting ?? this.#open
    item.partial = ''
    const text = segment.text.trim()
    if (text === '') return
    if (isAuto && waiting === undefined) this.#start(item, segment.start)
    item.text = joinedText(item.text, text)
    this.#tell(item, item.text)
    if (!item.isCleared && segment.speaker !== undefined) this.#saySegment(item, segment)
    if (!isAuto || waiting !== undefined) return
    this.#stop(item, segment.end)
    this.#open = this.#next()
    this.#committed(item)
    this.#completed(item, segment.end)
  }

  /** The client has committed what came so far. */
  commit(atSeconds: number): void {
    const item = { ...this.#open, committedAt: atSeconds }
    this.#waiting.push(item)
    this.#open = this.#next()
    this.#committed(item)
  }

  clear(atSeconds: number): void {
    this.#waiting.push({ ...this.#open, committedAt: atSeconds, isCleared: true })
    this.#open = this.#next()
  }

  /** The oldest committed audio is settled. */
  finalized(): void {
    const item = this.#waiting.shift()
    if (item === undefined) return
    if (item.isCleared) this.#toldUntil = Math.max(this.#toldUntil, item.committedAt ?? 0)
    else this.#completed(item, item.committedAt ?? 0)
  }

  failed(error: object): void {
    for (const { id, isCleared } of this.#waiting.splice(0))
      if (!isCleared) this.#send({ type: `${TRANSCRIPTION}.failed`, item_id: id, content_index: 0, error })
  }

  #next(): Item {
    this.#count += 1
    const id = `item_${this.#sessionId.slice('sess_'.length)}_${this.#count}`
    const empty = { text: '', heardText: '', partial: '', isStarted: false, isStopped: false }
    return { id, ...empty, committedAt: null, isCleared: false }
  }

  #start(item: Item, atSeconds: number): void {
    if (item.isStarted) return
    item.isStarted = true
    this.#send({
      type: 'input_audio_buffer.speech_started',
      audio_start_ms: milliseconds(atSeconds),
      item_id: item.id,
    })
  }

  #stop(item: Item, atSeconds: number): void {
    if (item.isStopped) return
    item.isStopped = true
    this.#send({
      type: 'input_audio_buffer.speech_stopped',
      audio_end_ms: milliseconds(atSeconds),
      item_id: item.id,
    })
  }

  #tell(item: Item, text: string): void {
    if (item.isCleared || text.length <= item.heardText.length || !text.startsWith(item.heardText)) return
    const delta = text.slice(item.heardText.length)
    item.heardText = text
    this.#send({ type: `${TRANSCRIPTION}.delta`, item_id: item.id, content_index: 0, delta })
  }

  #saySegment({ id }: Item, { id: number, start, end, speaker, text }: Segment): void {
    this.#send({
      type: `${TRANSCRIPTION}.segment`,
      ...{ item_id: id, content_index: 0, id: `seg_${number}`, start, end, speaker, text },
    })
  }

  #committed({ id }: Item): void {
    const previous = { previous_item_id: this.#previous }
    this.#previous = id
    this.#send({ type: 'input_audio_buffer.committed', item_id: id, ...previous })
    const content = [{ type: 'input_audio', transcript: null }]
    const item = { id, object: 'realtime.item', type: 'message', role: 'user', status: 'completed', content }
    this.#send({ type: 'conversation.item.added', ...previous, item })
    this.#send({ type: 'conversation.item.done', ...previous, item })
  }

  #completed({ id, text }: Item, untilSeconds: number): void {
    const used = seconds(Math.max(0, untilSeconds - this.#toldUntil))
    this.#toldUntil = Math.max(this.#toldUntil, untilSeconds)
    this.#send({
      type: `${TRANSCRIPTION}.completed`,
      ...{ item_id: id, content_index: 0, transcript: text },
      usage: { type: 'duration', seconds: used },
    })
  }
}

function joinedText(before: string, text: string): string {
  return before === '' || text === '' ? before + text : `${before} ${text}`
}

/** The whole words with which both texts begin, without the last one of the newer text. */
function commonWords(older: string, newer: string): string {
  let end = 0
  while (end < older.length && end < newer.length && older[end] === newer[end]) end += 1
  while (end > 0 && !(newer[end] === ' ' && (end === older.length || older[end] === ' '))) end -= 1
  return older.slice(0, end)
}

function milliseconds(value: number): number {
  return Math.round(value * 1000)
}
