import type { CallsSample, NodeSample } from '../../../schema/console.ts'
import { timestamp } from '../../timestamp.ts'
import type { ConsoleDesk } from '../desk.ts'
import type { Coverage, ErrorAnswer, HealthAnswer, ModelHealth } from './answers.ts'
import { breakersOf, callsIn, errorAnswer, latestOf, STEP_MS } from './overview-steps.ts'
import { Readings } from './readings.ts'

/** As far back as samples are kept. */
export const HISTORY_MS = 60 * 60 * 1000
const HEALTH_MS = 5 * 60 * 1000
/** Enough for pages that ask for what is new: the newest steps anew, and more where they were slow. */
export const RECENT_MS = 60_000
/** A node that has not been heard of for so long is gone. */
const NODE_GONE_MS = 3 * STEP_MS
/** How old a reading may be. However many pages are open, they cost the state one in this time. */
export const FRESH_MS = 1_000
/** The same where a step more or less changes little. */
const HEALTH_FRESH_MS = 4_000
const COVERAGE_FRESH_MS = 20_000

/** What nodes saw, read from the state for all pages together. */
export class NodeHistory {
  readonly #nowMs: () => number
  readonly #samples: Readings<number, readonly NodeSample[]>
  readonly #health: Readings<string | null, HealthAnswer>
  readonly #coverage: Readings<'hour', ReadonlyMap<string, Coverage>>

  constructor({ state, nowMs }: ConsoleDesk) {
    this.#nowMs = nowMs
    const read = (spanMs: number) => state.samples.since(nowMs() - spanMs)
    const fiveMinutes = new Readings<'all', readonly NodeSample[]>(() => read(HEALTH_MS), HEALTH_FRESH_MS)
    this.#samples = new Readings(read, FRESH_MS)
    this.#health = new Readings(
      async (workspace) => healthOf(await fiveMinutes.of('all'), workspace, nowMs()),
      FRESH_MS,
    )
    this.#coverage = new Readings(async () => coverageOf(await read(HISTORY_MS)), COVERAGE_FRESH_MS)
  }

  /** @param spanMs `RECENT_MS` or `HISTORY_MS` */
  samples(spanMs: number): Promise<readonly NodeSample[]> {
    return this.#samples.of(spanMs)
  }

  /** The newest sample of each node that is there. */
  latest(samples: readonly NodeSample[]): readonly NodeSample[] {
    const goneMs = this.#nowMs() - NODE_GONE_MS
    return latestOf(samples.filter(({ atMs }) => atMs > goneMs))
  }

  /** How providers fared in the last five minutes. @param workspace null: in all of them */
  health(workspace: string | null): Promise<HealthAnswer> {
    return this.#health.of(workspace)
  }

  /** How many of a workspace's requests of the last hour were recorded; null: it had none, or too few to be counted. */
  async coverage(workspace: string): Promise<Coverage | null> {
    return (await this.#coverage.of('hour')).get(workspace) ?? null
  }
}

function healthOf(samples: readonly NodeSample[], workspace: string | null, nowMs: number): HealthAnswer {
  const providers = new Map<string, HealthTally>()
  for (const { upstream } of samples.flatMap((sample) => callsIn(sample, workspace)))
    for (const one of upstream) {
      const tally = providers.get(one.provider) ?? new HealthTally()
      providers.set(one.provider, tally)
      tally.add(one)
    }
  const latest = latestOf(samples.filter(({ atMs }) => atMs > nowMs - NODE_GONE_MS))
  return {
    now: timestamp(nowMs),
    window_ms: HEALTH_MS,
    providers: [...providers]
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([provider, tally]) => tally.answer(provider)),
    breakers: breakersOf(latest, workspace),
  }
}

/** Calls of one provider over several steps. */
class HealthTally {
  #calls = 0
  #failed = 0
  readonly #models = new Map<string, ModelHealth>()

  add({ calls, failed, models = [] }: CallsSample['upstream'][number]): void {
    this.#calls += calls
    this.#failed += failed
    for (const { model, ...sample } of models) {
      const known = this.#models.get(model)
      this.#models.set(model, {
        model,
        calls: sample.calls + (known?.calls ?? 0),
        failed: sample.failed + (known?.failed ?? 0),
        last_error: later(known?.last_error ?? null, sample.lastFailure && errorAnswer(sample.lastFailure)),
      })
    }
  }

  answer(provider: string): HealthAnswer['providers'][number] {
    const models = [...this.#models.values()].sort((one, other) => (one.model < other.model ? -1 : 1))
    const error = models.reduce<ErrorAnswer | null>((last, { last_error }) => later(last, last_error), null)
    return { provider, calls: this.#calls, failed: this.#failed, last_error: error, models }
  }
}

/** Timestamps are all written alike, so that they compare as texts. */
function later(one: ErrorAnswer | null, other: ErrorAnswer | null): ErrorAnswer | null {
  if (one === null || other === null) return one ?? other
  return one.at < other.at ? other : one
}

function coverageOf(samples: readonly NodeSample[]): ReadonlyMap<string, Coverage> {
  const counted = new Map<string, Coverage>()
  for (const { workspaces } of samples)
    for (const { workspace, requests, recorded, failuresDropped } of workspaces) {
      // An earlier version did not count.
      if (recorded === undefined) continue
      const known = counted.get(workspace)
      counted.set(workspace, {
        requests: requests + (known?.requests ?? 0),
        recorded: recorded + (known?.recorded ?? 0),
        failures_dropped: (failuresDropped ?? 0) + (known?.failures_dropped ?? 0),
      })
    }
  return counted
}
