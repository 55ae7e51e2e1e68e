import type { SpeechResult } from '../../../contracts/calls.ts'
import type { Entry } from '../../../contracts/catalog.ts'
import type { Calls, OperationName, Results } from '../../../contracts/operations.ts'
import { operationOf } from '../../../contracts/provider.ts'
import type { CallContext } from '../context/call-context.ts'
import type { ActiveCall, Services } from '../context/services.ts'
import { againOf, type Call } from '../facts/call.ts'
import { priceFor } from '../facts/facts-for.ts'
import { meter, meteredUsage, NOTHING_REPORTED, reportedBy, type Usage } from '../facts/meter.ts'
import { settleAccountUnits } from '../facts/units.ts'
import { adapt } from '../select/eligibility.ts'
import type { Candidate, PurposeResolution, Selection } from '../select/selection.ts'
import type { Answer } from './operation.ts'

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
  const metered = meter(call, reportedBy(result), priceFor(entry, call), services.clock.wallNow())
  context.money.usage = metered.usage
  context.money.costUsd = metered.costUsd
  context.trace?.metered(metered)
  services.watch?.metered(entry, call.operation, metered.usage)
  if (entry.provider.unitRates !== undefined)
    settleAccountUnits(services.state, entry.provider, call as Call, metered.usage)
  context.routing.noteRoute(route)
  const { purpose } = selection
  return {
    // Written out, since every answer has one: each spread would make another object of it.
    envelope: {
      id: context.id,
      provider: entry.provider.name,
      model: 'model' in result && result.model !== undefined ? result.model : entry.model,
      policy_version_id: route.version,
      content: '',
      content_blocks: NONE,
      usage: metered.usage,
      cost_usd: metered.costUsd,
      determinism: honorsSeed(services, call, entry, result) ? HONORED : NOT_HONORED,
      lk_requested_purpose: purpose.requested,
      lk_applied_purpose: appliedPurpose(purpose, candidate.forPurpose),
      lk_purpose_source: purposeSource(purpose, candidate.forPurpose),
      warnings: joined(
        call.warnings,
        selection.warnings,
        answer.warnings,
        metered.warnings,
        warningsOf(result),
      ),
    },
    payload: call.payload,
    result,
    release: answer.release,
  }
}

/**
 * Builds the answer to a caller out of speech that was made for another one: its characters are counted, and it costs
 * nothing.
 */
export function keptOutcome(
  { services, context, call }: Pick<ActiveCall<'speech'>, 'services' | 'context' | 'call'>,
  selection: Selection,
  candidate: Candidate,
  result: SpeechResult,
  release = holdsNothing,
): Outcome<'speech'> {
  const { entry, route, forPurpose } = candidate
  const again = againOf(call)
  const usage = again?.usage ?? meteredUsage(call)
  if (again !== undefined) again.usage = usage
  context.money.usage = usage
  context.money.costUsd = 0
  services.watch?.metered(entry, call.operation, usage)
  context.routing.noteRoute(route)
  context.routing.forPurpose = forPurpose
  const { purpose } = selection
  // Written out, as that of any answer: with `headOf` spread into it a hit took 6 % more of CPU.
  const envelope: Envelope = {
    id: context.id,
    provider: entry.provider.name,
    model: entry.model,
    policy_version_id: route.version,
    content: '',
    content_blocks: NONE,
    usage,
    cost_usd: 0,
    determinism: honorsSeed(services, call, entry, result) ? HONORED : NOT_HONORED,
    lk_requested_purpose: purpose.requested,
    lk_applied_purpose: appliedPurpose(purpose, forPurpose),
    lk_purpose_source: purposeSource(purpose, forPurpose),
    warnings: joined(call.warnings, selection.warnings, leftOut(services, call, entry)),
  }
  return { envelope, payload: call.payload, result, release }
}

/** Warnings about options that the entry was not sent; looked for only where there are such. */
function leftOut({ providers }: Services, call: Call<'speech'>, entry: Entry): readonly string[] {
  if (call.payload.extras === undefined) return NONE
  return adapt(call, entry, operationOf(providers.get(entry.provider.kind), 'speech')).warnings
}

/** `release` of an outcome that needs none. */
export function holdsNothing(): void {}

const NONE: readonly never[] = []
const HONORED = Object.freeze({ seed_honored: true })
const NOT_HONORED = Object.freeze({ seed_honored: false })

/** All lists as one; the same empty one where there is nothing in any. */
export function joined(...lists: readonly (readonly string[])[]): readonly string[] {
  return lists.every((list) => list.length === 0) ? NONE : lists.flat()
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
    lk_requested_purpose: purpose.requested,
    lk_applied_purpose: appliedPurpose(purpose, forPurpose),
    lk_purpose_source: purposeSource(purpose, forPurpose),
  }
}

/** Meters a call before its answer is there: by what goes into it. */
export function meterUnanswered(
  { call, services }: Pick<ActiveCall, 'call' | 'services'>,
  { entry }: Candidate,
): Pick<Envelope, 'usage' | 'cost_usd'> {
  const { usage, costUsd } = meter(call, NOTHING_REPORTED, priceFor(entry, call), services.clock.wallNow())
  return { usage, cost_usd: costUsd }
}

function honorsSeed<K extends OperationName>(
  { providers }: Services,
  { operation, payload }: Call<K>,
  { provider }: Entry,
  result: Results[K],
): boolean {
  const sampled = 'options' in payload ? payload.options : payload
  if (!('seed' in sampled) || sampled.seed === null) return false
  const takesSeed = operationOf(providers.get(provider.kind), operation)?.takesSeed === true
  // Some models lack what the rest of the provider's interface takes.
  const ignored = warningsOf(result).some((warning) => warning.startsWith('seed:'))
  return takesSeed && !ignored
}

function warningsOf(result: Results[OperationName]): readonly string[] {
  const given = 'warnings' in result ? result.warnings : NONE
  const empty = 'durationSeconds' in result && result.text.trim() === ''
  return empty ? [...given, 'empty_transcript: the provider heard nothing'] : given
}

export function appliedPurpose({ requested }: PurposeResolution, applied: boolean): string | null {
  return applied ? requested : null
}

export function purposeSource({ otherwise, source }: PurposeResolution, applied: boolean): string {
  return applied && source !== null ? source : otherwise
}
