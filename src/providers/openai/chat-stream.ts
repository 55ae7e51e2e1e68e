import type { ChatDelta, ChatResult, FinishReason, ToolCall } from '../../contracts/chat.ts'
import type { JsonObject } from '../../contracts/json.ts'
import type { StreamReader } from '../../contracts/provider.ts'
import type { Failure, UpstreamStream } from '../../contracts/upstream.ts'
import type { TokenUsage } from '../../contracts/usage.ts'
import { brokenOff } from '../answer.ts'
import { type AskedOf, settleChat } from '../chat-answer.ts'
import { asObject, objectsIn } from '../json.ts'
import { JsonEvents } from '../json-events.ts'
import { argumentsText, contentText, messageOf, readFinishReason } from './chat-answer.ts'
import { readUsage } from './wire.ts'

/**
 * The chunks of a streamed chat or text completion. Whole only with `[DONE]` or a finish reason: a connection
 * that closes before was cut.
 */
export class ChatStreamReader implements StreamReader<ChatResult, ChatDelta> {
  readonly #asked: AskedOf
  readonly #head: Pick<UpstreamStream, 'status' | 'headers'>
  readonly #events: JsonEvents
  readonly #tools = new ToolCallPieces()
  readonly #audio: Buffer[] = []
  #text = ''
  #refusal = ''
  #begun = false
  #finished = false
  #finishReason: FinishReason | null = null
  #usage: TokenUsage | null = null

  constructor(head: Pick<UpstreamStream, 'status' | 'headers'>, asked: AskedOf) {
    this.#head = head
    this.#asked = asked
    this.#events = new JsonEvents(head)
  }

  push(chunk: Uint8Array): readonly ChatDelta[] | Failure {
    const events = this.#events.push(chunk)
    return Array.isArray(events) ? events.flatMap((event) => this.#read(event)) : (events as Failure)
  }

  end(): { readonly result: ChatResult } | Failure {
    if (!this.#finished && !this.#events.done) return brokenOff(this.#head)
    const answer = {
      text: this.#text,
      refusal: this.#refusal,
      toolCalls: this.#tools.calls(),
      finishReason: this.#finishReason,
      audioBase64: Buffer.concat(this.#audio).toString('base64'),
      usage: this.#usage,
    }
    const settled = settleChat(this.#begun ? answer : null, this.#asked, this.#head)
    return 'result' in settled ? settled : settled.failure
  }

  #read(event: JsonObject): ChatDelta[] {
    this.#usage = readUsage(event) ?? this.#usage
    const choice = objectsIn(event.choices).find(({ index }) => index === undefined || index === 0)
    if (choice === undefined) return []
    this.#begun = true
    if (typeof choice.finish_reason === 'string') {
      this.#finished = true
      this.#finishReason = readFinishReason(choice.finish_reason)
    }
    return this.#delta(messageOf(choice, choice.delta) ?? {})
  }

  #delta({ content, refusal, audio, tool_calls: tools }: JsonObject): ChatDelta[] {
    const { data, transcript } = asObject(audio) ?? {}
    const wanted = this.#asked.call.modalities.includes('audio')
    const spoken = wanted && typeof data === 'string' && data !== '' ? data : null
    const said = contentText(content) + contentText(transcript)
    const declined = contentText(refusal)
    this.#text += said
    this.#refusal += declined
    if (spoken !== null) this.#audio.push(Buffer.from(spoken, 'base64'))
    const texts = [said, declined].filter((text) => text !== '')
    return [
      ...texts.map((text): ChatDelta => ({ type: 'text', text })),
      ...(spoken === null ? [] : [{ type: 'audio', base64: spoken } as const]),
      ...objectsIn(tools).flatMap((piece) => this.#tools.add(piece)),
    ]
  }
}

/**
 * Tool calls that come in pieces, told apart by `index`. Servers that send whole calls give all of them index
 * 0 or none: there a new id begins a new call.
 */
class ToolCallPieces {
  readonly #calls: { readonly id: string; readonly name: string; arguments: string }[] = []
  /** The server's index → ours. */
  readonly #positions = new Map<number, number>()

  add(piece: JsonObject): ChatDelta[] {
    const { name, arguments: given } = asObject(piece.function) ?? {}
    const wireIndex = typeof piece.index === 'number' ? piece.index : 0
    const id = typeof piece.id === 'string' && piece.id !== '' ? piece.id : null
    const known = this.#positions.get(wireIndex)
    const text = argumentsText(given)
    const call = known === undefined ? undefined : this.#calls[known]
    if (known !== undefined && call !== undefined && (id === null || id === call.id)) {
      call.arguments += text
      return text === '' ? [] : [{ type: 'tool_call', index: known, id: null, name: null, arguments: text }]
    }
    // A piece of a call that never began has nothing to belong to.
    if (typeof name !== 'string' || name === '') return []
    const index = this.#calls.length
    const begun = { id: id ?? `call_${index}`, name, arguments: text }
    this.#calls.push(begun)
    this.#positions.set(wireIndex, index)
    return [{ type: 'tool_call', index, ...begun }]
  }

  calls(): ToolCall[] {
    return this.#calls.map((call) => ({ ...call }))
  }
}
