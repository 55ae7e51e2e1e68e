import type { SpeechCall, TranscriptionCall, TranscriptionResult } from '../schema/calls.ts'
import { notePolicyVersion } from './admit.ts'
import type { Attempted } from './attempt.ts'
import { countCharacters } from './eligibility.ts'
import type { Call, CallRequest, Calls, OperationName, Results } from './gateway.ts'
import { type Metered, meterSpeech, meterTranscription, type Usage } from './meter.ts'
import type { PurposeResolution, Selection } from './select.ts'

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
  request: CallRequest<K>,
  call: Call<K>,
  selection: Selection,
  attempted: Attempted<K>,
): Outcome<K> {
  const { candidate, result } = attempted
  const { entry, route } = candidate
  const metered = meter(request.operation, call, result, entry.facts.price)
  request.trail.usage = metered.usage
  request.trail.costUsd = metered.costUsd
  notePolicyVersion(request.trail, route.version)
  const warnings = [...call.warnings, ...selection.warnings, ...attempted.warnings, ...metered.warnings]
  return {
    envelope: {
      id: request.id,
      provider: entry.provider.name,
      model: entry.model,
      policy_version_id: route.version,
      content: '',
      content_blocks: [],
      usage: metered.usage,
      cost_usd: metered.costUsd,
      // No speech operation that is spoken here takes a seed.
      determinism: { seed_honored: false },
      ...purposeFields(selection.purpose, candidate.forPurpose),
      warnings,
    },
    payload: call.payload,
    result,
    release: attempted.release,
  }
}

function meter<K extends OperationName>(
  operation: K,
  call: Call<K>,
  result: Results[K],
  price: Parameters<typeof meterSpeech>[1],
): Metered {
  if (operation === 'speech') return meterSpeech(countCharacters((call.payload as SpeechCall).input), price)
  const { text, durationSeconds, warnings } = result as TranscriptionResult
  const metered = meterTranscription((call.payload as TranscriptionCall).audio, durationSeconds, price)
  const empty = text.trim() === '' ? ['empty_transcript: the provider heard nothing'] : []
  return { ...metered, warnings: [...metered.warnings, ...warnings, ...empty] }
}

function purposeFields({ requested, otherwise, source }: PurposeResolution, applied: boolean) {
  return {
    lk_requested_purpose: requested,
    lk_applied_purpose: applied ? requested : null,
    lk_purpose_source: applied && source !== null ? source : otherwise,
  }
}
