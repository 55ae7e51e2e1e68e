import { type TSchema, Type } from 'typebox'

/** What a member is when it is not null. */
export function nullable(value: TSchema, description: string) {
  return Type.Union([value, Type.Null()], { description })
}

export function text(description: string) {
  return Type.String({ description })
}

export function amount(description: string) {
  return Type.Number({ minimum: 0, description })
}

export function count(description: string) {
  return Type.Integer({ minimum: 0, description })
}

/** RFC 3339, UTC, with milliseconds. */
export function moment(description: string) {
  return Type.String({ format: 'date-time', description })
}

export function lines(description: string) {
  return Type.Array(Type.String(), { description })
}

/**
 * An object of an answer, by whose title it becomes a component of the document. Its members are all there, always,
 * unless one is optional; that others may come with a later version is why no answer is closed.
 */
export function shape<Members extends Record<string, TSchema>>(
  title: string,
  members: Members,
  description?: string,
) {
  return Type.Object(members, description === undefined ? { title } : { title, description })
}
