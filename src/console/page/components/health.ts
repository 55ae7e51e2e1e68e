import type { BreakerAnswer, ErrorAnswer, HealthAnswer } from '../../server/api/answers.ts'
import { api } from '../api.ts'
import { percent, plural } from '../format.ts'
import { h } from '../h.ts'
import { useLoad } from '../load.ts'
import { queryOf } from '../paths.ts'
import { Badge, type Tone } from './badge.ts'
import { Time } from './time.ts'

const EVERY_MS = 5_000
/** Shares of failed calls from which on a provider is called degraded, failing, and down. */
const DEGRADED = 0.01
const FAILING = 0.05
const DOWN = 0.5

/**
 * How providers fare, every 5 s while the tab is seen; null: it could not be loaded, undefined: it is on its way, and a
 * list that shows it waits, so that nothing moves.
 *
 * @param workspace null: in all of them
 */
export function useHealth(workspace: string | null): HealthAnswer | null | undefined {
  const load = useLoad(
    (signal) => api.get<HealthAnswer>(`/health${queryOf({ workspace })}`, { signal }),
    [workspace],
    { everyMs: EVERY_MS },
  )
  return load.state === 'loading' ? undefined : load.value
}

/** How one entry, or several of them together, fared. */
export interface Fitness {
  readonly calls: number
  readonly failed: number
  readonly lastError: ErrorAnswer | null
  /** Those that are not closed, the worst first. */
  readonly breakers: readonly BreakerAnswer[]
}

const WORST_FIRST: readonly BreakerAnswer['state'][] = ['open', 'cooling', 'half_open']

/** A provider with all its entries. */
export function fitnessOfProvider(health: HealthAnswer, provider: string): Fitness {
  const known = health.providers.find((one) => one.provider === provider)
  const breakers = health.breakers.filter((one) => one.provider === provider)
  return fitness(known ? [known] : [], breakers)
}

/** Entries of a route, written `provider/model`. */
export function fitnessOfEntries(health: HealthAnswer, route: string, entries: readonly string[]): Fitness {
  const names = new Set(entries)
  const models = health.providers.flatMap(({ provider, models }) =>
    models.filter(({ model }) => names.has(`${provider}/${model}`)),
  )
  const breakers = health.breakers.filter(
    (one) => one.route === route && names.has(`${one.provider}/${one.model}`),
  )
  return fitness(models, breakers)
}

function fitness(
  counted: readonly {
    readonly calls: number
    readonly failed: number
    readonly last_error: ErrorAnswer | null
  }[],
  breakers: readonly BreakerAnswer[],
): Fitness {
  const sorted = breakers.toSorted(
    (one, other) => WORST_FIRST.indexOf(one.state) - WORST_FIRST.indexOf(other.state),
  )
  const errors = [...counted, ...breakers].flatMap(({ last_error }) => last_error ?? [])
  return {
    calls: counted.reduce((sum, { calls }) => sum + calls, 0),
    failed: counted.reduce((sum, { failed }) => sum + failed, 0),
    lastError: errors.sort((one, other) => (one.at < other.at ? 1 : -1))[0] ?? null,
    breakers: sorted,
  }
}

/** A word for it, and how much it matters. */
export function healthWord({ calls, failed, breakers }: Fitness): readonly [word: string, tone: Tone] {
  const [worst] = breakers
  if (worst?.state === 'open') return ['breaker open', 'bad']
  if (worst?.state === 'cooling') return ['rate limited', 'warn']
  if (worst?.state === 'half_open') return ['breaker half-open', 'warn']
  if (calls === 0) return ['no calls', 'neutral']
  const share = failed / calls
  return share >= FAILING ? ['failing', 'bad'] : share >= DEGRADED ? ['degraded', 'warn'] : ['healthy', 'ok']
}

/** How a provider stands as a whole: `Up`, `Degraded` or `Down`; `No calls` where nobody knows. */
export function standingOf({ calls, failed, breakers }: Fitness): readonly [word: Standing, tone: Tone] {
  const isOpen = breakers.some(({ state }) => state === 'open')
  if (calls === 0)
    return isOpen ? ['Down', 'bad'] : breakers.length > 0 ? ['Degraded', 'warn'] : ['No calls', 'neutral']
  const share = failed / calls
  if (share >= DOWN) return ['Down', 'bad']
  if (share >= FAILING || isOpen) return ['Degraded', 'bad']
  return share >= DEGRADED || breakers.length > 0 ? ['Degraded', 'warn'] : ['Up', 'ok']
}

export type Standing = 'Up' | 'Degraded' | 'Down' | 'No calls'

const MEANINGS: Readonly<Record<BreakerAnswer['state'], string>> = {
  open: 'It failed too often. Other entries are tried until it gets a test request.',
  half_open: 'The next request tests whether it works again.',
  cooling: 'The provider asked for a pause.',
}

export function BreakerBadge({ state }: Pick<BreakerAnswer, 'state'>) {
  return h(
    Badge,
    { tone: state === 'open' ? 'bad' : 'warn', title: MEANINGS[state] },
    state === 'cooling' ? 'rate limited' : state.replace('_', '-'),
  )
}

/** State, share of errors, and the last error with its age. `total`: how many entries it is about. */
export function Health({ of, total = 1 }: { readonly of: Fitness | null; readonly total?: number }) {
  if (of === null) return h('span', { class: 'quiet' }, '–')
  const { calls, failed, lastError, breakers } = of
  const [word, tone] = healthWord(of)
  const [worst] = breakers
  const affected = total > 1 && breakers.length > 0 ? ` on ${breakers.length} of ${total}` : ''
  return h(
    'span',
    { class: 'health' },
    h(
      'span',
      null,
      h(Badge, { tone, title: worst ? MEANINGS[worst.state] : undefined }, word, affected),
      ' ',
      h(
        'span',
        { class: 'quiet small' },
        worst?.since ? ['since ', h(Time, { at: worst.since }), calls > 0 ? ' · ' : ''] : null,
        calls > 0 ? `${percent(failed / calls)} errors in 5 min` : worst ? null : 'in 5 min',
      ),
    ),
    lastError === null || (failed === 0 && breakers.length === 0)
      ? null
      : h('span', { class: 'small health-error' }, h(LastError, { error: lastError })),
  )
}

/** "it is overloaded (503), 12 s ago" */
export function LastError({ error }: { readonly error: ErrorAnswer | null }) {
  if (error === null) return h('span', { class: 'quiet' }, '–')
  const { status, reason, at } = error
  return [
    reason,
    status === null || reason.includes(String(status)) ? '' : ` (${status})`,
    ', ',
    h(Time, { at }),
  ]
}

/** Failed and all calls of some minutes: "83 % (25 of 30 calls)". */
export function failedShare({ calls, failed }: Pick<Fitness, 'calls' | 'failed'>): string {
  return calls === 0 ? '–' : `${percent(failed / calls)} (${failed} of ${plural(calls, 'call')})`
}
