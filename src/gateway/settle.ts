import type { Calls, OperationName, Results } from '../schema/operations.ts'
import { operationOf } from '../schema/provider.ts'
import { noteRoute } from './admit.ts'
import type { Attempted } from './attempt.ts'
import type { Call, CallRequest, Services } from './gateway.ts'
import { meter, NOTHING_TOLD, toldBy, type Usage } from './meter.ts'
import type { PurposeResolution } from './purpose.ts'
import type { Candidate, Selection } from './select.ts'

/** The fields that every answer has. */
export interface Envelope {
  readonly id: string
  readonly provider: string
  readonly model: string
  readonly policy_version_id: string
  /** Empty until the endpoint fills it in. */
  readonly content: string
  readonly content_blocks: readonly object[]
  readonly usage: Usage
  readonly cost_usd: number | null
  readonly determinism: { readonly seed_honored: boolean }
  readonly lk_requested_purpose: string | null
  readonly lk_applied_purpose: string | null
  readonly lk_purpose_source: string
  readonly warnings: readonly string[]
}

export interface Outcome<K extends OperationName> {
  readonly envelope: Envelope
  /** As it was read, options after defaults. */
  readonly payload: Calls[K]
  readonly result: Results[K]
  /** Gives the memory of the answer back; call it when the answer is out. */
  release(): void
}

/** Meters the call, prices it, and puts the common fields of its answer together. */
export function settle<K extends OperationName>(
  services: Services,
  request: CallRequest<K>,
  selection: Selection,
  attempted: Attempted<K>,
): Outcome<K> {
  const { operation, call, trail } = request
  const { candidate, result } = attempted
  trail.trace?.begin('settle')
  const metered = meter(operation, call.payload, toldBy(result), candidate.entry.facts.price)
  trail.usage = metered.usage
  trail.costUsd = metered.costUsd
  trail.trace?.metered(metered)
  services.watch?.metered(candidate.entry, operation, metered.usage)
  noteRoute(trail, candidate.route)
  const { id, provider, model, policy_version_id, ...purpose } = headOf(request, selection, candidate)
  return {
    envelope: {
      id,
      provider,
      model: 'model' in result && result.model !== undefined ? result.model : model,
      policy_version_id,
      content: '',
      content_blocks: [],
      usage: metered.usage,
      cost_usd: metered.costUsd,
      determinism: { seed_honored: honorsSeed(services, operation, call, attempted) },
      ...purpose,
      warnings: [
        ...call.warnings,
        ...selection.warnings,
        ...attempted.warnings,
        ...metered.warnings,
        ...warningsOf(result),
      ],
    },
    payload: call.payload,
    result,
    release: attempted.release,
  }
}

/** What can be said of an answer before it is whole. */
export type EnvelopeHead = Omit<
  Envelope,
  'usage' | 'cost_usd' | 'determinism' | 'warnings' | 'content' | 'content_blocks'
>

export function headOf<K extends OperationName>(
  { id }: CallRequest<K>,
  { purpose }: Selection,
  { entry, route, forPurpose }: Candidate,
): EnvelopeHead {
  return {
    id,
    provider: entry.provider.name,
    model: entry.model,
    policy_version_id: route.version,
    ...purposeFields(purpose, forPurpose),
  }
}

/** What is metered of a call before its answer is: what went into it, and what that costs. */
export function meterUnanswered<K extends OperationName>(
  { operation, call }: CallRequest<K>,
  { entry }: Candidate,
): Pick<Envelope, 'usage' | 'cost_usd'> {
  const { usage, costUsd } = meter(operation, call.payload, NOTHING_TOLD, entry.facts.price)
  return { usage, cost_usd: costUsd }
}

function honorsSeed<K extends OperationName>(
  { providers }: Services,
  operation: K,
  { payload }: Call<K>,
  { candidate, result }: Attempted<K>,
): boolean {
  const { kind } = candidate.entry.provider
  const takesSeed = operationOf(providers.get(kind), operation)?.takesSeed === true
  const sampled = 'options' in payload ? payload.options : payload
  const given = 'seed' in sampled && sampled.seed !== null
  // Some models lack what the rest of the provider's interface takes.
  const leftOut = warningsOf(result).some((warning) => warning.startsWith('seed:'))
  return takesSeed && given && !leftOut
}

function warningsOf(result: Results[OperationName]): readonly string[] {
  const given = 'warnings' in result ? result.warnings : []
  const empty = 'durationSeconds' in result && result.text.trim() === ''
  return empty ? [...given, 'empty_transcript: the provider heard nothing'] : given
}

function purposeFields({ requested, otherwise, source }: PurposeResolution, applied: boolean) {
  return {
    lk_requested_purpose: requested,
    lk_applied_purpose: applied ? requested : null,
    lk_purpose_source: applied && source !== null ? source : otherwise,
  }
}
