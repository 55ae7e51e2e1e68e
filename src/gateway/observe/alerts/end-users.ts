import type { AlertRule, Incident } from '../../../contracts/alerts.ts'
import type { EndUserSettings, EndUserTerms, Snapshot } from '../../../contracts/catalog.ts'
import type { EndUserSample } from '../../../contracts/console.ts'
import { inTurns } from '../../../contracts/in-turns.ts'
import type { Accounts } from '../../../contracts/ledger.ts'
import { accountOfEndUser } from '../../call/context/end-users.ts'
import { type Finding, isExhausted } from './findings.ts'

/*
 * Budgets of end users. There may be a million of them, so they are never all read: nodes name the end users whom a
 * call has brought near the end of their budget, and the state is asked what these, and those of open incidents, have
 * spent so far.
 */

/** How far back nodes are listened to. A node names an end user who keeps calling twice within that. */
export const NAMED_MS = 10 * 60_000
/** End users that the state is asked about in a round. */
const ASKED_MAX = 1_000

type Rule = Extract<AlertRule, { readonly kind: 'end_user_budget' }>

/** An end user by the names of its incident. */
interface Named {
  readonly workspace: string
  readonly account: string
  readonly subject: Incident['subject']
  readonly isOpen: boolean
  /** Its budget did not cover a call. */
  readonly isRefused: boolean
}

export interface EndUserFigures {
  /** End users whom nodes have named. */
  readonly named: readonly EndUserSample[]
  readonly open: readonly Incident[]
  readonly snapshot: Pick<Snapshot, 'apps'>
  readonly accounts: Pick<Accounts, 'endUsersSpent'>
}

/**
 * Shares of budgets that end users have used up: of those with an incident, and of the others that break the rule.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE
 */
export async function endUserFindings(rule: Rule, figures: EndUserFigures): Promise<Finding[]> {
  const { share: threshold } = rule
  const findings: Finding[] = []
  for (const [workspace, some] of Map.groupBy(subjectsOf(rule, figures), (one) => one.workspace)) {
    const [app] = figures.snapshot.apps.get(workspace)?.values() ?? []
    const settings = app?.workspace.endUsers
    if (settings === undefined) continue
    const spent = await figures.accounts.endUsersSpent(
      workspace,
      some.map(({ account }) => account),
    )
    const termsOf = termsByAccount(settings)
    some.forEach(({ account, subject, isOpen, isRefused }, index) => {
      const { budgetMicros } = termsOf(account)
      if (budgetMicros === null || budgetMicros === 0) return
      const value = (spent[index] ?? 0) / budgetMicros
      const exhausted = isExhausted(value, threshold, isRefused)
      if (isOpen || value >= threshold)
        findings.push({ subject, owner: workspace, value, threshold, isExhausted: exhausted })
    })
  }
  return findings
}

/** The end users that are asked about: those of open incidents, under the names that these have, then the others. */
function subjectsOf({ name, workspace: only }: Rule, { named, open }: EndUserFigures): Named[] {
  const found = new Map<string, Named>()
  const refused = new Set(named.flatMap((one) => (one.isRefused ? [`${one.workspace} ${one.account}`] : [])))
  const add = (one: Omit<Named, 'isRefused'>) => {
    const key = `${one.workspace} ${one.account}`
    if (!found.has(key) && found.size < ASKED_MAX) found.set(key, { ...one, isRefused: refused.has(key) })
  }
  for (const { rule, subject } of open) {
    const { workspace, end_user: id, end_user_digest: digest } = subject
    const account = id === undefined ? digest : accountOfEndUser(id)
    if (rule !== name || workspace === undefined || account === undefined) continue
    if (only !== null && only !== workspace) continue
    add({ workspace, account, subject, isOpen: true })
  }
  // A workspace with very many of them must not use up all questions.
  for (const { workspace, account, id } of inTurns(named, (one) => one.workspace)) {
    if (only !== null && only !== workspace) continue
    const subject = { workspace, ...(id === null ? { end_user_digest: account } : { end_user: id }) }
    add({ workspace, account, subject, isOpen: false })
  }
  return [...found.values()]
}

type TermsByAccount = (account: string) => EndUserTerms

/** A configuration stays for many rounds, and may have terms for thousands. */
const known = new WeakMap<EndUserSettings, TermsByAccount>()

/** Terms of end users by their accounts, since the id of some is not known here. */
function termsByAccount(settings: EndUserSettings): TermsByAccount {
  const made = known.get(settings)
  if (made !== undefined) return made
  const own = new Map([...settings.overrides].map(([id, terms]) => [accountOfEndUser(id), terms]))
  const termsOf: TermsByAccount = (account) => own.get(account) ?? settings.terms
  known.set(settings, termsOf)
  return termsOf
}
