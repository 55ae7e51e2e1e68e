import type { Static, TObject } from 'typebox'
import { Value } from 'typebox/value'
import { checkShape, Faults, linesOf } from '../../catalog/faults.ts'
import { GatewayError } from '../../errors.ts'
import { isObject } from '../../inbound/json-source.ts'
import { invalid } from '../../inbound/refusals.ts'
import { faultOf } from '../json-fault.ts'

/** So that a refusal is not longer than what it refuses. */
const MAX_NAMED_FAULTS = 50
const MAX_FAULT_LENGTH = 300

/**
 * The fields of a body, none of them unknown: what is misspelled here would be a setting without effect.
 *
 * @throws GatewayError INVALID_REQUEST naming the first field at fault; `details.faults` are all of them
 */
export function strictBody<Shape extends TObject>(schema: Shape, value: unknown): Static<Shape> {
  const unknown = isObject(value)
    ? Object.keys(value).find((name) => !Object.hasOwn(schema.properties, name))
    : undefined
  if (unknown === undefined && Value.Check(schema, value)) return value
  const faults = new Faults()
  checkShape({ ...schema, additionalProperties: false }, value, [], faults)
  if (unknown === undefined) {
    const { message, extra } = faultOf(schema, value)
    throw new GatewayError('INVALID_REQUEST', message, {
      ...extra,
      details: faultDetails(linesOf(faults.found)),
    })
  }
  const param = unknown.slice(0, MAX_FAULT_LENGTH)
  throw new GatewayError('INVALID_REQUEST', `${param}: there is no such field`, {
    param,
    details: faultDetails(linesOf(faults.found)),
  })
}

/**
 * The parameters of a query, each at most once; those of a schema of integers as numbers.
 *
 * @throws GatewayError INVALID_REQUEST naming the parameter at fault
 */
export function strictQuery<Shape extends TObject>(schema: Shape, query: string): Static<Shape> {
  const fields: Record<string, unknown> = {}
  for (const [name, text] of new URLSearchParams(query)) {
    const shape = Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined
    const param = name.slice(0, MAX_FAULT_LENGTH)
    if (shape === undefined) throw invalid(`${param}: there is no such parameter`, param)
    if (Object.hasOwn(fields, name)) throw invalid(`${param}: is there twice`, param)
    fields[name] =
      'type' in shape && shape.type === 'integer' && /^\d{1,15}$/.test(text) ? Number(text) : text
  }
  if (!Value.Check(schema, fields)) throw faultOf(schema, fields)
  return fields
}

/** Lines about what is wrong, as `details` of an error. */
export function faultDetails(faults: readonly string[]): { readonly faults: readonly string[] } {
  const shown = faults
    .slice(0, MAX_NAMED_FAULTS)
    .map((line) => line.slice(0, MAX_FAULT_LENGTH).toWellFormed())
  const more = faults.length - shown.length
  return { faults: more > 0 ? [...shown, `and ${more} more`] : shown }
}
