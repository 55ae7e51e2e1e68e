import { type TSchema, Type } from 'typebox'
import type { AdmittedContext } from '../../call/context/call-context.ts'
import type { CallOf } from '../../call/facts/call.ts'
import type { Selection } from '../../call/select/selection.ts'
import type { Exchange } from '../../edge/exchange.ts'
import { type Fields, withoutFields } from '../../edge/form.ts'
import { invalid, invalidField } from '../../edge/refusals.ts'
import { canBeJoined, JOINED_NAMES, USUAL_FORMATS } from '../../live/joined-audio.ts'
import type { LiveSessions } from '../../live/sessions.ts'
import type { SpeechSession } from '../../live/speech-session.ts'
import { SELECTOR_FIELDS } from '../fields.ts'
import { jsonRequest } from '../json-request.ts'
import { CALL_ERRORS } from '../openapi/operation.ts'
import { socketEndpoint } from '../socket-endpoint.ts'
import { ERRORS_FIELD, messageId, nativeSocket } from './live-socket.ts'
import { inFormats, readSpeech, SpeechBody } from './speech.ts'
import { queryFields } from './transcription-request.ts'

const { input: _, ...OPTIONS } = SpeechBody.properties
const FIELDS: Readonly<Record<string, TSchema>> = { ...OPTIONS, ...SELECTOR_FIELDS, errors: ERRORS_FIELD }

/** Takes the place of the sentences that are not known yet. */
const ANY_TEXT = 'a'

const options = jsonRequest('speech', Type.Object(OPTIONS), (body) =>
  readSpeech({ ...body, input: ANY_TEXT }),
)

export const speechStream = socketEndpoint({
  path: '/v1/speech/stream',
  id: 'speechStream',
  tag: 'Speech',
  summary: 'Speak text over a WebSocket while it is written',
  description:
    'Subprotocol `larkway.v1`; in a browser `larkway.v1, larkway.key.<key>`. The fields are query parameters, or ' +
    'the first message, `{"type":"start", …}`. Text comes in messages `{"type":"text","text":"…"}`; binary ' +
    'messages are its audio, one sentence after the other.',
  parameters: ['Purpose', 'Require', queryFields(FIELDS)],
  errors: CALL_ERRORS,
  ...nativeSocket<SpeechSession>({
    open({ exchange, context, deps: { live }, admitted }, fields, sink) {
      const asked = readOptions(exchange, fields)
      const { call, selection } = selectFormat(live, context, asked, formatsOf(asked))
      return live.openSpeech({ context, call, selection, sink, admitted })
    },
    bytes() {
      throw invalid('text comes in text messages; binary ones are not for callers')
    },
    handleMessage(session, message) {
      switch (message.type) {
        case 'text':
          return session().text(messageText(message))
        case 'flush':
          return session().flush(messageId(message))
        case 'keepalive':
          return session().keepAlive()
        case 'end':
          return session().end()
        default:
          throw invalidField('type', 'must be `start`, `text`, `flush`, `keepalive` or `end`')
      }
    },
    drained: (session) => session.drained(),
  }),
})

function messageText({ text }: Record<string, unknown>): string {
  if (typeof text === 'string') return text
  throw invalidField('text', 'must be a string')
}

/** @throws GatewayError INVALID_REQUEST naming the field */
function readOptions(exchange: Exchange, fields: Fields): CallOf<'speech'> {
  const kept = withoutFields(fields, ['errors'])
  const body = kept.kind === 'json' ? kept.value : valuesOf(kept.values)
  if ('input' in body) throw invalidField('input', 'must be left out; the text comes in messages `text`')
  return options.read(body, exchange)
}

const NUMBERS: ReadonlySet<string> = new Set(['speed', 'seed'])

/** The parameters of a query as the members of a body. What makes no number is refused as what it is. */
function valuesOf(values: ReadonlyMap<string, readonly string[]>): Record<string, unknown> {
  const member = ([name, texts]: readonly [string, readonly string[]]) => {
    const [text = ''] = texts
    if (texts.length > 1) return [name, texts]
    return [name, NUMBERS.has(name) && /^-?[\d.]+$/.test(text) ? Number(text) : text]
  }
  return Object.fromEntries([...values].map(member))
}

/** Formats that a call may be made in. @throws GatewayError INVALID_REQUEST */
function formatsOf({ payload: { response_format: given } }: CallOf<'speech'>): readonly string[] {
  if (given === null) return USUAL_FORMATS
  if (canBeJoined(given)) return [given]
  throw invalidField('response_format', `must be one whose pieces can be joined: ${JOINED_NAMES}`)
}

/**
 * Selects for a format that stays the same for the whole session, whichever entries speak it: without one each provider
 * would choose its own.
 *
 * @param formats whose pieces can be joined; the first that an entry makes is taken
 * @throws GatewayError as `LiveSessions.selectSpeech`
 */
function selectFormat(
  live: LiveSessions,
  context: AdmittedContext,
  call: CallOf<'speech'>,
  formats: readonly string[],
): { readonly call: CallOf<'speech'>; readonly selection: Selection } {
  let refusal: unknown = null
  for (const { tried, made } of inFormats(call, formats)) {
    try {
      const selection = live.selectSpeech(context, tried)
      return { call: made, selection: tried === made ? selection : live.selectSpeech(context, made) }
    } catch (thrown) {
      refusal ??= thrown
    }
  }
  throw refusal
}
