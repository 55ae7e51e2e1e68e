import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { seal, unseal } from '../../../contracts/sealing.ts'
import type { OidcSettings } from '../../../contracts/sign-in.ts'
import type { Exchange } from '../../../gateway/edge/exchange.ts'
import { cookieNames, cookieOf } from '../security.ts'
import type { SignInChecks } from './issuer.ts'

/**
 * A sign-in between the two visits of its browser. All of it travels in a sealed cookie, so that any node can go on
 * with it, and sign-ins that are only begun cannot fill the state.
 */
export interface Flow extends SignInChecks {
  readonly issuer: string
  readonly clientId: string
  /** A path of the console, as `ownPath` returns it. */
  readonly returnTo: string
  readonly untilMs: number
}

/** Time limit for signing in at the issuer. */
export const FLOW_MS = 600_000
const COOKIE = 'lk_console_oidc_'
/** Each sign-in has a cookie of its own, so that two tabs do not hinder one another. */
const COOKIE_NAME_LENGTH = 8
const COOKIE_NAME = new RegExp(`^${COOKIE}[\\w-]{${COOKIE_NAME_LENGTH}}$`)
/** Sign-ins that a browser may have under way. Proxies take no more than some 7 KiB of cookies with an address. */
const FLOWS_MAX = 4
/** Sent when a page of another site leads back here, unlike that of the session; and to no other path. */
const COOKIE_SCOPE = 'Path=/console/api/sign-in/oidc; HttpOnly; SameSite=Lax'
const CONTEXT = { purpose: 'console-sign-in', workspace: '' }

const FlowShape = Type.Object({
  state: Type.String({ minLength: 1 }),
  nonce: Type.String({ minLength: 1 }),
  codeVerifier: Type.String({ minLength: 1 }),
  issuer: Type.String(),
  clientId: Type.String(),
  returnTo: Type.String(),
  untilMs: Type.Integer(),
})

type Cookies = Pick<Exchange, 'headers'>

/** Value of `set-cookie` that takes a flow along. */
export function flowCookie(flow: Flow, keys: readonly Buffer[], settings: OidcSettings): string {
  const sealed = seal(keys, JSON.stringify(flow), CONTEXT)
  return `${cookieName(flow.state)}=${sealed}; ${COOKIE_SCOPE}; Max-Age=${FLOW_MS / 1000}${secureOf(settings)}`
}

/** Values of `set-cookie` that take away the oldest flows of a browser, so that there is room for another. */
export function surplusFlows(exchange: Cookies, settings: OidcSettings): string[] {
  // Browsers send those that they got first first (RFC 6265, section 5.4).
  const surplus = flowNames(exchange).slice(0, 1 - FLOWS_MAX)
  return surplus.map((name) => noCookie(name, settings))
}

/**
 * Values of `set-cookie` that take away the flow that a callback belongs to; none: the browser has none of that state.
 *
 * @param settings null: there is no single sign-on any more
 */
export function endedFlow(exchange: Cookies, state: string, settings: OidcSettings | null): string[] {
  const names = flowNames(exchange).filter((name) => name === cookieName(state))
  return names.map((name) => noCookie(name, settings))
}

function flowNames(exchange: Cookies): string[] {
  return cookieNames(exchange).filter((name) => COOKIE_NAME.test(name))
}

function noCookie(name: string, settings: OidcSettings | null): string {
  return `${name}=; ${COOKIE_SCOPE}; Max-Age=0${settings === null ? '' : secureOf(settings)}`
}

function secureOf({ publicUrl }: OidcSettings): string {
  return publicUrl.startsWith('https:') ? '; Secure' : ''
}

/**
 * The flow that this browser began and that a callback belongs to. Null: it began none with this state, or too long
 * ago, or with another issuer or client than the configuration now names.
 */
export function flowOf(
  exchange: Cookies,
  state: string,
  keys: readonly Buffer[],
  { settings, nowMs }: { readonly settings: OidcSettings; readonly nowMs: number },
): Flow | null {
  const sealed = cookieOf(exchange, cookieName(state))
  const text = sealed === null ? null : unseal(keys, sealed, CONTEXT)
  const flow: unknown = text === null ? null : JSON.parse(text)
  if (!Value.Check(FlowShape, flow) || flow.state !== state || flow.untilMs <= nowMs) return null
  return flow.issuer === settings.issuer && flow.clientId === settings.clientId ? flow : null
}

function cookieName(state: string): string {
  return COOKIE + state.slice(0, COOKIE_NAME_LENGTH)
}

/** Length limit of an address to return to: it travels in the cookie. */
const RETURN_MAX = 256

/**
 * A path of the console to go to, as it was asked for when it is one, and of 256 characters at most: no other path of
 * this host, and no other host, however a browser would read the text.
 */
export function ownPath(asked: string | null): string {
  const home = '/console'
  // Characters that browsers drop or read as a slash are refused everywhere.
  if (asked === null || asked.length > RETURN_MAX || !/^\/console(?:[/?#][!-[\]-~]*)?$/.test(asked))
    return home
  const url = URL.parse(asked, 'http://own.invalid')
  if (url === null || url.host !== 'own.invalid' || !/^\/console(?:\/|$)/.test(url.pathname)) return home
  const path = url.pathname + url.search + url.hash
  // Some characters are longer once they are escaped.
  return url.pathname.startsWith('/console/api') || path.length > RETURN_MAX ? home : path
}
