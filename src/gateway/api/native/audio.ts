import { Type } from 'typebox'
import { limitsOf } from '../../../contracts/catalog.ts'
import { type ReceivedAudio, receiveFields } from '../../edge/body.ts'
import { FieldReader, type Fields, withoutFields } from '../../edge/form.ts'
import { endpoint } from '../endpoint.ts'
import { SELECTOR_FIELDS } from '../fields.ts'
import { optional } from '../json-request.ts'
import { Speech, Transcript } from '../openapi/answers.ts'
import { TRANSCRIPT_FACTS } from '../openapi/headers.ts'
import { json, TRANSCRIPTION_ERRORS } from '../openapi/operation.ts'
import { AUDIO_BODY, answerSpeech, speechRequest } from './speech.ts'
import { RENDERED, TRANSCRIPT_EVENTS } from './transcript-reply.ts'
import { transcribeNow } from './transcription.ts'
import { audioContents, queryFields, TRANSCRIPTION_FIELDS } from './transcription-request.ts'

export const TASKS = ['transcription', 'translation', 'speech'] as const
type Task = (typeof TASKS)[number]

const ANY_FIELDS = {
  task: optional(Type.Enum([...TASKS]), 'default: transcription'),
  ...Object.fromEntries(
    Object.entries(speechRequest.schema.properties).map(([name, schema]) => [name, Type.Optional(schema)]),
  ),
  ...TRANSCRIPTION_FIELDS,
  ...SELECTOR_FIELDS,
  response_format: optional(Type.String({ maxLength: 64 }), 'of the transcript, or of the audio'),
}

/** The task may stand anywhere in the body, so the body is received before it is known. */
export const audio = endpoint({
  method: 'POST',
  path: '/v1/audio',
  kind: 'call',
  id: 'audio',
  tag: 'Speech',
  summary: 'Transcribe, translate or speak',
  description: 'Selected by the field `task`, with the fields and the answer of that endpoint.',
  scope: 'inference',
  body: {
    contents: audioContents(ANY_FIELDS, false),
    parameters: ['Purpose', 'Require', queryFields(ANY_FIELDS)],
    receive({ exchange, context, deps: { services, spool } }) {
      const limits = limitsOf(context.principal, services.snapshot())
      return receiveFields(exchange, { spool, limits, workspace: context.principal.workspace.id })
    },
  },
  answers: [
    {
      status: 200,
      description: 'as the endpoint of the task',
      contents: [json({ anyOf: [Transcript, Speech] }), ...RENDERED, TRANSCRIPT_EVENTS, AUDIO_BODY],
      headers: [...TRANSCRIPT_FACTS, 'X-LK-Usage-Audio-Output-Characters'],
    },
  ],
  errors: TRANSCRIPTION_ERRORS,
  async handle(request) {
    const received = request.body
    const task = taskOf(received)
    const body = { ...received, fields: withoutTask(received.fields) }
    if (task !== 'speech') {
      const offers = { stream: task === 'transcription', jobs: false }
      return transcribeNow({ task, offers }, body, null, request)
    }
    body.release()
    return answerSpeech(speechRequest.read(speechFields(body), request.exchange), request)
  },
})

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
