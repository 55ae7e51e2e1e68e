import { admit } from '../gateway/admit.ts'
import { type ReceivedAudio, receiveFields } from '../inbound/body.ts'
import { FieldReader, type Fields, withoutFields } from '../inbound/form.ts'
import type { Handle } from './endpoint.ts'
import { answerSpeech, speechRequest } from './speech.ts'
import { transcribe } from './transcription.ts'

export const TASKS = ['transcription', 'translation', 'speech'] as const
type Task = (typeof TASKS)[number]

/**
 * POST /v1/audio: transcription, translation or speech, as `task` says, with that endpoint's fields and
 * answer. The task may stand anywhere in the body, so the body is received before it is known.
 */
export const audio: Handle = async (exchange, trail, doors) => {
  const { services, spool } = doors
  const { limits } = services.snapshot()
  const { authorization } = exchange.headers
  const { workspace } = await admit(services, { authorization, trail })
  trail.trace?.begin('body')
  const received = await receiveFields(exchange, { spool, limits, workspace: workspace.id })
  trail.trace?.end()
  const task = taskOf(received)
  const body = { ...received, fields: withoutTask(received.fields) }
  if (task !== 'speech') {
    const offers = { stream: task === 'transcription', jobs: false }
    return transcribe({ task, offers }, body, null, exchange, trail, doors)
  }
  body.release()
  const call = speechRequest.read(speechFields(body), exchange)
  return answerSpeech(call, exchange, trail, services)
}

/** Gives the body back when there is no such task. @throws GatewayError INVALID_REQUEST */
function taskOf(body: ReceivedAudio): Task {
  try {
    return new FieldReader(body.fields).string('task', { oneOf: TASKS }) ?? 'transcription'
  } catch (error) {
    body.release()
    throw error
  }
}

/** The fields as the endpoint of the task knows them. */
export function withoutTask(fields: Fields): Fields {
  return withoutFields(fields, ['task'])
}

/** The fields of a body, and whether there was audio with them. */
interface SentFields {
  readonly fields: Fields
  readonly source: Pick<ReceivedAudio['source'], 'kind'>
}

/** The fields of speech as JSON has them, out of a form too; others stay in, to be warned of. */
export function speechFields({ fields, source }: SentFields): Record<string, unknown> {
  const unheard = source.kind === 'none' ? {} : { audio: null }
  if (fields.kind === 'json') return { ...fields.value, ...unheard }
  const reader = new FieldReader(fields)
  const numbers = { speed: reader.number('speed'), seed: reader.integer('seed') }
  const texts = ['input', 'voice', 'response_format', 'purpose', 'response_profile'] as const
  const known = { ...Object.fromEntries(texts.map((name) => [name, reader.string(name)])), ...numbers }
  const unknown = Object.fromEntries(reader.unknown().map((name) => [name, null]))
  return { ...unknown, ...unheard, ...known }
}
