import type { PlaygroundKeyAnswer, SessionAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { ApiError, apiErrorOf, unreachable } from '../../api-error.ts'
import { apiPath } from '../../paths.ts'
import { beforeSignOut } from '../../session.ts'
import { AppKeys } from './app-keys.ts'

/** What `/v1` answered, read to its end. */
export interface Answer {
  readonly status: number
  readonly text: string
  readonly header: (name: string) => string | null
}

/** Whose keys there are: of one session, by workspace. */
let owner: SessionAnswer | null = null
const keysOf = new Map<string, AppKeys>()

/** The keys of a workspace's apps. Who signs in anew gets new ones. */
export function appKeys(workspace: string, session: SessionAnswer): AppKeys {
  if (owner?.csrf_token !== session.csrf_token) keysOf.clear()
  owner = session
  const known = keysOf.get(workspace)
  if (known) return known
  const path = apiPath`/workspaces/${workspace}/playground-key`
  const made = new AppKeys((app) => api.post<PlaygroundKeyAnswer>(path, { app }), {
    now: () => Date.now(),
    wait,
  })
  keysOf.set(workspace, made)
  return made
}

/** Revokes what was made, and forgets it: nobody will use it any more, and they count. */
async function giveBack(): Promise<void> {
  const csrf = owner?.csrf_token
  if (csrf === undefined) return
  const all = [...keysOf].map(async ([workspace, keys]) => {
    const paths = (await keys.takeIds()).map((id) => apiPath`/console/api/workspaces/${workspace}/keys/${id}`)
    await Promise.all(paths.map((path) => revoke(path, csrf)))
  })
  await Promise.all(all)
}

addEventListener('pagehide', () => void giveBack())
beforeSignOut(giveBack)

/** The request outlives the page. A key that it does not reach ends within the hour. */
async function revoke(path: string, csrf: string): Promise<void> {
  const headers = { 'content-type': 'application/json', 'x-lk-csrf': csrf }
  await fetch(path, { method: 'DELETE', keepalive: true, credentials: 'same-origin', headers }).catch(
    () => {},
  )
}

/** A call of `/v1` with a small body, or none. Errors are ApiErrors in the words of the envelope. */
export async function callV1(
  keys: AppKeys,
  app: string,
  path: string,
  { signal, ...init }: RequestInit & { readonly signal: AbortSignal },
): Promise<Response> {
  return keys.call(
    app,
    signal,
    async (key) => {
      const headers = { ...(init.headers as Record<string, string>), authorization: `Bearer ${key}` }
      const answer = await fetch(path, {
        ...init,
        signal,
        headers,
        credentials: 'omit',
        cache: 'no-store',
      }).catch((thrown: unknown) => {
        if (signal.aborted) throw thrown
        throw unreachable()
      })
      if (answer.ok) return answer
      throw apiErrorOf(answer.status, await answer.text(), answer.headers.get('x-lk-request-id'))
    },
    isRefusedKey,
  )
}

/** An answer as it is, or the ApiError that it is. */
export function accepted(answer: Answer): Answer {
  if (answer.status >= 200 && answer.status < 300) return answer
  throw apiErrorOf(answer.status, answer.text, answer.header('x-lk-request-id'), answer.header('retry-after'))
}

export function isRefusedKey(outcome: { readonly thrown: unknown } | object): boolean {
  if ('thrown' in outcome) return outcome.thrown instanceof ApiError && outcome.thrown.status === 401
  return false
}

function wait(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', abort)
      resolve()
    }, milliseconds)
    signal.addEventListener('abort', abort)
  })
}
