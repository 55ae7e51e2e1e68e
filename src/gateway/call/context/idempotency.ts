import { hash } from 'node:crypto'
import type { TranscriptionOptions } from '../../../contracts/calls.ts'
import type { Principal, Selectors } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import type { OperationName } from '../../../contracts/operations.ts'
import type { WholeResult } from '../../../contracts/slot-results.ts'
import type { AdmittedContext } from './call-context.ts'
import type { SlotInUse } from './reservation.ts'
import type { Services } from './services.ts'

/** Retry-After while the first call is still running. */
const RUNNING_RETRY_MS = 5_000
/** Retry-After when the first call has just ended without an answer. */
const FREED_RETRY_MS = 1_000

/** Operations with idempotency keys, each with a key space of its own. */
export type KeyedOperation = OperationName | 'transcription_job' | 'queue'

/** Id of the slot of an idempotency key, by app and operation. Lower-case hex. */
export function slotIdOf({ app }: Pick<Principal, 'app'>, operation: KeyedOperation, key: string): string {
  return hash('sha256', JSON.stringify([app.id, operation, key]))
}

/**
 * Fingerprint of a transcription: its options after defaults, the selectors in effect and the audio itself. Neither
 * file name nor media type, kind of body, order of fields or the place of the purpose counts.
 *
 * @param audioDigest of the decoded audio
 * @param shape       of the answer, where it is not the gateway's own: an answer stored in one shape does not answer a
 *                    request for another
 * @returns lower-case hex
 */
export function fingerprintOf(
  operation: OperationName,
  options: TranscriptionOptions,
  { purpose, responseProfile, require }: Selectors,
  audioDigest: string,
  shape: string | null = null,
): string {
  const fields = Object.entries(options)
    .map(([name, value]) => [name, Array.isArray(value) ? [...value].sort() : value] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1))
  const label = purpose?.label ?? null
  const demanded = require === undefined ? [] : [require]
  const parts = [operation, fields, label, responseProfile, ...demanded, audioDigest]
  return hash('sha256', JSON.stringify(shape === null ? parts : [...parts, shape]))
}

/** A request under an idempotency key. */
export interface KeyedRequest {
  readonly slotId: string
  readonly fingerprint: string
}

/**
 * Answers a request whose key was in use when it came, and whose body was not kept.
 *
 * @throws GatewayError as `replaySlot`; IDEMPOTENCY_REPLAY_IN_PROGRESS also when the slot is free by now
 */
export async function replay(
  services: Services,
  context: AdmittedContext,
  { slotId, fingerprint }: KeyedRequest,
): Promise<WholeResult> {
  const view = await services.state.ledger.look(context.principal.workspace.id, slotId)
  if (view.state !== 'free') return replaySlot(services, context, view, fingerprint)
  throw new GatewayError(
    'IDEMPOTENCY_REPLAY_IN_PROGRESS',
    'the first request with this idempotency key ended without an answer; send this one again',
    { retryAfterMs: FREED_RETRY_MS },
  )
}

/**
 * Opens the answer that a slot holds.
 *
 * @throws GatewayError IDEMPOTENCY_REPLAY_IN_PROGRESS, IDEMPOTENCY_KEY_REUSED, IDEMPOTENT_RESULT_UNAVAILABLE
 */
export async function replaySlot(
  { slotResults }: Services,
  context: AdmittedContext,
  slot: SlotInUse,
  fingerprint: string,
): Promise<WholeResult> {
  if (slot.state === 'running') {
    throw new GatewayError('IDEMPOTENCY_REPLAY_IN_PROGRESS', undefined, { retryAfterMs: RUNNING_RETRY_MS })
  }
  if (slot.state === 'burned') throw new GatewayError('IDEMPOTENT_RESULT_UNAVAILABLE')
  if (slot.fingerprint !== fingerprint) throw new GatewayError('IDEMPOTENCY_KEY_REUSED')
  const result = await slotResults.open(slot.result)
  if (result === null) throw new GatewayError('IDEMPOTENT_RESULT_UNAVAILABLE')
  context.answer.replayed = true
  return { ...result, headers: { ...result.headers, 'x-lk-idempotent-replay': 'true' } }
}
