import type { Role } from '../../../gateway/admin/actor.ts'

// Answers about who signs in, in wire names; times are RFC 3339. The page is typed by the same.

/** GET /sign-in: the ways in, for whoever has not signed in yet. */
export interface SignInAnswer {
  /** API keys can sign in. */
  readonly keys: boolean
  /** Null: there is no single sign-on. */
  readonly oidc: {
    /** The issuer's name, for the button. */
    readonly name: string
    /** Where the browser is to go; takes the parameter `return_to`, a path of the console. */
    readonly url: string
  } | null
}

/** The holder of the key or the person that signed in; the other is null. */
interface Holder {
  readonly key: { readonly id: string; readonly name: string } | null
  /** `subject` is how their OpenID provider names them, for good. */
  readonly person: { readonly name: string; readonly subject: string } | null
}

/** GET and POST /session */
export interface SessionAnswer extends Holder {
  readonly role: Role
  /** Where the page begins: that of the key, or the first one. Null: there are no workspaces. */
  readonly workspace: string | null
  /** The only ones that an admin may see; empty for operators, who see all. */
  readonly workspaces: readonly string[]
  /** Goes into the header `x-lk-csrf` of everything but GET. */
  readonly csrf_token: string
  readonly expires_at: string
  /** Version of Larkway. */
  readonly version: string
}

/** DELETE /session */
export interface SignOutAnswer {
  readonly ended: true
  /** Where the browser is to go to end the session at the issuer, too; absent: there is none. */
  readonly logout_url?: string
}

/** GET /sessions → {sessions}: of everybody for operators, else the viewer's own. */
export interface ListedSession extends Holder {
  readonly id: string
  /** It is the one that asks. */
  readonly current: boolean
  readonly own: boolean
  /** Null: it ends with its next request, since its key or its role is gone. */
  readonly role: Role | null
  readonly workspaces: readonly string[]
  /** Where it was begun from, and with which browser, such as `Firefox 145 on Linux`; null: not known. */
  readonly address: string | null
  readonly browser: string | null
  readonly began_at: string
  /** To a minute or so. */
  readonly seen_at: string
  readonly expires_at: string
}
