import { nextTurn } from '../contracts/time.ts'
import { speechForm, speechMediaType } from '../gateway/media/speech-form.ts'
import { SpeechTranscoder } from '../gateway/media/speech-transcoder.ts'
import { type Answer, type CallBody, chunksOf, FILE_MAX_BYTES, first, json, Refusal, sha256 } from './http.ts'

import { modelFor } from './models.ts'
import { UnspeakableError } from './morse.ts'
import { heardCharacters, speak, TooLongError, VOICES } from './speak.ts'
import { hearTranscript, render, type Transcript } from './transcript.ts'

const INPUT_MAX_CHARACTERS = 4096
/** A second of samples. */
const SECOND_BYTES = 16_000
/** Bytes of sound in each format; the output of the next one is sent as it is made. */
const PIECE_BYTES: Readonly<Record<string, number>> = { wav: SECOND_BYTES, mp3: 4_000 }
/** Transcripts that are kept for files that come again. */
const KEPT_TRANSCRIPTS = 8

/**
 * `POST /v1/audio/transcriptions` and `/translations`: the text that is in the audio, computed from its
 * samples.
 *
 * @param empty hears nothing
 * @throws Refusal
 */
export function transcription(body: CallBody, task: 'transcribe' | 'translate', empty: boolean): Answer {
  const { formats } = modelFor('transcription', body)
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
  const digest = sha256(file.bytes)
  const recognized = transcriptOf(file.bytes, digest)
  if (recognized === null) {
    throw new Refusal(400, 'Invalid file format. Supported formats: flac, mp3, mp4, ogg, wav, webm', {
      param: 'file',
    })
  }
  const transcript = empty ? { ...recognized, text: '', segments: [], words: [] } : recognized
  const facts = {
    ...recognized.facts,
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

const kept = new Map<string, Transcript>()

/**
 * The content of a file. It follows from the bytes alone, so that a file that comes again, as it does in tests, is not
 * heard again. Null when it is not audio.
 *
 * @param digest of the bytes; with another byte it is another file
 */
function transcriptOf(bytes: Buffer, digest: string): Transcript | null {
  const transcript = kept.get(digest) ?? hearTranscript(bytes)
  if (transcript === null) return null
  kept.delete(digest)
  kept.set(digest, transcript)
  for (const oldest of [...kept.keys()].slice(0, -KEPT_TRANSCRIPTS)) kept.delete(oldest)
  return transcript
}

/**
 * `POST /v1/audio/speech`: Morse code in a wav or mp3 file, sent as it is made.
 *
 * @throws Refusal
 */
export async function speech(body: CallBody): Promise<Answer> {
  const { wav, format } = spoken(body)
  const audio = await inFormat(wav, format)
  const headers = { 'content-type': speechMediaType(format), ...audioHeaders(audio.length, sha256(audio)) }
  return { status: 200, headers, body: audio, chunks: chunksOf(audio, PIECE_BYTES[format]!) }
}

/**
 * `POST /v1/audio/speech/with-timestamps`, a path of the sandbox's own: the same with when each character sounds, whole
 * and in JSON as ElevenLabs has it.
 *
 * @throws Refusal
 */
export async function timedSpeech(body: CallBody): Promise<Answer> {
  const { wav, format, input, speed } = spoken(body)
  const audio = await inFormat(wav, format)
  const { characters, starts, ends } = heardCharacters(input, speed)
  const alignment = {
    characters,
    character_start_times_seconds: starts,
    character_end_times_seconds: ends,
  }
  return json(
    200,
    { audio_base64: audio.toString('base64'), alignment, normalized_alignment: null },
    audioHeaders(audio.length, sha256(audio)),
  )
}

/** The speech that a body asks for, as Morse code. @throws Refusal */
function spoken(body: CallBody) {
  modelFor('speech', body)
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
  const format = first(body, 'response_format') ?? 'wav'
  if (!Object.hasOwn(PIECE_BYTES, format)) {
    const message = `response_format takes ${Object.keys(PIECE_BYTES).join(', ')}`
    throw new Refusal(400, message, { param: 'response_format', code: 'invalid_value' })
  }
  const speed = Number(first(body, 'speed') ?? 1)
  if (!(speed >= 0.25 && speed <= 4)) throw new Refusal(400, 'speed takes 0.25 to 4', { param: 'speed' })
  return { wav: say(input, hertz, speed), format, input, speed }
}

/** A wav file in another format. It is made in turns, so that other calls are answered meanwhile. */
async function inFormat(wav: Buffer, format: string): Promise<Buffer> {
  if (format === 'wav') return wav
  const transcoder = new SpeechTranscoder(null, speechForm(format)!)
  const pieces: Uint8Array[] = []
  for (let at = 0; at < wav.length; at += SECOND_BYTES) {
    pieces.push(await transcoder.push(wav.subarray(at, at + SECOND_BYTES)))
    await nextTurn()
  }
  pieces.push(await transcoder.end())
  transcoder.free()
  return Buffer.concat(pieces)
}

function say(input: string, hertz: number, speed: number): Buffer {
  try {
    return speak(input, hertz, speed)
  } catch (error) {
    if (!(error instanceof UnspeakableError || error instanceof TooLongError)) throw error
    throw new Refusal(400, `input: ${error.message}`, { param: 'input', code: 'invalid_value' })
  }
}

function audioHeaders(bytes: number, digest: string) {
  return { 'x-sandbox-audio-sha256': digest, 'x-sandbox-audio-bytes': String(bytes) }
}
