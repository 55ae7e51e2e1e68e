import { readFile, writeFile } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { HINTS } from '../../src/contracts/calls.ts'
import type { DoorOption } from '../../src/gateway/api/door-options.ts'
import { speak } from '../../src/sandbox/speak.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { type RouteGateway, secret, startRouteGateway } from '../support/route-gateway.ts'
import { DEEPGRAM_KEY, deepgramDialect } from '../support/upstream/deepgram.ts'
import type { ReceivedRequest } from '../support/upstream/dialect.ts'
import { GEMINI_KEY, geminiDialect } from '../support/upstream/gemini.ts'
import { TRANSCRIPTION_ENTRY } from '../support/upstream/openai.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { wavFile } from './openai-door.ts'
import { doorOptions, openaiTable } from './openai-options.ts'

type Fields = Readonly<Record<string, unknown>>

const said = (part: object) => ({
  json: { candidates: [{ content: { parts: [part] }, finishReason: 'STOP' }] },
})
const PNG = Buffer.from('89504e470d0a1a0a', 'hex').toString('base64')
const GEMINI_ANSWERS = {
  'POST /models/gemini-3.8-flash:generateContent': [said({ text: 'well' })],
  'POST /models/gemini-3.1-flash-image:generateContent': [
    said({ inlineData: { mimeType: 'image/png', data: PNG } }),
  ],
}

/** Writes the table of options anew, for whoever has changed one. */
const WRITES = process.env.LARKWAY_TEST_WRITE_EXAMPLES === '1'

t.test('the table of options stands in the manual', async (t) => {
  const file = new URL('../../docs/moving-from-openai.md', import.meta.url)
  const table = /(?<=<!-- options -->\n\n)[\s\S]*?(?=\n\n<!-- \/options -->)/
  const text = await readFile(file, 'utf8')
  if (WRITES)
    await writeFile(
      file,
      text.replace(table, () => openaiTable()),
    )
  t.equal(table.exec(await readFile(file, 'utf8'))?.[0], openaiTable())
})

/** Where the client has its types of the options of each endpoint. */
const CLIENT_TYPES: Readonly<Record<string, readonly [file: string, name: string]>> = {
  'audio/transcriptions': ['audio/transcriptions', 'TranscriptionCreateParamsBase'],
  'audio/translations': ['audio/translations', 'TranslationCreateParams'],
  'audio/speech': ['audio/speech', 'SpeechCreateParams'],
  'chat/completions': ['chat/completions/completions', 'ChatCompletionCreateParamsBase'],
  responses: ['responses/responses', 'ResponseCreateParamsBase'],
  completions: ['completions', 'CompletionCreateParamsBase'],
  embeddings: ['embeddings', 'EmbeddingCreateParams'],
  'images/generations': ['images', 'ImageGenerateParamsBase'],
}

t.test('no option of the client is unknown at the door', async (t) => {
  t.same([...doorOptions().keys()].sort(), Object.keys(CLIENT_TYPES).sort())
  for (const [path, options] of doorOptions()) {
    const [file = '', name = ''] = CLIENT_TYPES[path] ?? []
    const url = new URL(`../../node_modules/openai/resources/${file}.d.ts`, import.meta.url)
    const types = await readFile(url, 'utf8')
    const [, body = ''] =
      new RegExp(`^export interface ${name}(?:<.*>)? \\{\\n([\\s\\S]*?)^\\}`, 'm').exec(types) ?? []
    const sent = [...body.matchAll(/^ {4}(\w+)\??:/gm)].map(([, option = '']) => option)
    t.ok(sent.length > 3, `${name} has options`)
    const known = new Set(Object.keys(options).map((option) => /^\w+/.exec(option)?.[0]))
    // The file of a form is what `audio` is in JSON.
    const unknown = sent.filter((option) => !known.has(option) && option !== 'file')
    t.same(unknown, [], path)
  }
})

const PRICE = {
  ...{ per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 1, per_image_usd: 1 },
  ...{ per_1k_characters_usd: 1, per_hour_usd: 1 },
}
const ENTRY = {
  model: 'all',
  capabilities: [
    ...['text', 'completion', 'function_calling', 'audio_output', 'embeddings', 'image', 'audio_input'],
  ],
  translates: true,
  features: ['diarization', 'keyterms', 'redaction', 'multichannel'],
  hints: [...HINTS],
  price: PRICE,
  options: { completion_endpoint: true },
}
const MESSAGES = [{ role: 'user', content: 'a' }]
const TOOL = { type: 'function', function: { name: 'look' } }
const RESPONSE_TOOL = { type: 'function', name: 'look' }

/** The smallest requests; those of audio are forms. */
const PLAIN: Readonly<Record<string, Fields>> = {
  'audio/transcriptions': {},
  'audio/translations': {},
  'audio/speech': { input: 'a', response_format: 'mp3' },
  'chat/completions': { messages: MESSAGES },
  responses: { input: 'a' },
  completions: { prompt: 'a' },
  embeddings: { input: 'a' },
  'images/generations': { prompt: 'a' },
}

/** Fields that are sent with an option, by its name or by that of its endpoint and its own. */
const SAMPLES: Readonly<Record<string, Fields>> = {
  n: { n: 2 },
  logprobs: { logprobs: true },
  'completions logprobs': { logprobs: 2 },
  top_logprobs: { logprobs: true, top_logprobs: 2 },
  'responses top_logprobs': { top_logprobs: 2 },
  'responses include': { include: ['message.output_text.logprobs'] },
  include: { include: ['logprobs'] },
  logit_bias: { logit_bias: { 50256: -100 } },
  parallel_tool_calls: { tools: [TOOL], parallel_tool_calls: false },
  'responses parallel_tool_calls': { tools: [RESPONSE_TOOL], parallel_tool_calls: false },
  service_tier: { service_tier: 'flex' },
  prompt_cache_key: { prompt_cache_key: 'k' },
  prompt_cache_retention: { prompt_cache_retention: '24h' },
  prompt_cache_options: { prompt_cache_options: { mode: 'implicit' } },
  reasoning_effort: { reasoning_effort: 'low' },
  verbosity: { verbosity: 'low' },
  frequency_penalty: { frequency_penalty: 0.5 },
  presence_penalty: { presence_penalty: -0.5 },
  prediction: { prediction: { type: 'content', content: 'a' } },
  'messages[].name': { messages: [{ role: 'user', content: 'a', name: 'ann' }] },
  best_of: { best_of: 2 },
  echo: { echo: true },
  suffix: { suffix: 'z' },
  'reasoning.effort': { reasoning: { effort: 'low' } },
  'reasoning.summary': { reasoning: { summary: 'auto' } },
  'reasoning.generate_summary': { reasoning: { generate_summary: 'auto' } },
  'text.verbosity': { text: { verbosity: 'low' } },
  truncation: { truncation: 'auto' },
  max_tool_calls: { max_tool_calls: 3 },
  'stream_options.include_obfuscation': { stream: true, stream_options: { include_obfuscation: true } },
  ...Object.fromEntries(
    ['output_schema', 'allowed_callers', 'defer_loading', 'async'].map((name) => [
      `tools[].${name}`,
      { tools: [{ ...RESPONSE_TOOL, [name]: true }] },
    ]),
  ),
  'input_image.file_id': {
    input: [
      {
        role: 'user',
        content: [{ type: 'input_image', image_url: 'https://example.com/a.png', file_id: 'file_1' }],
      },
    ],
  },
  'item_reference.id': { input: [{ type: 'item_reference', id: 'msg_1' }] },
  background: { background: 'transparent' },
  'responses background': { background: true },
  response_format: { response_format: 'url' },
  moderation: { moderation: 'low' },
  output_compression: { output_compression: 50 },
  style: { style: 'vivid' },
  partial_images: { partial_images: 2 },
  instructions: { instructions: 'calm' },
  known_speaker_names: { known_speaker_names: ['Ann'] },
  known_speaker_references: { known_speaker_references: ['data:audio/wav;base64,UklGRg=='] },
  temperature: { temperature: 0.5 },
  metadata: { metadata: { a: 'b' } },
  store: { store: true },
}

/** The same of options that are kept; absent: the option is in the smallest request, or has a test of its own. */
const KEPT: Readonly<Record<string, Fields>> = {
  model: { model: 'other' },
  max_tokens: { max_tokens: 5 },
  max_completion_tokens: { max_completion_tokens: 5 },
  max_output_tokens: { max_output_tokens: 5 },
  temperature: { temperature: 0.5 },
  top_p: { top_p: 0.5 },
  stop: { stop: ['x'] },
  seed: { seed: 7 },
  stream: { stream: true },
  stream_options: { stream: true, stream_options: { include_usage: true } },
  'responses stream_options': { stream: true, stream_options: {} },
  tools: { tools: [TOOL] },
  'responses tools': { tools: [RESPONSE_TOOL] },
  tool_choice: { tools: [TOOL], tool_choice: 'auto' },
  'responses tool_choice': { tools: [RESPONSE_TOOL], tool_choice: 'auto' },
  modalities: { modalities: ['text'] },
  'chat/completions response_format': { response_format: { type: 'text' } },
  'audio/speech response_format': { response_format: 'mp3' },
  'responses instructions': { instructions: 'be brief' },
  user: { user: 'u' },
  safety_identifier: { safety_identifier: 's' },
  dimensions: { dimensions: 8 },
  encoding_format: { encoding_format: 'base64' },
  size: { size: '1024x1024' },
  quality: { quality: 'high' },
  output_format: { output_format: 'png' },
  'images/generations n': { n: 2 },
  speed: { speed: 1 },
  voice: { voice: 'alloy' },
  stream_format: { stream_format: 'audio' },
  language: { language: 'en' },
  languages: { languages: ['en'] },
  prompt: {},
  'audio/transcriptions prompt': { prompt: 'names' },
  'audio/translations prompt': { prompt: 'names' },
  'audio/transcriptions response_format': { response_format: 'verbose_json' },
  'audio/translations response_format': { response_format: 'verbose_json' },
  timestamps: { timestamps: 'segment' },
  timestamp_granularities: { timestamp_granularities: ['segment'], response_format: 'verbose_json' },
  chunking_strategy: { chunking_strategy: 'auto' },
  'responses metadata': { metadata: { a: 'b' } },
  'responses text': { text: { format: { type: 'text' } } },
  'responses reasoning': { reasoning: {} },
}

function sampleOf(path: string, name: string, { fate, neutral }: DoorOption): Fields {
  const table = fate === 'kept' ? KEPT : SAMPLES
  const given = table[`${path} ${name}`] ?? table[name]
  if (given !== undefined) return given
  if (fate === 'kept') return {}
  // Options that are refused or have no effect.
  return { [name]: neutral?.[0] === false ? true : 'x' }
}

/** A form for audio, JSON for everything else. */
function bodyOf(path: string, fields: Fields): FormData | Fields {
  const { [path]: plain = {} } = PLAIN
  if (!/^audio\/trans/.test(path)) return { model: 'any', ...plain, ...fields }
  const form = new FormData()
  form.set('file', wavFile(speak('sos', 600, 1)))
  for (const [name, value] of Object.entries({ model: 'any', ...plain, ...fields }))
    if (Array.isArray(value)) for (const item of value) form.append(`${name}[]`, String(item))
    else form.append(name, String(value))
  return form
}

interface Told {
  readonly status: number
  /** Lines of the header. */
  readonly warnings: readonly string[]
  readonly text: string
}

async function ask(gateway: RouteGateway, path: string, fields: Fields): Promise<Told> {
  const response = await gateway.post(`/openai/v1/${path}`, bodyOf(path, fields))
  const warnings = JSON.parse(response.headers.get('x-lk-warnings') ?? '[]')
  return { status: response.status, warnings, text: await response.text() }
}

const isLineOf = (name: string) => (line: string) => line.startsWith(`${name}:`)

/** Bodies that are JSON have the lines of the header, too. */
function linesIn(text: string): readonly string[] | undefined {
  try {
    return JSON.parse(text).warnings
  } catch {
    return undefined
  }
}

/** True where the option was received as it was sent. */
function arrived({ body, fields }: ReceivedRequest, name: string, option: DoorOption, sent: Fields): unknown {
  if (name === 'messages[].name') return body?.messages
  const last = name.split('.').at(-1) ?? name
  const as = option.as ?? last
  const value = name.split('.').reduce<unknown>((at, part) => (at as Fields)?.[part], sent)
  if (body === null)
    return fields[as] === undefined ? fields[`${as}[]`] === String(value) : fields[as] === String(value)
  return option.value === undefined ? isDeepStrictEqual(body[as], value) : body[as] === option.value(value)
}

t.test("entries of OpenAI's format are sent every option that its table passes on", async (t) => {
  const upstream = await startUpstream(t)
  const gateway = await startRouteGateway(t, {
    providers: { models: { kind: 'openai-compatible', base_url: upstream.url } },
    entries: [
      { provider: 'models', ...ENTRY },
      { ...TRANSCRIPTION_ENTRY, provider: 'models' },
    ],
  })
  for (const [path, options] of doorOptions()) {
    const plain = new Set((await ask(gateway, path, {})).warnings)
    for (const [name, option] of Object.entries(options)) {
      const label = `${path} ${name}: ${option.fate}`
      const sent = sampleOf(path, name, option)
      const before = upstream.received.length
      const answer = await ask(gateway, path, sent)
      const added = answer.warnings.filter((line) => !plain.has(line))
      const isLacked = path === 'audio/translations' && option.fate === 'feature'
      if (isLacked) {
        t.equal(answer.status, 422, label)
        t.equal(upstream.received.length, before)
      } else if (option.fate === 'refused') {
        t.equal(answer.status, 400, label)
        const last = name.split('.').at(-1) ?? ''
        const { error } = JSON.parse(answer.text)
        t.match(error, { code: 'INVALID_REQUEST', param: new RegExp(`(?:^|\\.)${last}$`) }, label)
        t.equal(upstream.received.length, before)
        for (const value of option.neutral ?? [])
          t.equal((await ask(gateway, path, { [name]: value })).status, 200, `${label}, ${value}`)
      } else {
        t.equal(answer.status, 200, `${label} ${answer.text.slice(0, 200)}`)
        if (option.fate === 'warned') {
          t.equal(added.filter(isLineOf(name)).length, 1, label)
          if (linesIn(answer.text) !== undefined) t.ok(linesIn(answer.text)?.some(isLineOf(name)), label)
        } else t.same(added.filter(isLineOf(name)), [], label)
        const [received] = upstream.received.slice(-1)
        if (received !== undefined && (option.fate === 'feature' || option.fate === 'hint'))
          t.ok(arrived(received, name, option, sent), label)
      }
      for (const value of option.fate === 'feature' || option.fate === 'hint' ? (option.neutral ?? []) : []) {
        const idle = await ask(gateway, path, { [name]: value })
        t.equal(idle.status, 200, `${label}, ${value}`)
        t.notOk(
          Object.hasOwn(upstream.received.at(-1)?.body ?? {}, option.as ?? name) &&
            path !== 'images/generations',
        )
      }
    }
  }
  await assertStopsClean(t, gateway)
})

t.test('entries of another format are left out, or told what they do not take', async (t) => {
  const gemini = await startUpstream(t, { dialect: geminiDialect(GEMINI_ANSWERS) })
  const deepgram = await startUpstream(t, { dialect: deepgramDialect() })
  const gateway = await startRouteGateway(t, {
    providers: {
      gemini: { kind: 'gemini', base_url: gemini.url, api_key: secret('GEMINI') },
      deepgram: { kind: 'deepgram', base_url: deepgram.url, api_key: secret('DEEPGRAM') },
    },
    entries: [
      ...['gemini-3.8-flash', 'gemini-3.1-flash-image'].map((model) => ({ provider: 'gemini', model })),
      { provider: 'deepgram', model: 'nova-3' },
      { provider: 'deepgram', model: 'aura-2' },
    ],
    env: { GEMINI: GEMINI_KEY, DEEPGRAM: DEEPGRAM_KEY },
  })
  const received = () => gemini.received.length + deepgram.received.length
  for (const [path, options] of doorOptions()) {
    if (path === 'embeddings' || path === 'audio/translations') continue
    t.match(await ask(gateway, path, {}), { status: 200 }, path)
    for (const [name, option] of Object.entries(options)) {
      if (option.fate !== 'feature' && option.fate !== 'hint') continue
      const label = `${path} ${name}: ${option.fate}`
      const before = received()
      const answer = await ask(gateway, path, sampleOf(path, name, option))
      if (option.fate === 'feature') {
        t.equal(answer.status, 422, label)
        const { error } = JSON.parse(answer.text)
        t.equal(error.code, 'REQUIRED_FEATURE_UNAVAILABLE', label)
        const lacked = error.details.entries.flatMap(({ missing = [] }: { missing?: string[] }) => missing)
        t.ok(lacked.includes(option.as ?? name), label)
        t.ok(error.message.includes(name), error.message)
        t.equal(received(), before, 'no entry was asked')
        continue
      }
      t.equal(answer.status, 200, label)
      const [line = '', ...more] = answer.warnings.filter(isLineOf(name))
      t.match(line, /: left out, .* does not take it here$/, label)
      t.same(more, [])
      if (!path.startsWith('audio/speech'))
        t.ok(linesIn(answer.text)?.includes(line), `${label}, in the body`)
    }
  }
  await assertStopsClean(t, gateway)
})
