import type { ChatDelta, ChatResult } from '../../../contracts/chat.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { StreamReader } from '../../../contracts/provider.ts'
import type { Failure, UpstreamStream } from '../../../contracts/upstream.ts'
import { brokenOff, type Made } from '../answer.ts'
import { type ChatAnswer, newCallId } from '../chat-answer.ts'
import { unusable } from '../failure.ts'
import { asObject } from '../json.ts'
import { JsonEvents } from '../json-events.ts'
import { TextPieces } from '../text-pieces.ts'
import { beginToolCall, finishReasonOf, readCounts, tokenUsage } from './answer.ts'

type Head = Pick<UpstreamStream, 'status' | 'headers'>

/**
 * The events of a streamed message, https://platform.claude.com/docs/en/build-with-claude/streaming: blocks, each
 * with a beginning, pieces and an end, numbered by `index`; at last why the model stopped, and `message_stop`,
 * without which the answer is cut. Pings, thinking and events that are not known are passed over, as the page asks.
 */
export class MessageStreamReader implements StreamReader<ChatResult, ChatDelta> {
  readonly #head: Head
  readonly #settle: (answer: ChatAnswer | null) => Made<ChatResult>
  readonly #events: JsonEvents
  readonly #text = new TextPieces()
  readonly #calls: { readonly id: string; readonly name: string; readonly input: TextPieces }[] = []
  /** The index of a block → that of its tool call. */
  readonly #callOfBlock = new Map<unknown, number>()
  #counts: ReturnType<typeof readCounts> = {}
  #stopReason: unknown = null

  /** @param settle holds the whole answer against what was asked for */
  constructor(head: Head, settle: (answer: ChatAnswer | null) => Made<ChatResult>) {
    this.#head = head
    this.#events = new JsonEvents(head, ({ type }) => type === 'message_stop')
    this.#settle = settle
  }

  push(chunk: Uint8Array): readonly ChatDelta[] | Failure {
    const events = this.#events.push(chunk)
    if ('kind' in events) return events
    // One that tells what went wrong has been seen to; this one does not tell.
    if (events.some(({ type }) => type === 'error')) return unusable(this.#head, 'the provider failed')
    return events.flatMap((event) => this.#read(event) ?? [])
  }

  end(): { readonly result: ChatResult } | Failure {
    if (!this.#events.done) return brokenOff(this.#head)
    return this.#settle({
      text: this.#text.whole,
      refusal: '',
      toolCalls: this.#calls.map(({ id, name, input }) => ({ id, name, arguments: input.whole || '{}' })),
      finishReason: finishReasonOf(this.#stopReason),
      audioBase64: '',
      usage: tokenUsage(this.#counts),
    })
  }

  #read(event: JsonObject): Exclude<ChatDelta, { readonly type: 'audio' }> | null {
    const { type, index } = event
    if (type === 'content_block_start') return this.#begin(index, asObject(event.content_block) ?? {})
    if (type === 'content_block_delta') return this.#continue(index, asObject(event.delta) ?? {})
    if (type === 'content_block_stop') return this.#finish(index)
    if (type === 'message_start') this.#counts = readCounts(asObject(event.message)?.usage, this.#counts)
    if (type === 'message_delta') {
      this.#counts = readCounts(event.usage, this.#counts)
      this.#stopReason = asObject(event.delta)?.stop_reason ?? this.#stopReason
    }
    return null
  }

  #begin(block: unknown, content: JsonObject) {
    if (content.type === 'text') return this.#write(content.text)
    const begun = beginToolCall(content)
    if (begun === null) return null
    const index = this.#calls.length
    // The input of a block that begins is an empty object, in the place of the pieces that follow.
    const call = { id: begun.id || newCallId(), name: begun.name }
    this.#calls.push({ ...call, input: new TextPieces() })
    this.#callOfBlock.set(block, index)
    return { type: 'tool_call', index, ...call, arguments: '' } as const
  }

  #continue(block: unknown, { type, text, partial_json: json }: JsonObject) {
    if (type === 'text_delta') return this.#write(text)
    return type === 'input_json_delta' && typeof json === 'string' ? this.#argue(block, json) : null
  }

  /** A call without arguments has no pieces; its end is told as the empty object that they are. */
  #finish(block: unknown) {
    const call = this.#calls[this.#callOfBlock.get(block) ?? -1]
    return call?.input.whole === '' ? this.#argue(block, '{}') : null
  }

  #write(text: unknown) {
    if (typeof text !== 'string' || text === '') return null
    this.#text.add(text)
    return { type: 'text', text } as const
  }

  /** Pieces of the server's own tools, which are never asked for, belong to no call. */
  #argue(block: unknown, json: string) {
    const index = this.#callOfBlock.get(block)
    const call = index === undefined ? undefined : this.#calls[index]
    if (index === undefined || call === undefined || json === '') return null
    call.input.add(json)
    return { type: 'tool_call', index, id: null, name: null, arguments: json } as const
  }
}
