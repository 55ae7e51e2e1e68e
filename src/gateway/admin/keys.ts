import { isDeepStrictEqual } from 'node:util'
import { DEFAULT_SCOPES, SCOPES, type Scope } from '../../contracts/catalog.ts'
import { GatewayError } from '../../contracts/errors.ts'
import { instantMs } from '../../contracts/instants.ts'
import type { RateLimit } from '../../contracts/rate-limit.ts'
import type { StoredKey, StoredKeys } from '../../contracts/stored-keys.ts'
import {
  BURST_MAX,
  formerInForce,
  isKeyName,
  isValid,
  KEY_NAME_MAX,
  newKey,
  newSecret,
  REQUESTS_PER_MINUTE_MAX,
  UNITS_PER_MINUTE_MAX,
} from '../catalog/key.ts'
import { knownKeysOf, readKeys } from '../catalog/known-keys.ts'
import { rateLimitOf } from '../catalog/rate-limit.ts'
import { parseUsd } from '../catalog/terms.ts'
import { invalid, invalidField, MUST } from '../edge/refusals.ts'
import { type AdminActor, type AdminContext, requireOwner, requireWorkspace } from './actor.ts'
import { type AuditedChange, audit } from './audit.ts'
import { issuesError } from './issues.ts'

/** Keys that one workspace may have, revoked ones included: every node reads all of them. */
export const KEYS_MAX = 5_000

const HOUR_MS = 60 * 60 * 1000
const PLAYGROUND_NAME = 'playground'
/** Prefix of the ids of playground keys: it identifies their calls long after the keys are gone. */
export const PLAYGROUND_IDS = 'pgk_'
const PLAYGROUND_SCOPES = ['inference', 'jobs', 'queue'] as const
const PLAYGROUND_LIFE_MS = HOUR_MS
/** How long the record of a playground key outlives it: the requests of a day name it. */
const PLAYGROUND_KEEP_MS = 24 * HOUR_MS
/** Playground keys of one workspace that are valid at a time: each open page has one. */
const PLAYGROUND_MAX = 20
/** Expired playground keys that are deleted while a person waits for a new one. */
const FORGOTTEN_AT_ONCE = 5

/** How long a rotated key may go on beside the new one, seconds. */
export const OVERLAP_SECONDS_MAX = 30 * 24 * 3_600
/** How often a change is tried that others come before. */
const CHANGES_MAX = 10

/** Audit actions of keys that the playground makes and revokes for itself, apart from those of people. */
export const PLAYGROUND_ACTIONS = {
  create: 'playground_key.create',
  revoke: 'playground_key.revoke',
} as const

type KeyContext = Pick<AdminContext, 'state' | 'catalog' | 'refreshKeys' | 'nowMs'>

/** Settings of a new key, as a caller or an operator gives them. */
export interface KeyInput {
  readonly workspace: string
  readonly app: string
  /** Null: its id. */
  readonly name: string | null
  /** Null: the default scopes. */
  readonly scopes: readonly string[] | null
  /** Null: that of the configuration, also when it changes. A part that is null is the configuration's now. */
  readonly rateLimit: { readonly [Part in keyof RateLimit]: number | null } | null
  readonly budgetUsd: string | number | null
  /** RFC 3339; null: never. */
  readonly expiresAt: string | null
}

/**
 * Makes a key and keeps its hash. The key itself is in the result and nowhere else.
 *
 * @throws GatewayError NOT_FOUND, INVALID_REQUEST naming the field or when the workspace has `KEYS_MAX` keys,
 *         PERMISSION_DENIED for a scope that the actor may not grant, DEPENDENCY_UNAVAILABLE
 */
export async function createKey(
  actor: AdminActor,
  input: KeyInput,
  context: KeyContext,
): Promise<{ readonly plain: string; readonly stored: StoredKey }> {
  const nowMs = context.nowMs()
  const checked = {
    name: checkedName(input.name),
    scopes: checkedScopes(actor, input.scopes),
    budgetMicros: checkedBudget(input.budgetUsd),
    expiresAtMs: checkedExpiry(input.expiresAt, nowMs),
  }
  const { workspace, app } = input
  const rateLimit = checkedRateLimit(input.rateLimit, await requireApp(actor, input, context))
  const made = newKey({ workspace, app, ...checked, rateLimit }, nowMs)
  await keepKeys(actor, [made.stored], context)
  return made
}

/** A key that belongs to the page of the playground, with which it calls `/v1` for an hour. */
export async function createPlaygroundKey(
  actor: AdminActor,
  { workspace, app }: Pick<KeyInput, 'workspace' | 'app'>,
  context: KeyContext,
): Promise<{ readonly plain: string; readonly stored: StoredKey; readonly expiresAtMs: number }> {
  await requireApp(actor, { workspace, app }, context)
  const nowMs = context.nowMs()
  const known = await storedKeys(context.state.keys, workspace)
  await forgetExpired(known, context.state.keys, nowMs)
  const endsMs = known
    .filter((key) => key.kind === 'playground' && isValid(key, nowMs))
    .map(({ expiresAtMs }) => expiresAtMs ?? 0)
  if (endsMs.length >= PLAYGROUND_MAX) {
    const message = `the workspace has ${PLAYGROUND_MAX} valid playground keys: revoke one, or wait until one expires`
    throw new GatewayError('RATE_LIMITED', message, { retryAfterMs: Math.min(...endsMs) - nowMs })
  }
  const expiresAtMs = nowMs + PLAYGROUND_LIFE_MS
  const settings = {
    workspace,
    app,
    name: PLAYGROUND_NAME,
    scopes: PLAYGROUND_SCOPES,
    kind: 'playground',
  } as const
  const made = newKey({ ...settings, expiresAtMs, rateLimit: null, budgetMicros: null }, nowMs)
  await keepKeys(actor, [made.stored], context)
  return { ...made, expiresAtMs }
}

/** A key of the state. @param workspace null: whichever it belongs to */
export interface KeyName {
  readonly id: string
  readonly workspace: string | null
}

/** Changes to a key; absent fields stay, as does a part of a rate limit that is null beside another. */
export type KeyChange = Partial<Pick<KeyInput, 'scopes' | 'rateLimit' | 'budgetUsd' | 'expiresAt'>> & {
  readonly name?: string
}

/**
 * Changes the settings of a key. Nodes notice within seconds.
 *
 * @throws GatewayError NOT_FOUND, INVALID_REQUEST naming the field, or for a key of the configuration, of the
 *         playground or a revoked one, PERMISSION_DENIED for an operator's key or scope, CONFLICT,
 *         DEPENDENCY_UNAVAILABLE
 */
export async function changeKey(
  actor: AdminActor,
  name: KeyName,
  change: KeyChange,
  context: KeyContext,
): Promise<StoredKey> {
  const { rateLimit: fallback } = (await context.catalog()).current()
  const set = {
    ...(change.name === undefined ? {} : { name: checkedName(change.name) ?? change.name }),
    ...(change.scopes === undefined ? {} : { scopes: checkedScopes(actor, change.scopes) }),
    ...(change.budgetUsd === undefined ? {} : { budgetMicros: checkedBudget(change.budgetUsd) }),
    ...(change.expiresAt === undefined
      ? {}
      : { expiresAtMs: checkedExpiry(change.expiresAt, context.nowMs()) }),
  }
  return await replaceKey(actor, name, context, (key) => {
    const own = key.rateLimit ?? fallback
    const rateLimit = change.rateLimit === undefined ? key.rateLimit : checkedRateLimit(change.rateLimit, own)
    return { key: { ...key, ...set, rateLimit }, action: 'key.change' }
  })
}

/**
 * Gives a key a new secret: its id, limits, budget and spending stay. The former one is taken for `overlapSeconds`
 * more, so that applications can be changed over one by one; 0: it is refused from now on, as is one before it.
 *
 * @throws GatewayError as `changeKey`, and CONFLICT while a former secret is still taken and would go on
 */
export async function rotateKey(
  actor: AdminActor,
  name: KeyName,
  overlapSeconds: number,
  context: KeyContext,
): Promise<{ readonly plain: string; readonly stored: StoredKey }> {
  if (!Number.isInteger(overlapSeconds) || overlapSeconds < 0 || overlapSeconds > OVERLAP_SECONDS_MAX)
    throw invalidField('overlap_seconds', `must be a whole number from 0 to ${OVERLAP_SECONDS_MAX}`)
  const nowMs = context.nowMs()
  const { plain, kept } = newSecret()
  const stored = await replaceKey(actor, name, context, (key) => {
    // Kept by an earlier try whose answer was lost.
    if (key.sha256 === kept.sha256) return { key, action: 'key.rotate' }
    if (!isValid(key, nowMs)) throw invalid('the key has expired: give it another expiry first')
    const { former: _, ...rest } = key
    const former = formerInForce(key, nowMs)
    if (overlapSeconds > 0 && former !== null) {
      const until = timestampOf(former.untilMs)
      const message = `the previous key stays valid until ${until}: wait, or end both with an overlap of 0`
      throw new GatewayError('CONFLICT', message)
    }
    const { sha256, prefix } = key
    const beside = { former: { sha256, prefix, untilMs: nowMs + overlapSeconds * 1000 } }
    return { key: { ...rest, ...kept, ...(overlapSeconds === 0 ? {} : beside) }, action: 'key.rotate' }
  })
  return { plain, stored }
}

/** Puts a changed key in the place of the one that was read, and reads again when others came before. */
async function replaceKey(
  actor: AdminActor,
  name: KeyName,
  context: KeyContext,
  changed: (key: StoredKey) => { readonly key: StoredKey; readonly action: string },
): Promise<StoredKey> {
  const { state } = context
  for (let tries = 0; tries < CHANGES_MAX; tries += 1) {
    const { before, version } = await requireChangeable(actor, name, context)
    const { key, action } = changed(before)
    if (isDeepStrictEqual(key, before)) return before
    if (tries === 0) await audit(state.catalog, actor, replacement(action, before, key, context.nowMs()))
    if (!(await state.keys.replace(key, version))) continue
    await context.refreshKeys()
    return key
  }
  throw new GatewayError('CONFLICT', 'keys are being changed by others: try again')
}

async function requireChangeable(actor: AdminActor, name: KeyName, context: KeyContext) {
  const { key, version } = await requireKey(actor, name, 'change', context)
  if (key.kind === 'playground') throw invalid('the key belongs to a page of the playground')
  if (key.revokedAtMs !== null) throw invalid('the key is revoked for good: create another')
  return { before: key, version }
}

/** The key of that name, if the actor may do so to it. */
async function requireKey(
  actor: AdminActor,
  { id, workspace }: KeyName,
  what: 'change' | 'revoke',
  context: KeyContext,
): Promise<{ readonly key: StoredKey; readonly version: string }> {
  requireOwner(actor, workspace)
  const known = await readKeys(context.state.keys)
  const key = known.byId(id)
  if (key === undefined || (workspace !== null && key.workspace !== workspace))
    throw await missingKey(id, workspace, context)
  if (actor.role !== 'operator' && key.scopes.includes('operator'))
    throw new GatewayError('PERMISSION_DENIED', `only an operator may ${what} an operator's key`)
  return { key, version: known.version! }
}

/**
 * Revokes a key for good, and what it was before it was rotated. Revoking it again keeps the first time.
 *
 * @throws GatewayError NOT_FOUND, INVALID_REQUEST for a key of the configuration, PERMISSION_DENIED for an operator's
 *         key, DEPENDENCY_UNAVAILABLE
 */
export async function revokeKey(actor: AdminActor, name: KeyName, context: KeyContext): Promise<StoredKey> {
  const { state } = context
  const { key } = await requireKey(actor, name, 'revoke', context)
  if (key.revokedAtMs !== null) return key
  await audit(state.catalog, actor, revocation(key))
  const revoked = await state.keys.revoke(key.id)
  await context.refreshKeys()
  return revoked ?? key
}

async function missingKey(
  id: string,
  workspace: string | null,
  { catalog }: KeyContext,
): Promise<GatewayError> {
  const { keys } = (await catalog()).current()
  const inFile = [...keys.values()].some(
    (one) => one.key.id === id && (workspace === null || one.workspace.id === workspace),
  )
  return inFile
    ? invalid('the key is defined in the configuration file: remove it there')
    : new GatewayError('NOT_FOUND', 'there is no such key')
}

/**
 * Keeps keys that are new to the state, each with a line on the audit list.
 *
 * @throws GatewayError INVALID_REQUEST when a workspace would have more than `KEYS_MAX`, DEPENDENCY_UNAVAILABLE
 */
export async function keepKeys(
  actor: AdminActor,
  keys: readonly StoredKey[],
  context: Pick<KeyContext, 'state' | 'refreshKeys'>,
): Promise<void> {
  const { state } = context
  await requireRoomForKeys(keys, state.keys)
  for (const key of keys) {
    await audit(state.catalog, actor, creation(key))
    await state.keys.create(key)
  }
  await context.refreshKeys()
}

/** @throws GatewayError INVALID_REQUEST when a workspace would have more than `KEYS_MAX` keys with these */
export async function requireRoomForKeys(
  keys: readonly Pick<StoredKey, 'workspace'>[],
  stored: StoredKeys,
): Promise<void> {
  for (const [workspace, more] of Map.groupBy(keys, (key) => key.workspace)) {
    const known = (await readKeys(stored)).sizeOf(workspace)
    if (known + more.length > KEYS_MAX)
      throw issuesError([`the workspace may have at most ${KEYS_MAX} keys, revoked ones included`])
  }
}

/** @throws GatewayError DEPENDENCY_UNAVAILABLE */
export async function storedKeys(keys: StoredKeys, workspace: string): Promise<readonly StoredKey[]> {
  return (await readKeys(keys)).of(workspace)
}

/** Tells names of the keys of the state by their ids. @throws GatewayError DEPENDENCY_UNAVAILABLE */
export async function storedKeyNames(keys: StoredKeys): Promise<(id: string) => string | undefined> {
  const known = await readKeys(keys)
  return (id) => known.byId(id)?.name
}

/** Pages come and go; without this their keys would be most of what every node reads. */
async function forgetExpired(all: readonly StoredKey[], keys: StoredKeys, nowMs: number): Promise<void> {
  const isOver = ({ kind, expiresAtMs }: StoredKey) =>
    kind === 'playground' && expiresAtMs !== null && expiresAtMs <= nowMs - PLAYGROUND_KEEP_MS
  for (const { id } of all.filter(isOver).slice(0, FORGOTTEN_AT_ONCE)) {
    await keys.forget(id)
    knownKeysOf(keys).drop(id)
  }
}

/** @returns the rate limit of keys that have none of their own */
async function requireApp(
  actor: AdminActor,
  { workspace, app }: Pick<KeyInput, 'workspace' | 'app'>,
  context: KeyContext,
): Promise<RateLimit> {
  const catalog = await context.catalog()
  requireWorkspace(actor, workspace, catalog)
  const { apps, rateLimit } = catalog.current()
  if (apps.get(workspace)?.has(app) !== true) throw invalidField('app', 'must name an app of the workspace')
  return rateLimit
}

function creation(key: StoredKey): AuditedChange {
  const { id, workspace, name, prefix, app, scopes } = key
  const detail = `${name} (${prefix}…) for the app ${app}: ${scopes.join(', ')}`
  const action = key.kind === 'playground' ? PLAYGROUND_ACTIONS.create : 'key.create'
  return { action, workspace, target: `key/${id}`, after: withoutHash(key), detail }
}

function revocation(key: StoredKey): AuditedChange {
  const { id, workspace, name, prefix, app } = key
  const detail = `${name} (${prefix}…) of the app ${app}`
  const action = key.kind === 'playground' ? PLAYGROUND_ACTIONS.revoke : 'key.revoke'
  return { action, workspace, target: `key/${id}`, before: withoutHash(key), detail }
}

function replacement(action: string, before: StoredKey, after: StoredKey, nowMs: number): AuditedChange {
  const { id, workspace, name, prefix, app } = after
  const former = formerInForce(after, nowMs)
  const beside = former === null ? '' : `, beside ${former.prefix}… until ${timestampOf(former.untilMs)}`
  const detail = `${name} (${prefix}…) of the app ${app}${action === 'key.rotate' ? beside : ''}`
  return {
    ...{ action, workspace, target: `key/${id}`, detail },
    ...{ before: withoutHash(before), after: withoutHash(after) },
  }
}

const timestampOf = (ms: number) => new Date(ms).toISOString()

function withoutHash({ sha256: _, former, ...key }: StoredKey): object {
  if (former === undefined) return key
  const { sha256: __, ...beside } = former
  return { ...key, former: beside }
}

function checkedName(name: string | null): string | null {
  if (name === null || isKeyName(name)) return name
  throw invalidField(
    'name',
    `must have 1 to ${KEY_NAME_MAX} characters, not only spaces, none invisible or turning the text direction`,
  )
}

function checkedScopes({ role }: AdminActor, given: readonly string[] | null): readonly Scope[] {
  const scopes = [...new Set(given ?? DEFAULT_SCOPES)]
  const known = SCOPES.filter((scope) => scopes.includes(scope))
  if (scopes.length === 0 || known.length < scopes.length) throw invalidField('scopes', MUST.beOneOf(SCOPES))
  if (role === 'operator' || !scopes.includes('operator')) return scopes as Scope[]
  throw new GatewayError('PERMISSION_DENIED', 'only an operator may grant the scope `operator`', {
    param: 'scopes',
  })
}

function checkedRateLimit(given: KeyInput['rateLimit'], fallback: RateLimit): RateLimit | null {
  if (given === null || Object.values(given).every((part) => part === null)) return null
  const checked = (name: keyof typeof RATE_FIELDS, least: number, most: number): number => {
    const value = given[name] ?? fallback[name] ?? 0
    if (Number.isInteger(value) && value >= least && value <= most) return value
    throw invalidField(`rate_limit.${RATE_FIELDS[name]}`, `must be ${least} to ${most}`)
  }
  return rateLimitOf(
    {
      requests_per_minute: checked('requestsPerMinute', 1, REQUESTS_PER_MINUTE_MAX),
      burst: checked('burst', 1, BURST_MAX),
      tokens_per_minute: checked('tokensPerMinute', 0, UNITS_PER_MINUTE_MAX),
      audio_seconds_per_minute: checked('audioSecondsPerMinute', 0, UNITS_PER_MINUTE_MAX),
    },
    fallback,
  )
}

const RATE_FIELDS = {
  requestsPerMinute: 'requests_per_minute',
  burst: 'burst',
  tokensPerMinute: 'tokens_per_minute',
  audioSecondsPerMinute: 'audio_seconds_per_minute',
} as const

function checkedBudget(usd: KeyInput['budgetUsd']): number | null {
  if (usd === null) return null
  const micros = parseUsd(String(usd))
  if (micros !== null && micros >= 0) return micros
  throw invalidField('budget_usd_per_month', 'must be an amount in USD, 0 or more, with at most 6 decimals')
}

function checkedExpiry(text: string | null, nowMs: number): number | null {
  if (text === null) return null
  const ms = instantMs(text)
  if (ms === null) throw invalidField('expires_at', 'must be a time such as 2027-01-31T00:00:00Z')
  if (ms <= nowMs) throw invalidField('expires_at', 'must be in the future')
  return ms
}
