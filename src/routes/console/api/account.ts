import { Faults } from '../../../catalog/faults.ts'
import { resolveTerms } from '../../../catalog/terms.ts'
import type { AccountTerms, AccountView } from '../../../schema/ledger.ts'
import type { ConsoleDesk } from '../desk.ts'
import { partOf } from './parts.ts'

/** How the account of a workspace stands at this moment; null: the state does not answer. */
export function accountOf(desk: ConsoleDesk, workspace: string): Promise<AccountView | null> {
  return desk.doors.services.state.accounts.show(workspace, termsOf(desk, workspace)).catch(() => null)
}

/** What a workspace may spend by the catalog in force. */
export function termsOf(desk: ConsoleDesk, workspace: string): AccountTerms {
  const [app] = desk.catalog.current().apps.get(workspace)?.values() ?? []
  if (app !== undefined) return app.workspace.terms
  // It has no app yet, so that nobody has needed them; its fields are checked.
  const { fields = {} } = partOf(desk, { kind: 'workspace', workspace, name: workspace }) ?? {}
  return resolveTerms(fields, [], new Faults())
}
