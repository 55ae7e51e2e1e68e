import type { ShadowSample } from '../../../contracts/console.ts'
import type { ShadowAnswer, ShadowPairAnswer } from '../answers/routes.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleRoute, consoleEndpoint } from '../endpoint.ts'
import { HISTORY_MS, type NodeHistory } from './node-history.ts'

const PATH = '/workspaces/:workspace/routes/:route/shadow'

/** Comparisons that a route's shadow made on all nodes during the last hour. */
export function shadowEndpoint(context: ConsoleContext, history: NodeHistory): ConsoleRoute {
  return consoleEndpoint(context, 'GET', PATH, {}, async ({ params }): Promise<ShadowAnswer> => {
    const samples = (await history.samples(HISTORY_MS)).flatMap(({ shadows }) => shadows ?? [])
    const own = samples.filter(
      ({ workspace, route }) => workspace === params.workspace && route === params.route,
    )
    const pairs = [...Map.groupBy(own, pairKey).values()].map(pairAnswer)
    return { window_ms: HISTORY_MS, pairs: pairs.sort((one, other) => other.calls - one.calls) }
  })
}

function pairKey({ operation, provider, model, shadowProvider, shadowModel }: ShadowSample): string {
  return JSON.stringify([operation, provider, model, shadowProvider, shadowModel])
}

/** Sums of one pair. @param samples at least one */
function pairAnswer(samples: readonly ShadowSample[]): ShadowPairAnswer {
  const [{ operation, provider, model, shadowProvider, shadowModel }] = samples as [ShadowSample]
  const sum = (figure: (sample: ShadowSample) => number) =>
    samples.reduce((total, sample) => total + figure(sample), 0)
  const times = samples.flatMap(({ milliseconds }) => milliseconds)
  const priced = sum((sample) => sample.priced)
  return {
    operation,
    entry: {
      provider,
      model,
      p50_ms: median(times.map(([entry]) => entry)),
      cost_usd: priced === 0 ? null : sum((sample) => sample.entryUsd),
    },
    shadow: {
      provider: shadowProvider,
      model: shadowModel,
      p50_ms: median(times.map(([, shadow]) => shadow)),
      cost_usd: priced === 0 ? null : sum((sample) => sample.shadowUsd),
    },
    calls: sum((sample) => sample.calls),
    failed: sum((sample) => sample.failed),
    compared: sum((sample) => sample.compared),
    words: sum((sample) => sample.words),
    word_errors: sum((sample) => sample.errors),
    references: {
      count: sum(({ references }) => references?.count ?? 0),
      words: sum(({ references }) => references?.words ?? 0),
      entry_errors: sum(({ references }) => references?.entryErrors ?? 0),
      shadow_errors: sum(({ references }) => references?.shadowErrors ?? 0),
    },
  }
}

function median(values: readonly number[]): number | null {
  return values.toSorted((one, other) => one - other)[Math.ceil(values.length / 2) - 1] ?? null
}
