import type { HealthAnswer, OverviewStep } from '../../../server/answers/health.ts'
import type { ProviderDetailAnswer, ProviderUse } from '../../../server/answers/providers.ts'
import { api } from '../../api.ts'
import { type Fitness, fitnessOfProvider, LastError, standingOf } from '../../components/health.ts'
import { Note } from '../../components/states.ts'
import { Time } from '../../components/time.ts'
import { percent, plural } from '../../format.ts'
import { h } from '../../h.ts'
import { useLoad } from '../../load.ts'
import { pathOf, providerPath } from '../../paths.ts'
import { sinceOf } from './history.ts'

/** More of them are told of in the tables below. */
const TROUBLES_MAX = 4
const NAMES_MAX = 6

interface Trouble {
  readonly provider: string
  readonly standing: string
  readonly isBad: boolean
  readonly fitness: Fitness
  readonly since: string | null
}

/** Providers that do not serve as they should, the worst first. */
export function troublesIn(health: HealthAnswer, steps: readonly OverviewStep[]): readonly Trouble[] {
  const names = new Set([...health.providers, ...health.breakers].map(({ provider }) => provider))
  return [...names]
    .flatMap((provider): Trouble[] => {
      const fitness = fitnessOfProvider(health, provider)
      const [standing, tone] = standingOf(fitness)
      if (tone !== 'bad' && tone !== 'warn') return []
      const since = sinceOf(steps, provider, health.breakers)
      return [{ provider, standing, isBad: tone === 'bad', fitness, since }]
    })
    .sort(
      (one, other) =>
        Number(other.isBad) - Number(one.isBad) ||
        other.fitness.failed - one.fitness.failed ||
        (one.provider < other.provider ? -1 : 1),
    )
}

/** Which providers fail, since when, and whom it hits. Nothing where all are well. */
export function Troubles(props: {
  readonly health: HealthAnswer | null
  readonly steps: readonly OverviewStep[]
  readonly workspace: string | null
}) {
  const { health, steps, workspace } = props
  const troubles = health === null ? [] : troublesIn(health, steps)
  if (troubles.length === 0) return null
  const more = troubles.length - TROUBLES_MAX
  return h(
    'section',
    { class: 'overview-troubles', 'aria-label': 'Provider problems' },
    troubles
      .slice(0, TROUBLES_MAX)
      .map((trouble) => h(OneTrouble, { key: trouble.provider, trouble, workspace })),
    more > 0 ? h('p', { class: 'small' }, `${plural(more, 'more provider')} below.`) : null,
  )
}

function OneTrouble({
  trouble,
  workspace,
}: {
  readonly trouble: Trouble
  readonly workspace: string | null
}) {
  const { provider, standing, isBad, fitness, since } = trouble
  const { calls, failed, lastError } = fitness
  return h(
    Note,
    { tone: isBad ? 'bad' : 'warn' },
    h(
      'p',
      null,
      h('a', { class: 'mono', href: pathOf(workspace, 'providers', provider) }, provider),
      h('strong', null, ` is ${standing.toLowerCase()}`),
      since === null
        ? ''
        : [' since ', h(Time, { at: since, exact: true }), ' (', h(Time, { at: since }), ')'],
      calls === 0 ? '' : `: ${percent(failed / calls)} of ${plural(calls, 'call')} failed in 5 minutes`,
      '. ',
      lastError === null ? null : ['Last error: ', h(LastError, { error: lastError }), '.'],
    ),
    h(Affected, { workspace, provider }),
  )
}

/** The routes that have an entry of a provider, and their apps. */
function Affected({ workspace, provider }: { readonly workspace: string | null; readonly provider: string }) {
  const load = useLoad(
    (signal) => api.get<ProviderDetailAnswer>(providerPath(workspace, provider), { signal }),
    [workspace, provider],
  )
  if (load.state === 'failed') return null
  if (load.value === null) return h('p', { class: 'small' }, 'Affects …')
  const { used_by: uses, used_by_total: total } = load.value
  if (uses.length === 0) return h('p', { class: 'small' }, 'No published route uses it.')
  return h('p', { class: 'small' }, affectedWords(uses, total, workspace === null))
}

/** "Affects 2 routes (acme.voice, acme.notes) and 1 app (phone). acme.notes has no fallback." */
export function affectedWords(uses: readonly ProviderUse[], total: number, isPlatform: boolean): string {
  const name = ({ workspace, route }: ProviderUse) =>
    isPlatform && !route.startsWith(`${workspace}.`) ? `${workspace}/${route}` : route
  const apps = [
    ...new Set(uses.flatMap((use) => use.apps.map((app) => (isPlatform ? `${use.workspace}/${app}` : app)))),
  ]
  const alone = uses.filter(({ others }) => others === 0)
  const hasNone = alone.length === 0 ? '' : ` No fallback: ${listedNames(alone.map(name))}.`
  return (
    `Affects ${plural(total, 'route')} (${listedNames(uses.map(name), total)}) and ` +
    `${plural(apps.length, 'app')}${apps.length === 0 ? '' : ` (${listedNames(apps)})`}.${hasNone}`
  )
}

function listedNames(names: readonly string[], total = names.length): string {
  const shown = names.slice(0, NAMES_MAX)
  return total > shown.length ? `${shown.join(', ')} and ${total - shown.length} more` : shown.join(', ')
}
