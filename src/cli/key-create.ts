import { instantMs } from '../catalog/instant.ts'
import { parseUsd } from '../catalog/money.ts'
import { BURST_MAX, isKeyName, KEY_NAME_MAX, newKey, REQUESTS_PER_MINUTE_MAX } from '../catalog/new-key.ts'
import { noteChange } from '../routes/audit-note.ts'
import { keyCreation } from '../routes/key-notes.ts'
import { DEFAULT_SCOPES, SCOPES, type Scope } from '../schema/catalog.ts'
import type { RateLimit } from '../schema/state.ts'
import { CommandFailure, oneOf, parse, required, UsageError, whole } from './arguments.ts'
import { commandActor, type Desk, environmentOf, listed, servedAt, workspaceIn } from './desk.ts'
import { withState } from './state.ts'

const text = { type: 'string' } as const
const FLAGS = {
  workspace: text,
  app: text,
  name: text,
  scopes: text,
  expires: text,
  'requests-per-minute': text,
  burst: text,
  'budget-usd': text,
  config: text,
} as const

type Values = ReturnType<typeof parse<typeof FLAGS>>['values']

/**
 * `larkway key create`: makes a key, keeps its hash in the state, and shows it with its id. It is nowhere else.
 *
 * @throws UsageError, CatalogError, CommandFailure for a workspace or an app that the configuration does not have
 */
export async function createKey(args: readonly string[], desk: Desk): Promise<void> {
  const { values } = parse(args, FLAGS, 0)
  const nowMs = Date.now()
  const settings = readSettings(values, nowMs)

  const { plain, stored } = await withState(environmentOf(desk), async (state) => {
    const snapshot = await servedAt(desk, values.config, state)
    const { workspace, app } = settings
    const apps = workspaceIn(snapshot, workspace)
    if (!apps.has(app))
      throw new CommandFailure(`the workspace "${workspace}" has no app "${app}"; there ${listed(apps)}`)
    const made = newKey({ ...settings, rateLimit: readRateLimit(values, snapshot.rateLimit) }, nowMs)
    await noteChange(state.catalog, keyCreation(made.stored, commandActor('key create')))
    await state.keys.create(made.stored)
    return made
  })
  desk.print(`key  ${plain}\nid   ${stored.id}\n`)
}

function readSettings(values: Values, nowMs: number) {
  return {
    workspace: required('key create', 'workspace', values.workspace),
    app: required('key create', 'app', values.app),
    name: readName(values.name),
    scopes: readScopes(values.scopes),
    budgetMicros: readBudget(values['budget-usd']),
    expiresAtMs: readExpiry(values.expires, nowMs),
  }
}

function readName(given: string | undefined): string | null {
  if (given === undefined) return null
  if (isKeyName(given)) return given
  throw new UsageError(`--name takes 1 to ${KEY_NAME_MAX} characters, none of them a control character`)
}

function readScopes(given: string | undefined): readonly Scope[] {
  if (given === undefined) return DEFAULT_SCOPES
  return [...new Set(given.split(',').map((scope) => oneOf('scopes', scope.trim(), SCOPES)))]
}

function readBudget(given: string | undefined): number | null {
  if (given === undefined) return null
  const micros = parseUsd(given)
  if (micros === null || micros < 0) throw new UsageError('--budget-usd takes USD with at most 6 decimals')
  return micros
}

function readExpiry(given: string | undefined, nowMs: number): number | null {
  if (given === undefined) return null
  const ms = instantMs(given)
  if (ms === null) throw new UsageError('--expires takes a time such as 2027-01-31T00:00:00Z')
  if (ms <= nowMs) throw new UsageError('--expires takes a time to come')
  return ms
}

/** Null: that of the configuration, also when it changes. */
function readRateLimit(values: Values, fallback: RateLimit): RateLimit | null {
  const requestsPerMinute = whole(
    'requests-per-minute',
    values['requests-per-minute'],
    REQUESTS_PER_MINUTE_MAX,
  )
  const burst = whole('burst', values.burst, BURST_MAX)
  if (requestsPerMinute === null && burst === null) return null
  return {
    requestsPerMinute: requestsPerMinute ?? fallback.requestsPerMinute,
    burst: burst ?? fallback.burst,
  }
}
