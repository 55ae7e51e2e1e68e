/** How people come into the console, as the configuration says. */
export interface SignInSettings {
  /** True: holders of API keys may sign in with them. */
  readonly keys: boolean
  /** Longest that a session lasts. */
  readonly sessionMs: number
  /** Longest that it lasts without a request. */
  readonly idleMs: number
  /** Roles that may have the console show audio and transcripts of a workspace. Operators may, always. */
  readonly contentSwitch: 'admin' | 'operator'
  /** Null: there is no single sign-on. */
  readonly oidc: OidcSettings | null
}

/** An OpenID provider that vouches for people, and who they are here. */
export interface OidcSettings {
  /** Its name on the button of the sign-in page. */
  readonly name: string
  readonly issuer: string
  readonly clientId: string
  /** Null: a public client, which shows by PKCE alone that a code is its own. */
  readonly clientSecret: string | null
  /** Origin under which browsers reach the console. */
  readonly publicUrl: string
  readonly scopes: readonly string[]
  /** Name of the claim that holds groups; of one within others, with dots between. */
  readonly groupsClaim: string
  /** Name of the claim by which the audit list calls people. */
  readonly nameClaim: string
  readonly grants: readonly RoleGrant[]
  /** Longest that a session lasts, with the groups that it began with. */
  readonly sessionMs: number
  /** True: signing out does so at the issuer, too. */
  readonly issuerLogout: boolean
}

/** Gives a role to the members of a group, or to one person. */
export interface RoleGrant {
  readonly to: { readonly group: string } | { readonly email: string }
  readonly role: 'operator' | 'admin'
  /** Workspaces that an admin administers; empty for operators. */
  readonly workspaces: readonly string[]
}
