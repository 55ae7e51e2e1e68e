import { isDeepStrictEqual } from 'node:util'
import { type Static, Type } from 'typebox'
import { SCOPES, type Snapshot } from '../../../contracts/catalog.ts'
import type { RateLimit } from '../../../contracts/rate-limit.ts'
import type { StoredKey } from '../../../contracts/stored-keys.ts'
import {
  changeKey,
  createKey,
  createPlaygroundKey,
  type KeyInput,
  OVERLAP_SECONDS_MAX,
  revokeKey,
  rotateKey,
  storedKeyNames,
  storedKeys,
} from '../../../gateway/admin/keys.ts'
import type { ManagedBy } from '../../../gateway/admin/parts.ts'
import { timestamp } from '../../../gateway/api/json-reply.ts'
import { optional } from '../../../gateway/api/json-request.ts'
import { usdOf } from '../../../gateway/call/facts/price.ts'
import {
  BURST_MAX,
  formerInForce,
  isValid,
  KEY_NAME_MAX,
  REQUESTS_PER_MINUTE_MAX,
  UNITS_PER_MINUTE_MAX,
} from '../../../gateway/catalog/key.ts'
import { fieldsOfRateLimit } from '../../../gateway/catalog/rate-limit.ts'
import type { KeyAnswer, KeysAnswer, NewKeyAnswer, PlaygroundKeyAnswer } from '../answers/keys.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleCall, type ConsoleRoute, consoleEndpoint } from '../endpoint.ts'
import { PAGING, paged } from './lists.ts'
import { accountOf } from './workspaces.ts'

const PATH = '/workspaces/:workspace/keys'
const PLAYGROUND = '/workspaces/:workspace/playground-key'

/** Lists leave out what the playground does for itself, unless they are asked for it. */
export const PlaygroundField = Type.Optional(Type.Enum(['true', 'false']))

const ListQuery = Type.Object({
  ...PAGING,
  app: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  state: Type.Optional(Type.Enum(['active', 'ended'])),
  playground: PlaygroundField,
})

const AppField = Type.String({ minLength: 1, description: 'an app of the workspace' })

const units = (words: string) =>
  optional(Type.Integer({ minimum: 0, maximum: UNITS_PER_MINUTE_MAX }), `${words}, a minute; 0: no limit`)

const SETTINGS = {
  name: Type.String({ minLength: 1, maxLength: KEY_NAME_MAX }),
  scopes: optional(
    Type.Array(Type.Enum([...SCOPES]), { minItems: 1 }),
    'permissions; inference, jobs and queue by default',
  ),
  rate_limit: optional(
    Type.Object({
      requests_per_minute: Type.Integer({ minimum: 1, maximum: REQUESTS_PER_MINUTE_MAX }),
      burst: Type.Integer({ minimum: 1, maximum: BURST_MAX }),
      tokens_per_minute: units('tokens of its calls'),
      audio_seconds_per_minute: units('seconds of audio of its transcriptions'),
    }),
    'limits of its own',
  ),
  budget_usd_per_month: optional(Type.Number({ minimum: 0 }), 'cap of its own, USD'),
  expires_at: optional(Type.String(), 'time of expiry, RFC 3339; never by default'),
}

const NewKeyBody = Type.Object({ ...SETTINGS, app: AppField })
/** All settings: what is absent is the default from then on. */
const KeyBody = Type.Object(SETTINGS)
const RotationBody = Type.Object({
  overlap_seconds: Type.Integer({
    minimum: 0,
    maximum: OVERLAP_SECONDS_MAX,
    description: 'how long the former key is taken beside the new one; 0: not at all',
  }),
})
const PlaygroundBody = Type.Object({ app: AppField })

type ListCall = ConsoleCall<typeof PATH, unknown, Static<typeof ListQuery>>
type CreateCall = ConsoleCall<typeof PATH, Static<typeof NewKeyBody>, unknown>
type PlaygroundCall = ConsoleCall<typeof PLAYGROUND, Static<typeof PlaygroundBody>, unknown>
type ChangeCall = ConsoleCall<`${typeof PATH}/:id`, Static<typeof KeyBody>, unknown>
type RotateCall = ConsoleCall<`${typeof PATH}/:id/rotation`, Static<typeof RotationBody>, unknown>
type RevokeCall = ConsoleCall<`${typeof PATH}/:id`, unknown, unknown>

/** The API keys of a workspace: list, create, change, rotate and revoke; and a key for the playground itself. */
export function keyEndpoints(context: ConsoleContext): ConsoleRoute[] {
  return [
    consoleEndpoint(context, 'GET', PATH, { query: ListQuery }, listKeys),
    consoleEndpoint(context, 'POST', PATH, { body: NewKeyBody, status: 201 }, postKey),
    consoleEndpoint(context, 'PUT', `${PATH}/:id`, { body: KeyBody }, putKey),
    consoleEndpoint(
      context,
      'POST',
      `${PATH}/:id/rotation`,
      { body: RotationBody, status: 201 },
      postRotation,
    ),
    consoleEndpoint(context, 'DELETE', `${PATH}/:id`, {}, deleteKey),
    consoleEndpoint(context, 'POST', PLAYGROUND, { body: PlaygroundBody, status: 201 }, postPlaygroundKey),
  ]
}

/** Valid keys first, and of those the keys of the configuration, then those of the state, newest first. */
async function listKeys({ context, params: { workspace }, query }: ListCall): Promise<KeysAnswer> {
  const nowMs = context.clock.wallNow()
  const { snapshot, state } = context.deps.services
  const isListed = (key: StoredKey) =>
    key.kind !== 'playground' || (query.playground === 'true' && isValid(key, nowMs))
  const listed = (await storedKeys(state.keys, workspace)).filter(isListed)
  const newest = listed.toSorted((one, other) => other.createdAtMs - one.createdAtMs)
  const shown = [...fileKeys(snapshot(), workspace), ...newest.map((key) => shownKey(key, snapshot()))]
  const active = query.state === 'ended' ? [] : shown.filter((key) => isValid(key, nowMs))
  const ended = query.state === 'active' ? [] : shown.filter((key) => !isValid(key, nowMs))
  const wanted = [...active, ...ended]
  const ofApp = query.app === undefined ? wanted : wanted.filter(({ app }) => app === query.app)
  const { page, total } = paged(ofApp, query, ({ id, name, prefix, app }) => [name, id, prefix ?? '', app])
  return { keys: await keyAnswers(context, workspace, page), total, all: shown.length }
}

/** Beside `postRotation` the only answer that shows a key. */
async function postKey({ context, viewer, params, body }: CreateCall): Promise<NewKeyAnswer> {
  const input: KeyInput = { workspace: params.workspace, app: body.app, ...keySettings(body) }
  const { plain, stored } = await createKey(viewer.actor, input, context.admin)
  return { ...(await storedKeyAnswer(context, stored)), key: plain }
}

function keySettings(body: Static<typeof KeyBody>) {
  const { rate_limit: limit = null } = body
  return {
    name: body.name,
    scopes: body.scopes ?? null,
    rateLimit: limit && {
      requestsPerMinute: limit.requests_per_minute,
      burst: limit.burst,
      tokensPerMinute: limit.tokens_per_minute ?? null,
      audioSecondsPerMinute: limit.audio_seconds_per_minute ?? null,
    },
    budgetUsd: body.budget_usd_per_month ?? null,
    expiresAt: body.expires_at ?? null,
  }
}

async function putKey({ context, viewer, params, body }: ChangeCall): Promise<KeyAnswer> {
  return storedKeyAnswer(context, await changeKey(viewer.actor, params, keySettings(body), context.admin))
}

async function postRotation({ context, viewer, params, body }: RotateCall): Promise<NewKeyAnswer> {
  const { plain, stored } = await rotateKey(viewer.actor, params, body.overlap_seconds, context.admin)
  return { ...(await storedKeyAnswer(context, stored)), key: plain }
}

/** Makes a key with which the page itself calls `/v1`, as an application would. */
async function postPlaygroundKey(call: PlaygroundCall): Promise<PlaygroundKeyAnswer> {
  const { context, viewer, params, body } = call
  const input = { workspace: params.workspace, app: body.app }
  const { plain, stored, expiresAtMs } = await createPlaygroundKey(viewer.actor, input, context.admin)
  return { id: stored.id, key: plain, app: stored.app, expires_at: timestamp(expiresAtMs) }
}

/** Revokes a key, on this node at once. With their own key viewers end their session. */
async function deleteKey({ context, viewer, params }: RevokeCall): Promise<KeyAnswer> {
  const revoked = await revokeKey(viewer.actor, params, context.admin)
  const { session, principal } = viewer
  if (session !== null && principal?.key.id === params.id) await context.state.sessions.end(session.id)
  return storedKeyAnswer(context, revoked)
}

/** A key as it is shown, wherever it is kept. */
export type ShownKey = Omit<
  StoredKey,
  'sha256' | 'prefix' | 'workspace' | 'rateLimit' | 'createdAtMs' | 'kind'
> & {
  readonly prefix: string | null
  readonly rateLimit: RateLimit
  readonly hasDefaultRateLimit: boolean
  readonly createdAtMs: number | null
  readonly managedBy: ManagedBy
}

/** The keys of a workspace in the configuration, which has only their hashes. */
export function fileKeys({ keys, rateLimit: fallback }: Snapshot, workspace: string): ShownKey[] {
  const own = [...keys.values()].filter((principal) => principal.workspace.id === workspace)
  return own.map(({ app, key }) => ({
    ...key,
    ...{ app: app.id, prefix: null, createdAtMs: null, revokedAtMs: null, managedBy: 'file' as const },
    hasDefaultRateLimit: isDeepStrictEqual(key.rateLimit, fallback),
  }))
}

/** Names of the configuration's keys by their ids: of 100,000 they take too long to be gathered for each answer. */
const namesInFile = new WeakMap<Snapshot['keys'], ReadonlyMap<string, string>>()

/** Names by the ids of keys, those of the configuration file too. */
export async function keyNames({ deps }: ConsoleContext): Promise<(id: string) => string | null> {
  const { state, snapshot } = deps.services
  const stored = await storedKeyNames(state.keys).catch(() => null)
  const { keys } = snapshot()
  const inFile = namesInFile.get(keys) ?? new Map([...keys.values()].map(({ key }) => [key.id, key.name]))
  namesInFile.set(keys, inFile)
  return (id) => stored?.(id) ?? inFile.get(id) ?? null
}

function shownKey(
  { sha256: _, kind: _kind, ...key }: StoredKey,
  { rateLimit: fallback }: Snapshot,
): ShownKey {
  return {
    ...key,
    rateLimit: key.rateLimit ?? fallback,
    hasDefaultRateLimit: key.rateLimit === null,
    managedBy: 'console',
  }
}

async function storedKeyAnswer(context: ConsoleContext, key: StoredKey): Promise<KeyAnswer> {
  const shown = shownKey(key, context.deps.services.snapshot())
  const [answer] = await keyAnswers(context, key.workspace, [shown])
  if (answer === undefined) throw new Error('a key has one answer')
  return answer
}

/** Keys of one workspace, with their spending this month and their last use. */
async function keyAnswers(
  context: ConsoleContext,
  workspace: string,
  shown: readonly ShownKey[],
): Promise<KeyAnswer[]> {
  const [account, uses] = await Promise.all([
    accountOf(context, workspace),
    context.state.keyUses.read(shown.map(({ id }) => id)),
  ])
  const nowMs = context.clock.wallNow()
  return shown.map((key) => {
    const spentMicros = account && (account.spentByKey[key.id] ?? 0)
    const { id, name, prefix, app, scopes, rateLimit, budgetMicros } = key
    const former = formerInForce(key, nowMs)
    return {
      id,
      name,
      prefix,
      app,
      scopes,
      rate_limit: fieldsOfRateLimit(rateLimit),
      rate_limit_is_default: key.hasDefaultRateLimit,
      budget_usd_per_month: budgetMicros === null ? null : usdOf(budgetMicros),
      spent_usd: spentMicros === null ? null : usdOf(spentMicros),
      created_at: timestamp(key.createdAtMs),
      expires_at: timestamp(key.expiresAtMs),
      revoked_at: timestamp(key.revokedAtMs),
      last_used_at: timestamp(uses[id] ?? null),
      former: former && { prefix: former.prefix, until: timestamp(former.untilMs) },
      managed_by: key.managedBy,
    }
  })
}
