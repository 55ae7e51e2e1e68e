import { type Static, Type } from 'typebox'
import { newKey } from '../../../catalog/new-key.ts'
import { GatewayError } from '../../../errors.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import type { StoredKey } from '../../../schema/stored-keys.ts'
import { timestamp } from '../../timestamp.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import type { PlaygroundKeyAnswer } from './answers.ts'
import { appIn, keepKey, storedKeys } from './kept-keys.ts'

const PATH = '/workspaces/:workspace/playground-key'
const NAME = 'playground'
/** What the audit list calls it when the page makes a key for itself, and gives it back: apart from what people do. */
export const PLAYGROUND_ACTIONS = {
  create: 'playground_key.create',
  revoke: 'playground_key.revoke',
} as const
/** Lists leave out what the page does for itself, unless they are asked for it. */
export const PlaygroundField = Type.Optional(Type.Enum(['true', 'false']))

const LIFE_MS = 60 * 60 * 1000
/** How long its record is kept after that: the requests of a day name it. */
const KEPT_MS = 24 * 60 * 60 * 1000
/** Records that are deleted while somebody waits for a new key. */
const FORGOTTEN_AT_ONCE = 5
/** Of one workspace at a time: each page that is open has one, and asks for the next when that is over. */
const MOST = 20

const Body = Type.Object({
  app: Type.String({ minLength: 1, description: 'an app of the workspace' }),
})

/** Makes a key with which the page itself calls `/v1`, as an application would. */
export function playgroundKeyEndpoint(desk: ConsoleDesk): EdgeRoute {
  return consoleEndpoint(desk, 'POST', PATH, { body: Body, status: 201 }, createPlaygroundKey)
}

/** @throws GatewayError INVALID_REQUEST, RATE_LIMITED when the workspace has too many of them */
async function createPlaygroundKey(
  call: ConsoleCall<typeof PATH, Static<typeof Body>, unknown>,
): Promise<PlaygroundKeyAnswer> {
  const { desk, viewer, body } = call
  const { workspace } = call.params
  const app = appIn(desk, workspace, body.app)
  const nowMs = desk.nowMs()
  const keys = await storedKeys(desk, workspace)
  await forgetPast(desk, keys, nowMs)
  const endsMs = keys.filter((key) => isOpen(key, nowMs)).map(({ expiresAtMs }) => expiresAtMs ?? 0)
  if (endsMs.length >= MOST) {
    const message = `the workspace has ${MOST} playground keys that have not expired: revoke one, or wait`
    throw new GatewayError('RATE_LIMITED', message, { retryAfterMs: Math.min(...endsMs) - nowMs })
  }
  const expiresAtMs = nowMs + LIFE_MS
  const scopes = ['inference', 'jobs', 'queue'] as const
  const none = { rateLimit: null, budgetMicros: null }
  const { plain, stored } = newKey({ workspace, app, name: NAME, scopes, expiresAtMs, ...none }, nowMs)
  await keepKey(desk, viewer, stored, PLAYGROUND_ACTIONS.create)
  return { id: stored.id, key: plain, app, expires_at: timestamp(expiresAtMs) }
}

/** Pages come and go: their keys would be the most of what every node reads. */
async function forgetPast({ doors }: ConsoleDesk, keys: readonly StoredKey[], nowMs: number): Promise<void> {
  const past = keys.filter((key) => isOverPlaygroundKey(key, nowMs - KEPT_MS)).slice(0, FORGOTTEN_AT_ONCE)
  for (const { id } of past) await doors.services.state.keys.forget(id)
}

/** Whether the key was made for the page, and its hour is over: nobody wants to see it any more. */
function isOverPlaygroundKey(key: StoredKey, nowMs: number): boolean {
  return isPlaygroundKey(key) && key.expiresAtMs !== null && key.expiresAtMs <= nowMs
}

/** Whether the page that it was made for is gone: its hour is over, or the page has revoked it. */
export function isPastPlaygroundKey(key: StoredKey, nowMs: number): boolean {
  return isPlaygroundKey(key) && !isOpen(key, nowMs)
}

function isOpen(key: StoredKey, nowMs: number): boolean {
  return isPlaygroundKey(key) && key.revokedAtMs === null && !isOverPlaygroundKey(key, nowMs)
}

/** A key of this name that somebody has made for himself lives for another time. */
export function isPlaygroundKey({ name, createdAtMs, expiresAtMs }: StoredKey): boolean {
  return name === NAME && expiresAtMs === createdAtMs + LIFE_MS
}
