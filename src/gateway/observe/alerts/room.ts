import { type AlertRule, type Incident, incidentName } from '../../../contracts/alerts.ts'
import { inTurns } from '../../../contracts/in-turns.ts'
import { type Finding, OWNER_GONE, standingOf } from './findings.ts'

/*
 * How many incidents a rule may have open. Each rule has room of its own, and in it what belongs to a workspace has no
 * more than its share: else one of them could make so many, with small budgets of keys or ends of models in its routes,
 * that the others and the platform are no longer reported.
 */

/** Incidents of a rule that are open at a time, each by what it is of; those that count others not among them. */
export const ROOM = {
  /** Incidents that workspaces do not make themselves, such as their own budgets and models of the platform. */
  ofNobody: 500,
  ofWorkspaces: 500,
  ofEachWorkspace: 100,
}

/**
 * The findings that a rule may have incidents of: the ones that have an incident already, the worst of the others that
 * break it, and one finding that counts the rest, for each workspace that has used up its share and for all others
 * together.
 *
 * @param open incidents of the rule
 */
export function withinRoom(
  rule: Pick<AlertRule, 'name' | 'kind'>,
  findings: readonly Finding[],
  open: readonly Incident[],
): Finding[] {
  const known = new Set(open.map(incidentName))
  const isOpen = ({ subject }: Finding) => known.has(incidentName({ rule: rule.name, subject }))
  const fresh = findings.filter((one) => !isOpen(one) && standingOf(one) === 'broken').sort(byTrouble)
  const figure = rule.kind === 'end_user_budget' ? 'more_end_users' : 'more_incidents'
  const taken = new Taken(open.filter(({ subject }) => subject.figure !== figure))
  const begun: Finding[] = []
  const left = new Map<string, number>()
  for (const one of inTurns(fresh, ({ owner = '' }) => owner)) {
    const full = taken.take(one.owner)
    if (full === null) begun.push(one)
    else left.set(full, (left.get(full) ?? 0) + 1)
  }
  const others = [...left].map(([workspace, value]) => {
    return { subject: { ...(workspace === '' ? {} : { workspace }), figure }, value, threshold: 1 }
  })
  return [...findings.filter(isOpen), ...begun, ...others]
}

/** Places that incidents have. */
class Taken {
  readonly #byOwner = new Map<string, number>()
  #ofNobody = 0
  #ofWorkspaces = 0

  constructor(open: readonly Incident[]) {
    for (const { owner } of open) this.#add(owner)
  }

  /** Takes a place. @returns null; or, as there is none, the workspace that has used up its share, or '' for all */
  take(owner: string | undefined): string | null {
    if (owner === undefined && this.#ofNobody >= ROOM.ofNobody) return ''
    if (owner !== undefined) {
      if ((this.#byOwner.get(owner) ?? 0) >= ROOM.ofEachWorkspace) return owner === OWNER_GONE ? '' : owner
      if (this.#ofWorkspaces >= ROOM.ofWorkspaces) return ''
    }
    this.#add(owner)
    return null
  }

  #add(owner: string | undefined): void {
    if (owner === undefined) {
      this.#ofNobody += 1
      return
    }
    this.#ofWorkspaces += 1
    this.#byOwner.set(owner, (this.#byOwner.get(owner) ?? 0) + 1)
  }
}

function byTrouble(one: Finding, other: Finding): number {
  return one.falls === true ? one.value - other.value : other.value - one.value
}
