import type { Answer, CallBody } from './http.ts'
import { DONE, events, json, listIn, memberOf, Refusal, sha256, stringIn } from './http.ts'

import { modelFor } from './models.ts'
import { fromDots, speakable, toDots } from './morse.ts'
import { describePicture } from './picture.ts'
import { speak } from './speak.ts'
import { hearTranscript } from './transcript.ts'

/** Characters that count as one token. */
const TOKEN_CHARACTERS = 4
/** Same for all answers, so that equal calls have equal answers. */
const CREATED = 1_795_000_000
const ALLOY_HERTZ = 600

/** An answer before it is written down. */
interface Said {
  readonly text: string
  readonly calls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[]
  readonly finish: 'stop' | 'length' | 'tool_calls'
}

/**
 * `POST /v1/chat/completions`: the last message in Morse code, or in letters when it is Morse code; of a picture
 * what it says or is, of a recording what is heard. With `response_format` it is in JSON, in every text of the schema.
 * A tool that the message names, or that `tool_choice` asks for, is called with the message in every text argument, one
 * alone with `parallel_tool_calls: false`. All of `n` choices are the same.
 *
 * @throws Refusal
 */
export function chat(body: CallBody): Answer {
  const { name: model } = modelFor('chat', body)
  const messages = listIn(body.json, 'messages')
  const last = messages.at(-1)
  if (last === undefined) throw new Refusal(400, 'messages is required', { param: 'messages' })
  const asked = messageText(last)
  const said = limited(
    callTools(body, last, asked) ?? { text: formatted(body, answerTo(asked)), calls: [], finish: 'stop' },
    body,
  )
  const prompt = tokens(messages.map((message) => messageText(message)).join(' '))
  return render(body, model, said, prompt)
}

/**
 * `POST /v1/completions`: the prompt in Morse code.
 *
 * @throws Refusal
 */
export function completion(body: CallBody): Answer {
  const { name: model } = modelFor('chat', body)
  const prompt = stringIn(memberOf(body.json, 'prompt'))
  if (prompt === null) throw new Refusal(400, 'prompt is required', { param: 'prompt' })
  const said = limited({ text: answerTo(prompt), calls: [], finish: 'stop' }, body)
  const id = completionId(body)
  const usage = chatUsage(tokens(prompt), said)
  const choice = { index: 0, text: said.text, logprobs: null, finish_reason: said.finish }
  const head = { id, object: 'text_completion', created: CREATED, model }
  if (memberOf(body.json, 'stream') !== true) return json(200, { ...head, choices: [choice], usage })
  const parts = wordsOf(said.text).map((text) => ({
    ...head,
    choices: [{ ...choice, text, finish_reason: null }],
  }))
  const counted = wantsUsage(body) ? [{ ...head, choices: [], usage }] : []
  return events([...parts, { ...head, choices: [{ ...choice, text: '' }] }, ...counted, DONE])
}

/** Whether the end of a stream tells the tokens. https://platform.openai.com/docs/api-reference/completions/create */
function wantsUsage({ json }: CallBody): boolean {
  return memberOf(memberOf(json, 'stream_options'), 'include_usage') === true
}

function render(body: CallBody, model: string, said: Said, promptTokens: number): Answer {
  const head = { id: completionId(body), created: CREATED, model, system_fingerprint: 'fp_sandbox' }
  const indexes = choiceIndexes(body)
  const usage = chatUsage(promptTokens, said, indexes.length)
  const calls = said.calls.map(({ id, name, arguments: given }) => ({
    id,
    type: 'function',
    function: { name, arguments: given },
  }))
  if (memberOf(body.json, 'stream') !== true) {
    const message = {
      role: 'assistant',
      content: said.text === '' ? null : said.text,
      refusal: null,
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
      ...chatAudio(body, said.text),
    }
    const choices = indexes.map((index) => ({ index, message, logprobs: null, finish_reason: said.finish }))
    return json(200, { ...head, object: 'chat.completion', choices, usage })
  }
  const part = (delta: object, finish: string | null = null) =>
    indexes.map((index) => ({
      ...head,
      object: 'chat.completion.chunk',
      choices: [{ index, delta, logprobs: null, finish_reason: finish }],
    }))
  const deltas = [
    ...part({ role: 'assistant', content: '' }),
    ...wordsOf(said.text).flatMap((content) => part({ content })),
    ...calls.flatMap((call, index) => part({ tool_calls: [{ index, ...call }] })),
    ...part({}, said.finish),
  ]
  const counted = wantsUsage(body) ? [{ ...head, object: 'chat.completion.chunk', choices: [], usage }] : []
  return events([...deltas, ...counted, DONE])
}

/** OpenAI gives no more choices than these. */
const CHOICES_MAX = 128

function choiceIndexes(body: CallBody): number[] {
  const n = memberOf(body.json, 'n') ?? 1
  if (!Number.isInteger(n) || (n as number) < 1 || (n as number) > CHOICES_MAX)
    throw new Refusal(400, `n must be 1 to ${CHOICES_MAX}`, { param: 'n' })
  return Array.from({ length: n as number }, (_, index) => index)
}

/** Reads a message as text, with its pictures and recordings put into words. */
function messageText(message: unknown): string {
  const content = memberOf(message, 'content')
  if (typeof content === 'string') return content
  const parts = listIn(message, 'content').map((part) => {
    const text = stringIn(memberOf(part, 'text'))
    if (text !== null) return text
    const url = stringIn(memberOf(memberOf(part, 'image_url'), 'url'))
    if (url !== null) return imageText(url)
    const data = stringIn(memberOf(memberOf(part, 'input_audio'), 'data'))
    if (data === null)
      throw new Refusal(400, 'a part of a message is of no known type', { param: 'messages' })
    return hearTranscript(Buffer.from(data, 'base64'))?.text ?? ''
  })
  return parts.join(' ')
}

function imageText(url: string): string {
  const [, mediaType = '', base64] = /^data:([a-z]+\/[a-z0-9.+-]+);base64,(.*)$/s.exec(url) ?? []
  if (base64 === undefined) return `a picture at ${url}`
  return describePicture(Buffer.from(base64, 'base64'), mediaType)
}

function answerTo(text: string): string {
  return fromDots(text) ?? (toDots(text) || '...')
}

/** Null when no tool is to be called. */
function callTools(body: CallBody, last: unknown, asked: string): Said | null {
  if (memberOf(last, 'role') === 'tool') return null
  const choice = memberOf(body.json, 'tool_choice')
  if (choice === 'none') return null
  const tools = listIn(body.json, 'tools').map((tool) => memberOf(tool, 'function'))
  const named = stringIn(memberOf(memberOf(choice, 'function'), 'name'))
  const chosen = tools.filter((tool) => {
    const name = stringIn(memberOf(tool, 'name')) ?? ''
    return named === null ? asked.includes(name) : name === named
  })
  const most = memberOf(body.json, 'parallel_tool_calls') === false ? 1 : chosen.length
  const called = chosen.length === 0 && choice === 'required' ? tools.slice(0, 1) : chosen.slice(0, most)
  if (called.length === 0) return null
  const calls = called.map((tool, index) => ({
    id: `call_${sha256(Buffer.from(`${index} ${asked}`)).slice(0, 24)}`,
    name: stringIn(memberOf(tool, 'name')) ?? '',
    arguments: JSON.stringify(instanceOf({ type: 'object', ...Object(memberOf(tool, 'parameters')) }, asked)),
  }))
  return { text: '', calls, finish: 'tool_calls' }
}

/** The text in the form that `response_format` asks for. */
function formatted(body: CallBody, text: string): string {
  const format = memberOf(body.json, 'response_format')
  const type = memberOf(format, 'type')
  if (type === 'json_object') return JSON.stringify({ answer: text })
  if (type !== 'json_schema') return text
  return JSON.stringify(instanceOf(memberOf(memberOf(format, 'json_schema'), 'schema'), text))
}

/** Levels below which lists are empty and the last of several forms is taken, since a schema may hold itself. */
const DEPTH_MAX = 4
/** A schema is refused that needs more: it may hold itself without an end, or others many times. */
const LEVELS_MAX = 64
const STEPS_MAX = 100_000

/** The least that a schema takes, with the text wherever it takes one. @throws Refusal */
function instanceOf(schema: unknown, text: string): unknown {
  let steps = 0
  const make = (part: unknown, depth: number): unknown => {
    const inner = (one: unknown) => make(one, depth + 1)
    const ref = stringIn(memberOf(part, '$ref')) ?? ''
    const properties = Object.entries(Object(memberOf(part, 'properties')))
    const required = listIn(part, 'required')
    steps += ref.length + properties.length + required.length
    if (steps > STEPS_MAX || depth > LEVELS_MAX)
      throw new Refusal(400, 'The schema asks for too large a value.')
    if (ref !== '') return inner(ref.split('/').slice(1).reduce(memberOf, schema))
    const forms = listIn(part, 'anyOf')
    if (forms.length > 0) return inner(depth < DEPTH_MAX ? forms[0] : forms.at(-1))
    const [choice = memberOf(part, 'const')] = listIn(part, 'enum')
    if (choice !== undefined) return choice
    const type = memberOf(part, 'type')
    switch (Array.isArray(type) ? type[0] : type) {
      case 'object': {
        const needed = new Set(required)
        const members = properties.filter(
          ([name, one]) => needed.has(name) || memberOf(one, 'type') === 'string',
        )
        return Object.fromEntries(members.map(([name, one]) => [name, inner(one)]))
      }
      case 'array':
        return depth < DEPTH_MAX ? [inner(memberOf(part, 'items'))] : []
      case 'number':
      case 'integer':
        return memberOf(part, 'minimum') ?? 0
      case 'boolean':
        return true
      case 'null':
        return null
      default:
        return text
    }
  }
  return make(schema, 0)
}

function limited(said: Said, body: CallBody): Said {
  const most = memberOf(body.json, 'max_completion_tokens') ?? memberOf(body.json, 'max_tokens')
  if (typeof most !== 'number' || tokens(said.text) <= most) return said
  return { ...said, text: said.text.slice(0, most * TOKEN_CHARACTERS), finish: 'length' }
}

/** `modalities: [audio]`: the answer's text as a recording. */
function chatAudio(body: CallBody, text: string): object {
  if (!listIn(body.json, 'modalities').includes('audio')) return {}
  const said = speakable(fromDots(text) ?? text)
  const audio = said === '' ? Buffer.alloc(0) : speak(said, ALLOY_HERTZ, 1)
  return {
    audio: { id: completionId(body), expires_at: CREATED, data: audio.toString('base64'), transcript: text },
  }
}

function chatUsage(prompt: number, said: Said, choices = 1) {
  const answered = tokens(said.text + said.calls.map((call) => call.arguments).join('')) * choices
  return { prompt_tokens: prompt, completion_tokens: answered, total_tokens: prompt + answered }
}

function tokens(text: string): number {
  return Math.ceil(text.length / TOKEN_CHARACTERS)
}

/** Words with the white space that follows them. */
function wordsOf(text: string): string[] {
  return text.match(/\S+\s*/g) ?? []
}

function completionId({ raw }: CallBody): string {
  return `chatcmpl-${sha256(raw).slice(0, 24)}`
}
