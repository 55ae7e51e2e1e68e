import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { type ConsoleNode, startConsoleNode } from '../support/console-node.ts'
import { waitUntil } from '../support/wait-until.ts'
import { CLIENT, startIssuer, type TestIssuer, Wanderer } from './oidc-issuer.ts'

type Json = Readonly<Record<string, unknown>>

export const API = '/console/api'
export const START = `${API}/sign-in/oidc`
export const CALLBACK = `${START}/callback`

/** The environment of a node with the client secret. */
export const SECRET_ENV = { TEST_OIDC_SECRET: CLIENT.secret }

export const ROLES = [
  { group: 'watchers', role: 'admin', workspaces: ['acme'] },
  { group: 'speech team', role: 'admin', workspaces: ['acme', 'other', 'not-there-yet'] },
  { group: 'gateway-operators', role: 'operator' },
  { email: 'Grace@Example.com', role: 'admin', workspaces: ['other'] },
]

const PEOPLE = {
  ada: { email: 'ada@example.com', email_verified: true, groups: ['watchers', 'gateway-operators', 'x'] },
  ben: { email: 'ben@example.com', groups: ['watchers', 'speech team'] },
  grace: { email: 'grace@example.com', email_verified: true },
  false: { email: 'grace@example.com', email_verified: false },
  'says-true': { email: 'grace@example.com', email_verified: 'true' },
  eve: { email: 'eve@example.com', groups: ['gateway-operator', 'GATEWAY-OPERATORS', ''] },
  number: { groups: 7 },
  object: { groups: { 'gateway-operators': true } },
  nested: { groups: [['gateway-operators'], null, { name: 'gateway-operators' }, 1] },
  text: { groups: 'speech team' },
  mixed: { groups: [null, 3, 'watchers'], email: 'a\u0000\u202e\nb'.padEnd(500, 'c') },
  keycloak: { realm_access: { roles: ['watchers'] }, 'https://example.com/groups': ['speech team'] },
}

/** A node that people of an issuer sign in to. */
export async function startSignOn(
  t: Test,
): Promise<{ readonly node: ConsoleNode; readonly issuer: TestIssuer }> {
  const issuer = await startIssuer(t)
  const node = await startConsoleNode(t, { env: SECRET_ENV })
  issuer.register(node.url)
  Object.assign(issuer.people, PEOPLE)
  await configure(node, consoleFields(node.url, issuer), ({ oidc }) => oidc !== null)
  return { node, issuer }
}

/** The part of a configuration that lets people in whom the issuer knows. */
export function consoleFields(publicUrl: string, issuer: TestIssuer, more: Json = {}, oidc: Json = {}): Json {
  return {
    public_url: publicUrl,
    oidc: {
      name: 'Test ID',
      issuer: issuer.url,
      client_id: CLIENT.id,
      client_secret: '${' + 'TEST_OIDC_SECRET}',
      scopes: ['openid', 'profile', 'email', 'groups'],
      roles: ROLES,
      ...oidc,
    },
    ...more,
  }
}

/** Writes the part of the configuration while the node runs, and waits until it is in force. */
export async function configure(
  node: ConsoleNode,
  console: Json,
  holds: (ways: Json) => boolean,
): Promise<void> {
  const path = join(node.dataFolder, 'larkway.yaml')
  const before = JSON.parse(await readFile(path, 'utf8')) as Json
  await writeFile(path, JSON.stringify({ ...before, console }))
  await waitUntil(async () => holds((await node.ask('/sign-in')).body))
}

/** Asks from an address: each has failed sign-ins of its own. */
export const visitFrom = (browser: Wanderer, url: string, address: string) =>
  browser.visit(url, { 'x-forwarded-for': address })

/** A person who has signed in, or was led back to the sign-in page. */
export interface Arrival {
  readonly browser: Wanderer
  /** Path and query that the browser is at. */
  readonly at: string
  readonly cookie: string
  ask(path: string, method?: string): Promise<{ readonly status: number; readonly body: Json }>
}

/** Signs in by the issuer from the button to the end. @param query of the button's address */
export async function signInAs(
  { url }: Pick<ConsoleNode, 'url'>,
  issuer: TestIssuer,
  person: string,
  { query = '', browser = new Wanderer() }: { query?: string; browser?: Wanderer } = {},
): Promise<Arrival> {
  issuer.person = person
  const end = await browser.follow(`${url}${START}${query}`)
  return arrivalOf(url, browser, end)
}

export function arrivalOf(url: string, browser: Wanderer, end: string): Arrival {
  const { pathname, search, hash } = new URL(end)
  const cookie = `lk_console=${browser.cookie(url, 'lk_console') ?? ''}`
  let csrf = ''
  const ask: Arrival['ask'] = async (path, method = 'GET') => {
    const change = method === 'GET' ? {} : { 'x-lk-csrf': csrf, 'content-type': 'application/json' }
    const response = await fetch(`${url}${API}${path}`, { method, headers: { cookie, ...change } })
    const body = (await response.json()) as Json
    if (typeof body.csrf_token === 'string') csrf = body.csrf_token
    return { status: response.status, body }
  }
  return { browser, at: pathname + search + hash, cookie, ask }
}

/** Asserts that nothing of a node's log holds any of the texts. */
export function assertUnlogged(t: Test, node: Pick<ConsoleNode, 'output'>, secrets: readonly string[]): void {
  const said = node.output.join('\n')
  t.ok(secrets.length > 0, 'there is something to look for')
  for (const secret of secrets) t.notOk(said.includes(secret.slice(-40)), 'it is not in the log')
}
