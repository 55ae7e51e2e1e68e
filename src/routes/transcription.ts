import { GatewayError } from '../errors.ts'
import { admit } from '../gateway/admit.ts'
import type { Call, Trail } from '../gateway/gateway.ts'
import { run } from '../gateway/run.ts'
import { runStreamed } from '../gateway/stream.ts'
import { noAudio, type ReceivedAudio, receiveAudio } from '../inbound/body.ts'
import type { Exchange, Reply } from '../inbound/exchange.ts'
import type { Limits } from '../limits.ts'
import type { Audio } from '../schema/audio.ts'
import { callerOf, type Doors, type Handle } from './endpoint.ts'
import { eventStreamReply } from './sse.ts'
import { transcriptEnvelope, transcriptReply } from './transcript-reply.ts'
import { type HearingTask, readTranscriptionRequest } from './transcription-request.ts'

/** POST /v1/transcription */
export const transcription: Handle = (exchange, trail, doors) =>
  receiveAndTranscribe('transcription', exchange, trail, doors)

/** POST /v1/translation */
export const translation: Handle = (exchange, trail, doors) =>
  receiveAndTranscribe('translation', exchange, trail, doors)

async function receiveAndTranscribe(
  task: HearingTask,
  exchange: Exchange,
  trail: Trail,
  doors: Doors,
): Promise<Reply> {
  const snapshot = doors.services.snapshot()
  const principal = await admit(doors.services, snapshot, {
    authorization: exchange.headers.authorization,
    trail,
  })
  const { limits } = snapshot
  const { workspace, app } = principal
  const body = await receiveAudio(exchange, {
    spool: doors.spool,
    limits,
    workspace: workspace.id,
    app: app.id,
  })
  return transcribe(task, body, limits, exchange, trail, doors)
}

/**
 * The answer to a call whose body is here. The body is given back when no attempt reads its audio any more.
 *
 * @param trail of a caller who is admitted
 */
export async function transcribe(
  task: HearingTask,
  body: ReceivedAudio,
  limits: Limits,
  exchange: Exchange,
  trail: Trail,
  doors: Doors,
): Promise<Reply> {
  let streams = false
  try {
    const { call, stream } = await readCall(exchange, body, task, limits, doors)
    if (stream) {
      const reply = await streamTranscript(call, body, exchange, trail, doors)
      streams = true
      return reply
    }
    const request = { ...callerOf(exchange), operation: task, trail, call }
    const outcome = await run(doors.services, request)
    exchange.onFinished(outcome.release)
    return transcriptReply(outcome)
  } finally {
    // Only now does no attempt read the audio any more; its memory goes to the next request.
    if (!streams) body.release()
  }
}

/**
 * `transcript.text.delta` for each piece, `transcript.text.done` with the whole envelope at the end. A stream
 * cannot be replayed, so that a key for that is passed by.
 */
async function streamTranscript(
  call: Call<'transcription'>,
  body: ReceivedAudio,
  exchange: Exchange,
  trail: Trail,
  { services }: Doors,
): Promise<Reply> {
  if (exchange.headers['idempotency-key'] !== undefined) trail.headers['x-lk-idempotency'] = 'bypassed'
  const request = { ...callerOf(exchange), operation: 'transcription' as const, trail, call }
  const streaming = await runStreamed(services, request)
  // Left, or broken off: in both cases this settles when the provider is sent no more of the audio.
  const leave = () => streaming.deltas.return().catch(() => {})
  exchange.onFinished(() => void leave().then(() => body.release()))
  return eventStreamReply(
    {
      deltas: streaming.deltas,
      event: (delta) => ({ type: 'transcript.text.delta', delta }),
      done() {
        const outcome = streaming.outcome()
        // A slow reader of the transcript holds no audio.
        body.release()
        exchange.onFinished(outcome.release)
        return { type: 'transcript.text.done', ...transcriptEnvelope(outcome) }
      },
      terminator: null,
    },
    exchange,
    trail,
  )
}

async function readCall(
  exchange: Exchange,
  { fields, source }: ReceivedAudio,
  task: HearingTask,
  limits: Limits,
  { probe }: Doors,
): Promise<{ readonly call: Call<'transcription'>; readonly stream: boolean }> {
  const { options, stream, selectors, warnings } = readTranscriptionRequest(exchange, fields, task)
  if (source.kind === 'none') throw noAudio(fields)
  if (source.kind === 'url') {
    throw new GatewayError('INVALID_REQUEST', 'audio by URL is not fetched by this server yet', {
      param: 'audio.url',
    })
  }
  const audio = await probe.probe(source.audio, exchange.signal)
  checkDuration(audio, limits)
  return { call: { payload: { audio, options }, selectors, warnings }, stream }
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
