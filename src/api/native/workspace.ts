import type { Static, TObject } from 'typebox'
import { Value } from 'typebox/value'
import { GatewayError } from '../../errors.ts'
import { readJson } from '../../inbound/json-body.ts'
import type { Admitted, RequestBody } from '../endpoint.ts'
import { faultOf } from '../json-fault.ts'
import { json } from '../openapi/operation.ts'

/** Settings are small; a body over this is refused whatever `max_request_body_bytes` says. */
const MAX_BODY_BYTES = 64 * 1024

/** Settings of the key's own workspace, for keys with the scope `admin`: any other key is told there is no such one. */
export const SETTINGS = { tag: 'Account', scope: 'admin', ofWorkspace: true } as const

/** A small JSON body, of which members that the schema does not name are ignored. */
export function settingsBody<Shape extends TObject>(schema: Shape): RequestBody<Static<Shape>> {
  return { contents: [json(schema)], receive: (request) => readSettings(schema, request) }
}

/** @throws GatewayError of `readJson`, INVALID_REQUEST naming the field at fault */
async function readSettings<Shape extends TObject>(
  schema: Shape,
  { exchange, context: { principal }, dependencies: { services } }: Admitted,
): Promise<Static<Shape>> {
  const maxBytes = Math.min(MAX_BODY_BYTES, services.snapshot().limits.max_request_body_bytes)
  const options = { budget: services.budget, maxBytes, workspace: principal.workspace.id }
  const { value, release } = await readJson(exchange, options).catch((error: unknown) => {
    throw tooLarge(error, maxBytes) ?? error
  })
  exchange.onFinished(release)
  if (!Value.Check(schema, value)) throw faultOf(schema, value)
  return value
}

/** The refusal of a large body would name the limit of all bodies, which this one is far from. */
function tooLarge(error: unknown, maxBytes: number): GatewayError | null {
  if (!(error instanceof GatewayError) || error.code !== 'REQUEST_TOO_LARGE') return null
  const { limit: _, ...details } = error.extra.details ?? {}
  return new GatewayError('REQUEST_TOO_LARGE', `the body is over ${maxBytes} bytes`, { details })
}
