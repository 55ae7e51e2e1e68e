import { type ChatCall, type ChatDelta, type ChatResult, isAnyObject } from '../../../contracts/chat.ts'
import type { ExtraOption } from '../../../contracts/extras.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Operation, Target } from '../../../contracts/provider.ts'
import { readEnding } from '../answer.ts'
import { type AskedOf, settleChat } from '../chat-answer.ts'
import type { Streamable } from '../completion.ts'
import { classify, failed, refused } from '../failure.ts'
import { asObject, objectsIn } from '../json.ts'
import { readChat } from './chat-answer.ts'
import { ChatStreamReader } from './chat-stream.ts'
import { encodeMessages } from './messages.ts'
import { AUDIO_MEDIA_TYPES, type ExtraHeaders, jsonRequest } from './wire.ts'

/** Options that a provider's `POST /chat/completions` supports. */
export interface ChatShape {
  /** OpenAI's reasoning models refuse `max_tokens`; many other servers know nothing else. */
  readonly maxTokens: 'max_tokens' | 'max_completion_tokens'
  /** How many stop sequences it takes; null: not known, so all are sent. */
  readonly stopMax: number | null
  /** Models that take no stop sequences: a call with some is not sent there; null: none is known. */
  readonly noStop: RegExp | null
  /** Models that refuse any `temperature` and `top_p` but 1: there these are left out, with a warning. */
  readonly fixedSampling: RegExp | null
  /**
   * Models that answer 400 to a chat without audio, in it or out of it: there the answer is spoken, and the speech left
   * out when the caller did not ask for it, with a warning.
   */
  readonly audioOnly: RegExp | null
  /** How it speaks; null: it does not. */
  readonly audio: ChatAudio | null
  /** Which further options of the format a model takes. */
  readonly takesExtra: (extra: ExtraOption, target: Target) => boolean
}

export interface ChatAudio {
  readonly voice: string
  /** The first is the default. */
  readonly formats: readonly [string, ...string[]]
  /** The one format in which it streams; null: it speaks only when it is done. */
  readonly streamed: string | null
}

/** Streamed, it is 24 kHz, 16 bit, mono. https://platform.openai.com/docs/guides/audio */
export const OPENAI_AUDIO: ChatAudio = {
  voice: 'alloy',
  formats: ['wav', 'mp3', 'flac', 'opus', 'aac', 'pcm'],
  streamed: 'pcm',
}

/** Deeper schemas are not looked into: OpenAI takes up to ten levels of objects. */
const DEPTH_MAX = 32

/** Words that a strict schema may not have. https://platform.openai.com/docs/guides/structured-outputs */
const NOT_STRICT = ['allOf', 'oneOf', 'not', 'if', 'then', 'else', 'dependentRequired', 'patternProperties']

/** https://platform.openai.com/docs/api-reference/chat/create */
export function chatOperation(
  shape: ChatShape,
  extra: ExtraHeaders,
): Streamable<Operation<ChatCall, ChatResult, ChatDelta>> {
  const startWith = (call: ChatCall, target: Target, stream: boolean) => {
    if (speaks(call) && shape.audio === null) return failed(refused('the model does not speak'))
    const encoded = encodeChat(call, target, shape, stream)
    if ('issue' in encoded) return failed(refused(encoded.issue))
    const request = jsonRequest(target, '/chat/completions', encoded.body, extra)
    return { kind: 'send', request, state: null } as const
  }
  const asked = (call: ChatCall, target: Target, stream: boolean): AskedOf => ({
    call,
    audioMediaType: AUDIO_MEDIA_TYPES.get(audioFormat(call, target, shape, stream) ?? '') ?? '',
    warnings: warningsFor(call, target, shape),
  })
  return {
    takesSeed: true,
    takesExtra: shape.takesExtra,
    start: (call, target) => startWith(call, target, false),
    next: (_state, reply, call, target) =>
      readEnding(reply, (body) => settleChat(readChat(body, call), asked(call, target, false), reply)),
    streamed: {
      applies(call, target) {
        const { streamed } = shape.audio ?? { streamed: null }
        return !speaks(call) || (streamed !== null && audioFormat(call, target, shape, true) === streamed)
      },
      start: (call, target) => startWith(call, target, true),
      refused: classify,
      read: (head, call, target) => new ChatStreamReader(head, asked(call, target, true)),
    },
  }
}

const SAMPLED = ['temperature', 'top_p'] as const

/** Warns of options that are sent differently from how they were given. */
function warningsFor(call: ChatCall, target: Target, shape: ChatShape): readonly string[] {
  let warnings: string[] | null = null
  for (const name of SAMPLED) {
    if (!isFixed(name, call, target, shape)) continue
    warnings ??= []
    warnings.push(`${name}: ${target.model} does not take it; it was left out`)
  }
  if (!speaks(call) && answersAloud(call, target, shape)) {
    warnings ??= []
    warnings.push(`modalities: ${target.model} always speaks; its speech was left out, though it is charged`)
  }
  return warnings ?? NONE
}

const NONE: readonly never[] = []

function encodeChat(
  call: ChatCall,
  target: Target,
  shape: ChatShape,
  stream: boolean,
): { readonly body: JsonObject } | { readonly issue: string } {
  const { stop, tools, tool_choice: choice, max_tokens: maxTokens, response_schema: schema } = call
  if (shape.stopMax !== null && stop.length > shape.stopMax) {
    return { issue: `stop: must have at most ${shape.stopMax} entries for this provider` }
  }
  if (stop.length > 0 && shape.noStop?.test(target.model) === true) {
    return { issue: 'stop: must be left out for this model' }
  }
  if (tools.length === 0 && choice !== null && choice !== 'auto' && choice !== 'none') {
    return { issue: 'tool_choice: must come with tools' }
  }
  const format = audioFormat(call, target, shape, stream)
  if (shape.audio !== null && format !== null && !shape.audio.formats.includes(format)) {
    return { issue: `audio.format: must be one of ${shape.audio.formats.join(', ')} for this provider` }
  }
  const encoded = encodeMessages(call.messages)
  if ('issue' in encoded) return encoded
  // One object, filled in: most chats say next to nothing of all this, and every spread is an object of its own.
  const body: Record<string, unknown> = { model: target.model, messages: encoded.messages }
  if (maxTokens !== null) body[shape.maxTokens] = maxTokens
  for (const name of SAMPLED)
    if (call[name] !== null && !isFixed(name, call, target, shape)) body[name] = call[name]
  if (stop.length > 0) body.stop = stop
  if (call.seed !== null) body.seed = call.seed
  if (tools.length > 0) Object.assign(body, encodeTools(call))
  if (schema !== null) body.response_format = responseFormat(schema, call.response_strict)
  if (format !== null) Object.assign(body, encodeAudio(call, shape, format))
  if (stream) Object.assign(body, { stream: true, stream_options: { include_usage: true } })
  for (const extra of call.extras ?? NONE) putExtra(body, extra, encoded.messages)
  return { body }
}

/** Puts an option as it was sent; names of participants belong to their messages. */
function putExtra(
  body: Record<string, unknown>,
  { name, value }: ExtraOption,
  messages: readonly JsonObject[],
): void {
  if (name !== 'messages[].name') {
    body[name] = value
    return
  }
  const names = Array.isArray(value) ? value : NONE
  body.messages = messages.map((message, at) =>
    typeof names[at] === 'string' ? { ...message, name: names[at] } : message,
  )
}

/** `tool_choice` without tools is refused by OpenAI, whatever it says. */
function encodeTools({ tools, tool_choice: choice }: ChatCall): JsonObject {
  const encoded = tools.map(({ name, description, parameters, strict }) => ({
    type: 'function',
    function: {
      name,
      ...(description === null ? {} : { description }),
      ...(parameters === null ? {} : { parameters }),
      ...(strict === undefined ? {} : { strict }),
    },
  }))
  if (choice === null) return { tools: encoded }
  const named = typeof choice === 'string' ? choice : { type: 'function', function: { name: choice.name } }
  return { tools: encoded, tool_choice: named }
}

/**
 * The schema's title is its name where it can be one: OpenAI takes `[A-Za-z0-9_-]`, up to 64 characters. A schema that
 * asks for any object has a word of its own: as a strict schema it would be refused, since it does not rule out other
 * members. `strict` is the caller's; who says nothing of it gets it for a schema that can be kept to the letter.
 */
function responseFormat(schema: JsonObject, asked: boolean | undefined): JsonObject {
  const { title } = schema
  if (isAnyObject(schema)) return { type: 'json_object' }
  const name = typeof title === 'string' && /^[A-Za-z0-9_-]{1,64}$/.test(title) ? title : 'answer'
  return { type: 'json_schema', json_schema: { name, schema, strict: asked ?? isStrictSchema(schema) } }
}

/**
 * Whether a schema can be kept to the letter: at OpenAI and Groq `strict` refuses one with an object that does not
 * rule out other members, or that does not require all of its own.
 */
function isStrictSchema(schema: JsonObject, depth = 0): boolean {
  if (depth > DEPTH_MAX || NOT_STRICT.some((word) => Object.hasOwn(schema, word))) return false
  const { properties, required, additionalProperties, items, anyOf, $defs, definitions } = schema
  const members = asObject(properties) ?? {}
  const isObject = schema.type === 'object' || properties !== undefined
  if (isObject) {
    const needed: ReadonlySet<unknown> = new Set(Array.isArray(required) ? required : [])
    if (additionalProperties !== false || !Object.keys(members).every((name) => needed.has(name)))
      return false
  }
  const inner = [members, asObject($defs) ?? {}, asObject(definitions) ?? {}].flatMap(Object.values)
  const schemas = [...inner, ...objectsIn(anyOf), ...(items === undefined ? [] : [items])].map(asObject)
  return schemas.every((one) => one !== null && isStrictSchema(one, depth + 1))
}

/** OpenAI takes `[text]` and `[text, audio]`: a spoken answer always has its text. */
function encodeAudio({ audio }: ChatCall, shape: ChatShape, format: string): JsonObject {
  return {
    modalities: ['text', 'audio'],
    audio: { voice: audio?.voice ?? shape.audio?.voice, format: format === 'pcm' ? 'pcm16' : format },
  }
}

function speaks({ modalities }: ChatCall): boolean {
  return modalities.includes('audio')
}

/** Whether the answer is spoken, since the call asks for it or the model knows no other way. */
function answersAloud(call: ChatCall, { model }: Target, { audioOnly }: ChatShape): boolean {
  if (speaks(call)) return true
  if (audioOnly?.test(model) !== true) return false
  return !call.messages.some(({ parts }) => parts.some(({ type }) => type === 'audio'))
}

/** The format of a spoken answer, `pcm16` under the name that speech has for it; null: nothing is to be spoken. */
function audioFormat(call: ChatCall, target: Target, shape: ChatShape, stream: boolean): string | null {
  if (!answersAloud(call, target, shape)) return null
  const { audio } = shape
  const asked = speaks(call) ? call.audio?.format : null
  const format = asked ?? (stream ? audio?.streamed : null) ?? audio?.formats[0] ?? null
  return format === 'pcm16' ? 'pcm' : format
}

function isFixed(
  name: 'temperature' | 'top_p',
  call: ChatCall,
  { model }: Target,
  { fixedSampling }: ChatShape,
): boolean {
  return call[name] !== null && call[name] !== 1 && fixedSampling?.test(model) === true
}
