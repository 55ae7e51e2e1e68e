import type { ConfiguredProvider } from '../../../contracts/catalog.ts'
import type { Provider, Step } from '../../../contracts/provider.ts'
import { type Clock, deadline, systemClock } from '../../../contracts/time.ts'
import { type Send, UpstreamFailure } from '../../../contracts/upstream.ts'

/** How long a provider may take to list its models, ms. */
const LIST_DEADLINE_MS = 15_000

/** A provider's list of models. */
export interface ListedModels {
  /** With several replicas, the models that all answering ones have. Empty also where the protocol has no list. */
  readonly listed: readonly string[]
  /** Why there is no list, in our words; of each replica that has none, by its place. Null when all have one. */
  readonly trouble: string | null
}

/**
 * Asks a provider for the models that its credential sees, each replica of it. A list proves that address and
 * credential are right, not that the credential may use the models.
 */
export async function listModels(
  provider: ConfiguredProvider,
  protocols: ReadonlyMap<string, Provider>,
  send: Send,
  clock: Clock = systemClock,
): Promise<ListedModels> {
  const { baseUrl, pool } = provider
  if (pool === null) return listModelsAt(baseUrl, provider, protocols, send, clock)
  const asked = await Promise.all(
    pool.baseUrls.map((url) => listModelsAt(url, provider, protocols, send, clock)),
  )
  const troubles = asked.flatMap(({ trouble }, index) =>
    trouble === null ? [] : [`base_urls[${index}]: ${trouble}`],
  )
  const [first, ...others] = asked.filter(({ trouble }) => trouble === null).map(({ listed }) => listed)
  return {
    listed: (first ?? []).filter((model) => others.every((listed) => listed.includes(model))),
    trouble: troubles.length === 0 ? null : troubles.join('; '),
  }
}

async function listModelsAt(
  baseUrl: string,
  { kind, credential }: Pick<ConfiguredProvider, 'kind' | 'credential'>,
  protocols: ReadonlyMap<string, Provider>,
  send: Send,
  clock: Clock,
): Promise<ListedModels> {
  const operation = protocols.get(kind)?.models
  if (operation === undefined)
    return { listed: [], trouble: 'cannot be asked: the protocol has no request for it' }
  const target = { model: '', baseUrl, credential, options: {} }
  const options = {
    signal: deadline(clock, LIST_DEADLINE_MS),
    deadlineMs: LIST_DEADLINE_MS,
    onHeld: () => {},
  }
  try {
    let step: Step<readonly string[]> = operation.start(null, target)
    while (step.kind === 'send' || step.kind === 'wait')
      step = operation.next(step.state, await send(step.request, options), null, target)
    if (step.kind === 'done') return { listed: step.result, trouble: null }
    const { status, reason } = step.failure
    // A 404 is the model's fault in a call; this request names no model.
    const why = status === 404 ? 'there is no list of models at its base_url' : reason
    return { listed: [], trouble: status === null ? why : `${status}: ${why}` }
  } catch (error) {
    if (error instanceof UpstreamFailure) return { listed: [], trouble: error.failure.reason }
    throw error
  }
}
