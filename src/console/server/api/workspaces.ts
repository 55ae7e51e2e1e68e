import { type Static, Type } from 'typebox'
import type { AccountTerms, AccountView } from '../../../contracts/ledger.ts'
import type { Role } from '../../../gateway/admin/actor.ts'
import { requireWorkspace } from '../../../gateway/admin/actor.ts'
import { putWorkspace, removeWorkspace } from '../../../gateway/admin/catalog.ts'
import { addCredits, GRANT_ID } from '../../../gateway/admin/credits.ts'
import { issuesFor } from '../../../gateway/admin/issues.ts'
import { accountTerms, catalogParts, type Part, partOf } from '../../../gateway/admin/parts.ts'
import { switchContent } from '../../../gateway/admin/settings.ts'
import { optional } from '../../../gateway/api/json-request.ts'
import { usdOf } from '../../../gateway/call/facts/price.ts'
import { WorkspaceShape } from '../../../gateway/catalog/file.ts'
import type { AppAnswer, PurposeAnswer, WorkspaceAnswer, WorkspaceSummary } from '../answers/workspaces.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleCall, type ConsoleRoute, consoleEndpoint } from '../endpoint.ts'

const PATH = '/workspaces/:workspace'
const CREDITS = `${PATH}/credits` as const
const CONTENT = `${PATH}/content` as const

const shapes = WorkspaceShape.properties

const WorkspaceBody = Type.Object({
  name: optional(shapes.name, 'shown in GET /v1/me'),
  plan: optional(shapes.plan, 'everything is included by default'),
  budget_usd_per_month: optional(shapes.budget_usd.properties.per_month, 'cap for all its keys together'),
  trial: optional(shapes.trial, 'allowance for platform calls before credits are needed'),
  rate_limit: optional(
    shapes.rate_limit,
    'what all its keys together may send; absent: it stays, null: none',
  ),
  end_users: optional(shapes.end_users, 'what its own customers may spend and ask, as in the configuration'),
})

/** These are taken away where a body leaves them out; all other settings stay. */
const NOTHING = { name: null, plan: null, trial: null, end_users: null }

const CreditsBody = Type.Object({
  amount_usd: Type.Number({ description: 'credits to add; a negative amount takes credits back, down to 0' }),
  grant_id: Type.String(GRANT_ID),
})

const ContentBody = Type.Object({
  shown: Type.Boolean({ description: 'whether the console may show audio and transcripts of the workspace' }),
})

type Call<Body = unknown> = ConsoleCall<typeof PATH, Body, unknown>

/** A viewer, and the services to answer them with. */
export type Viewing = Pick<Call, 'context' | 'viewer'>

/** The workspaces: their list, their contents, and for operators what they may spend. */
export function workspaceEndpoints(context: ConsoleContext): ConsoleRoute[] {
  const operator = { role: 'operator' } as const
  const put = { ...operator, body: WorkspaceBody, makesWorkspace: true } as const
  return [
    consoleEndpoint(context, 'GET', '/workspaces', {}, listWorkspaces),
    consoleEndpoint(context, 'GET', PATH, {}, (call) => workspaceAnswer(call, call.params.workspace)),
    consoleEndpoint(context, 'PUT', PATH, put, replaceWorkspace),
    consoleEndpoint(context, 'DELETE', PATH, operator, deleteWorkspace),
    consoleEndpoint(context, 'POST', CREDITS, { ...operator, body: CreditsBody }, postCredits),
    consoleEndpoint(context, 'PUT', CONTENT, { body: ContentBody }, putContent),
  ]
}

function listWorkspaces({ context, viewer }: Viewing): { workspaces: WorkspaceSummary[] } {
  const { catalog } = context
  const { snapshot, routes } = catalog.good()
  const counts = new Map<string, number>()
  for (const { workspace } of routes) counts.set(workspace, (counts.get(workspace) ?? 0) + 1)
  const isSeen = ({ name: id }: Part) => viewer.role === 'operator' || viewer.workspaces.includes(id)
  const workspaces = catalogParts(catalog, 'workspace', null)
    .filter((part) => isSeen(part) && part.issues.length === 0)
    .map(({ name: id, fields, managedBy }) => ({
      id,
      name: String(fields.name ?? id),
      plan: planOf(fields),
      managed_by: managedBy,
      apps: snapshot.apps.get(id)?.size ?? 0,
      routes: counts.get(id) ?? 0,
    }))
  return { workspaces }
}

/** A workspace as an operator, or one of its admins, sees it. */
export async function workspaceAnswer(
  { context, viewer }: Viewing,
  workspace: string,
): Promise<WorkspaceAnswer> {
  const { catalog } = context
  requireWorkspace(viewer.actor, workspace, catalog)
  const part = partOf(catalog, { kind: 'workspace', workspace, name: workspace })
  const { fields = {}, managedBy = 'console' } = part ?? {}
  const terms = accountTerms(catalog, workspace)
  const [account, contentShown] = await Promise.all([
    accountOf(context, workspace),
    context.deps.services.state.settings.contentShown(workspace),
  ])
  const plans = viewer.role === 'operator' ? catalogParts(catalog, 'plan', null).map((one) => one.name) : []
  return {
    id: workspace,
    name: String(fields.name ?? workspace),
    plan: planOf(fields),
    plans,
    managed_by: managedBy,
    budget_usd_per_month: terms.budgetMicros === null ? null : usdOf(terms.budgetMicros),
    trial: (fields.trial ?? null) as NonNullable<WorkspaceAnswer['trial']> | null,
    rate_limit: (fields.rate_limit ?? null) as WorkspaceAnswer['rate_limit'],
    end_users: (fields.end_users ?? null) as WorkspaceAnswer['end_users'],
    account: account && accountAnswer(account, terms),
    content_shown: contentShown,
    purposes: catalogParts(catalog, 'purpose', workspace).map(purposeAnswer),
    apps: catalogParts(catalog, 'app', workspace).map((part) => appAnswer(part, viewer.role)),
  }
}

async function replaceWorkspace(call: Call<Static<typeof WorkspaceBody>>): Promise<WorkspaceAnswer> {
  const { context, viewer, params, body } = call
  const { workspace } = params
  const { budget_usd_per_month, ...rest } = body
  const budget_usd = budget_usd_per_month == null ? null : { per_month: budget_usd_per_month }
  await putWorkspace(viewer.actor, { workspace, fields: { ...NOTHING, ...rest, budget_usd } }, context.admin)
  return workspaceAnswer(call, workspace)
}

async function deleteWorkspace({ context, viewer, params }: Call): Promise<{ deleted: true }> {
  await removeWorkspace(viewer.actor, params, context.admin)
  return { deleted: true }
}

async function postCredits(call: ConsoleCall<typeof CREDITS, Static<typeof CreditsBody>, unknown>) {
  const { context, viewer, params, body } = call
  const { workspace } = params
  const input = { workspace, amountUsd: body.amount_usd, grantId: body.grant_id }
  await addCredits(viewer.actor, input, context.admin)
  return workspaceAnswer(call, workspace)
}

async function putContent(call: ConsoleCall<typeof CONTENT, Static<typeof ContentBody>, unknown>) {
  const { context, viewer, params, body } = call
  const { workspace } = params
  await switchContent(viewer.actor, { workspace, shown: body.shown }, context.admin)
  return workspaceAnswer(call, workspace)
}

/** The account of a workspace at this moment; null: the state does not answer. */
export function accountOf({ catalog, deps }: ConsoleContext, workspace: string): Promise<AccountView | null> {
  const { accounts } = deps.services.state
  return accounts.show(workspace, accountTerms(catalog, workspace)).catch(() => null)
}

function accountAnswer(account: AccountView, { trial: terms }: AccountTerms): WorkspaceAnswer['account'] {
  return {
    credits_usd: usdOf(account.creditsMicros),
    reserved_usd: usdOf(account.reservedMicros),
    spent_usd: usdOf(account.spentMicros),
    month: account.month,
    trial_spent_usd: usdOf(account.trialSpentMicros),
    trial_allowance_usd: terms === null ? null : usdOf(terms.allowanceMicros),
  }
}

function purposeAnswer({ name: purpose, fields, managedBy }: Part): PurposeAnswer {
  const { description = '', enabled = true, require } = fields
  return {
    purpose,
    description: String(description),
    enabled: enabled === true,
    ...(require === undefined ? {} : { require: require as NonNullable<PurposeAnswer['require']> }),
    managed_by: managedBy,
  }
}

export function appAnswer({ name: id, fields, managedBy, issues }: Part, role: Role): AppAnswer {
  const answer = { id, fields: fields as AppAnswer['fields'], managed_by: managedBy }
  return issues.length === 0 ? answer : { ...answer, issues: issuesFor(role, issues) }
}

function planOf(fields: Part['fields']): string | null {
  return typeof fields.plan === 'string' ? fields.plan : null
}
