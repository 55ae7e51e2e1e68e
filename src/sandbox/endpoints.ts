import { createHash } from 'node:crypto'
import { type CallBody, FILE_MAX_BYTES } from './body.ts'
import { UnspeakableError } from './morse.ts'
import { Refusal } from './refusal.ts'
import { render, TRANSCRIPT_FORMATS, type TranscriptFormat } from './render.ts'
import { speak, TooLongError, VOICES } from './speak.ts'
import { transcribe } from './transcript.ts'

/** A whole answer. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

const TEXT_ONLY: readonly TranscriptFormat[] = ['json', 'text']
const INPUT_MAX_CHARACTERS = 4096
/** When the models were made, Unix seconds. */
const CREATED = 1_795_000_000

/**
 * Models and the transcript formats that each knows. OpenAI's names are there too, so that a client made for
 * OpenAI can be pointed here as it is.
 */
const MODELS: ReadonlyMap<string, readonly TranscriptFormat[]> = new Map([
  ['morse-1', TRANSCRIPT_FORMATS],
  ['morse-1-mini', TEXT_ONLY],
  ['whisper-1', TRANSCRIPT_FORMATS.filter((format) => format !== 'diarized_json')],
  ['gpt-4o-transcribe', TEXT_ONLY],
  ['gpt-4o-transcribe-diarize', [...TEXT_ONLY, 'diarized_json']],
  ['tts-1', []],
])

/** Models that speak. */
const SPEAKERS: ReadonlySet<string> = new Set(['morse-1', 'tts-1'])

/** `GET /v1/models` */
export function listModels(): Answer {
  const data = [...MODELS.keys()].map((id) => ({
    id,
    object: 'model',
    created: CREATED,
    owned_by: 'larkway-sandbox',
  }))
  return json(200, { object: 'list', data })
}

/**
 * `POST /v1/audio/transcriptions` and `/translations`: the text that is in the audio, computed from its
 * samples.
 *
 * @param empty hears nothing
 * @throws Refusal
 */
export function transcription(body: CallBody, task: 'transcribe' | 'translate', empty: boolean): Answer {
  const formats = modelOf(body)
  const { file } = body
  if (file === null) throw new Refusal(400, 'file: a file is required', { param: 'file' })
  if (file.bytes.length > FILE_MAX_BYTES) {
    throw new Refusal(413, `Maximum content size limit (${FILE_MAX_BYTES}) exceeded`)
  }
  const format = formats.find((known) => known === (first(body, 'response_format') ?? 'json'))
  if (format === undefined) {
    const message = `response_format takes ${formats.join(', ')} with this model`
    throw new Refusal(400, message, { param: 'response_format', code: 'unsupported_value' })
  }
  const granularities = body.fields.get('timestamp_granularities[]') ?? []
  if (granularities.some((name) => (name !== 'word' && name !== 'segment') || format !== 'verbose_json')) {
    const message = 'timestamp_granularities takes word and segment, with verbose_json'
    throw new Refusal(400, message, { param: 'timestamp_granularities' })
  }
  const heard = transcribe(file.bytes)
  if (heard === null) {
    throw new Refusal(400, 'Invalid file format. Supported formats: flac, mp3, mp4, ogg, wav, webm', {
      param: 'file',
    })
  }
  const transcript = empty ? { ...heard, text: '', segments: [], words: [] } : heard
  const digest = sha256(file.bytes)
  const facts = {
    ...heard.facts,
    sha256: digest,
    bytes: file.bytes.length,
    filename: file.name,
    type: file.type,
  }
  const rendered = render(transcript, { task, format, granularities, facts })
  return {
    status: 200,
    headers: { 'content-type': rendered.contentType, ...audioHeaders(file.bytes.length, digest) },
    body: Buffer.from(rendered.body),
  }
}

/**
 * `POST /v1/audio/speech`: Morse code in a wav file.
 *
 * @throws Refusal
 */
export function speech(body: CallBody): Answer {
  modelOf(body)
  const model = first(body, 'model') ?? ''
  if (!SPEAKERS.has(model)) throw new Refusal(404, `The model '${model}' does not speak.`, MODEL_NOT_FOUND)
  const input = first(body, 'input') ?? ''
  if ([...input].length > INPUT_MAX_CHARACTERS) {
    throw new Refusal(400, `input takes up to ${INPUT_MAX_CHARACTERS} characters`, { param: 'input' })
  }
  const voice = first(body, 'voice') ?? 'alloy'
  const hertz = Object.hasOwn(VOICES, voice) ? VOICES[voice] : undefined
  if (hertz === undefined) {
    throw new Refusal(400, `voice takes ${Object.keys(VOICES).join(', ')}`, {
      param: 'voice',
      code: 'invalid_value',
    })
  }
  if ((first(body, 'response_format') ?? 'wav') !== 'wav') {
    throw new Refusal(400, 'response_format takes wav', { param: 'response_format', code: 'invalid_value' })
  }
  const speed = Number(first(body, 'speed') ?? 1)
  if (!(speed >= 0.25 && speed <= 4)) throw new Refusal(400, 'speed takes 0.25 to 4', { param: 'speed' })
  const audio = say(input, hertz, speed)
  const headers = { 'content-type': 'audio/wav', ...audioHeaders(audio.length, sha256(audio)) }
  return { status: 200, headers, body: audio }
}

function say(input: string, hertz: number, speed: number): Buffer {
  try {
    return speak(input, hertz, speed)
  } catch (error) {
    if (!(error instanceof UnspeakableError || error instanceof TooLongError)) throw error
    throw new Refusal(400, `input: ${error.message}`, { param: 'input', code: 'invalid_value' })
  }
}

const MODEL_NOT_FOUND = { param: 'model', code: 'model_not_found' }

/** The transcript formats of the model that the body names. */
function modelOf(body: CallBody): readonly TranscriptFormat[] {
  const model = first(body, 'model')
  if (model === undefined) throw new Refusal(400, 'you must provide a model parameter', { param: 'model' })
  const formats = MODELS.get(model)
  if (formats !== undefined) return formats
  throw new Refusal(
    404,
    `The model '${model}' does not exist or you do not have access to it.`,
    MODEL_NOT_FOUND,
  )
}

/** An answer in JSON. */
export function json(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Answer {
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    body: Buffer.from(JSON.stringify(body)),
  }
}

/** Lower-case hex. */
export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

function first(body: CallBody, name: string): string | undefined {
  return body.fields.get(name)?.[0]
}

function audioHeaders(bytes: number, digest: string) {
  return { 'x-sandbox-audio-sha256': digest, 'x-sandbox-audio-bytes': String(bytes) }
}
