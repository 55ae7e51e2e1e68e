import { Type } from 'typebox'
import { limitsOf } from '../../../contracts/catalog.ts'
import { newId } from '../../../contracts/ids.ts'
import { bearerIn } from '../../call/authentication.ts'
import { hashKey } from '../../catalog/key.ts'
import { checkedBody } from '../checked-body.ts'
import { endpoint } from '../endpoint.ts'
import { warningHeaders } from '../fact-headers.ts'
import { unknownFields } from '../fields.ts'
import { jsonReply } from '../json-reply.ts'
import { optional } from '../json-request.ts'
import { json } from '../openapi/operation.ts'
import { count, shape, text } from '../openapi/schema.ts'
import { sealToken } from './upload-token.ts'
import { UPLOADS, uploadUrl } from './uploads.ts'

const SECONDS_LEAST = 10
const SECONDS_MOST = 24 * 3600
const SECONDS_DEFAULT = 3600
const MAX_BODY_BYTES = 64 * 1024

const Body = Type.Object({
  max_bytes: optional(
    Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
    'longest upload that it makes; default: `limits.max_audio_bytes`',
  ),
  expires_after_seconds: optional(
    Type.Integer({ minimum: SECONDS_LEAST, maximum: SECONDS_MOST }),
    `default: ${SECONDS_DEFAULT}`,
  ),
})

const KNOWN = Object.keys(Body.properties)

const Token = shape('UploadToken', {
  token: text('in place of a key, for this upload alone'),
  upload_id: text('of the upload that it makes'),
  upload_url: text('where that is, once it is made'),
  max_bytes: count('longest upload that it makes'),
  expires_at: text('when it opens nothing any more'),
})

export const uploadTokens = endpoint({
  ...UPLOADS,
  method: 'POST',
  path: '/v1/uploads/tokens',
  id: 'uploadToken',
  summary: 'Make a token for one upload',
  description:
    'For a browser, or whoever else is to have no key: the token makes one upload, goes on with it and deletes it, ' +
    'and opens nothing else. It ends with the key.',
  body: checkedBody(Body, MAX_BODY_BYTES),
  answers: [{ status: 200, description: 'the token', contents: [json(Token)], headers: ['X-LK-Warnings'] }],
  async handle({ exchange, context, deps, body: sent }) {
    const { services, secretKeys } = deps
    const nowMs = services.clock.wallNow()
    const most = limitsOf(context.principal, services.snapshot()).max_audio_bytes
    const id = newId('upl', nowMs)
    const maxBytes = Math.min(sent.max_bytes ?? most, most)
    const expiresAtMs = nowMs + 1000 * (sent.expires_after_seconds ?? SECONDS_DEFAULT)
    const keySha256 = hashKey(bearerIn(exchange.headers.authorization))
    const unknown = Object.keys(sent).filter((name) => !KNOWN.includes(name))
    const reply = await jsonReply({
      token: sealToken(secretKeys, { id, keySha256, maxBytes, expiresAtMs }),
      upload_id: id,
      upload_url: uploadUrl(id, deps),
      max_bytes: maxBytes,
      expires_at: new Date(expiresAtMs).toISOString(),
    })
    return { ...reply, headers: { ...reply.headers, ...warningHeaders(unknownFields(unknown, KNOWN)) } }
  },
})
