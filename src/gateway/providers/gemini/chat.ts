import type { ChatCall, ChatDelta, ChatResult, ToolCall } from '../../../contracts/chat.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Operation, StreamReader, Target } from '../../../contracts/provider.ts'
import type { Failure, UpstreamStream } from '../../../contracts/upstream.ts'
import type { TokenUsage } from '../../../contracts/usage.ts'
import { brokenOff, type Made, readEnding } from '../answer.ts'
import { newCallId, settleChat, strictWarnings } from '../chat-answer.ts'
import { classify, failed, refused, unusable } from '../failure.ts'
import { asObject, jsonText } from '../json.ts'
import { JsonEvents } from '../json-events.ts'
import { TextPieces } from '../text-pieces.ts'
import { type GeminiAnswer, geminiFinishReason, readAnswer, withheldOf } from './answer.ts'
import { encodeMessages } from './contents.ts'
import { methodUrl, postJson } from './wire.ts'

type Head = Pick<UpstreamStream, 'status' | 'headers'>

/** https://ai.google.dev/api/generate-content#v1beta.GenerationConfig */
const STOP_MAX = 5
/** `seed` is an int32. */
const SEED_MAX = 2 ** 31 - 1

const MODES = { auto: 'AUTO', none: 'NONE', required: 'ANY' } as const

/** `POST /models/{model}:generateContent`, https://ai.google.dev/api/generate-content */
export const geminiChat: Operation<ChatCall, ChatResult, ChatDelta> = {
  takesSeed: true,
  start: (call, target) => startWith(call, target, 'generateContent'),
  next: (_state, reply, call) =>
    readEnding(reply, (body) => {
      const chat = new GatheredChat(call)
      chat.add(readAnswer(body))
      return chat.settle(reply)
    }),
  streamed: {
    start: (call, target) => startWith(call, target, 'streamGenerateContent?alt=sse'),
    refused: classify,
    read: (head, call) => new GeminiChatReader(head, call),
  },
}

function startWith(call: ChatCall, target: Target, method: string) {
  const encoded = encodeChat(call)
  if ('issue' in encoded) return failed(refused(encoded.issue))
  return {
    kind: 'send',
    request: postJson(target, methodUrl(target, method), encoded.body),
    state: null,
  } as const
}

function encodeChat(call: ChatCall): { readonly body: JsonObject } | { readonly issue: string } {
  const { stop, seed, tools, tool_choice: choice, modalities } = call
  if (modalities.includes('audio')) return { issue: 'modalities: must be text only for this provider' }
  if (stop.length > STOP_MAX)
    return { issue: `stop: must have at most ${STOP_MAX} entries for this provider` }
  if (seed !== null && Math.abs(seed) > SEED_MAX)
    return { issue: 'seed: must fit in 32 bits for this provider' }
  if (tools.length === 0 && choice !== null && choice !== 'auto' && choice !== 'none') {
    return { issue: 'tool_choice: must come with tools' }
  }
  const encoded = encodeMessages(call.messages)
  if ('issue' in encoded) return encoded
  const config = encodeConfig(call)
  const body = {
    ...(encoded.system.length === 0 ? {} : { systemInstruction: { parts: encoded.system } }),
    contents: encoded.contents,
    ...encodeTools(call),
    ...(Object.keys(config).length === 0 ? {} : { generationConfig: config }),
  }
  return { body }
}

function encodeConfig(call: ChatCall): JsonObject {
  const { temperature, top_p: topP, max_tokens: maxOutputTokens, stop, seed, response_schema: schema } = call
  return {
    ...(temperature === null ? {} : { temperature }),
    ...(topP === null ? {} : { topP }),
    ...(maxOutputTokens === null ? {} : { maxOutputTokens }),
    ...(stop.length === 0 ? {} : { stopSequences: stop }),
    ...(seed === null ? {} : { seed }),
    ...(schema === null ? {} : { responseMimeType: 'application/json', responseJsonSchema: schema }),
  }
}

function encodeTools({ tools, tool_choice: choice }: ChatCall): JsonObject {
  if (tools.length === 0) return {}
  const functionDeclarations = tools.map(({ name, description, parameters }) => ({
    name,
    ...(description === null ? {} : { description }),
    ...(parameters === null ? {} : { parametersJsonSchema: parameters }),
  }))
  const functionCallingConfig =
    typeof choice === 'string'
      ? { mode: MODES[choice] }
      : { mode: 'ANY', allowedFunctionNames: choice === null ? [] : [choice.name] }
  return {
    tools: [{ functionDeclarations }],
    ...(choice === null ? {} : { toolConfig: { functionCallingConfig } }),
  }
}

/** An answer put together from one body or from the events of a stream. */
class GatheredChat {
  readonly #call: ChatCall
  readonly #toolCalls: ToolCall[] = []
  readonly #text = new TextPieces()
  #finishReason: string | null = null
  #blockReason: string | null = null
  #usage: TokenUsage | null = null

  constructor(call: ChatCall) {
    this.#call = call
  }

  /** The model has said why it stopped, or the prompt never reached it. */
  get ended(): boolean {
    return this.#finishReason !== null || this.#blockReason !== null
  }

  /** Adds what came; function calls come whole. */
  add(answer: GeminiAnswer): ChatDelta[] {
    this.#finishReason = answer.finishReason ?? this.#finishReason
    this.#blockReason = answer.blockReason ?? this.#blockReason
    this.#usage = answer.usage ?? this.#usage
    return answer.parts.flatMap((part) => this.#addPart(part))
  }

  settle(head: Head): Made<ChatResult> {
    const empty = this.#text.whole === '' && this.#toolCalls.length === 0
    const withheld = withheldOf({ blockReason: this.#blockReason, finishReason: this.#finishReason }, head)
    if (withheld !== null && (empty || this.#blockReason !== null)) return withheld
    const finishReason = geminiFinishReason(this.#finishReason)
    // Such as MALFORMED_FUNCTION_CALL and OTHER: another attempt or another model may do better.
    if (empty && finishReason === null) return unusable(head, 'the answer of the provider is empty')
    const answer = {
      text: this.#text.whole,
      refusal: '',
      toolCalls: this.#toolCalls,
      finishReason,
      audioBase64: '',
      usage: this.#usage,
    }
    const asked = { call: this.#call, audioMediaType: '', warnings: warningsFor(this.#call) }
    return settleChat(answer, asked, head)
  }

  #addPart({ text, functionCall }: JsonObject): ChatDelta[] {
    if (typeof text === 'string' && text !== '') {
      this.#text.add(text)
      return [{ type: 'text', text }]
    }
    const { id, name, args } = asObject(functionCall) ?? {}
    if (typeof name !== 'string' || name === '') return []
    const index = this.#toolCalls.length
    const call = {
      id: typeof id === 'string' && id !== '' ? id : newCallId(),
      name,
      arguments: jsonText(asObject(args) ?? {}),
    }
    this.#toolCalls.push(call)
    return [{ type: 'tool_call', index, ...call }]
  }
}

/** The events of a streamed answer; whole only with a finish reason. */
class GeminiChatReader implements StreamReader<ChatResult, ChatDelta> {
  readonly #head: Head
  readonly #events: JsonEvents
  readonly #chat: GatheredChat

  constructor(head: Head, call: ChatCall) {
    this.#head = head
    this.#events = new JsonEvents(head)
    this.#chat = new GatheredChat(call)
  }

  push(chunk: Uint8Array): readonly ChatDelta[] | Failure {
    const events = this.#events.push(chunk)
    return 'kind' in events ? events : events.flatMap((event) => this.#chat.add(readAnswer(event)))
  }

  end(): { readonly result: ChatResult } | Failure {
    return this.#chat.ended ? this.#chat.settle(this.#head) : brokenOff(this.#head)
  }
}

/** How closely to look is not for each picture to say here. */
function warningsFor(call: ChatCall): readonly string[] {
  return [...detailWarnings(call), ...strictWarnings(call)]
}

function detailWarnings({ messages }: ChatCall): readonly string[] {
  const asked = messages
    .flatMap(({ parts }) => [...parts])
    .some((part) => part.type === 'image' && (part.detail === 'low' || part.detail === 'high'))
  return asked ? ['messages: the provider does not take the detail of a picture; it was left out'] : []
}
