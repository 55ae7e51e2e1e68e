import { createHash } from 'node:crypto'
import { type Answer, type Dialect, type Fields, jsonAnswer } from './dialect.ts'

export const DEEPGRAM_KEY = 'dg-upstream-key'

/** Query parameters of `POST /v1/listen` that may come, and what each may hold. */
const LISTEN: Readonly<Record<string, RegExp>> = {
  model: /^nova-[23](-[a-z]+)?$/,
  language: /^(multi|[a-z]{2}(-[A-Za-z0-9]+)?)$/,
  detect_language: /^true$/,
  punctuate: /^(true|false)$/,
  diarize_model: /^(latest|v1|v2)$/,
  utterances: /^(true|false)$/,
  multichannel: /^(true|false)$/,
  smart_format: /^(true|false)$/,
  profanity_filter: /^(true|false)$/,
  redact: /^(pci|pii|phi|numbers)$/,
  keyterm: /./,
  mip_opt_out: /^true$/,
  keywords: /^[^:]+(:[\d.]+)?$/,
}

/** What each encoding takes beside itself, and the type of what it makes. */
const SPEAK: Readonly<Record<string, { container: string[]; rates: string[]; type: string }>> = {
  mp3: { container: [], rates: [], type: 'audio/mpeg' },
  linear16: {
    container: ['wav', 'none'],
    rates: ['8000', '16000', '24000', '32000', '48000'],
    type: 'audio/wav',
  },
  opus: { container: ['ogg'], rates: [], type: 'audio/ogg;codecs=opus' },
  flac: { container: [], rates: ['8000', '16000', '22050', '32000', '48000'], type: 'audio/flac' },
  aac: { container: [], rates: [], type: 'audio/aac' },
}

/**
 * Deepgram's contract, as strict as it: unknown parameters, values and combinations that it documents as errors are
 * refused. A transcript names the SHA-256 of the audio that came, and its type.
 */
export function deepgramDialect(): Dialect {
  return {
    basePath: '',
    refuse: (status) => refuse(status, 'Error', 'Refused.'),
    answer({ request, bytes }) {
      const { pathname, searchParams: query } = new URL(request.path, 'http://upstream')
      if (request.headers.authorization !== `Token ${DEEPGRAM_KEY}`) {
        return refuse(401, 'INVALID_AUTH', 'Invalid credentials.')
      }
      const type = request.headers['content-type'] ?? ''
      const line = `${request.method} ${pathname}`
      if (line === 'POST /v1/listen') return listenTo(query, type, bytes)
      if (line === 'POST /v1/speak') return speak(query, type, request.body)
      if (line !== 'GET /v1/models') {
        return { status: 404, headers: { 'content-type': 'text/plain' }, bytes: Buffer.from('Not found') }
      }
      const stt = [{ name: 'general', canonical_name: 'nova-3-general' }]
      return json(200, { stt, tts: [{ name: 'thalia', canonical_name: 'aura-2-thalia-en' }] })
    },
  }
}

function json(status: number, body: unknown): Answer {
  return jsonAnswer(body, status, { 'dg-request-id': 'r1' })
}

function refuse(status: number, code: string, message: string): Answer {
  return json(status, { err_code: code, err_msg: message, request_id: 'r1' })
}

function listenTo(query: URLSearchParams, type: string, audio: Buffer): Answer {
  const model = query.get('model') ?? ''
  for (const [name, value] of query) {
    const known = Object.hasOwn(LISTEN, name) ? LISTEN[name] : undefined
    if (!known?.test(value)) {
      return refuse(400, 'INVALID_QUERY_PARAMETER', `Failed to deserialize query parameters: ${name}`)
    }
  }
  const isMulti = query.get('language') === 'multi'
  if (
    isMulti &&
    (!/^nova-[23](-general)?$/.test(model) || query.has('detect_language') || query.has('redact'))
  ) {
    return refuse(400, 'Bad Request', 'No such model/language/tier combination found.')
  }
  if (query.has(model.startsWith('nova-3') ? 'keywords' : 'keyterm')) {
    return refuse(400, 'Bad Request', 'Keywords and keyterms belong to their own models.')
  }
  if (!/^audio\/[a-z0-9]+$/.test(type) || audio.length === 0) {
    return refuse(400, 'Bad Request', 'Bad Request: failed to process audio: corrupt or unsupported data')
  }
  const transcript = `Heard ${createHash('sha256').update(audio).digest('hex')} as ${type}.`
  const diarized = query.has('diarize_model')
  const counts = query.get('multichannel') === 'true' ? [0, 1] : [0]
  const speaker = diarized ? { speaker: 0, speaker_confidence: 0.5 } : {}
  const wordsOf = (channel: number) =>
    transcript.split(' ').map((word, index) => {
      const start = index + channel / 4
      const plain = word.toLowerCase().replace('.', '')
      return { word: plain, start, end: start + 0.2, confidence: 0.9, ...speaker, punctuated_word: word }
    })
  const detected = query.has('detect_language') ? { detected_language: 'en', language_confidence: 0.99 } : {}
  const channels = counts.map((channel) => ({
    alternatives: [
      {
        transcript,
        confidence: 0.9,
        words: wordsOf(channel),
        ...(isMulti ? { languages: ['es', 'en'] } : {}),
      },
    ],
    ...detected,
  }))
  const utterances = counts.map((channel) => {
    const words = wordsOf(channel)
    const [start, end] = [words[0]?.start, words.at(-1)?.end]
    return { start, end, confidence: 0.9, channel, transcript, words, ...speaker, id: `u${channel}` }
  })
  const asked = query.get('utterances') === 'true' ? { utterances } : {}
  return json(200, {
    metadata: { request_id: 'r1', duration: 2.5, channels: counts.length, model_info: infoOf(model) },
    results: { channels, ...asked },
  })
}

/** As Deepgram names the model that heard. */
function infoOf(model: string): object {
  const [, family = '3', variant = 'general'] = /^nova-(\d)(?:-(.+))?$/.exec(model) ?? []
  const name = family === '3' ? `${variant}-nova-3` : `${family}-${variant}-nova`
  return { '30089e05-99d1-4376-b32e-c263170674af': { name, version: '2026-10-07.0', arch: `nova-${family}` } }
}

function speak(query: URLSearchParams, type: string, body: Fields | null): Answer {
  const {
    model,
    encoding = 'mp3',
    container,
    sample_rate: rate,
    speed = '1',
    mip_opt_out: opted = 'true',
    ...unknown
  } = Object.fromEntries(query)
  if (type !== 'application/json') {
    return refuse(415, 'UNSUPPORTED_MEDIA_TYPE', '`Content-Type` header is not supported.')
  }
  const takes = Object.hasOwn(SPEAK, encoding) ? SPEAK[encoding] : undefined
  const fits =
    takes !== undefined &&
    (container === undefined || takes.container.includes(container)) &&
    (rate === undefined || takes.rates.includes(rate)) &&
    Number(speed) >= 0.7 &&
    Number(speed) <= 1.5 &&
    opted === 'true' &&
    Object.keys(unknown).length === 0
  if (!fits) return refuse(400, 'INVALID_QUERY_PARAMETER', 'Unsupported audio format')
  if (!/^aura-2-(thalia|orion)-en$/.test(model ?? '')) {
    return refuse(400, 'Bad Request', 'Bad Request: No such model/version combination found.')
  }
  const { text, ...more } = body ?? {}
  if (typeof text !== 'string' || Object.keys(more).length > 0) {
    return refuse(400, 'PAYLOAD_ERROR', 'Failed to deserialize JSON payload.')
  }
  if (text.length > 2000) return refuse(413, 'Payload Too Large', 'Input text exceeds maximum')
  const headers = { 'content-type': takes.type, 'dg-model-name': model ?? '' }
  return { headers, chunks: ['spoken ', `${model} `, text] }
}
