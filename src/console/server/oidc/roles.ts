import type { SessionPerson } from '../../../contracts/console.ts'
import type { OidcSettings, RoleGrant } from '../../../contracts/sign-in.ts'
import type { Role } from '../../../gateway/admin/actor.ts'

/** Claims about a person, of an ID token that was verified or of the endpoint for them. They may hold anything. */
export type Claims = Readonly<Record<string, unknown>>

/** Characters of a name that the audit list keeps for good. */
const NAME_MAX = 200
/** Groups that are looked at; more than any issuer puts into a token. */
const GROUPS_MAX = 10_000

/** A person's role and workspaces. */
export interface Reach {
  readonly role: Role
  /** An admin's, in the order of the configuration; empty for operators. */
  readonly workspaces: readonly string[]
}

/**
 * The role of a person: the highest that is granted to them, and as an admin all workspaces that are granted.
 *
 * @param exists tells which workspaces there are
 * @returns null when none is granted
 */
export function reachOf(
  { groups, email }: Pick<SessionPerson, 'groups' | 'email'>,
  grants: readonly RoleGrant[],
  exists: (workspace: string) => boolean,
): Reach | null {
  const theirs = grants.filter(({ to }) => ('group' in to ? groups.includes(to.group) : to.email === email))
  if (theirs.some(({ role }) => role === 'operator')) return { role: 'operator', workspaces: [] }
  const workspaces = new Set(theirs.flatMap((grant) => grant.workspaces).filter(exists))
  return workspaces.size === 0 ? null : { role: 'admin', workspaces: [...workspaces] }
}

/** The facts of a person that a session keeps, from their claims. */
export function personOf(
  claims: Claims & { readonly sub: string },
  settings: OidcSettings,
): Omit<SessionPerson, 'sealedIdToken'> {
  const { issuer, clientId, groupsClaim, nameClaim, grants } = settings
  const groups = groupsIn(claimIn(claims, groupsClaim))
  const email = verifiedEmail(claims)
  return {
    issuer,
    clientId,
    subject: claims.sub,
    name: nameIn(claimIn(claims, nameClaim)) ?? claims.sub.slice(0, NAME_MAX),
    groups: [
      ...new Set(grants.flatMap(({ to }) => ('group' in to && groups.has(to.group) ? [to.group] : []))),
    ],
    email: grants.some(({ to }) => 'email' in to && to.email === email) ? email : null,
    issuerSession: typeof claims.sid === 'string' ? claims.sid : null,
  }
}

/** True if claims lack one that roles or names need: the issuer's userinfo endpoint may have it. */
export function lacksClaims(claims: Claims, { groupsClaim, nameClaim, grants }: OidcSettings): boolean {
  const kinds = {
    group: grants.some(({ to }) => 'group' in to),
    email: grants.some(({ to }) => 'email' in to),
  }
  return (
    claimIn(claims, nameClaim) === undefined ||
    (kinds.group && claimIn(claims, groupsClaim) === undefined) ||
    (kinds.email && (claims.email === undefined || claims.email_verified === undefined))
  )
}

/** A claim by its name; else, where there are dots in the name, one within others: `realm_access.roles`. */
function claimIn(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name]
  let value: unknown = claims
  for (const part of name.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined
    value = Reflect.get(value, part)
  }
  return value
}

/** A text, or the texts of a list; nothing else is a group. */
function groupsIn(claim: unknown): ReadonlySet<string> {
  if (typeof claim === 'string') return new Set([claim])
  if (!Array.isArray(claim)) return new Set()
  return new Set(claim.slice(0, GROUPS_MAX).filter((group) => typeof group === 'string'))
}

/** Null unless the issuer has verified the address: otherwise it may be anyone's. */
function verifiedEmail({ email, email_verified: verified }: Claims): string | null {
  return typeof email === 'string' && verified === true ? email.toLowerCase() : null
}

/** Null: it holds nothing that can be shown. */
function nameIn(claim: unknown): string | null {
  if (typeof claim !== 'string') return null
  const name = claim
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '')
    .trim()
    .slice(0, NAME_MAX)
    .toWellFormed()
  return name === '' ? null : name
}
