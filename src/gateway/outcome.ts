import type { Entry } from '../contracts/catalog.ts'
import type { Calls, OperationName, Results } from '../contracts/operations.ts'
import { operationOf } from '../contracts/provider.ts'
import type { Answer } from './attempt.ts'
import type { Call } from './call.ts'
import type { CallContext } from './call-context.ts'
import { meter, NOTHING_REPORTED, reportedBy, type Usage } from './meter.ts'
import type { Candidate, PurposeResolution, Selection } from './selection.ts'

import type { ActiveCall, Services } from './services.ts'

/** Fields of every answer. */
export interface Envelope {
  readonly id: string
  readonly provider: string
  readonly model: string
  readonly policy_version_id: string
  /** Empty until the endpoint fills it. */
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
  /** Gives the memory of the answer back; called when the answer is out. */
  release(): void
}

/** Meters an entry's answer, prices it, and builds the answer to the caller with the fields that all answers share. */
export function buildOutcome<K extends OperationName>(
  { services, context, call }: Pick<ActiveCall<K>, 'services' | 'context' | 'call'>,
  selection: Selection,
  candidate: Candidate,
  answer: Answer<K>,
): Outcome<K> {
  const { entry, route } = candidate
  const { result } = answer
  context.trace?.begin('settle')
  const metered = meter(call, reportedBy(result), entry.facts.price)
  context.usage = metered.usage
  context.costUsd = metered.costUsd
  context.trace?.metered(metered)
  services.watch?.metered(entry, call.operation, metered.usage)
  context.noteRoute(route)
  const { id, provider, model, policy_version_id, ...purpose } = headOf(context, selection, candidate)
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
      determinism: { seed_honored: honorsSeed(services, call, entry, result) },
      ...purpose,
      warnings: [
        ...call.warnings,
        ...selection.warnings,
        ...answer.warnings,
        ...metered.warnings,
        ...warningsOf(result),
      ],
    },
    payload: call.payload,
    result,
    release: answer.release,
  }
}

/** Fields of an envelope that are known before the answer is whole. */
export type EnvelopeHead = Omit<
  Envelope,
  'usage' | 'cost_usd' | 'determinism' | 'warnings' | 'content' | 'content_blocks'
>

export function headOf(
  { id }: CallContext,
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

/** Meters a call before its answer is there: by what goes into it. */
export function meterUnanswered(call: Call, { entry }: Candidate): Pick<Envelope, 'usage' | 'cost_usd'> {
  const { usage, costUsd } = meter(call, NOTHING_REPORTED, entry.facts.price)
  return { usage, cost_usd: costUsd }
}

function honorsSeed<K extends OperationName>(
  { providers }: Services,
  { operation, payload }: Call<K>,
  { provider }: Entry,
  result: Results[K],
): boolean {
  const takesSeed = operationOf(providers.get(provider.kind), operation)?.takesSeed === true
  const sampled = 'options' in payload ? payload.options : payload
  const given = 'seed' in sampled && sampled.seed !== null
  // Some models lack what the rest of the provider's interface takes.
  const ignored = warningsOf(result).some((warning) => warning.startsWith('seed:'))
  return takesSeed && given && !ignored
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
