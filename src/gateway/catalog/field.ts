import { type TSchema, Type } from 'typebox'

// Building blocks for the shapes of the configuration's parts.

/** Pattern for names of workspaces, apps, routes, providers, plans and purposes. Object keys and logs contain them. */
export const NAME = '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'

/** An object that takes no other keys: a misspelled one is an error, not a setting without effect. */
export function strict<Properties extends Record<string, TSchema>>(
  properties: Properties,
  description?: string,
) {
  return Type.Object(properties, {
    additionalProperties: false,
    ...(description === undefined ? {} : { description }),
  })
}

export function namedField<Value extends TSchema>(value: Value, description: string) {
  return Type.Record(Type.String({ pattern: NAME }), value, { additionalProperties: false, description })
}

/** A string with a pattern, described in words where checks and editors look for them. */
export function formed(pattern: string, patternErrorMessage: string, more: Type.TStringOptions = {}) {
  return Type.String({ pattern, patternErrorMessage, ...more })
}

/** A key that may be left out. */
export function optional<Value extends TSchema>(value: Value, description: string) {
  return Type.Optional(Type.With(value, { description }))
}

/** A switch that may be left out. */
export function optionalFlag(description: string) {
  return optional(Type.Boolean(), description)
}

/** A whole number that may be left out. @param range the least and the most */
export function optionalInteger([minimum, maximum]: readonly [number, number], description: string) {
  return optional(Type.Integer({ minimum, maximum }), description)
}

export const Name = formed(NAME, 'a name of 1 to 64 letters, digits, ".", "_" or "-"')
