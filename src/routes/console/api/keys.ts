import { type Static, Type } from 'typebox'
import { instantMs } from '../../../catalog/instant.ts'
import { parseUsd } from '../../../catalog/money.ts'
import {
  BURST_MAX,
  isKeyName,
  KEY_NAME_MAX,
  newKey,
  REQUESTS_PER_MINUTE_MAX,
} from '../../../catalog/new-key.ts'
import { GatewayError } from '../../../errors.ts'
import { invalid } from '../../../inbound/refusals.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import { DEFAULT_SCOPES, SCOPES, type Scope } from '../../../schema/catalog.ts'
import type { RateLimit } from '../../../schema/state.ts'
import type { StoredKey } from '../../../schema/stored-keys.ts'
import { noteChange } from '../../audit-note.ts'
import { optional } from '../../json-request.ts'
import { keyRevocation } from '../../key-notes.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import type { Viewer } from '../session.ts'
import type { KeyAnswer, KeysAnswer, NewKeyAnswer } from './answers.ts'
import { appIn, keepKey, storedKeys } from './kept-keys.ts'
import { fileKeys, keyAnswers, type ShownKey, storedKey } from './key-answers.ts'
import { PAGING, paged } from './paging.ts'
import {
  isPastPlaygroundKey,
  isPlaygroundKey,
  PLAYGROUND_ACTIONS,
  PlaygroundField,
} from './playground-key.ts'

const PATH = '/workspaces/:workspace/keys'

const ListQuery = Type.Object({
  ...PAGING,
  app: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  state: Type.Optional(Type.Enum(['active', 'ended'])),
  playground: PlaygroundField,
})

const NewKeyBody = Type.Object({
  name: Type.String({ minLength: 1, maxLength: KEY_NAME_MAX }),
  app: Type.String({ minLength: 1, description: 'an app of the workspace' }),
  scopes: optional(
    Type.Array(Type.Enum([...SCOPES]), { minItems: 1 }),
    'what it may do; inference, jobs and queue unless said',
  ),
  rate_limit: optional(
    Type.Object({
      requests_per_minute: Type.Integer({ minimum: 1, maximum: REQUESTS_PER_MINUTE_MAX }),
      burst: Type.Integer({ minimum: 1, maximum: BURST_MAX }),
    }),
    'its own token bucket',
  ),
  budget_usd_per_month: optional(Type.Number({ minimum: 0 }), 'its own cap, USD'),
  expires_at: optional(Type.String(), 'when it ends, RFC 3339; never unless said'),
})

type Body = Static<typeof NewKeyBody>
type ListCall = ConsoleCall<typeof PATH, unknown, Static<typeof ListQuery>>
type RevokeCall = ConsoleCall<`${typeof PATH}/:id`, unknown, unknown>

/** The API keys of a workspace: a list, a new one, and the end of one. */
export function keyEndpoints(desk: ConsoleDesk): EdgeRoute[] {
  return [
    consoleEndpoint(desk, 'GET', PATH, { query: ListQuery }, listKeys),
    consoleEndpoint(desk, 'POST', PATH, { body: NewKeyBody, status: 201 }, createKey),
    consoleEndpoint(desk, 'DELETE', `${PATH}/:id`, {}, revokeKey),
  ]
}

/** Those that open something first: those of the configuration, then those of the state, the newest first. */
async function listKeys({ desk, params: { workspace }, query }: ListCall): Promise<KeysAnswer> {
  const nowMs = desk.nowMs()
  const snapshot = desk.doors.services.snapshot()
  const stored = (await storedKeys(desk, workspace)).filter((key) =>
    query.playground === 'true' ? !isPastPlaygroundKey(key, nowMs) : !isPlaygroundKey(key),
  )
  const newest = stored.toSorted((one, other) => other.createdAtMs - one.createdAtMs)
  const shown = [...fileKeys(snapshot, workspace), ...newest.map((key) => storedKey(key, snapshot))]
  const [ended, active] = [true, false].map((over) => shown.filter((key) => isOver(key, nowMs) === over))
  const wanted = [...(query.state === 'ended' ? [] : active!), ...(query.state === 'active' ? [] : ended!)]
  const ofApp = query.app === undefined ? wanted : wanted.filter(({ app }) => app === query.app)
  const { page, total } = paged(ofApp, query, ({ id, name, prefix, app }) => [name, id, prefix ?? '', app])
  return { keys: await keyAnswers(desk, workspace, page), total, all: shown.length }
}

function isOver({ revokedAtMs, expiresAtMs }: ShownKey, nowMs: number): boolean {
  return revokedAtMs !== null || (expiresAtMs !== null && expiresAtMs <= nowMs)
}

/**
 * Makes a key, and shows it this once.
 *
 * @throws GatewayError INVALID_REQUEST naming the field, PERMISSION_DENIED for a scope that the viewer may not grant
 */
async function createKey(call: ConsoleCall<typeof PATH, Body, unknown>): Promise<NewKeyAnswer> {
  const { desk, viewer, body } = call
  const { workspace } = call.params
  const nowMs = desk.nowMs()
  const { plain, stored } = newKey(
    {
      workspace,
      app: appIn(desk, workspace, body.app),
      name: nameIn(body),
      scopes: scopesIn(body, viewer),
      rateLimit: rateLimitIn(body),
      budgetMicros: budgetIn(body),
      expiresAtMs: expiryIn(body, nowMs),
    },
    nowMs,
  )
  await keepKey(desk, viewer, stored)
  return { ...(await answerOf(desk, stored)), key: plain }
}

/**
 * Revokes a key, on this node at once. The key that the viewer has signed in with may be it.
 *
 * @throws GatewayError NOT_FOUND, INVALID_REQUEST for a key of the configuration, PERMISSION_DENIED for an operator's
 */
async function revokeKey({ desk, viewer, params: { workspace, id } }: RevokeCall): Promise<KeyAnswer> {
  const { state, snapshot } = desk.doors.services
  const key = (await storedKeys(desk, workspace)).find((one) => one.id === id)
  if (key === undefined) {
    if (!fileKeys(snapshot(), workspace).some((one) => one.id === id))
      throw new GatewayError('NOT_FOUND', 'there is no such key')
    throw invalid('it is a key of the configuration file: remove it there')
  }
  if (viewer.role !== 'operator' && key.scopes.includes('operator'))
    throw new GatewayError('PERMISSION_DENIED', 'only an operator may revoke the key of one')
  if (key.revokedAtMs !== null) return answerOf(desk, key)
  const noted = keyRevocation(key, viewer.actor)
  await noteChange(
    desk.records,
    isPlaygroundKey(key) ? { ...noted, action: PLAYGROUND_ACTIONS.revoke } : noted,
  )
  const revoked = await state.keys.revoke(id)
  await desk.refreshKeys()
  if (viewer.principal.key.id === id) await desk.state.sessions.end(viewer.session.id)
  return answerOf(desk, revoked ?? key)
}

async function answerOf(desk: ConsoleDesk, key: StoredKey): Promise<KeyAnswer> {
  const [answer] = await keyAnswers(desk, key.workspace, [storedKey(key, desk.doors.services.snapshot())])
  if (answer === undefined) throw new Error('a key has one answer')
  return answer
}

function nameIn({ name }: Body): string {
  if (isKeyName(name)) return name
  throw invalid(
    'name: must not be blank, and must have no control characters, those of text direction among them',
    'name',
  )
}

function scopesIn({ scopes }: Body, { role }: Viewer): readonly Scope[] {
  const wanted = [...new Set(scopes ?? DEFAULT_SCOPES)]
  if (role === 'operator' || !wanted.includes('operator')) return wanted
  throw new GatewayError('PERMISSION_DENIED', 'only an operator may grant the scope operator', {
    param: 'scopes',
  })
}

/** Null: that of the configuration, also when it changes. */
function rateLimitIn({ rate_limit: fields }: Body): RateLimit | null {
  return fields ? { requestsPerMinute: fields.requests_per_minute, burst: fields.burst } : null
}

function budgetIn({ budget_usd_per_month: usd = null }: Body): number | null {
  if (usd === null) return null
  const micros = parseUsd(String(usd))
  if (micros !== null) return micros
  throw invalid('budget_usd_per_month: must be USD with at most 6 decimals', 'budget_usd_per_month')
}

function expiryIn({ expires_at: text = null }: Body, nowMs: number): number | null {
  if (text === null) return null
  const ms = instantMs(text)
  if (ms === null) throw invalid('expires_at: must be a time such as 2027-01-31T00:00:00Z', 'expires_at')
  if (ms <= nowMs) throw invalid('expires_at: must be a time to come', 'expires_at')
  return ms
}
