import type { OperationName } from '../../src/contracts/operations.ts'
import type { ModelFacts } from '../../src/contracts/provider.ts'
import { audio, chatCall, completeCall, options, say, speechCall, user, WEATHER } from '../support/call.ts'

type Fields = Readonly<Record<string, unknown>>

/** One value of one option. Values of the same option are never asked for together. */
export interface Choice {
  readonly option: string
  readonly name: string
  readonly fields: Fields
}

/** A call, and what it asks for beside the plain one. */
export interface NamedCall {
  readonly name: string
  readonly payload: unknown
  /** Strings that the caller is free to choose, and that are passed on. */
  readonly own: ReadonlySet<string>
}

const PICTURE =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string' }, degrees: { type: 'number' } },
  required: ['city', 'degrees'],
  additionalProperties: false,
}

/** Values of an option, one by one. */
function each(option: string, values: readonly unknown[], field = option): Choice[] {
  return values.map((value) => ({
    option,
    name: `${option}=${JSON.stringify(value)}`,
    fields: { [field]: value },
  }))
}

const SAMPLING = [
  ...each('max_tokens', [16]),
  ...each('temperature', [0, 0.7]),
  ...each('top_p', [0.9]),
  ...each('stop', [['END'], ['a', 'b', 'c', 'd']]),
  ...each('seed', [0, 7]),
]

const HEARING = [
  ...each('language', ['en', 'de', 'pt-BR', 'nb', 'haw', 'klingon']),
  ...each('prompt', ['Larkway, uWebSockets']),
  ...each('response_format', ['verbose_json', 'diarized_json', 'text', 'srt', 'vtt']),
  ...each('diarization', [true]),
  ...each('speaker_count_hint', [1, 32]),
  ...each('timestamps', ['word', 'segment', 'both']),
  ...each('keyterms', [['Larkway'], ['two words'], ['a', 'b', 'comma, and blank']]),
  ...each('smart_formatting', [true]),
  ...each('detect_language', [true]),
  ...each('profanity_filter', [true]),
  ...each('multichannel', [true]),
  ...each('redaction', [['pii'], ['phi'], ['pci'], ['numbers'], ['pii', 'phi', 'pci', 'numbers']]),
  ...each('seed', [0, 7]),
]

const CONVERSATION = [
  { role: 'system', parts: [say('Be short.')] },
  user(say('Weather?')),
  {
    role: 'assistant',
    parts: [],
    tool_calls: [{ id: 'call_1', name: 'get_weather', arguments: '{"city":"Oslo"}' }],
  },
  { role: 'tool', tool_call_id: 'call_1', parts: [say('12 degrees')] },
  { role: 'assistant', parts: [say('12.')], tool_calls: [] },
  user(say('Thanks')),
]

function chatting(facts: ModelFacts): Choice[] {
  const has = (name: string) => facts.capabilities.some((one) => one === name)
  const picture = (source: unknown, detail: unknown) => [
    user(say('What?'), { type: 'image', source, detail } as never),
  ]
  const base64 = { kind: 'base64', media_type: 'image/png', base64: PICTURE }
  return [
    ...SAMPLING,
    ...each('messages', [
      [user(say('a'), say('b'))],
      [CONVERSATION[0], CONVERSATION[1], CONVERSATION[4], CONVERSATION[5]],
    ]),
    ...(has('function_calling')
      ? [
          ...each('messages', [CONVERSATION]),
          ...each('tools', [[WEATHER], [WEATHER, { name: 'noop', description: null, parameters: null }]]),
          ...each('tool_choice', ['auto', 'none', 'required', { name: 'get_weather' }]).map((one) => ({
            ...one,
            option: 'tools',
            fields: { ...one.fields, tools: [WEATHER] },
          })),
        ]
      : []),
    ...(has('vision')
      ? each('messages', [
          picture({ kind: 'url', url: 'https://example.com/a.png' }, null),
          picture({ kind: 'url', url: 'https://example.com/a.png' }, 'high'),
          picture(base64, 'low'),
        ])
      : []),
    ...(has('audio_output') ? each('modalities', [['text', 'audio']]) : []),
    ...each('response_schema', [SCHEMA]),
  ]
}

/** Options of a model's operations, beside the plain call. */
const CHOICES: Readonly<Record<OperationName, (facts: ModelFacts) => readonly Choice[]>> = {
  transcription: () => HEARING,
  translation: () => HEARING,
  speech: ({ limits }) => [
    ...each('response_format', limits.speech_formats ?? ['mp3']),
    ...each('speed', limits.speed === undefined ? [] : [limits.speed.min, 1, limits.speed.max]),
    ...each('voice', (limits.voices ?? []).slice(0, 3)),
    ...each('seed', [7]),
    ...each('times', [true]),
  ],
  chat: chatting,
  vision: () => [],
  complete: () => SAMPLING,
  embeddings: ({ limits }) => [
    ...each('input', [['a', 'b', 'c']]),
    ...each('dimensions', (limits.max_dimensions ?? 0) > 0 ? [256] : []),
  ],
  image: ({ limits }) => [
    ...each('n', [1, limits.max_images ?? 1]),
    ...each('size', limits.image_sizes ?? ['1024x1024', 'auto']),
    ...each('quality', ['high']),
    ...each('output_format', limits.image_formats ?? []),
    ...each('seed', [7]),
  ],
  video: ({ limits }) => [
    ...each('size', limits.video_sizes ?? []),
    ...each('duration_seconds', limits.video_seconds ?? []),
    ...each('seed', [7]),
  ],
}

/** Options whose values are the caller's to choose. */
const OWN = ['language', 'prompt', 'keyterms', 'input', 'voice', 'size', 'quality']

const FILE = {
  ...audio({ durationSeconds: 60, channels: 2 }),
  source: { kind: 'memory' as const, blocks: [] },
}

/** The plain call, every option alone, and every pair of options. */
export function callsOf(operation: OperationName, facts: ModelFacts): NamedCall[] {
  const choices = CHOICES[operation](facts)
  const pairs = choices.flatMap((one, index) =>
    choices.slice(index + 1).flatMap((other) => (one.option === other.option ? [] : [[one, other]])),
  )
  return [[], ...choices.map((one) => [one]), ...pairs].map((chosen) => {
    const fields = Object.assign({}, ...chosen.map((choice) => choice.fields)) as Fields
    return {
      name: chosen.map(({ name }) => name).join(' ') || 'plain',
      payload: payloadOf(operation, fields),
      own: new Set(OWN.flatMap((name) => fields[name] ?? []).filter((value) => typeof value === 'string')),
    }
  })
}

function payloadOf(operation: OperationName, fields: Fields): unknown {
  switch (operation) {
    case 'transcription':
    case 'translation':
      return { audio: FILE, options: options(fields) }
    case 'speech':
      return { ...speechCall().payload, ...fields }
    case 'chat':
    case 'vision':
      return chatCall(fields)
    case 'complete':
      return completeCall(fields)
    case 'embeddings':
      return { input: ['a'], dimensions: null, ...fields }
    case 'image':
      return { prompt: 'a lark', n: 1, size: null, quality: null, output_format: null, seed: null, ...fields }
    case 'video':
      return { prompt: 'a lark', duration_seconds: null, size: null, seed: null, ...fields }
  }
}
