import { type Answer, type Dialect, type Fields, jsonAnswer } from './dialect.ts'

export const ELEVENLABS_KEY = 'xi-upstream-key'

type Refusal = readonly [status: number, detail: unknown]

/** Fields of `POST /v1/speech-to-text` that may come, and what each may hold. */
const FIELDS: Readonly<Record<string, RegExp>> = {
  model_id: /^scribe_v[12]$/,
  language_code: /^[a-z]{2,3}$/,
  tag_audio_events: /^(true|false)$/,
  num_speakers: /^([1-9]|[12]\d|3[0-2])$/,
  timestamps_granularity: /^(none|word|character)$/,
  diarize: /^(true|false)$/,
  seed: /^\d{1,10}$/,
  use_multi_channel: /^(true|false)$/,
  multichannel_output_style: /^(separate|combined)$/,
  entity_detection: /^(all|pii|phi|pci|other|offensive_language)$/,
  entity_redaction: /^(all|pii|phi|pci|other|offensive_language)$/,
  keyterms: /^[^<>{}[\]\\]{1,49}$/,
}

const TOKEN = /^(mp3|opus|pcm|wav|ulaw|alaw)_\d+(_\d+)?$/
const VOICES = new Set(['JBFqnCBsd6RMkjVDRZzb', '21m00Tcm4TlvDq8ikWAM'])

/**
 * ElevenLabs' contract, as strict as it: unknown fields, values out of range and combinations that it documents as
 * errors are refused. A transcript names the SHA-256 of the audio that came.
 */
export function elevenlabsDialect(): Dialect {
  return {
    basePath: '',
    refuse: (status) => refuse([status, 'Refused']),
    answer({ request, form }) {
      const url = new URL(request.path, 'http://upstream')
      const speech = /^\/v1\/text-to-speech\/([^/]+)(\/stream)?(\/with-timestamps)?$/.exec(url.pathname)
      if (request.headers['xi-api-key'] !== ELEVENLABS_KEY) {
        return refuse([401, { status: 'invalid_api_key', message: 'Invalid API key' }])
      }
      if (speech !== null && request.method === 'POST') {
        return speak(speech, url.searchParams, request.body ?? {})
      }
      if (url.pathname === '/v1/speech-to-text' && request.method === 'POST') {
        return transcribe(form ?? new FormData(), request.sha256)
      }
      if (url.pathname === '/v1/models' && request.method === 'GET') {
        return json(200, [{ model_id: 'eleven_flash_v2_5' }, { model_id: 'scribe_v2' }])
      }
      return refuse([404, 'Not Found'])
    },
  }
}

function json(status: number, body: unknown): Answer {
  return jsonAnswer(body, status, { 'request-id': 'r1' })
}

function refuse([status, detail]: Refusal): Answer {
  return json(status, { detail })
}

function transcribe(form: FormData, digest: string): Answer {
  const refusal = faultOf(form)
  if (refusal !== null) return refuse(refusal)
  const laughs = form.get('tag_audio_events') !== 'false'
  const spoken = ['heard', `${digest}.`, ...(laughs ? ['(laughter)'] : [])]
  const granularity = form.get('timestamps_granularity')
  const timed = granularity !== 'none'
  const diarized = form.get('diarize') === 'true'
  const transcript = (channel: number | null) => ({
    language_code: 'eng',
    language_probability: 0.9,
    text: spoken.join(' '),
    words: timed
      ? spoken.map((text, index) => ({
          ...wordOf(text, index, diarized, channel),
          ...(granularity === 'character' ? { characters: charactersOf(text, index) } : {}),
        }))
      : [],
    ...(channel === null ? {} : { channel_index: channel }),
  })
  const whole = { transcription_id: 'x', audio_duration_secs: 2.5 }
  if (form.get('use_multi_channel') !== 'true') return json(200, { ...transcript(null), ...whole })
  return json(200, { transcripts: [transcript(0), transcript(1)], ...whole })
}

/** Sounds have none. */
function charactersOf(text: string, start: number) {
  if (text.startsWith('(')) return null
  return [...text].map((one, index) => ({
    text: one,
    start: start + index / 1_000,
    end: start + (index + 1) / 1_000,
  }))
}

function wordOf(text: string, index: number, diarized: boolean, channel: number | null) {
  const start = index + (channel ?? 0) / 4
  const where = channel === null ? {} : { channel_index: channel, speaker_id: `speaker_${channel}` }
  const type = text.startsWith('(') ? 'audio_event' : 'word'
  return {
    text,
    start,
    end: start + 0.2,
    type,
    logprob: -0.1,
    ...(diarized ? { speaker_id: 'speaker_0' } : {}),
    ...where,
  }
}

function faultOf(form: FormData): Refusal | null {
  const invalid = (field: string): Refusal => [
    422,
    [{ loc: ['body', field], msg: 'invalid', type: 'value_error' }],
  ]
  if (!(form.get('file') instanceof File) || !form.has('model_id')) return invalid('file')
  for (const [name, value] of form) {
    if (name === 'file') continue
    const known = Object.hasOwn(FIELDS, name) ? FIELDS[name] : undefined
    if (typeof value !== 'string' || !known?.test(value)) return invalid(name)
  }
  const bad = (message: string): Refusal => [400, { status: 'invalid_parameters', message }]
  if (form.get('use_multi_channel') === 'true') {
    if (form.get('diarize') === 'true') return bad('Multichannel mode does not support diarization')
    if (form.has('num_speakers')) return bad('Cannot specify num_speakers when use_multi_channel is enabled')
  }
  const detected = form.getAll('entity_detection')
  if (form.getAll('entity_redaction').some((group) => !detected.includes(group))) {
    return bad('entity_redaction must be a subset of entity_detection')
  }
  return null
}

function speak(
  [, voice = '', streamed, timed]: RegExpExecArray,
  query: URLSearchParams,
  body: Fields,
): Answer {
  const { text, model_id: model, voice_settings: settings, seed, ...unknown } = body
  const format = query.get('output_format') ?? ''
  const { speed = 1, ...others } = (settings ?? {}) as { speed?: number }
  const valid =
    typeof text === 'string' &&
    TOKEN.test(format) &&
    [...query.keys()].every((name) => name === 'output_format' || name === 'enable_logging') &&
    (query.get('enable_logging') ?? 'false') === 'false' &&
    Object.keys({ ...unknown, ...others }).length === 0 &&
    (seed === undefined || Number.isInteger(seed)) &&
    speed >= 0.7 &&
    speed <= 1.2
  if (!valid) return refuse([422, [{ loc: ['body'], msg: 'invalid', type: 'value_error' }]])
  if (model !== 'eleven_flash_v2_5')
    return refuse([400, { status: 'model_not_found', message: 'no such model' }])
  if (!VOICES.has(voice)) return refuse([404, { status: 'voice_not_found', message: 'no such voice' }])
  if (timed !== undefined) return timedSpeech(text, streamed !== undefined)
  const type = format.startsWith('mp3') ? 'audio/mpeg' : 'application/octet-stream'
  const headers = { 'content-type': type, 'character-cost': String(text.length) }
  return { headers, chunks: [streamed === undefined ? 'whole ' : 'streamed ', `${voice} `, text] }
}

/** Seconds that each character takes. */
export const CHARACTER_SECONDS = 0.125

/** Audio of which each character is its own sound, and when it is heard: whole, or a line for each word. */
function timedSpeech(text: string, streamed: boolean): Answer {
  const characters = [...text]
  const timesOf = (from: number, to: number) => ({
    characters: characters.slice(from, to),
    character_start_times_seconds: characters.slice(from, to).map((_, at) => (from + at) * CHARACTER_SECONDS),
    character_end_times_seconds: characters
      .slice(from, to)
      .map((_, at) => (from + at + 1) * CHARACTER_SECONDS),
  })
  const pieceOf = (from: number, to: number) => ({
    audio_base64: Buffer.from(characters.slice(from, to).join('')).toString('base64'),
    alignment: timesOf(from, to),
    normalized_alignment: from === 0 ? timesOf(from, to) : null,
  })
  if (!streamed) return json(200, pieceOf(0, characters.length))
  const middle = characters.indexOf(' ') + 1
  const lines = [pieceOf(0, middle), pieceOf(middle, characters.length)].map(
    (piece) => `${JSON.stringify(piece)}\n`,
  )
  return { headers: { 'content-type': 'application/json' }, chunks: [...lines, '\n'] }
}
