import { type Static, Type } from 'typebox'
import { Compile } from 'typebox/compile'
import { GatewayError } from '../errors.ts'
import { run } from '../gateway/run.ts'
import { FieldReader } from '../inbound/form.ts'
import { readJson } from '../inbound/json-body.ts'
import { callerOf, type Handle } from './endpoint.ts'
import { readSelectors } from './selectors.ts'

const SpeechRequest = Type.Object({
  input: Type.String({ minLength: 1, maxLength: 100_000, description: 'text to synthesize' }),
  voice: Type.Optional(
    Type.Union([Type.String({ minLength: 1, maxLength: 256 }), Type.Null()], {
      description: 'voice name or id of the provider; each provider has its own default',
    }),
  ),
  response_format: Type.Optional(
    Type.Union([Type.String({ minLength: 1, maxLength: 64 }), Type.Null()], {
      description: 'output format of the provider; never substituted',
    }),
  ),
  speed: Type.Optional(
    Type.Union([Type.Number({ exclusiveMinimum: 0 }), Type.Null()], {
      description: 'speed of the voice, 1 is normal',
    }),
  ),
})

const speechRequest = Compile(SpeechRequest)

/** POST /v1/speech: the audio comes back as base64 in `content_blocks`; it leaves in slices, never as one string. */
export const speech: Handle = async (exchange, trail, { services }) => {
  const outcome = await run(services, {
    ...callerOf(exchange),
    operation: 'speech',
    trail,
    async read(_principal, { limits }) {
      const body = await readJson(exchange, {
        budget: services.budget,
        maxBytes: limits.max_request_body_bytes,
      })
      const { input, voice = null, response_format = null, speed = null } = parse(body)
      const selectors = readSelectors(
        exchange,
        new FieldReader({ kind: 'json', value: body as Record<string, unknown> }),
      )
      return { payload: { input, voice, response_format, speed }, selectors, warnings: [] }
    },
  })
  exchange.onFinished(outcome.release)
  const { audio, mediaType } = outcome.result
  const [before, after] = splitAt({
    ...outcome.envelope,
    content_blocks: [{ type: 'output_audio', base64: BASE64_HERE, media_type: mediaType }],
  })
  return {
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: [before, { base64: audio }, after],
  }
}

function parse(body: unknown): Static<typeof SpeechRequest> {
  if (speechRequest.Check(body)) return body
  const [fault] = speechRequest.Errors(body)
  const missing = fault?.keyword === 'required' ? fault.params.requiredProperties[0] : undefined
  const param = missing ?? fault?.instancePath.split('/')[1]
  const message =
    param === undefined ? 'the body is a JSON object' : `${param}: ${fault?.message ?? 'not as documented'}`
  throw new GatewayError('INVALID_REQUEST', message, param === undefined ? {} : { param })
}

const BASE64_HERE = '\u0000base64\u0000'

/** The JSON text before and behind the placeholder. No caller's text is in the envelope's raw control characters. */
function splitAt(envelope: object): [before: string, after: string] {
  const text = JSON.stringify(envelope)
  const placeholder = JSON.stringify(BASE64_HERE).slice(1, -1)
  const at = text.indexOf(placeholder)
  return [text.slice(0, at), text.slice(at + placeholder.length)]
}
