import type { BreakerAnswer, ErrorAnswer, HealthAnswer } from '../../server/answers/health.ts'
import { api } from '../api.ts'
import { percent } from '../format.ts'
import { h } from '../h.ts'
import { useLoad } from '../load.ts'
import { queryOf } from '../paths.ts'
import { Badge, type Tone } from './badge.ts'
import { Time } from './time.ts'

const EVERY_MS = 5_000
/** Shares of failed calls from which on something is called degraded, badly so, and down. */
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
  /** Breakers stop calls, and none has succeeded since. */
  readonly isDown: boolean
  /** Breakers that are not closed, the worst first. */
  readonly breakers: readonly BreakerAnswer[]
  /** All entries of a route; none for an entry. Null: not known. */
  readonly entries: readonly Fitness[] | null
}

const WORST_FIRST: readonly BreakerAnswer['state'][] = ['open', 'cooling', 'half_open']

/** A provider with all its entries. */
export function fitnessOfProvider(health: HealthAnswer, provider: string): Fitness {
  const known = health.providers.find((one) => one.provider === provider)
  const breakers = health.breakers.filter((one) => one.provider === provider)
  return fitness(known ? [known] : [], breakers, null)
}

/** Entries of a route, written `provider/model`. */
export function fitnessOfEntries(health: HealthAnswer, route: string, entries: readonly string[]): Fitness {
  const each = [...new Set(entries)].map((name) => {
    const { models, breakers } = ofModel(health, name)
    return fitness(
      models,
      breakers.filter((one) => one.route === route),
      [],
    )
  })
  const errors = each.map(({ calls, failed, lastError, isDown }) => {
    return { calls, failed, last_error: lastError, is_down: isDown }
  })
  const breakers = each.flatMap((one) => one.breakers)
  return fitness(errors, breakers, each)
}

/** A model of a provider in all routes, written `provider/model`. */
export function fitnessOfModel(health: HealthAnswer, name: string): Fitness {
  const { models, breakers } = ofModel(health, name)
  return fitness(models, breakers, null)
}

function ofModel(health: HealthAnswer, name: string) {
  const isMeant = (provider: string, model: string) => `${provider}/${model}` === name
  return {
    models: health.providers.flatMap(({ provider, models }) =>
      models.filter(({ model }) => isMeant(provider, model)),
    ),
    breakers: health.breakers.filter(({ provider, model }) => isMeant(provider, model)),
  }
}

function fitness(
  counted: readonly {
    readonly calls: number
    readonly failed: number
    readonly last_error: ErrorAnswer | null
    readonly is_down: boolean
  }[],
  breakers: readonly BreakerAnswer[],
  entries: Fitness['entries'],
): Fitness {
  const sorted = breakers.toSorted(
    (one, other) => WORST_FIRST.indexOf(one.state) - WORST_FIRST.indexOf(other.state),
  )
  const errors = [...counted, ...breakers].flatMap(({ last_error }) => last_error ?? [])
  return {
    calls: counted.reduce((sum, { calls }) => sum + calls, 0),
    failed: counted.reduce((sum, { failed }) => sum + failed, 0),
    lastError: errors.sort((one, other) => (one.at < other.at ? 1 : -1))[0] ?? null,
    isDown: counted.length > 0 && breakers.length > 0 && counted.every((one) => one.is_down),
    breakers: sorted,
    entries,
  }
}

export type Standing = 'Up' | 'Degraded' | 'Down' | 'No calls'

/** State of a provider, a route or an entry, and how much it matters; `No calls` where it is not known. */
export function standingOf(of: Fitness): readonly [Standing, Tone] {
  const { calls, failed, breakers, entries, isDown } = of
  if (entries !== null && entries.length > 1) return standingOfRoute(entries.map(standingOf))
  if (isDown) return ['Down', 'bad']
  const isOpen = breakers.some(({ state }) => state === 'open')
  // To an entry whose breaker is open nothing is sent.
  if (isOpen && (calls === 0 || entries !== null)) return ['Down', 'bad']
  if (calls === 0) return breakers.length > 0 ? ['Degraded', 'warn'] : ['No calls', 'neutral']
  const share = failed / calls
  if (share >= DOWN) return ['Down', 'bad']
  if (share >= FAILING || isOpen) return ['Degraded', 'bad']
  return share >= DEGRADED || breakers.length > 0 ? ['Degraded', 'warn'] : ['Up', 'ok']
}

/** As long as one of its entries serves, a route is not down. */
function standingOfRoute(entries: readonly (readonly [Standing, Tone])[]): readonly [Standing, Tone] {
  const every = (...words: readonly Standing[]) => entries.every(([word]) => words.includes(word))
  if (every('No calls')) return ['No calls', 'neutral']
  if (every('Down')) return ['Down', 'bad']
  if (every('Up', 'No calls')) return ['Up', 'ok']
  return ['Degraded', entries.some(([, tone]) => tone === 'bad') ? 'bad' : 'warn']
}

export function StandingBadge({ of }: { readonly of: Fitness }) {
  const [word, tone] = standingOf(of)
  const [worst] = of.breakers
  return h(Badge, { tone, title: worst && MEANINGS[worst.state] }, word)
}

/** Why an entry is passed over, or about to be tried again. */
export const BREAKER_WORDS: Readonly<Record<BreakerAnswer['state'], string>> = {
  open: 'breaker open',
  half_open: 'breaker half-open',
  cooling: 'rate limited',
}

const MEANINGS: Readonly<Record<BreakerAnswer['state'], string>> = {
  open: 'It failed too often. Other entries are tried until it gets a test request.',
  half_open: 'The next request tests whether it works again.',
  cooling: 'The provider asked for a pause.',
}

export function BreakerBadge({ state }: Pick<BreakerAnswer, 'state'>) {
  return h(Badge, { tone: state === 'open' ? 'bad' : 'warn', title: MEANINGS[state] }, BREAKER_WORDS[state])
}

/** State, breakers, error rate, and the last error with its age. */
export function Health({ of }: { readonly of: Fitness | null }) {
  if (of === null) return h('span', { class: 'quiet' }, '–')
  const { calls, failed, lastError, breakers } = of
  const [worst] = breakers
  return h(
    'span',
    { class: 'health' },
    h(
      'span',
      null,
      h(StandingBadge, { of }),
      ' ',
      h(
        'span',
        { class: 'quiet small' },
        worst ? [causeWords(of, worst), calls > 0 && !of.isDown ? ' · ' : ''] : null,
        calls > 0 && !of.isDown ? `${percent(failed / calls)} errors in 5 min` : worst ? null : 'in 5 min',
      ),
    ),
    lastError === null || (failed === 0 && breakers.length === 0)
      ? null
      : h('span', { class: 'small health-error' }, h(LastError, { error: lastError })),
  )
}

/** "breaker open on 1 of 2 entries for 3 min" */
function causeWords({ breakers, entries }: Fitness, { state, since }: BreakerAnswer) {
  return [
    BREAKER_WORDS[state],
    entries === null || entries.length < 2 ? '' : ` on ${breakers.length} of ${entries.length} entries`,
    since === null ? null : [' for ', h(Time, { at: since, lasts: true })],
  ]
}

/** "The provider failed (500), 12 s ago" */
export function LastError({ error }: { readonly error: ErrorAnswer | null }) {
  if (error === null) return h('span', { class: 'quiet' }, '–')
  const { status, reason, at } = error
  return [
    reason.charAt(0).toUpperCase() + reason.slice(1),
    status === null || reason.includes(String(status)) ? '' : ` (${status})`,
    ', ',
    h(Time, { at }),
  ]
}
