import type { OidcSettings, RoleGrant, SignInSettings } from '../../contracts/sign-in.ts'
import type { ConsoleFields } from './file.ts'
import type { Issues, Path } from './issues.ts'
import { resolveSecret, type SecretSources } from './secret.ts'

type OidcFields = NonNullable<ConsoleFields['oidc']>
type RoleGrantFields = OidcFields['roles'][number]

const SESSION_SECONDS = 43_200
const SESSION_IDLE_SECONDS = 7_200
const SCOPES = ['openid', 'profile', 'email']
const PATH: Path = ['console']

/**
 * How people come into the console. Adds to `issues` what cannot work, and what would leave no one able to sign in as
 * an operator.
 */
export function resolveSignIn(
  fields: ConsoleFields | null,
  sources: SecretSources,
  issues: Issues,
): SignInSettings {
  const {
    key_sign_in: keys = true,
    session_seconds = SESSION_SECONDS,
    session_idle_seconds = SESSION_IDLE_SECONDS,
    content_switch: contentSwitch = 'admin',
    oidc,
  } = fields ?? {}
  const hasOperators = oidc?.roles.some(({ role }) => role === 'operator') ?? false
  if (!keys && !hasOperators)
    issues.add(
      [...PATH, 'key_sign_in'],
      'must not be false without a role operator in oidc.roles: nobody could sign in who may change everything',
    )
  const publicUrl = fields?.public_url ?? sources.env.LARKWAY_PUBLIC_URL
  return {
    keys,
    sessionMs: session_seconds * 1000,
    idleMs: session_idle_seconds * 1000,
    contentSwitch,
    oidc: oidc === undefined ? null : resolveOidc(oidc, { publicUrl, session_seconds }, sources, issues),
  }
}

const TRACE_ID = '{trace_id}'

/** The template of the address of a trace; null: there is none, or `issues` say why it cannot be used. */
export function resolveTraceUrl(fields: ConsoleFields | null, issues: Issues): string | null {
  const template = fields?.trace_url
  if (template === undefined) return null
  // An id that stood in the name of the host would lead anywhere.
  const [one, other] = ['0', 'f'].map((digit) => URL.parse(template.replaceAll(TRACE_ID, digit.repeat(32))))
  const isWeb = one?.protocol === 'https:' || one?.protocol === 'http:'
  const isFixed = isWeb && one.origin === other?.origin && one.username + one.password + other.username === ''
  if (isFixed && template.includes(TRACE_ID)) return template
  const message = `must be an https or http URL without credentials, with ${TRACE_ID} behind its host`
  issues.add([...PATH, 'trace_url'], message)
  return null
}

/** Null when it cannot be used; every reason is added to `issues`. */
function resolveOidc(
  fields: OidcFields,
  terms: { readonly publicUrl: string | undefined; readonly session_seconds: number },
  sources: SecretSources,
  issues: Issues,
): OidcSettings | null {
  const { publicUrl, session_seconds } = terms
  const path = [...PATH, 'oidc']
  const issuer = URL.parse(fields.issuer)
  if (issuer === null || !isSafe(issuer))
    issues.add([...path, 'issuer'], 'must be an https URL without credentials, query and fragment')
  const origin = URL.parse(publicUrl ?? '')
  const isMissing = publicUrl === undefined || publicUrl === ''
  // The environment of the servers may have it.
  if (isMissing && sources.isUnread !== true)
    issues.add([...PATH, 'public_url'], 'is missing: set it, or LARKWAY_PUBLIC_URL, for oidc')
  if (!isMissing && (origin === null || !isSafe(origin)))
    issues.add([...PATH, 'public_url'], 'must be an https URL for oidc; http only for localhost')
  const secret = fields.client_secret
  const resolved = secret === undefined ? null : resolveSecret(secret, '', sources)
  if (resolved?.issue !== undefined) issues.add([...path, 'client_secret'], resolved.issue)
  const scopes = fields.scopes ?? SCOPES
  if (!scopes.includes('openid')) issues.add([...path, 'scopes'], 'must have openid among them')
  const grants = fields.roles.map((grant, index) => grantOf(grant, [...path, 'roles', index], issues))
  if (issuer === null || origin === null) return null
  return {
    name: fields.name ?? 'single sign-on',
    issuer: fields.issuer,
    clientId: fields.client_id,
    clientSecret: resolved?.value ?? null,
    publicUrl: origin.origin,
    scopes,
    groupsClaim: fields.groups_claim ?? 'groups',
    nameClaim: fields.name_claim ?? 'email',
    grants: grants.filter((grant) => grant !== null),
    sessionMs: Math.min(fields.session_seconds ?? session_seconds, session_seconds) * 1000,
    issuerLogout: fields.issuer_logout ?? true,
  }
}

function grantOf(fields: RoleGrantFields, path: Path, issues: Issues): RoleGrant | null {
  const { group, email, role, workspaces } = fields
  if ((group === undefined) === (email === undefined))
    issues.add(path, 'must have either group or email, and not both')
  if (role === 'operator' && workspaces !== undefined)
    issues.add([...path, 'workspaces'], 'must be left out: operators see all of them')
  if (role === 'admin' && workspaces === undefined)
    issues.add([...path, 'workspaces'], 'is missing: an admin administers some')
  const to = group !== undefined ? { group } : email !== undefined ? { email: email.toLowerCase() } : null
  return to && { to, role, workspaces: workspaces ?? [] }
}

const LOCAL = new Set(['localhost', '127.0.0.1', '[::1]'])

/** Codes and tokens go there: in the open at most within this machine. */
function isSafe({ protocol, hostname, username, password, search, hash }: URL): boolean {
  if (username !== '' || password !== '' || search !== '' || hash !== '') return false
  return protocol === 'https:' || (protocol === 'http:' && LOCAL.has(hostname))
}
