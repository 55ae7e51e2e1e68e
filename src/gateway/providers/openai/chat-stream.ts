import type { ChatDelta, ChatFacts, ChatResult, FinishReason, ToolCall } from '../../../contracts/chat.ts'
import { choicesAsked } from '../../../contracts/extras.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Logprobs } from '../../../contracts/logprobs.ts'
import type { StreamReader } from '../../../contracts/provider.ts'
import type { Failure, UpstreamStream } from '../../../contracts/upstream.ts'
import type { TokenUsage } from '../../../contracts/usage.ts'
import { brokenOff } from '../answer.ts'
import { type AskedOf, type ChoiceAnswer, newCallId, settleChat, wantsLogprobs } from '../chat-answer.ts'
import { asObject, objectsIn } from '../json.ts'
import { JsonEvents } from '../json-events.ts'
import { TextPieces } from '../text-pieces.ts'
import { argumentsText, contentText, indexOf, messageOf, readFinishReason } from './chat-answer.ts'
import { LogprobPieces, readLogprobs } from './logprobs.ts'
import { readFacts, readUsage } from './wire.ts'

/**
 * The chunks of a streamed chat or text completion. Whole only with `[DONE]` or a finish reason of every choice: a
 * connection that closes before was cut.
 */
export class ChatStreamReader implements StreamReader<ChatResult, ChatDelta> {
  readonly #asked: AskedOf
  readonly #head: Pick<UpstreamStream, 'status' | 'headers'>
  readonly #events: JsonEvents
  /** As many as were asked for. */
  readonly #choices: readonly ChoicePieces[]
  #facts: ChatFacts | null = null
  #usage: TokenUsage | null = null

  constructor(head: Pick<UpstreamStream, 'status' | 'headers'>, asked: AskedOf) {
    this.#head = head
    this.#asked = asked
    this.#events = new JsonEvents(head)
    const { call } = asked
    this.#choices = Array.from({ length: choicesAsked(call) }, (_, at) => new ChoicePieces(at, call))
  }

  push(chunk: Uint8Array): readonly ChatDelta[] | Failure {
    const events = this.#events.push(chunk)
    return Array.isArray(events) ? events.flatMap((event) => this.#read(event)) : (events as Failure)
  }

  end(): { readonly result: ChatResult } | Failure {
    if (!this.#events.done && this.#choices.some(({ finished }) => !finished)) return brokenOff(this.#head)
    const [first, ...others] = this.#choices.filter(({ begun }) => begun)
    const more = others.length === 0 ? {} : { others: others.map((choice) => choice.answer()) }
    const answer =
      first === undefined ? null : { ...first.answer(), ...more, facts: this.#facts, usage: this.#usage }
    return settleChat(answer, this.#asked, this.#head)
  }

  #read(event: JsonObject): ChatDelta[] {
    this.#usage = readUsage(event) ?? this.#usage
    const { usage, system_fingerprint: fingerprint, service_tier: tier } = event
    // Every chunk repeats the words, and the one with the tokens has figures beside them.
    const isNews =
      asObject(usage) !== null || (this.#facts === null && (fingerprint ?? tier ?? null) !== null)
    if (isNews) this.#facts = { ...this.#facts, ...readFacts(event) }
    const deltas: ChatDelta[] = []
    for (const choice of objectsIn(event.choices)) {
      const pieces = this.#choices[indexOf(choice) ?? 0]
      if (pieces !== undefined) deltas.push(...pieces.add(choice))
    }
    return deltas
  }
}

class ChoicePieces {
  begun = false
  /** Whether it said why it ends. */
  finished = false
  /** Its place among several; nothing of the first. */
  readonly #place: { readonly choice?: number }
  readonly #isSpoken: boolean
  /** Null: they were not asked for. */
  readonly #logprobs: LogprobPieces | null
  readonly #tools = new ToolCallPieces()
  readonly #audio: Buffer[] = []
  readonly #text = new TextPieces()
  readonly #refusal = new TextPieces()
  #finishReason: FinishReason | null = null

  constructor(index: number, call: AskedOf['call']) {
    this.#place = index === 0 ? {} : { choice: index }
    this.#isSpoken = call.modalities.includes('audio')
    this.#logprobs = wantsLogprobs(call) ? new LogprobPieces() : null
  }

  add(choice: JsonObject): ChatDelta[] {
    this.begun = true
    if (typeof choice.finish_reason === 'string') {
      this.finished = true
      this.#finishReason = readFinishReason(choice.finish_reason)
    }
    const logprobs = this.#logprobs === null ? null : readLogprobs(choice.logprobs)
    if (logprobs !== null) this.#logprobs?.add(logprobs)
    return this.#delta(messageOf(choice, choice.delta) ?? {}, logprobs)
  }

  answer(): ChoiceAnswer {
    return {
      text: this.#text.whole,
      refusal: this.#refusal.whole,
      toolCalls: this.#tools.calls(),
      finishReason: this.#finishReason,
      audioBase64: Buffer.concat(this.#audio).toString('base64'),
      logprobs: this.#logprobs?.whole() ?? null,
    }
  }

  #delta({ content, refusal, audio, tool_calls: tools }: JsonObject, logprobs: Logprobs | null): ChatDelta[] {
    const { data, transcript } = asObject(audio) ?? {}
    const spoken = this.#isSpoken && typeof data === 'string' && data !== '' ? data : null
    const said = contentText(content) + contentText(transcript)
    const declined = contentText(refusal)
    this.#text.add(said)
    this.#refusal.add(declined)
    if (spoken !== null) this.#audio.push(Buffer.from(spoken, 'base64'))
    // Figures of tokens without a text of their own, such as halves of a character, belong to a piece as well.
    const texts = [said, declined].filter((text) => text !== '')
    if (texts.length === 0 && logprobs !== null) texts.push('')
    const place = this.#place
    const figures = logprobs === null ? {} : { logprobs }
    return [
      ...texts.map((text, at): ChatDelta => ({ type: 'text', text, ...place, ...(at === 0 ? figures : {}) })),
      ...(spoken === null ? [] : [{ type: 'audio', base64: spoken, ...place } as const]),
      ...objectsIn(tools).flatMap((piece) => this.#tools.add(piece).map((delta) => ({ ...delta, ...place }))),
    ]
  }
}

/**
 * Tool calls that come in pieces, told apart by `index`. Servers that send whole calls give all of them index 0 or
 * none: there a new id begins a new call, or a name where the call before it is whole. Others give each piece an id of
 * its own: one without a name continues the call.
 */
class ToolCallPieces {
  readonly #calls: { readonly id: string; readonly name: string; readonly input: TextPieces }[] = []
  /** The server's index → ours. */
  readonly #positions = new Map<number, number>()

  add(piece: JsonObject): ChatDelta[] {
    const { name, arguments: given } = asObject(piece.function) ?? {}
    const wireIndex = typeof piece.index === 'number' ? piece.index : 0
    const id = typeof piece.id === 'string' && piece.id !== '' ? piece.id : null
    const known = this.#positions.get(wireIndex)
    const text = argumentsText(given)
    const call = known === undefined ? undefined : this.#calls[known]
    const isNamed = typeof name === 'string' && name !== ''
    const begins =
      isNamed && (id === null ? name !== call?.name || isWhole(call.input, text) : id !== call?.id)
    if (known !== undefined && call !== undefined && !begins) {
      call.input.add(text)
      return text === '' ? [] : [{ type: 'tool_call', index: known, id: null, name: null, arguments: text }]
    }
    // A piece of a call that never began has nothing to belong to.
    if (!isNamed) return []
    const index = this.#calls.length
    const begun = { id: id ?? newCallId(), name }
    const input = new TextPieces()
    input.add(text)
    this.#calls.push({ ...begun, input })
    this.#positions.set(wireIndex, index)
    return [{ type: 'tool_call', index, ...begun, arguments: text }]
  }

  calls(): ToolCall[] {
    return this.#calls.map(({ id, name, input }) => ({ id, name, arguments: input.whole }))
  }
}

/** Whether what follows input that is an object begins another. Nothing is parsed: pieces are many. */
function isWhole(input: TextPieces, next: string): boolean {
  return next.startsWith('{') && input.whole.trimEnd().endsWith('}')
}
