import { type Static, Type } from 'typebox'
import type { OidcSettings, RoleGrant, SignInSettings } from '../../contracts/sign-in.ts'
import { formed, Name, optional, optionalFlag, optionalInteger, strict } from './field.ts'
import type { Issues, Path } from './issues.ts'
import { resolveSecret, type SecretSources } from './secret.ts'

const RoleGrantShape = strict({
  group: optional(
    Type.String({ minLength: 1, maxLength: 256 }),
    'its members have the role; a value of groups_claim',
  ),
  email: optional(
    Type.String({ minLength: 3, maxLength: 254 }),
    'in place of group: who has this address, verified by the issuer, has the role',
  ),
  role: Type.Enum(['operator', 'admin'], {
    description:
      'operator: all workspaces; admin: those named here. Of several the highest wins, or all workspaces',
  }),
  workspaces: optional(Type.Array(Name, { minItems: 1, uniqueItems: true }), 'what an admin administers'),
})

const OidcShape = strict(
  {
    name: optional(
      Type.String({ minLength: 1, maxLength: 40 }),
      'what the button of the sign-in page calls it: "Sign in with …"; default: single sign-on',
    ),
    issuer: Type.String({ maxLength: 2048, description: 'its URL, exactly as its ID tokens have it' }),
    client_id: Type.String({ minLength: 1, maxLength: 256, description: 'of Larkway at the issuer' }),
    client_secret: optional(
      formed('^(\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}|file:.+)$', `a reference: \${ENV_NAME} or file:<path>`, {
        maxLength: 4096,
      }),
      `a reference, \${ENV_NAME} or file:<path>, never the secret itself; without it the client is a public one`,
    ),
    scopes: optional(
      Type.Array(formed('^[\\x21\\x23-\\x5b\\x5d-\\x7e]+$', 'a scope', { maxLength: 256 }), {
        minItems: 1,
        maxItems: 32,
        uniqueItems: true,
      }),
      'what is asked of the issuer; default: openid, profile and email',
    ),
    groups_claim: optional(
      Type.String({ minLength: 1, maxLength: 256 }),
      'claim with the groups, a text or a list of texts; a.b is b within a; default: groups',
    ),
    name_claim: optional(
      Type.String({ minLength: 1, maxLength: 256 }),
      'claim by which the audit list calls people; default: email, and sub where there is none',
    ),
    session_seconds: optionalInteger(
      [60, 2_592_000],
      'longest session of a person, and so how long the groups that it began with count; default: as for keys',
    ),
    roles: Type.Array(RoleGrantShape, {
      minItems: 1,
      maxItems: 1000,
      description: 'who may sign in, and as what; nobody else may',
    }),
    issuer_logout: optionalFlag(
      'signing out also ends the session at the issuer, where that can be done; default: true',
    ),
  },
  'single sign-on by OpenID Connect',
)

export const ConsoleShape = strict(
  {
    public_url: optional(
      formed('^https?://[^/?#]+$', 'an origin: scheme, host and port'),
      'origin under which browsers reach the console, for oidc; default: LARKWAY_PUBLIC_URL',
    ),
    key_sign_in: optionalFlag(
      'whether API keys sign in; false needs an operator in oidc.roles; default: true',
    ),
    session_seconds: optionalInteger([60, 2_592_000], 'longest session; default: 43200, 12 hours'),
    session_idle_seconds: optionalInteger(
      [60, 2_592_000],
      'how long a session lasts without a request; default: 7200, 2 hours',
    ),
    content_switch: optional(
      Type.Enum(['admin', 'operator']),
      'who may have the console show audio and transcripts of a workspace; default: admin',
    ),
    trace_url: optional(
      Type.String({ minLength: 1, maxLength: 2048 }),
      'where a trace is looked at, with {trace_id} in its path, query or fragment; requests link to it',
    ),
    oidc: Type.Optional(OidcShape),
  },
  'how people come into the console, and where it leads them',
)

type ConsoleFields = Static<typeof ConsoleShape>
type OidcFields = Static<typeof OidcShape>
type RoleGrantFields = Static<typeof RoleGrantShape>

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
  {
    publicUrl,
    session_seconds,
  }: { readonly publicUrl: string | undefined; readonly session_seconds: number },
  sources: SecretSources,
  issues: Issues,
): OidcSettings | null {
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

function grantOf({ group, email, role, workspaces }: RoleGrantFields, path: Path, issues: Issues) {
  if ((group === undefined) === (email === undefined))
    issues.add(path, 'must have either group or email, and not both')
  if (role === 'operator' && workspaces !== undefined)
    issues.add([...path, 'workspaces'], 'must be left out: operators see all of them')
  if (role === 'admin' && workspaces === undefined)
    issues.add([...path, 'workspaces'], 'is missing: an admin administers some')
  const to = group !== undefined ? { group } : email !== undefined ? { email: email.toLowerCase() } : null
  const grant: RoleGrant | null = to && { to, role, workspaces: workspaces ?? [] }
  return grant
}

const LOCAL = new Set(['localhost', '127.0.0.1', '[::1]'])

/** Codes and tokens go there: in the open at most within this machine. */
function isSafe({ protocol, hostname, username, password, search, hash }: URL): boolean {
  if (username !== '' || password !== '' || search !== '' || hash !== '') return false
  return protocol === 'https:' || (protocol === 'http:' && LOCAL.has(hostname))
}
