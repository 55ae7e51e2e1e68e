import { type Static, Type } from 'typebox'
import { WorkspaceShape } from '../../../catalog/file.ts'
import { hasUnseen } from '../../../catalog/new-key.ts'
import { usdOf } from '../../../gateway/micros.ts'
import { invalid } from '../../../inbound/refusals.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import type { AccountTerms, AccountView } from '../../../schema/ledger.ts'
import { optional } from '../../json-request.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint, requireWorkspace } from '../endpoint.ts'
import { accountOf, termsOf } from './account.ts'
import type { AppAnswer, PurposeAnswer, Role, WorkspaceAnswer, WorkspaceSummary } from './answers.ts'
import { changePart, type Editor } from './change-part.ts'
import { faultsFor, refusedFor } from './faults.ts'
import { storedKeys, validKeys } from './kept-keys.ts'
import { type Part, partOf, partsOf } from './parts.ts'

const PATH = '/workspaces/:workspace'
/** With a dot and a name of its own behind it a workspace names its routes, which have 64 characters in all. */
const NEW_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$/

const { name, plan, trial, budget_usd: budget } = WorkspaceShape.properties

const WorkspaceBody = Type.Object({
  name: optional(name, 'shown in GET /v1/me'),
  plan: optional(plan, 'everything is included unless said'),
  budget_usd_per_month: optional(budget.properties.per_month, 'cap for all its keys together'),
  trial: optional(trial, 'what platform calls may come to before credits are asked'),
})

type Call<Body = unknown> = ConsoleCall<typeof PATH, Body, unknown>

/** The workspaces: which there are, what is in them, and for operators what they may spend. */
export function workspaceEndpoints(desk: ConsoleDesk): EdgeRoute[] {
  const operator = { role: 'operator' } as const
  return [
    consoleEndpoint(desk, 'GET', '/workspaces', {}, listWorkspaces),
    consoleEndpoint(desk, 'GET', PATH, {}, (call) => workspaceAnswer(call, call.params.workspace)),
    consoleEndpoint(
      desk,
      'PUT',
      PATH,
      { ...operator, body: WorkspaceBody, makesWorkspace: true },
      putWorkspace,
    ),
    consoleEndpoint(desk, 'DELETE', PATH, operator, deleteWorkspace),
  ]
}

function listWorkspaces({ desk, viewer }: Editor): { workspaces: WorkspaceSummary[] } {
  const { snapshot, routes } = desk.catalog.good()
  const counts = new Map<string, number>()
  for (const { workspace } of routes) counts.set(workspace, (counts.get(workspace) ?? 0) + 1)
  const isSeen = ({ name: id }: Part) => viewer.role === 'operator' || id === viewer.principal.workspace.id
  const workspaces = partsOf(desk, 'workspace', null)
    .filter((part) => isSeen(part) && part.faults.length === 0)
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

/** What an operator, or an admin of it, sees of a workspace. */
export async function workspaceAnswer({ desk, viewer }: Editor, workspace: string): Promise<WorkspaceAnswer> {
  requireWorkspace(workspace, viewer, desk)
  const part = partOf(desk, { kind: 'workspace', workspace, name: workspace })
  const { fields = {}, managedBy = 'console' } = part ?? {}
  const terms = termsOf(desk, workspace)
  const [account, contentShown] = await Promise.all([
    accountOf(desk, workspace),
    desk.doors.services.state.settings.contentShown(workspace),
  ])
  const plans = viewer.role === 'operator' ? partsOf(desk, 'plan', null).map((one) => one.name) : []
  return {
    id: workspace,
    name: String(fields.name ?? workspace),
    plan: planOf(fields),
    plans,
    managed_by: managedBy,
    budget_usd_per_month: terms.budgetMicros === null ? null : usdOf(terms.budgetMicros),
    trial: (fields.trial ?? null) as NonNullable<WorkspaceAnswer['trial']> | null,
    account: account && accountAnswer(account, terms),
    content_shown: contentShown,
    purposes: partsOf(desk, 'purpose', workspace).map(purposeAnswer),
    apps: partsOf(desk, 'app', workspace).map((part) => appAnswer(part, viewer.role)),
  }
}

/** What is left out is taken away. A grant of credits, which only a file can hold, stays. */
async function putWorkspace(call: Call<Static<typeof WorkspaceBody>>): Promise<WorkspaceAnswer> {
  const { desk, body, params } = call
  const { workspace } = params
  const record = { kind: 'workspace', workspace, name: workspace } as const
  await changePart(call, () => {
    const part = partOf(desk, record)
    if (part === null && !NEW_ID.test(workspace))
      throw invalid('workspace: must be a name of 1 to 40 letters, digits, ".", "_" or "-"', 'workspace')
    if (typeof body.name === 'string' && hasUnseen(body.name))
      throw invalid('name: must have no control characters, those of text direction among them', 'name')
    const { credits_usd, grant_id } = part?.fields ?? {}
    const { budget_usd_per_month, ...rest } = body
    const budget_usd = budget_usd_per_month == null ? null : { per_month: budget_usd_per_month }
    const fields = present({ ...rest, budget_usd, credits_usd, grant_id })
    return { record, fields, action: 'workspace.publish' }
  })
  return workspaceAnswer(call, workspace)
}

/** Nothing may be left in it, so that nobody loses what was not named. */
async function deleteWorkspace(call: Call): Promise<{ deleted: true }> {
  const { desk, params } = call
  const { workspace } = params
  await changePart(call, async () => {
    const held = await heldIn(desk, workspace)
    const part = partOf(desk, { kind: 'workspace', workspace, name: workspace })
    if (held.length > 0 && part?.managedBy === 'console') throw refusedFor(held)
    const record = { kind: 'workspace', workspace, name: workspace } as const
    return { record, fields: null, action: 'workspace.remove' }
  })
  return { deleted: true }
}

async function heldIn(desk: ConsoleDesk, workspace: string): Promise<string[]> {
  const kinds = ['app', 'route', 'provider', 'purpose'] as const
  const parts = kinds.flatMap((kind) =>
    partsOf(desk, kind, workspace).map((part) => `the ${kind} "${part.name}"`),
  )
  const drafts = (await desk.records.list(workspace)).filter(
    (one) => one.draft !== null && one.published === null,
  )
  const keys = validKeys(await storedKeys(desk, workspace), desk.nowMs())
  const names = [
    ...parts,
    ...drafts.map((one) => `the draft of the ${one.kind} "${one.name}"`),
    ...keys.map((key) => `the key "${key.name}" (${key.id})`),
  ]
  return names.map((one) => `the workspace still has ${one}`)
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
  const { description = '', enabled = true } = fields
  return { purpose, description: String(description), enabled: enabled === true, managed_by: managedBy }
}

export function appAnswer({ name: id, fields, managedBy, faults }: Part, role: Role): AppAnswer {
  const answer = { id, fields: fields as AppAnswer['fields'], managed_by: managedBy }
  return faults.length === 0 ? answer : { ...answer, faults: faultsFor(role, faults) }
}

function planOf(fields: Part['fields']): string | null {
  return typeof fields.plan === 'string' ? fields.plan : null
}

/** Without what is null or undefined, which a file would not have. */
function present(fields: Part['fields']): Part['fields'] {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== null && value !== undefined),
  )
}
