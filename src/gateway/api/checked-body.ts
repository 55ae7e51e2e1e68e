import type { Static, TSchema } from 'typebox'
import { shapeCheck } from '../../contracts/shape.ts'
import { readJson } from '../edge/json-body.ts'
import type { RequestBody } from './endpoint.ts'
import { faultOf } from './json-fault.ts'
import { json } from './openapi/operation.ts'

/**
 * A small body of JSON that has to fit a schema, for endpoints that ask no model.
 *
 * @param maxBytes of it, where the limit of all bodies is not lower
 */
export function checkedBody<Schema extends TSchema>(
  schema: Schema,
  maxBytes: number,
): RequestBody<Static<Schema>> {
  const hasShape = shapeCheck(schema)
  return {
    contents: [json(schema)],
    receive({ exchange, context, deps: { services } }) {
      const options = {
        budget: services.budget,
        maxBytes: Math.min(maxBytes, services.snapshot().limits.max_request_body_bytes),
        workspace: context.principal.workspace.id,
      }
      return readJson(exchange, options, (body) => {
        if (!hasShape(body)) throw faultOf(schema, body)
        return body
      })
    },
  }
}
