import { requiredFeatures } from '../providers/transcript-needs.ts'
import type { Capability, SpeechCall, TranscriptionCall } from '../schema/calls.ts'
import type { Entry, Principal, Route } from '../schema/catalog.ts'
import type { ChatCall } from '../schema/chat.ts'
import type { EmbeddingsCall, ImageCall, VideoCall } from '../schema/generation.ts'
import type { Calls, OperationName } from '../schema/operations.ts'
import { isFor, operationOf, type Provider } from '../schema/provider.ts'
import { adapt, targetOf } from './adapt.ts'
import { audioLimits } from './audio-limits.ts'
import { candidatesOf, requiredCapabilities } from './capabilities.ts'
import type { Left } from './consideration.ts'
import { type HearingDemand, knownLanguage, lackOfFeatures, leftUnsupported } from './features.ts'
import { chatLimits, embeddingsLimits, imageLimits, videoLimits } from './generation-limits.ts'
import { speechLimits } from './speech-limits.ts'

/** All that a call asks of an entry; worked out once for however many entries there are. */
export interface Demand extends HearingDemand {
  readonly operation: OperationName
  readonly payload: Calls[OperationName]
  readonly capabilities: readonly Capability[]
  /** Those of them that the plan of the workspace does not include. */
  readonly unentitled: readonly Capability[]
  readonly workspace: Principal['workspace']
}

export function demandOf<K extends OperationName>(
  operation: K,
  payload: Calls[K],
  workspace: Principal['workspace'],
): Demand {
  const capabilities = requiredCapabilities(operation, payload)
  const { includes } = workspace
  const unentitled = includes === null ? NONE : capabilities.filter((capability) => !includes.has(capability))
  const bare = { operation, payload, capabilities, unentitled, workspace }
  if (operation !== 'transcription' && operation !== 'translation')
    return { ...bare, features: NONE, redactions: NONE, language: null }
  const { options } = payload as TranscriptionCall
  const { redaction: redactions } = options
  return { ...bare, features: requiredFeatures(options), redactions, language: knownLanguage(options) }
}

const NONE: readonly never[] = []

/**
 * Whether one entry can serve a call as a whole; null when it can. Pure: how the entry fares just now is not asked.
 * That no byok provider serves another workspace is the configuration's to see; here it is held once more.
 */
export function leftOut(entry: Entry, provider: Provider | undefined, demand: Demand): Left | null {
  const { workspace } = demand
  if (entry.provider.access === 'byok' && entry.provider.workspace !== workspace.id)
    return { why: 'workspace' }
  const unable = leftUnable(entry, provider, demand)
  if (unable !== null) return unable
  if (demand.unentitled.length > 0) return { why: 'plan', missing: demand.unentitled }
  if (!isForPlan(entry, workspace.plan)) return { why: 'plan', missing: NONE }
  return leftByContent(entry, demand) ?? leftByProtocol(entry, provider, demand)
}

/** Whether a workspace of a plan may be served by an entry; one that names no plans is for all. */
export function isForPlan({ plans }: Entry, plan: string | null): boolean {
  return plans.length === 0 || (plan !== null && plans.includes(plan))
}

/** The candidates of a published route that the plan of a workspace does not rule out. */
export function entitledEntries(
  route: Route,
  { plan, includes }: Pick<Principal['workspace'], 'plan' | 'includes'>,
): readonly Entry[] {
  if (!route.published) return []
  return candidatesOf(route).filter(
    (entry) =>
      isForPlan(entry, plan) &&
      (includes === null || entry.facts.capabilities.some((capability) => includes.has(capability))),
  )
}

/** Whether an entry could serve calls of this kind at all, whatever plan, options and limits say. */
export function leftUnable(
  { facts }: Entry,
  provider: Provider | undefined,
  { operation, capabilities }: Pick<Demand, 'operation' | 'capabilities'>,
): Left | null {
  if (!capabilities.every((capability) => facts.capabilities.includes(capability))) {
    const missing = capabilities.filter((capability) => !facts.capabilities.includes(capability))
    return { why: 'capability', missing }
  }
  return isFor(facts, provider, operation) ? null : { why: 'operation' }
}

/** What the adapter cannot send of the call as the entry gets it, whatever the facts promise. */
function leftByProtocol(entry: Entry, provider: Provider | undefined, demand: Demand): Left | null {
  const operation = operationOf(provider, demand.operation)
  if (operation?.unsupported === undefined) return null
  const { payload } = adapt(demand.operation, demand.payload, entry)
  const unsupported = operation.unsupported(payload as never, targetOf(entry))
  return unsupported === null ? null : leftUnsupported(unsupported)
}

function leftByContent(entry: Entry, demand: Demand): Left | null {
  const { operation, payload, features } = demand
  const { facts } = entry
  switch (operation) {
    case 'transcription':
    case 'translation':
      return (
        lackOfFeatures(facts, operation, demand) ??
        audioLimits(facts.limits, payload as TranscriptionCall, features)
      )
    case 'chat':
    case 'vision':
      return chatLimits(facts.limits, payload as ChatCall)
    case 'speech':
      return speechLimits(entry, payload as SpeechCall)
    case 'embeddings':
      return embeddingsLimits(facts.limits, payload as EmbeddingsCall)
    case 'image':
      return imageLimits(facts.limits, payload as ImageCall)
    case 'video':
      return videoLimits(facts.limits, payload as VideoCall)
    default:
      return null
  }
}
