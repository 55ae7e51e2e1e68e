import type { JsonWebKey } from 'node:crypto'
import type { Configuration, ServerMetadata } from 'openid-client'
import type { OidcSettings } from '../../../contracts/sign-in.ts'
import { type Clock, deadline } from '../../../contracts/time.ts'
import { type Claims, lacksClaims } from './roles.ts'

type Library = typeof import('openid-client')

/** How long what the issuer says of itself is taken for true, before it is asked again. */
const METADATA_MS = 3_600_000
/** How long after that it still serves when the issuer cannot be asked. */
const STALE_MS = 24 * 3_600_000
/** Time for one answer of the issuer, and for all that one sign-in needs. */
const ANSWER_SECONDS = 5
const SIGN_IN_MS = 12_000
/** Longer than any answer with tokens, keys or claims. */
const ANSWER_BYTES_MAX = 256 * 1024
/** How long its keys are kept for logout orders, which anyone may send. */
const KEYS_MS = 30_000
/** By how much the clock of the issuer may differ. */
const CLOCK_TOLERANCE_SECONDS = 30
/** An ID token that is longer would not fit into an address. */
const HINT_LENGTH_MAX = 4_096

/** Where a browser comes back with a code, below the public URL. It has to be registered at the issuer. */
export const CALLBACK_PATH = '/console/api/sign-in/oidc/callback'
const AFTER_LOGOUT_PATH = '/console'

/** Secrets by which a sign-in is recognized when it comes back. */
export interface SignInChecks {
  readonly state: string
  readonly nonce: string
  readonly codeVerifier: string
}

/** A person for whom the issuer vouches. */
export interface Vouched {
  readonly claims: Claims & { readonly sub: string }
  readonly idToken: string
}

/** Loaded at the first sign-in: nothing else needs it, or the memory that it takes. */
let library: Promise<Library> | undefined

function load(): Promise<Library> {
  library ??= import('openid-client')
  return library
}

interface Known {
  readonly metadata: ServerMetadata
  readonly atMs: number
}

/**
 * The OpenID provider of the configuration. Its metadata is kept for an hour; its keys are read with every sign-in, so
 * that those it has changed or withdrawn count at once.
 */
export class Issuer {
  readonly #settings: OidcSettings
  readonly #clock: Clock
  #known: Known | null = null
  #reading: Promise<Known> | null = null
  #keys: { readonly keys: Promise<readonly JsonWebKey[]>; readonly atMs: number } | null = null

  constructor(settings: OidcSettings, clock: Clock) {
    this.#settings = settings
    this.#clock = clock
  }

  /**
   * New secrets for a sign-in, and the address to send the browser to.
   *
   * @param anew whether the issuer is to ask who it is, also whom it knows already
   */
  async begin(anew: boolean): Promise<{ readonly checks: SignInChecks; readonly url: string }> {
    const client = await load()
    const checks = {
      state: client.randomState(),
      nonce: client.randomNonce(),
      codeVerifier: client.randomPKCECodeVerifier(),
    }
    const { scopes, publicUrl } = this.#settings
    const url = client.buildAuthorizationUrl(await this.#configuration(client), {
      redirect_uri: publicUrl + CALLBACK_PATH,
      response_type: 'code',
      scope: scopes.join(' '),
      state: checks.state,
      nonce: checks.nonce,
      code_challenge: await client.calculatePKCECodeChallenge(checks.codeVerifier),
      code_challenge_method: 'S256',
      ...(anew ? { prompt: 'login' } : {}),
    })
    return { checks, url: url.href }
  }

  /**
   * Turns the code of a callback into claims that are verified: signature, issuer, audience, times and nonce.
   *
   * @param query as the browser brought it
   * @throws Error of the library, whose message and cause may hold tokens: it is to be read by `issuerFailure` alone
   */
  async redeem(query: string, { state, nonce, codeVerifier }: SignInChecks): Promise<Vouched> {
    const client = await load()
    const configuration = await this.#configuration(client)
    const { publicUrl } = this.#settings
    const tokens = await client.authorizationCodeGrant(
      configuration,
      new URL(`${publicUrl}${CALLBACK_PATH}?${query}`),
      { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: codeVerifier, idTokenExpected: true },
    )
    const claims = tokens.claims()
    if (claims === undefined || tokens.id_token === undefined) throw new Error('there is no ID token')
    const vouched = { claims, idToken: tokens.id_token }
    const { userinfo_endpoint } = configuration.serverMetadata()
    if (userinfo_endpoint === undefined || !lacksClaims(claims, this.#settings)) return vouched
    const more = await client.fetchUserInfo(configuration, tokens.access_token, claims.sub)
    return { ...vouched, claims: { ...more, ...claims } }
  }

  /**
   * The address at which a browser ends the session at the issuer; null: it has none, or does not answer. Never
   * rejects.
   *
   * @param idToken whose session it is; null: it was not kept, or cannot be opened any more
   */
  async logoutUrl(idToken: string | null): Promise<string | null> {
    try {
      const client = await load()
      const configuration = await this.#configuration(client)
      if (configuration.serverMetadata().end_session_endpoint === undefined) return null
      const hint = idToken === null || idToken.length > HINT_LENGTH_MAX ? {} : { id_token_hint: idToken }
      const url = client.buildEndSessionUrl(configuration, {
        post_logout_redirect_uri: this.#settings.publicUrl + AFTER_LOGOUT_PATH,
        ...hint,
      })
      return url.href
    } catch {
      return null
    }
  }

  /**
   * Its name for itself, and its keys.
   *
   * @param agedMs how old the keys may be; by default half a minute
   * @throws Error when it does not answer
   */
  async orders(agedMs = KEYS_MS): Promise<{ readonly issuer: string; readonly keys: readonly JsonWebKey[] }> {
    const { metadata } = await this.#newest(await load())
    if (this.#keys === null || this.#clock.wallNow() - this.#keys.atMs > agedMs)
      this.#keys = { keys: this.#readKeys(metadata.jwks_uri ?? ''), atMs: this.#clock.wallNow() }
    const read = this.#keys
    try {
      return { issuer: metadata.issuer, keys: await read.keys }
    } catch (error) {
      // The issuer may have them a moment later.
      if (this.#keys === read) this.#keys = null
      throw error
    }
  }

  async #readKeys(url: string): Promise<readonly JsonWebKey[]> {
    const isSafe = url.startsWith('https:') || isLocal(this.#settings.issuer)
    if (!isSafe) throw new Error('keys come over https')
    const answer = await boundedFetch(deadline(this.#clock, ANSWER_SECONDS * 1000))(url, {
      redirect: 'manual',
    })
    if (!answer.ok) throw new Error('the issuer does not give its keys')
    const { keys } = (await answer.json()) as { keys?: unknown }
    return Array.isArray(keys) ? keys.filter((key) => typeof key === 'object' && key !== null) : []
  }

  /** For one sign-in: the library keeps the keys of the issuer with it. */
  async #configuration(client: Library): Promise<Configuration> {
    const { metadata } = await this.#newest(client)
    const { clientId, clientSecret } = this.#settings
    const configuration = new client.Configuration(
      metadata,
      clientId,
      { [client.clockTolerance]: CLOCK_TOLERANCE_SECONDS },
      clientSecret === null ? client.None() : secretAuth(client, metadata, clientSecret),
    )
    configuration.timeout = ANSWER_SECONDS
    configuration[client.customFetch] = boundedFetch(deadline(this.#clock, SIGN_IN_MS))
    if (isLocal(this.#settings.issuer)) client.allowInsecureRequests(configuration)
    // Without it the library trusts the connection to the token endpoint, and looks at no signature.
    client.enableNonRepudiationChecks(configuration)
    return configuration
  }

  async #newest(client: Library): Promise<Known> {
    const known = this.#known
    const ageMs = known === null ? Number.POSITIVE_INFINITY : this.#clock.wallNow() - known.atMs
    if (known !== null && ageMs < METADATA_MS) return known
    this.#reading ??= this.#read(client).finally(() => {
      this.#reading = null
    })
    try {
      return await this.#reading
    } catch (error) {
      if (known !== null && ageMs < STALE_MS) return known
      throw error
    }
  }

  /** @throws Error also when the metadata is of another issuer than the configuration names */
  async #read(client: Library): Promise<Known> {
    const { issuer, clientId } = this.#settings
    const configuration = await client.discovery(new URL(issuer), clientId, undefined, client.None(), {
      timeout: ANSWER_SECONDS,
      [client.customFetch]: boundedFetch(deadline(this.#clock, SIGN_IN_MS)),
      ...(isLocal(issuer) ? { execute: [client.allowInsecureRequests] } : {}),
    })
    const metadata = configuration.serverMetadata()
    // The library makes exceptions for issuers that speak for the tenants of others.
    if (URL.parse(metadata.issuer)?.href !== new URL(issuer).href) throw new WrongIssuer()
    this.#known = { metadata, atMs: this.#clock.wallNow() }
    return this.#known
  }
}

/** The metadata is not of the issuer that the configuration names. */
class WrongIssuer extends Error {
  readonly code = 'ISSUER_DIFFERS'
}

/** By the header unless the issuer takes the secret in the body alone (OpenID Connect Discovery, section 3). */
function secretAuth(client: Library, metadata: ServerMetadata, secret: string) {
  const methods = metadata.token_endpoint_auth_methods_supported
  return methods === undefined || methods.includes('client_secret_basic')
    ? client.ClientSecretBasic(secret)
    : client.ClientSecretPost(secret)
}

function isLocal(issuer: string): boolean {
  return issuer.startsWith('http:')
}

/** A `fetch` that takes no answer that is too long, and none after a moment. */
function boundedFetch(deadline: AbortSignal) {
  return async (
    url: string,
    options: { signal?: AbortSignal; redirect?: string } & object,
  ): Promise<Response> => {
    const signal = options.signal === undefined ? deadline : AbortSignal.any([options.signal, deadline])
    const response = await fetch(url, { ...options, signal } as RequestInit)
    const chunks: Uint8Array[] = []
    let bytes = 0
    for await (const chunk of response.body ?? []) {
      bytes += chunk.length
      if (bytes > ANSWER_BYTES_MAX) throw new AnswerTooLong()
      chunks.push(chunk)
    }
    const { status, headers } = response
    return new Response(bytes === 0 ? null : Buffer.concat(chunks), { status, headers })
  }
}

class AnswerTooLong extends Error {
  readonly code = 'ANSWER_TOO_LONG'
}

/** Why a sign-in failed: in a word for the page, and in one for the log. */
export interface Failure {
  readonly page: 'denied' | 'unavailable' | 'refused'
  /** One of a closed list: an issuer writes what it likes. */
  readonly reason: string
}

/** Errors of RFC 6749, sections 4.1.2.1 and 5.2, and of OpenID Connect Core, section 3.1.2.6. */
const ISSUER_ERRORS: ReadonlySet<unknown> = new Set([
  'access_denied',
  'account_selection_required',
  'consent_required',
  'interaction_required',
  'invalid_client',
  'invalid_grant',
  'invalid_request',
  'invalid_scope',
  'login_required',
  'server_error',
  'temporarily_unavailable',
  'unauthorized_client',
  'unsupported_grant_type',
  'unsupported_response_type',
])
const AWAY: ReadonlySet<unknown> = new Set(['server_error', 'temporarily_unavailable'])

/** Reads an error of a sign-in; nothing of it that the issuer wrote goes any further. */
export function issuerFailure(error: unknown): Failure {
  const { name, code, error: word, cause } = Object(error) as Partial<Record<string, unknown>>
  const { code: causeCode, status } = Object(cause) as Partial<Record<string, unknown>>
  if (ISSUER_ERRORS.has(word)) {
    const page = word === 'access_denied' ? 'denied' : AWAY.has(word) ? 'unavailable' : 'refused'
    return { page, reason: String(word) }
  }
  if (code === 'OAUTH_TIMEOUT' || code === 'OAUTH_ABORT' || name === 'TimeoutError' || name === 'AbortError')
    return { page: 'unavailable', reason: 'timeout' }
  if (error instanceof TypeError && causeCode !== undefined)
    return { page: 'unavailable', reason: 'unreachable' }
  if (typeof status === 'number' && status >= 500) return { page: 'unavailable', reason: `status ${status}` }
  const known = [code, causeCode].find((one) => typeof one === 'string' && /^[A-Z][A-Z0-9_]{1,63}$/.test(one))
  return { page: 'refused', reason: String(known ?? 'unknown') }
}
