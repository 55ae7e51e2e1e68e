import { Type } from 'typebox'
import { GatewayError } from '../../../contracts/errors.ts'
import { checkedBody } from '../checked-body.ts'
import { endpoint } from '../endpoint.ts'
import { jsonReply } from '../json-reply.ts'
import { json } from '../openapi/operation.ts'
import { count, shape, text } from '../openapi/schema.ts'

const TEXT_MAX = 1024 * 1024
/** A text of other scripts, some of it escaped. */
const MAX_BODY_BYTES = 4 * TEXT_MAX

const Body = Type.Object({
  id: Type.String({
    minLength: 1,
    maxLength: 128,
    description: 'the `id` of the transcription or translation, or the `job_id` of its job',
  }),
  text: Type.String({ minLength: 1, maxLength: TEXT_MAX, description: 'what was really said' }),
})

const Reference = shape('TranscriptionReference', {
  id: text('as it was sent'),
  words: count('words of the reference that counts: the first one that was sent for the call'),
})

export const transcriptionReferences = endpoint({
  method: 'POST',
  path: '/v1/transcription/references',
  kind: 'none',
  id: 'transcriptionReferences',
  tag: 'Speech',
  summary: 'What was really said',
  description:
    'For calls of a route that compares another model beside its own: both answers are counted against the text, ' +
    'and then deleted. Once for each call; 404 where there is nothing to compare, not yet, or not any more.',
  scope: 'inference',
  body: checkedBody(Body, MAX_BODY_BYTES),
  answers: [{ status: 200, description: 'the reference counts', contents: [json(Reference)] }],
  errors: ['NOT_FOUND', 'CONFLICT'],
  async handle({ context, deps: { services }, body: { id, text: said } }) {
    const owner = { workspace: context.principal.workspace.id, callId: id }
    const words = await services.references?.take(owner, said, context.signal)
    if (words === undefined) throw new GatewayError('NOT_FOUND')
    return jsonReply({ id, words })
  },
})
