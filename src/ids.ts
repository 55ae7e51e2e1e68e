import { ulid } from 'ulid'

/** Prefixes of identifiers: request, transcription job, queue job, webhook event, key. */
export type IdPrefix = 'req' | 'tj' | 'qj' | 'evt' | 'key'

/** A time-ordered, lower-case identifier such as `req_01kaf2…`: the prefix and a ULID. */
export function newId(prefix: IdPrefix): string {
  return `${prefix}_${ulid().toLowerCase()}`
}
