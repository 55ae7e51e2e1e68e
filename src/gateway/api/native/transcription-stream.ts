import type { TSchema } from 'typebox'
import type { Fields } from '../../edge/form.ts'
import { isObject } from '../../edge/json-body.ts'
import { invalidField } from '../../edge/refusals.ts'
import type { LiveSession } from '../../live/session.ts'
import { SELECTOR_FIELDS } from '../fields.ts'
import { CALL_ERRORS } from '../openapi/operation.ts'
import { socketEndpoint } from '../socket-endpoint.ts'
import { LIVE_FIELDS, readLiveCall } from './live-call.ts'
import { ERRORS_FIELD, messageId, nativeSocket } from './live-socket.ts'
import { queryFields, TRANSCRIPTION_FIELDS } from './transcription-request.ts'

const { mode: _mode, stream: _stream, response_format: _format, ...OPTIONS } = TRANSCRIPTION_FIELDS
const FIELDS: Readonly<Record<string, TSchema>> = {
  ...OPTIONS,
  ...SELECTOR_FIELDS,
  ...LIVE_FIELDS,
  errors: ERRORS_FIELD,
}

export const transcriptionStream = socketEndpoint({
  path: '/v1/transcription/stream',
  id: 'transcriptionStream',
  tag: 'Speech',
  summary: 'Transcribe live audio over a WebSocket',
  description:
    'Subprotocol `larkway.v1`; in a browser `larkway.v1, larkway.key.<key>`. The fields are query parameters, or ' +
    'the first message, `{"type":"start", …}`. Binary messages are audio. When a provider fails, another one ' +
    'continues with what was not settled.',
  parameters: ['Purpose', 'Require', queryFields(FIELDS)],
  errors: [...CALL_ERRORS, 'ROUTE_CONTROL_NOT_ALLOWED'],
  ...nativeSocket<LiveSession>({
    open({ exchange, context, deps: { live }, admitted }, fields, sink) {
      const call = readLiveCall(exchange, flat(fields))
      const selection = live.select(context, call)
      return live.open({ context, call, selection, sink, admitted })
    },
    bytes: (session, message) => session.audio(message),
    handleMessage(session, message) {
      switch (message.type) {
        case 'finalize':
          return session().finalize(messageId(message))
        case 'keepalive':
          return session().keepAlive()
        case 'end':
          return session().end()
        default:
          throw invalidField('type', 'must be `start`, `finalize`, `keepalive` or `end`')
      }
    },
  }),
})

/** The message `start` has the format of the audio in an object. @throws GatewayError */
function flat(fields: Fields): Fields {
  if (fields.kind === 'form') return fields
  const { audio = {}, ...rest } = fields.value
  if (!isObject(audio)) throw invalidField('audio', 'must be an object')
  return { kind: 'json', value: { ...rest, ...audio } }
}
