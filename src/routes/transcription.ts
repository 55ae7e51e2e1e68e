import { GatewayError } from '../errors.ts'
import type { Call, Trail } from '../gateway/gateway.ts'
import { run } from '../gateway/run.ts'
import type { Envelope, Outcome } from '../gateway/settle.ts'
import { type ReceivedAudio, receiveAudio } from '../inbound/body.ts'
import type { Exchange, Reply } from '../inbound/exchange.ts'
import type { Limits } from '../limits.ts'
import { renderTranscript } from '../media/render.ts'
import type { Audio } from '../schema/audio.ts'
import type { Segment, TranscriptionOptions, TranscriptionResult, Word } from '../schema/calls.ts'
import type { Principal } from '../schema/catalog.ts'
import { callerOf, type Doors, type Handle } from './endpoint.ts'
import { readTranscriptionRequest } from './transcription-request.ts'

/** POST /v1/transcription */
export const transcription: Handle = (exchange, trail, doors) =>
  transcribe('transcription', exchange, trail, doors)

/** POST /v1/translation */
export const translation: Handle = (exchange, trail, doors) =>
  transcribe('translation', exchange, trail, doors)

async function transcribe(
  operation: 'transcription' | 'translation',
  exchange: Exchange,
  trail: Trail,
  doors: Doors,
): Promise<Reply> {
  const received: ReceivedAudio[] = []
  try {
    const outcome = await run(doors.services, {
      ...callerOf(exchange),
      operation,
      trail,
      async read(principal, { limits }) {
        const body = await receive(exchange, principal, limits, doors)
        received.push(body)
        return readCall(exchange, body, limits, doors)
      },
    })
    exchange.onFinished(outcome.release)
    return renderReply(outcome)
  } finally {
    // Only now does no attempt read the audio any more; its memory goes to the next request.
    for (const body of received) body.release()
  }
}

function receive(
  exchange: Exchange,
  principal: Principal,
  limits: Limits,
  { spool }: Doors,
): Promise<ReceivedAudio> {
  return receiveAudio(exchange, { spool, limits, workspace: principal.workspace.id, app: principal.app.id })
}

async function readCall(
  exchange: Exchange,
  { fields, source }: ReceivedAudio,
  limits: Limits,
  { probe }: Doors,
): Promise<Call<'transcription'>> {
  const { options, selectors, warnings } = readTranscriptionRequest(exchange, fields)
  if (source.kind === 'url') {
    throw new GatewayError('INVALID_REQUEST', 'audio by URL is not fetched by this server yet', {
      param: 'audio.url',
    })
  }
  const audio = await probe.probe(source.audio, exchange.signal)
  checkDuration(audio, limits)
  return { payload: { audio, options }, selectors, warnings }
}

/** @throws GatewayError AUDIO_TOO_LONG, or UNSUPPORTED_AUDIO_FORMAT when a cap is set and the file does not tell */
function checkDuration({ durationSeconds }: Audio, { max_audio_seconds: cap }: Limits): void {
  if (cap === null) return
  if (durationSeconds === null) {
    throw new GatewayError('UNSUPPORTED_AUDIO_FORMAT', 'the duration of the audio cannot be found', {
      details: { limit: 'max_audio_seconds', limit_seconds: cap },
    })
  }
  if (durationSeconds <= cap) return
  throw new GatewayError('AUDIO_TOO_LONG', `the audio is over max_audio_seconds (${cap} seconds)`, {
    details: { limit: 'max_audio_seconds', limit_seconds: cap, audio_seconds: durationSeconds },
  })
}

function renderReply({
  envelope,
  payload: { audio, options },
  result,
}: Outcome<'transcription' | 'translation'>): Reply {
  const { response_format: format } = options
  if (format === 'text' || format === 'srt' || format === 'vtt') {
    const { body, contentType } = renderTranscript(format, result)
    return { status: 200, headers: { 'content-type': contentType, ...factHeaders(envelope) }, body }
  }
  const { warnings, ...common } = envelope
  const { segments, words } = askedParts(result, options)
  const body = {
    ...common,
    content: result.text,
    status: 'succeeded',
    language: result.language,
    language_confidence: result.languageConfidence,
    duration_seconds: audio.durationSeconds ?? result.durationSeconds,
    segments,
    words,
    warnings,
  }
  return { status: 200, body: JSON.stringify(body) }
}

/** The envelope holds the parts that were asked for, by `timestamps` or by the format. */
function askedParts(
  { segments, words }: TranscriptionResult,
  { timestamps, response_format: format, diarization }: TranscriptionOptions,
): { segments: readonly Segment[]; words: readonly Word[] } {
  const wantsWords = timestamps === 'word' || timestamps === 'both'
  const wantsSegments = timestamps === 'segment' || timestamps === 'both' || diarization || format !== 'json'
  return { segments: wantsSegments ? segments : [], words: wantsWords ? words : [] }
}

/** The envelope's facts beside a body that is not JSON. */
function factHeaders(envelope: Envelope): Record<string, string> {
  const { usage, cost_usd, lk_applied_purpose, lk_purpose_source } = envelope
  const headers: Record<string, string> = {
    'x-lk-provider': envelope.provider,
    'x-lk-model': envelope.model,
    'x-lk-purpose-source': lk_purpose_source,
  }
  for (const [name, value] of Object.entries(usage)) {
    if (value !== null) headers[`x-lk-usage-${name.replaceAll('_', '-')}`] = String(value)
  }
  if (cost_usd !== null) headers['x-lk-cost-usd'] = String(cost_usd)
  if (lk_applied_purpose !== null) headers['x-lk-applied-purpose'] = encodeURIComponent(lk_applied_purpose)
  return headers
}
