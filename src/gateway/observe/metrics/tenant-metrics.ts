import type { TenantLabel } from '../../../contracts/catalog.ts'
import type { EndedCall, EndedMoney } from '../../../contracts/recorder.ts'
import { type Counter, Counters, type Rendered } from './family.ts'

/** The dimensions that tell tenants apart, and how many tenants are counted apart. */
export interface TenantTerms {
  readonly labels: readonly TenantLabel[]
  readonly most: number
}

interface Tenant {
  readonly workspace: string
  readonly app: string
}

const OTHER: Tenant = { workspace: 'other', app: 'other' }

/**
 * Requests and spending by tenant. Off, which it is unless the configuration asks for it, a request costs one compare,
 * and there is no metric. A change of the labels begins to count anew.
 */
export class TenantMetrics {
  #terms: () => TenantTerms | undefined = () => undefined
  #counted: Counted | null = null

  /** @param terms those in force; undefined: nothing is counted */
  goBy(terms: () => TenantTerms | undefined): void {
    this.#terms = terms
  }

  /** A request with a key is over. @param status of its answer; null: there was none */
  ended(
    { principal, money }: Pick<EndedCall, 'principal'> & { readonly money: Pick<EndedMoney, 'costUsd'> },
    status: number | null,
    failed: boolean,
  ): void {
    const terms = this.#terms()
    if (terms === undefined || principal === null) return
    const tenant = { workspace: principal.workspace.id, app: principal.app.id }
    const series = this.#of(terms).of(tenant)
    series.count(outcomeOf(status, failed)).add(1)
    if (money.costUsd !== null) series.spent.add(money.costUsd)
  }

  /** A job was run. */
  ran(tenant: Tenant, { costUsd }: Pick<EndedMoney, 'costUsd'>): void {
    const terms = this.#terms()
    if (terms === undefined || costUsd === null) return
    this.#of(terms).of(tenant).spent.add(costUsd)
  }

  get families(): readonly Rendered[] {
    const terms = this.#terms()
    return terms === undefined ? [] : this.#of(terms).families
  }

  #of(terms: TenantTerms): Counted {
    if (this.#counted === null || this.#counted.labels.join() !== terms.labels.join())
      this.#counted = new Counted(terms)
    return this.#counted
  }
}

type Outcome = 'ok' | 'client_error' | 'server_error'

/** Also of a streamed answer that broke off, whose status was good. */
function outcomeOf(status: number | null, failed: boolean): Outcome {
  if ((status ?? 500) >= 500 || (failed && (status ?? 0) < 400)) return 'server_error'
  return (status ?? 0) >= 400 ? 'client_error' : 'ok'
}

class Series {
  readonly spent: Counter
  readonly #count: (outcome: Outcome) => Counter
  readonly #counts = new Map<Outcome, Counter>()

  constructor(spent: Counter, count: (outcome: Outcome) => Counter) {
    this.spent = spent
    this.#count = count
  }

  count(outcome: Outcome): Counter {
    let counter = this.#counts.get(outcome)
    if (counter === undefined) {
      counter = this.#count(outcome)
      this.#counts.set(outcome, counter)
    }
    return counter
  }
}

class Counted {
  readonly labels: readonly TenantLabel[]
  readonly #most: number
  readonly #requests: Counters
  readonly #spent: Counters
  /** By the values of the labels. */
  readonly #tenants = new Map<string, Series>()

  constructor({ labels, most }: TenantTerms) {
    this.labels = labels
    this.#most = most
    this.#requests = new Counters(
      'larkway_tenant_requests_total',
      'Requests with a key, by tenant and outcome: ok, client_error (status 4xx), server_error.',
      [...labels, 'outcome'],
    )
    this.#spent = new Counters(
      'larkway_tenant_spent_usd_total',
      'USD that requests and jobs came to, by tenant.',
      labels,
    )
  }

  get families(): readonly Rendered[] {
    return [this.#requests, this.#spent]
  }

  /** First come, first told apart. */
  of(tenant: Tenant): Series {
    const values = this.labels.map((label) => tenant[label])
    const key = values.join(' ')
    const known = this.#tenants.get(key)
    if (known !== undefined) return known
    if (this.#tenants.size >= this.#most) return this.#other()
    return this.#add(key, values)
  }

  #other(): Series {
    const values = this.labels.map((label) => OTHER[label])
    // A name cannot hold a space, so that no tenant is taken for this.
    return this.#tenants.get(' other') ?? this.#add(' other', values)
  }

  #add(key: string, values: readonly string[]): Series {
    const series = new Series(this.#spent.of(...values), (outcome) => this.#requests.of(...values, outcome))
    this.#tenants.set(key, series)
    return series
  }
}
