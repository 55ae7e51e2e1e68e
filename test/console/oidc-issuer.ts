import { createHmac, generateKeyPairSync, sign } from 'node:crypto'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Test } from 'tap'
import { serveHttp } from '../support/http-server.ts'

type Claims = Record<string, unknown>

/** The client that is registered at the issuer. */
export const CLIENT = { id: 'larkway', secret: 'secret-of-the-client' }

/** Changes of an ID token before it is sent. */
export interface Tampering {
  readonly claims?: Claims
  /** How it is signed; `own`: with the issuer's key; `foreign`: with another of the same name. */
  readonly by?: 'own' | 'foreign' | 'none' | 'HS256'
}

/** A real OpenID provider, whose people sign in without being asked. */
export interface TestIssuer {
  readonly url: string
  /** Claims of people by their subject. */
  readonly people: Record<string, Claims>
  /** Whoever comes next is this one. */
  person: string
  /** Changes ID tokens; null: they are as they should be. */
  tampering: Tampering | null
  /** It takes requests of these paths, and answers none. */
  hangs: RegExp | null
  /** Paths that were asked for, in order. */
  readonly asked: string[]
  /** ID tokens and codes that were given out. */
  readonly secrets: string[]
  /** From now on it signs with another key, and knows the one before no more. */
  rotate(): void
  /** A token that orders a logout, of the newest key. @param more claims; undefined takes one away */
  logoutToken(more: Claims, by?: Tampering['by']): string
  /** Registers where the gateway is reached. */
  register(publicUrl: string): void
}

interface Context {
  readonly path: string
  readonly oidc?: { readonly route?: string; readonly entities?: Record<string, unknown> }
  body: unknown
}

interface Provider {
  use(middleware: (context: Context, next: () => Promise<void>) => Promise<void>): void
  callback(): RequestListener
  interactionFinished(request: IncomingMessage, response: ServerResponse, result: object): Promise<void>
  readonly Grant: new (fields: object) => { addOIDCScope(scope: string): void; save(): Promise<string> }
}

// The package has no types of its own.
const { Provider: ProviderClass } = (await import('oidc-provider' as string)) as {
  Provider: new (issuer: string, configuration: object) => Provider
}

let keys = 0

function newKey() {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  keys += 1
  return { key: privateKey, kid: `key ${keys}` }
}

/**
 * Starts an issuer.
 *
 * @param host name by which it is reached: with `localhost` it is another site than a gateway at 127.0.0.1
 */
export async function startIssuer(
  t: Pick<Test, 'teardown'>,
  host: 'localhost' | '127.0.0.1' = 'localhost',
): Promise<TestIssuer> {
  let listener: RequestListener = (_request, response) => void response.writeHead(503).end()
  const origin = await serveHttp(t, (request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://issuer')
    issuer.asked.push(pathname)
    if (issuer.hangs?.test(pathname)) return
    listener(request, response)
  })
  const url = origin.replace('127.0.0.1', host)
  let publicUrl = 'http://127.0.0.1:1'
  let { key, kid } = newKey()
  const foreign = newKey().key

  const tampered = (token: string): string => {
    const { claims = {}, by = 'own' } = issuer.tampering ?? {}
    const payload = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Claims
    return signedToken({ ...payload, ...claims }, by)
  }

  const signedToken = (claims: Claims, by: NonNullable<Tampering['by']>): string => {
    const alg = by === 'own' || by === 'foreign' ? 'RS256' : by
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const signed = `${part({ alg, kid })}.${part(claims)}`
    return `${signed}.${signatureOf(signed)}`
    function signatureOf(text: string): string {
      if (by === 'none') return ''
      if (by === 'HS256') return createHmac('sha256', CLIENT.secret).update(text).digest('base64url')
      return sign('sha256', Buffer.from(text), by === 'own' ? key : foreign).toString('base64url')
    }
  }

  const build = () => {
    const provider = new ProviderClass(url, configuration())
    provider.use(async (context, next) => {
      await next()
      const body = context.body as { id_token?: string } | undefined
      if (!context.path.endsWith('/token') || typeof body?.id_token !== 'string') return
      if (issuer.tampering !== null) body.id_token = tampered(body.id_token)
      issuer.secrets.push(body.id_token)
    })
    const callback = provider.callback()
    listener = (request, response) => {
      if (!request.url?.startsWith('/interaction/')) return callback(request, response)
      void provider.interactionFinished(request, response, { login: { accountId: issuer.person } })
    }
  }

  function configuration() {
    return {
      clients: [
        {
          client_id: CLIENT.id,
          client_secret: CLIENT.secret,
          redirect_uris: [`${publicUrl}/console/api/sign-in/oidc/callback`],
          post_logout_redirect_uris: [`${publicUrl}/console`],
          backchannel_logout_uri: `${publicUrl}/console/api/sign-in/oidc/logout`,
          backchannel_logout_session_required: true,
          grant_types: ['authorization_code'],
          response_types: ['code'],
        },
      ],
      jwks: { keys: [{ ...key.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' }] },
      cookies: { keys: ['for signing cookies'] },
      scopes: ['openid', 'profile', 'email', 'groups'],
      claims: {
        openid: ['sub', 'sid'],
        profile: ['name', 'realm_access', 'https://example.com/groups'],
        email: ['email', 'email_verified'],
        groups: ['groups'],
      },
      conformIdTokenClaims: false,
      pkce: { required: () => true },
      features: {
        devInteractions: { enabled: false },
        rpInitiatedLogout: { enabled: true },
        backchannelLogout: { enabled: true },
      },
      // Its own refuses addresses of this machine.
      fetch: (at: string, { dispatcher: _, ...options }: Record<string, unknown>) => fetch(at, options),
      interactions: { url: (_: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
      findAccount: async (_: unknown, id: string) => {
        return { accountId: id, claims: async () => ({ sub: id, ...issuer.people[id] }) }
      },
      loadExistingGrant: async ({ oidc }: { oidc: GrantContext }) => {
        const grant = new oidc.provider.Grant({
          clientId: oidc.client.clientId,
          accountId: oidc.session.accountId,
        })
        grant.addOIDCScope('openid profile email groups')
        await grant.save()
        return grant
      },
    }
  }

  const issuer: TestIssuer = {
    url,
    people: {},
    person: 'nobody',
    tampering: null,
    hangs: null,
    asked: [],
    secrets: [],
    rotate() {
      ;({ key, kid } = newKey())
      build()
    },
    logoutToken(more, by = 'own') {
      const claims = {
        iss: url,
        aud: CLIENT.id,
        iat: Math.floor(Date.now() / 1000),
        jti: `order ${Math.random()}`,
        events: { 'http://schemas.openid.net/event/backchannel-logout': {} },
      }
      return signedToken({ ...claims, ...more }, by)
    },
    register(at) {
      publicUrl = at
      build()
    },
  }
  return issuer
}

interface GrantContext {
  readonly provider: Provider
  readonly client: { readonly clientId: string }
  readonly session: { readonly accountId: string }
}

/** A browser as far as cookies and redirects go. */
export class Wanderer {
  readonly #cookies = new Map<string, Map<string, string>>()

  /** The value of a cookie that a server has set. */
  cookie(url: string, name: string): string | undefined {
    return this.#cookies.get(new URL(url).host)?.get(name)
  }

  /** Sets a cookie that another browser got. */
  take(url: string, name: string, value: string): void {
    const { host } = new URL(url)
    const jar = this.#cookies.get(host) ?? new Map<string, string>()
    this.#cookies.set(host, jar.set(name, value))
  }

  /** Names of the cookies of a server. */
  names(url: string): readonly string[] {
    return [...(this.#cookies.get(new URL(url).host)?.keys() ?? [])]
  }

  /** Sends a form. */
  post(url: string, fields: Readonly<Record<string, string>>): Promise<Response> {
    return this.visit(url, {}, { method: 'POST', body: new URLSearchParams(fields) })
  }

  async visit(
    url: string,
    headers: Readonly<Record<string, string>> = {},
    more: RequestInit = {},
  ): Promise<Response> {
    const { host } = new URL(url)
    const cookie = [...(this.#cookies.get(host) ?? [])].map(([name, value]) => `${name}=${value}`).join('; ')
    const response = await fetch(url, { ...more, redirect: 'manual', headers: { ...headers, cookie } })
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      if (value === '' || /Max-Age=0/i.test(line)) this.#cookies.get(host)?.delete(name)
      else this.take(url, name, value)
    }
    return response
  }

  /** Follows redirects until an address holds `until`, which is not visited, or there is none any more. */
  async follow(url: string, until: string | null = null): Promise<string> {
    let at = url
    for (let step = 0; step < 12; step += 1) {
      if (until !== null && at.includes(until)) return at
      const response = await this.visit(at)
      const location = response.headers.get('location')
      await response.body?.cancel()
      if (location === null) return at
      at = new URL(location, at).href
    }
    throw new Error(`there is no end of redirects at ${at}`)
  }
}
