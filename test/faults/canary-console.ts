import type { Ask, Found, Songs } from './canary-cases.ts'

type Case = (songs: Songs, found: Found) => readonly Ask[]

const API = '/console/api'
const WORKSPACE = `${API}/workspaces/acme`
const ROUTE = `${WORKSPACE}/routes/acme.canary`

/** A request of somebody who has signed in. */
function ask(method: string, path: string, { session }: Found, body?: unknown): Ask {
  const type = method === 'GET' ? {} : { 'content-type': 'application/json', 'x-lk-csrf': session.csrf }
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return {
    method,
    path,
    headers: { cookie: session.cookie, ...type },
    ...(body === undefined ? {} : { body: text }),
  }
}

/** The same request for every canary: what it finds, and what nobody has. */
const looks =
  (...paths: readonly string[]): Case =>
  ({ field }, found) =>
    paths.map((path) => ask('GET', path.replace('FIELD', field), found))

const sends =
  (method: string, path: string, ...bodies: readonly ((songs: Songs) => unknown)[]): Case =>
  (songs, found) =>
    bodies.map((body) => ask(method, path.replace('FIELD', songs.field), found, body(songs)))

/**
 * What an admin of the workspace `acme` does in the console. Nothing here ends its session, or takes away what other
 * requests need.
 */
export const CONSOLE_CASES: Readonly<Record<string, Case>> = {
  'GET /console': () => [{ method: 'GET', path: '/console' }],
  'GET /console/*': ({ field }) => [{ method: 'GET', path: `/console/acme/routes/${field}?x=${field}` }],
  'GET /console/assets/*': ({ field }) => [
    { method: 'GET', path: '/console/assets/main.ts' },
    { method: 'GET', path: `/console/assets/${field}` },
  ],
  ...Object.fromEntries(
    ['GET', 'POST', 'PUT', 'DELETE'].flatMap((method) => [
      [`${method} ${API}`, sends(method, API, () => undefined)],
      [`${method} ${API}/*`, sends(method, `${API}/FIELD/FIELD`, () => undefined)],
    ]),
  ),
  'POST /console/api/session': sends(
    'POST',
    `${API}/session`,
    ({ field }) => ({ key: field }),
    ({ prompt }) => `{"key":"${prompt}`,
  ),
  'GET /console/api/sign-in': looks(`${API}/sign-in`, `${API}/sign-in?x=FIELD`),
  'GET /console/api/sign-in/oidc': looks(`${API}/sign-in/oidc?return_to=FIELD`),
  'GET /console/api/sign-in/oidc/callback': looks(`${API}/sign-in/oidc/callback?state=FIELD&code=FIELD`),
  'POST /console/api/sign-in/oidc/logout': sends(
    'POST',
    `${API}/sign-in/oidc/logout`,
    ({ field }) => `logout_token=${field}`,
  ),
  'GET /console/api/sessions': looks(`${API}/sessions`),
  'DELETE /console/api/sessions/:id': sends('DELETE', `${API}/sessions/FIELD`, () => undefined),
  'GET /console/api/session': looks(`${API}/session`),
  'DELETE /console/api/session': ({ field }, { session }) => [
    ask('DELETE', `${API}/session`, { session: { ...session, cookie: `lk_console=${field}` } } as Found),
  ],
  'GET /console/api/workspaces': looks(`${API}/workspaces`),
  'GET /console/api/workspaces/:workspace': looks(WORKSPACE, `${API}/workspaces/FIELD`),
  'PUT /console/api/workspaces/:workspace': sends('PUT', WORKSPACE, ({ prompt }) => ({ name: prompt })),
  'DELETE /console/api/workspaces/:workspace': sends('DELETE', WORKSPACE, () => undefined),
  'POST /console/api/workspaces/:workspace/credits': sends('POST', `${WORKSPACE}/credits`, ({ field }) => ({
    amount_usd: 1,
    grant_id: field,
  })),
  'PUT /console/api/workspaces/:workspace/content': sends('PUT', `${WORKSPACE}/content`, () => ({
    shown: false,
  })),
  'PUT /console/api/workspaces/:workspace/purposes/:purpose': sends(
    'PUT',
    `${WORKSPACE}/purposes/canary`,
    ({ prompt }) => ({ description: prompt }),
  ),
  'DELETE /console/api/workspaces/:workspace/purposes/:purpose': sends(
    'DELETE',
    `${WORKSPACE}/purposes/FIELD`,
    () => undefined,
  ),
  'PUT /console/api/workspaces/:workspace/apps/:app': sends('PUT', `${WORKSPACE}/apps/canary`, () => ({
    route: 'nothing',
  })),
  'DELETE /console/api/workspaces/:workspace/apps/:app': sends(
    'DELETE',
    `${WORKSPACE}/apps/FIELD`,
    () => undefined,
  ),
  'GET /console/api/workspaces/:workspace/routes': looks(`${WORKSPACE}/routes`),
  'GET /console/api/workspaces/:workspace/routes/:route': looks(ROUTE, `${WORKSPACE}/routes/FIELD`),
  'PUT /console/api/workspaces/:workspace/routes/:route': sends('PUT', ROUTE, ({ prompt }) => ({
    fields: { entries: [], note: prompt },
    note: prompt,
  })),
  'DELETE /console/api/workspaces/:workspace/routes/:route': sends(
    'DELETE',
    `${WORKSPACE}/routes/FIELD`,
    () => undefined,
  ),
  'PUT /console/api/workspaces/:workspace/routes/:route/draft': sends(
    'PUT',
    `${ROUTE}/draft`,
    ({ prompt }) => ({ fields: { entries: [], note: prompt }, revision: null }),
  ),
  'DELETE /console/api/workspaces/:workspace/routes/:route/draft': sends(
    'DELETE',
    `${WORKSPACE}/routes/FIELD/draft`,
    () => undefined,
  ),
  'POST /console/api/workspaces/:workspace/routes/:route/publish': sends(
    'POST',
    `${ROUTE}/publish`,
    ({ prompt }) => ({ revision: 1, note: prompt }),
  ),
  'GET /console/api/workspaces/:workspace/routes/:route/versions': looks(`${ROUTE}/versions`),
  'GET /console/api/workspaces/:workspace/routes/:route/shadow': looks(`${ROUTE}/shadow`),
  'GET /console/api/workspaces/:workspace/routes/:route/traffic': looks(`${ROUTE}/traffic`),
  'POST /console/api/workspaces/:workspace/routes/:route/impact': sends(
    'POST',
    `${ROUTE}/impact`,
    ({ label, prompt }) => ({
      fields: { entries: [{ provider: 'acme-own', model: 'm', purposes: [label] }], note: prompt },
    }),
  ),
  'POST /console/api/workspaces/:workspace/routes/:route/rollback': sends(
    'POST',
    `${ROUTE}/rollback`,
    () => ({ number: 1 }),
  ),
  'POST /console/api/workspaces/:workspace/explain': sends('POST', `${WORKSPACE}/explain`, ({ label }) => ({
    endpoint: 'transcription',
    app: 'web',
    sample: { purpose: label },
  })),
  'GET /console/api/workspaces/:workspace/models': looks(`${WORKSPACE}/models`),
  'GET /console/api/workspaces/:workspace/setup': looks(`${WORKSPACE}/setup`),
  'GET /console/api/workspaces/:workspace/providers': looks(`${WORKSPACE}/providers`),
  'PUT /console/api/workspaces/:workspace/providers/:name': sends(
    'PUT',
    `${WORKSPACE}/providers/acme.canary`,
    ({ credential }) => ({ kind: 'deepgram', credential }),
    ({ credential }) => ({ kind: 'deepgram', credential: `file:${credential}` }),
    ({ credential }) => ({ kind: 'deepgram', credential: { credential } }),
  ),
  'GET /console/api/workspaces/:workspace/providers/:name': looks(
    `${WORKSPACE}/providers/acme.canary`,
    `${WORKSPACE}/providers/FIELD`,
  ),
  'DELETE /console/api/workspaces/:workspace/providers/:name': sends(
    'DELETE',
    `${WORKSPACE}/providers/FIELD`,
    () => undefined,
  ),
  'POST /console/api/workspaces/:workspace/providers/:name/check': sends(
    'POST',
    `${WORKSPACE}/providers/FIELD/check`,
    () => ({}),
  ),
  'GET /console/api/providers': looks(`${API}/providers`),
  'PUT /console/api/providers/:name': sends('PUT', `${API}/providers/canary`, ({ credential }) => ({
    kind: 'deepgram',
    credential,
  })),
  'GET /console/api/providers/:name': looks(`${API}/providers/canary`, `${API}/providers/FIELD`),
  'DELETE /console/api/providers/:name': sends('DELETE', `${API}/providers/FIELD`, () => undefined),
  'POST /console/api/providers/:name/check': sends('POST', `${API}/providers/FIELD/check`, () => ({})),
  'GET /console/api/workspaces/:workspace/keys': looks(`${WORKSPACE}/keys`),
  'POST /console/api/workspaces/:workspace/keys': sends('POST', `${WORKSPACE}/keys`, ({ prompt }) => ({
    name: prompt,
    app: 'web',
  })),
  'PUT /console/api/workspaces/:workspace/keys/:id': sends(
    'PUT',
    `${WORKSPACE}/keys/FIELD`,
    ({ prompt }) => ({ name: prompt }),
    ({ field }) => ({ name: 'one', scopes: [field] }),
  ),
  'POST /console/api/workspaces/:workspace/keys/:id/rotation': sends(
    'POST',
    `${WORKSPACE}/keys/FIELD/rotation`,
    () => ({ overlap_seconds: 0 }),
  ),
  'DELETE /console/api/workspaces/:workspace/keys/:id': sends(
    'DELETE',
    `${WORKSPACE}/keys/FIELD`,
    () => undefined,
  ),
  'POST /console/api/workspaces/:workspace/playground-key': sends(
    'POST',
    `${WORKSPACE}/playground-key`,
    () => ({ app: 'web' }),
  ),
  'GET /console/api/workspaces/:workspace/audio-url-domains': looks(`${WORKSPACE}/audio-url-domains`),
  'PUT /console/api/workspaces/:workspace/audio-url-domains': sends(
    'PUT',
    `${WORKSPACE}/audio-url-domains`,
    ({ field }) => ({ domains: [`https://${field}`] }),
  ),
  'GET /console/api/workspaces/:workspace/webhook': looks(`${WORKSPACE}/webhook`),
  'PUT /console/api/workspaces/:workspace/webhook': sends('PUT', `${WORKSPACE}/webhook`, ({ field }) => ({
    url: `ftp://${field}`,
  })),
  'DELETE /console/api/workspaces/:workspace/webhook': sends(
    'DELETE',
    `${API}/workspaces/FIELD/webhook`,
    () => undefined,
  ),
  'POST /console/api/workspaces/:workspace/webhook/test': sends(
    'POST',
    `${API}/workspaces/FIELD/webhook/test`,
    () => ({}),
  ),
  'GET /console/api/workspaces/:workspace/webhook/deliveries': looks(`${WORKSPACE}/webhook/deliveries`),
  'POST /console/api/workspaces/:workspace/webhook/deliveries/:job/redeliver': sends(
    'POST',
    `${WORKSPACE}/webhook/deliveries/FIELD/redeliver`,
    () => ({}),
  ),
  'GET /console/api/workspaces/:workspace/jobs': looks(`${WORKSPACE}/jobs`, `${WORKSPACE}/jobs?kind=FIELD`),
  'GET /console/api/workspaces/:workspace/jobs/:job': (songs, found) =>
    looks(`${WORKSPACE}/jobs/${found.jobId}`, `${WORKSPACE}/jobs/FIELD`)(songs, found),
  'GET /console/api/workspaces/:workspace/jobs/:job/result': (songs, found) =>
    looks(`${WORKSPACE}/jobs/${found.jobId}/result`, `${WORKSPACE}/jobs/FIELD/result`)(songs, found),
  'POST /console/api/workspaces/:workspace/jobs/:job/cancel': sends(
    'POST',
    `${WORKSPACE}/jobs/FIELD/cancel`,
    () => ({}),
  ),
  'POST /console/api/workspaces/:workspace/jobs/:job/retry': sends(
    'POST',
    `${WORKSPACE}/jobs/FIELD/retry`,
    () => ({}),
  ),
  'GET /console/api/workspaces/:workspace/requests': looks(
    `${WORKSPACE}/requests`,
    `${WORKSPACE}/requests?path=FIELD`,
  ),
  'GET /console/api/workspaces/:workspace/requests/:id': looks(`${WORKSPACE}/requests/FIELD`),
  'GET /console/api/workspaces/:workspace/apps': looks(`${WORKSPACE}/apps`, `${WORKSPACE}/apps?search=FIELD`),
  'GET /console/api/workspaces/:workspace/names': looks(
    `${WORKSPACE}/names?of=keys`,
    `${WORKSPACE}/names?of=FIELD`,
  ),
  'GET /console/api/log': looks(
    `${API}/log`,
    `${API}/log?app=FIELD&id=FIELD`,
    `${API}/log?after=FIELD`,
    `${API}/log?format=csv&model=FIELD`,
  ),
  'GET /console/api/log-rows': looks(
    `${API}/log-rows`,
    `${API}/log-rows?app=FIELD&id=FIELD`,
    `${API}/log-rows?after=FIELD`,
  ),
  'GET /console/api/log/:record': looks(`${API}/log/FIELD`),
  'GET /console/api/live': looks(`${API}/live`, `${API}/live?workspace=FIELD`),
  'POST /console/api/workspaces/:workspace/live/:session/end': sends(
    'POST',
    `${WORKSPACE}/live/FIELD/end`,
    () => ({}),
  ),
  'GET /console/api/endpoints': looks(`${API}/endpoints`, `${API}/endpoints?path=FIELD`),
  'GET /console/api/health': looks(`${API}/health`, `${API}/health?workspace=FIELD`),
  'GET /console/api/overview': looks(`${API}/overview`, `${API}/overview?workspace=FIELD`),
  'GET /console/api/usage': looks(
    `${API}/usage`,
    `${API}/usage?workspace=FIELD`,
    `${API}/usage?by=FIELD`,
    `${API}/usage?app=FIELD&by=key_id&format=csv`,
  ),
  'GET /console/api/audit': looks(`${API}/audit`, `${API}/audit?workspace=FIELD`),
  'GET /console/api/books': looks(`${API}/books`, `${API}/books?workspace=FIELD`),
}

/** What keys can do, too, and what of that is for the page alone. */
const MANAGED = /^\w+ \/console\/api\/(?:workspaces|providers|audit|books|log)\b/
const PAGE_ALONE =
  /\/(?:setup|models|names|requests|log-rows|playground-key|live|overview|health|shadow|result)\b/

/** The same by the key itself, at the management API. */
export const MANAGEMENT_CASES: Readonly<Record<string, Case>> = Object.fromEntries(
  Object.entries(CONSOLE_CASES)
    .filter(([name]) => MANAGED.test(name) && !PAGE_ALONE.test(name))
    .map(([name, make]) => [
      name.replace(API, '/v1/admin'),
      (songs: Songs, found: Found) => make(songs, found).map(withoutSession),
    ]),
)

function withoutSession({ headers, path, ...rest }: Ask): Ask {
  const { cookie: _, 'x-lk-csrf': __, ...kept } = headers ?? {}
  return { ...rest, path: path.replace(API, '/v1/admin'), headers: kept }
}
