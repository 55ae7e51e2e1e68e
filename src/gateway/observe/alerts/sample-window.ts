import {
  type BudgetName,
  type EndUserSample,
  type NodeSample,
  type NodeSamples,
  UNTRIED_MS,
  type UnwellModel,
} from '../../../contracts/console.ts'

/** Attempts at a model of a provider of which something was sent, and those of them in which the provider failed. */
export interface ModelCalls {
  readonly provider: string
  readonly model: string
  readonly calls: number
  readonly failed: number
}

/** For how long an entry's breaker has not been closed, on one node. */
export interface EntryStretch {
  readonly provider: string
  readonly model: string
  readonly ms: number
}

/** The parts of a sample that rules use: samples of a busy node are large, and a window holds hundreds. */
interface Slice {
  readonly node: string
  readonly atMs: number
  readonly models: readonly ModelCalls[]
  /** Models with an entry that is not closed, `UnwellModel` as JSON. */
  readonly open: ReadonlySet<string>
  /** The same, for models that get no attempts. */
  readonly untried: ReadonlySet<string>
  readonly refusedBudgets: readonly BudgetName[]
  readonly endUsers: readonly EndUserSample[]
}

/** Samples come this late at most; after it a node that sends none is gone. */
const LATE_MS = 30_000

/** The samples of all nodes in the last while. They are read once, and kept as far as rules go by them. */
export class SampleWindow {
  readonly #samples: Pick<NodeSamples, 'since'>
  /** By node and moment. */
  #slices = new Map<string, Slice>()
  /** Everything from there on was read, but for what comes late; null: nothing was. */
  #readFromMs: number | null = null
  #readUntilMs = 0

  constructor(samples: Pick<NodeSamples, 'since'>) {
    this.#samples = samples
  }

  /** Reads what is new. @throws GatewayError DEPENDENCY_UNAVAILABLE */
  async read(nowMs: number, windowMs: number): Promise<void> {
    const fromMs = nowMs - windowMs - LATE_MS
    const hasRead = this.#readFromMs !== null && this.#readFromMs <= fromMs
    const sinceMs = hasRead ? Math.max(fromMs, this.#readUntilMs - LATE_MS) : fromMs
    for (const sample of await this.#samples.since(sinceMs)) {
      const slice = sliceOf(sample)
      this.#slices.set(`${slice.node} ${slice.atMs}`, slice)
    }
    this.#readFromMs = fromMs
    this.#readUntilMs = nowMs
    for (const [key, { atMs }] of this.#slices) if (atMs <= fromMs) this.#slices.delete(key)
  }

  /** Sums of the steps that ended within the last `windowMs`. */
  calls(nowMs: number, windowMs: number): ModelCalls[] {
    const sums = new Map<string, { provider: string; model: string; calls: number; failed: number }>()
    for (const { atMs, models } of this.#slices.values()) {
      if (atMs <= nowMs - windowMs) continue
      for (const { provider, model, calls, failed } of models) {
        const key = JSON.stringify([provider, model])
        const sum = sums.get(key) ?? { provider, model, calls: 0, failed: 0 }
        sum.calls += calls
        sum.failed += failed
        sums.set(key, sum)
      }
    }
    return [...sums.values()]
  }

  /** End users that a node named within the last `windowMs`, each once, those of the newest steps first. */
  endUsers(nowMs: number, windowMs: number): EndUserSample[] {
    const found = new Map<string, EndUserSample>()
    const slices = [...this.#slices.values()].filter(({ atMs }) => atMs > nowMs - windowMs)
    for (const { endUsers } of slices.sort((one, other) => other.atMs - one.atMs))
      for (const one of endUsers) {
        const key = `${one.workspace} ${one.account}`
        const known = found.get(key)
        const isRefused = one.isRefused ?? known?.isRefused
        const refused = isRefused === undefined ? {} : { isRefused }
        found.set(key, { ...one, id: known?.id ?? one.id, ...refused })
      }
    return [...found.values()]
  }

  /** Budgets that did not cover a call within the last `windowMs`. */
  refusedBudgets(nowMs: number, windowMs: number): BudgetName[] {
    const slices = [...this.#slices.values()].filter(({ atMs }) => atMs > nowMs - windowMs)
    return slices.flatMap(({ refusedBudgets }) => refusedBudgets)
  }

  /** Whether a node is alive, and the breakers of a model are closed on all that are. */
  isClosed(nowMs: number, provider: string, model: string): boolean {
    const key = JSON.stringify([provider, model])
    const last = new Map<string, Slice>()
    for (const slice of this.#slices.values())
      if (slice.atMs >= nowMs - LATE_MS && slice.atMs > (last.get(slice.node)?.atMs ?? 0))
        last.set(slice.node, slice)
    return (
      last.size > 0 && [...last.values()].every(({ open, untried }) => !open.has(key) && !untried.has(key))
    )
  }

  /** The longest time that each model's breaker has not been closed on a live node, up to the node's last sample. */
  stretches(nowMs: number): EntryStretch[] {
    const longest = new Map<string, number>()
    const nodes = Map.groupBy(this.#slices.values(), ({ node }) => node)
    for (const slices of nodes.values()) {
      const newestFirst = slices.sort((one, other) => other.atMs - one.atMs)
      const [last] = newestFirst
      if (last === undefined || last.atMs < nowMs - LATE_MS) continue
      for (const key of last.open) {
        const closed = newestFirst.findIndex(({ open }) => !open.has(key))
        const first = newestFirst[(closed < 0 ? newestFirst.length : closed) - 1] ?? last
        const ms = last.atMs - first.atMs
        longest.set(key, Math.max(longest.get(key) ?? 0, ms))
      }
    }
    return [...longest].map(([key, ms]) => {
      const [provider = '', model = ''] = JSON.parse(key) as string[]
      return { provider, model, ms }
    })
  }
}

function sliceOf(sample: NodeSample): Slice {
  const { node, atMs, attempts = [], unwell = shownUnwell(sample), untried = [] } = sample
  const { endUsers = [], refusedBudgets = [] } = sample
  // A node of an earlier version tells too little: what it shows has only those models that fail most.
  const models = attempts.map(([provider, model, calls, failed]) => ({ provider, model, calls, failed }))
  const named = (some: readonly UnwellModel[]) => new Set(some.map((model) => JSON.stringify(model)))
  return { node, atMs, models, open: named(unwell), untried: named(untried), endUsers, refusedBudgets }
}

/** The models that a node of an earlier version shows, which may not be all. */
function shownUnwell({ atMs, breakers }: NodeSample): UnwellModel[] {
  return breakers
    .filter(({ state, sinceMs = atMs }) => state !== 'half_open' || atMs - sinceMs < UNTRIED_MS)
    .map(({ provider, model }) => [provider, model])
}
