import type { Snapshot } from '../contracts/catalog.ts'
import { GatewayError } from '../contracts/errors.ts'
import type { AccountTerms, AccountView } from '../contracts/ledger.ts'
import type { StoredKey } from '../contracts/stored-keys.ts'
import { systemClock } from '../contracts/time.ts'
import { type Charged, chargesOf, recordedFor } from '../gateway/admin/books.ts'
import { addCredits, newGrantId } from '../gateway/admin/credits.ts'
import { accountTerms } from '../gateway/admin/parts.ts'
import { formatUsd } from '../gateway/catalog/terms.ts'
import { CommandFailure, json, parse, required, rfc3339, table } from './arguments.ts'
import {
  actions,
  type CliContext,
  CONFIG_HELP,
  EXIT_HELP,
  environmentOf,
  STATE_HELP,
  servedAt,
  withAdmin,
  withState,
  workspaceIn,
} from './context.ts'
import { completeUntilMs, hasRecords, withLake } from './usage-lake.ts'

const USAGE = `larkway credits <action>

Credits of workspaces, and their spending.

  add --workspace W --usd N [--id ID]
                       add credits; a negative amount takes credits back, down to 0. One ID is granted only once, so a
                       command whose outcome is unknown can be given again; with another amount it is refused
  show [--workspace W] [--json]
                       show balance, grants, trial and spending of the month, by key, and what was charged beside what
                       the records of usage cost

  ${CONFIG_HELP}

${STATE_HELP}

${EXIT_HELP}
`

/** `larkway credits`: what workspaces may still spend. @throws UsageError, CommandFailure, CatalogError */
export const credits = actions('credits', USAGE, { add, show: showCredits })

const text = { type: 'string' } as const
const ADD_FLAGS = { workspace: text, usd: text, id: text, config: text } as const

async function add(args: readonly string[], context: CliContext): Promise<void> {
  const { values } = parse(joinedFields(args), ADD_FLAGS, 0)
  const workspace = required('credits add', 'workspace', values.workspace)
  const amountUsd = required('credits add', 'usd', values.usd)
  const grantId = values.id ?? newGrantId()
  const flags = { amount_usd: '--usd', grant_id: '--id' }
  const options = { command: 'credits add', config: values.config, flags, workspace }
  const { granted, amountMicros, creditsMicros } = await withAdmin(context, options, ({ actor, admin }) =>
    addCredits(actor, { workspace, amountUsd, grantId }, admin),
  ).catch((error: unknown) => {
    if (!(error instanceof CommandFailure) || error.cause !== undefined || values.id !== undefined)
      throw error
    throw new CommandFailure(`${error.message}; to try again, add --id ${grantId}`)
  })
  const outcome = granted
    ? `added    ${formatUsd(amountMicros)} USD as ${grantId}`
    : `${grantId} was granted before: nothing has changed`
  context.print(`${outcome}\ncredits  ${formatUsd(creditsMicros)} USD\n`)
}

/** `--usd -5` as `--usd=-5`: Node's parser takes a word that begins with a dash for a flag. */
function joinedFields(args: readonly string[]): string[] {
  const words: string[] = []
  for (const word of args) {
    if (words.at(-1) === '--usd' && /^-[\d.]/.test(word)) words[words.length - 1] = `--usd=${word}`
    else words.push(word)
  }
  return words
}

const SHOW_FLAGS = { workspace: text, config: text, json: { type: 'boolean' } } as const

interface Account {
  readonly workspace: string
  readonly terms: AccountTerms
  readonly view: AccountView
  /** Keys that have spent this month, or have a budget. */
  readonly keys: readonly KeySpending[]
  readonly book: CliBook
}

/** The charges, beside the cost of the records of usage. */
interface CliBook extends Charged {
  /** Null: no records are to be seen from here. */
  readonly recorded: { readonly micros: number; readonly completeUntilMs: number } | null
}

interface KeySpending {
  readonly id: string
  readonly spentMicros: number
  readonly budgetMicros: number | null
}

async function showCredits(args: readonly string[], context: CliContext): Promise<void> {
  const { workspace: wanted, config, json: asJson } = parse(args, SHOW_FLAGS, 0).values
  const accounts = await withState(environmentOf(context), async (state): Promise<Account[]> => {
    const serving = await servedAt(context, config, state)
    const snapshot = serving.current()
    if (wanted !== undefined) workspaceIn(snapshot, wanted)
    const stored = await state.keys.list()
    const workspaces = wanted === undefined ? [...snapshot.apps.keys()] : [wanted]
    const place = { accounts: state.accounts, catalog: serving }
    const books = await booksOf(await chargesOf(workspaces, { nowMs: systemClock.wallNow }, place), context)
    const read: Account[] = []
    for (const book of books) {
      const { workspace } = book
      const terms = accountTerms(serving, workspace)
      const view = await state.accounts.show(workspace, terms)
      read.push({ workspace, terms, view, keys: spendingOf(workspace, view, snapshot, stored), book })
    }
    return read
  })
  context.print(asJson === true ? json(accounts.map(jsonAccount)) : accounts.map(accountTable).join('\n'))
}

/** An account is shown also where the store does not answer, or no records are kept. */
async function booksOf(charges: readonly Charged[], context: CliContext): Promise<CliBook[]> {
  try {
    const environment = environmentOf(context)
    const untilMs = hasRecords(environment) ? await completeUntilMs(environment) : 0
    const recorded =
      untilMs === 0
        ? []
        : await withLake(context, ({ reader }) =>
            recordedFor(charges, { reader, nowMs: systemClock.wallNow }),
          )
    return charges.map((charged, at) => {
      const micros = recorded[at]
      return { ...charged, recorded: micros === undefined ? null : { micros, completeUntilMs: untilMs } }
    })
  } catch (error) {
    if (!(error instanceof GatewayError || error instanceof CommandFailure)) throw error
    return charges.map((charged) => ({ ...charged, recorded: null }))
  }
}

function spendingOf(
  workspace: string,
  { spentByKey }: AccountView,
  snapshot: Snapshot,
  stored: readonly StoredKey[],
): KeySpending[] {
  const budgets = new Map<string, number>()
  for (const { workspace: owner, key } of snapshot.keys.values())
    if (owner.id === workspace && key.budgetMicros !== null) budgets.set(key.id, key.budgetMicros)
  for (const key of stored)
    if (key.workspace === workspace && key.revokedAtMs === null && key.budgetMicros !== null)
      budgets.set(key.id, key.budgetMicros)
  const ids = [...new Set([...Object.keys(spentByKey), ...budgets.keys()])].sort()
  return ids.map((id) => ({ id, spentMicros: spentByKey[id] ?? 0, budgetMicros: budgets.get(id) ?? null }))
}

function accountTable({ workspace, terms, view, keys, book }: Account): string {
  const { trial, budgetMicros } = terms
  const { grants, reservedMicros, trialSpentMicros, overageMicros, expired, month, spentMicros } = view
  const rows = [
    ['credits', `${formatUsd(view.creditsMicros)} USD`],
    ...grants.map(({ id, micros, bookedAtMs }) => [
      '  grant',
      `${formatUsd(micros)} USD as ${id}, ${rfc3339(bookedAtMs)}`,
    ]),
    ['trial', trial === null ? 'none' : trialText(trialSpentMicros, trial)],
    ['reserved', `${formatUsd(reservedMicros)} USD by calls under way`],
    ['overage', `${formatUsd(overageMicros)} USD that calls cost above what was reserved`],
    ['expired', `${formatUsd(expired.micros)} USD in ${expired.count} reservations that no node settled`],
    [`spent in ${month}`, ofBudget(spentMicros, budgetMicros)],
    ...keys.map((key) => [`  ${key.id}`, ofBudget(key.spentMicros, key.budgetMicros)]),
    ...bookRows(book),
  ]
  return table([[workspace, ''], ...rows])
}

function bookRows({ sinceMs, bookedMicros, recorded }: CliBook): string[][] {
  if (sinceMs === 0) return []
  const charged = ['charged', `${formatUsd(bookedMicros)} USD since ${rfc3339(sinceMs)}`]
  if (recorded === null) return [charged, ['recorded', 'not known here']]
  const { micros, completeUntilMs: untilMs } = recorded
  return [
    charged,
    ['recorded', `${formatUsd(micros)} USD, complete until ${rfc3339(untilMs)}`],
    ['difference', `${formatUsd(bookedMicros - micros)} USD`],
  ]
}

type Trial = NonNullable<AccountTerms['trial']>

function trialText(spentMicros: number, { allowanceMicros, expiresAtMs }: Trial): string {
  const verb = expiresAtMs <= systemClock.wallNow() ? 'ended' : 'ends'
  return `${formatUsd(spentMicros)} of ${formatUsd(allowanceMicros)} USD, ${verb} ${rfc3339(expiresAtMs)}`
}

function ofBudget(spentMicros: number, budgetMicros: number | null): string {
  return `${formatUsd(spentMicros)}${budgetMicros === null ? '' : ` of ${formatUsd(budgetMicros)}`} USD`
}

function jsonAccount({ workspace, terms, view, keys, book }: Account) {
  const { grants, expired, month } = view
  const { trial, budgetMicros } = terms
  const { sinceMs, bookedMicros, recorded } = book
  return {
    workspace,
    credits_usd: usd(view.creditsMicros),
    grants: grants.map(({ id, micros, bookedAtMs }) => ({
      id,
      usd: usd(micros),
      booked_at: rfc3339(bookedAtMs),
    })),
    trial: trial && {
      allowance_usd: usd(trial.allowanceMicros),
      spent_usd: usd(view.trialSpentMicros),
      expires_at: rfc3339(trial.expiresAtMs),
    },
    reserved_usd: usd(view.reservedMicros),
    overage_usd: usd(view.overageMicros),
    expired_reservations: { count: expired.count, usd: usd(expired.micros) },
    month,
    spent_usd: usd(view.spentMicros),
    budget_usd: budgetMicros === null ? null : usd(budgetMicros),
    booked: {
      since: sinceMs === 0 ? null : rfc3339(sinceMs),
      booked_usd: usd(bookedMicros),
      recorded_usd: recorded && usd(recorded.micros),
      difference_usd: recorded && usd(bookedMicros - recorded.micros),
      complete_until: recorded && rfc3339(recorded.completeUntilMs),
    },
    keys: keys.map((key) => ({
      id: key.id,
      spent_usd: usd(key.spentMicros),
      budget_usd: key.budgetMicros === null ? null : usd(key.budgetMicros),
    })),
  }
}

function usd(micros: number): number {
  return micros / 1_000_000
}
