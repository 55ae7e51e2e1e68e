import { hash } from 'node:crypto'
import type { TranscriptionOptions } from '../schema/calls.ts'
import type { Principal } from '../schema/catalog.ts'
import type { OperationName } from '../schema/operations.ts'
import type { Selectors } from '../schema/selectors.ts'

/** What honours idempotency keys, each its own. */
export type KeyedOperation = OperationName | 'transcription_job' | 'queue'

/** Where an idempotency key is kept: keys of other apps, and of other operations, are others. Lower-case hex. */
export function slotIdOf({ app }: Pick<Principal, 'app'>, operation: KeyedOperation, key: string): string {
  return hash('sha256', JSON.stringify([app.id, operation, key]))
}

/**
 * What makes two transcriptions the same: the options after defaults, the selectors in effect and the audio itself.
 * Neither file name nor media type, kind of body, order of fields or where the purpose stood.
 *
 * @param audioDigest of the decoded audio
 * @param shape       of the answer, where it is not the gateway's own: what is stored in one shape is no answer to a
 *                    request for another
 * @returns lower-case hex
 */
export function fingerprintOf(
  operation: OperationName,
  options: TranscriptionOptions,
  { purpose, responseProfile }: Selectors,
  audioDigest: string,
  shape: string | null = null,
): string {
  const fields = Object.entries(options)
    .map(([name, value]) => [name, Array.isArray(value) ? [...value].sort() : value] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1))
  const label = purpose?.label ?? null
  const asked = [operation, fields, label, responseProfile, audioDigest]
  return hash('sha256', JSON.stringify(shape === null ? asked : [...asked, shape]))
}
