import { hash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { SessionPerson } from '../../../contracts/console.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import { seal, unseal } from '../../../contracts/sealing.ts'
import type { OidcSettings } from '../../../contracts/sign-in.ts'
import { audit } from '../../../gateway/admin/audit.ts'
import { observedRoute } from '../../../gateway/api/endpoint.ts'
import type { Exchange, WholeReply } from '../../../gateway/edge/exchange.ts'
import { readBody } from '../../../gateway/edge/read-body.ts'
import type { EdgeRoute } from '../../../gateway/edge/server.ts'
import type { ConsoleContext } from '../context.ts'
import { SignInThrottle, sessionCookie } from '../security.ts'
import { beginSession, personActor, personHolder, sessionTarget } from '../session.ts'
import { endedFlow, FLOW_MS, type Flow, flowCookie, flowOf, ownPath, surplusFlows } from './flow.ts'
import { CALLBACK_PATH, Issuer, issuerFailure, type Vouched } from './issuer.ts'
import { type LogoutOrder, looksLikeLogoutToken, ORDER_MS, readLogoutToken } from './logout-token.ts'
import { personOf, reachOf } from './roles.ts'

/** Where a browser begins to sign in. */
export const START_PATH = '/console/api/sign-in/oidc'
/** Where the issuer reports that a person has signed out there. */
const LOGOUT_PATH = `${START_PATH}/logout`
/** Longer than any order of that, and more sessions than one is about. */
const ORDER_BYTES_MAX = 16 * 1024
const SESSIONS_MAX = 10_000
/** How old the keys of the issuer may be that do not fit an order, which anyone may send. */
const KEYS_AGAIN_MS = 2_000
/** Longer than any code with its state. */
const QUERY_MAX = 8 * 1024
const ID_TOKEN: Parameters<typeof seal>[2] = { purpose: 'console-id-token', workspace: '' }

/** Why the sign-in page is shown again; it has a sentence for each. */
export type SignInFault =
  | ReturnType<typeof issuerFailure>['page']
  | 'expired'
  | 'no_role'
  | 'off'
  | 'too_many'

/** Single sign-on of this node, by whichever issuer the configuration names at the moment. */
export class SingleSignOn {
  readonly #context: ConsoleContext
  /** Counts codes that the issuer refused. One address must not lock out others that share its proxy. */
  readonly #codes: SignInThrottle
  /** Counts refused logout tokens. */
  readonly #orders: SignInThrottle
  #issuer: { readonly of: OidcSettings; readonly issuer: Issuer } | null = null

  constructor(context: ConsoleContext) {
    this.#context = context
    this.#codes = new SignInThrottle(context.clock, { sumsPeers: false })
    this.#orders = new SignInThrottle(context.clock)
  }

  get settings(): OidcSettings | null {
    return this.#context.catalog.good().signIn.oidc
  }

  /** Sends the browser to the issuer. */
  async start(exchange: Exchange): Promise<WholeReply> {
    const { settings } = this
    if (settings === null) return redirect(backWith('off'))
    const { secretKeys } = this.#context.deps
    try {
      const query = new URLSearchParams(exchange.query)
      const { checks, url } = await this.#issuerOf(settings).begin(query.get('again') === 'true')
      const { issuer, clientId } = settings
      const returnTo = ownPath(query.get('return_to'))
      const flow = { ...checks, issuer, clientId, returnTo, untilMs: this.#context.clock.wallNow() + FLOW_MS }
      const cookies = [flowCookie(flow, secretKeys, settings), ...surplusFlows(exchange, settings)]
      return redirect({ location: url, cookies })
    } catch (error) {
      return redirect(this.#failed(error))
    }
  }

  /**
   * Begins the session of whom the issuer sends back, and sends the browser on to the console. However it ends, the
   * flow is over: left to its time, each would go with every try after it.
   */
  async finish(exchange: Exchange): Promise<WholeReply> {
    const { settings } = this
    const state = new URLSearchParams(exchange.query).get('state') ?? ''
    const { location, cookies } =
      settings === null ? backWith('off') : await this.#land(exchange, state, settings)
    return redirect({ location, cookies: [...cookies, ...endedFlow(exchange, state, settings)] })
  }

  async #land(exchange: Exchange, state: string, settings: OidcSettings): Promise<Landing> {
    if (exchange.query.length > QUERY_MAX) return backWith('refused')
    const context = this.#context
    const { secretKeys } = context.deps
    const flow = flowOf(exchange, state, secretKeys, { settings, nowMs: context.clock.wallNow() })
    if (flow === null) return backWith('expired')
    if (this.#codes.waitMs(exchange) !== null) return backWith('too_many')
    let vouched: Vouched
    try {
      vouched = await this.#issuerOf(settings).redeem(exchange.query, flow)
    } catch (error) {
      // With a flow of one's own, codes could be made up for as long as one likes.
      this.#codes.note(exchange)
      return this.#failed(error)
    }
    try {
      return await this.#enter(vouched, flow, settings, exchange)
    } catch (error) {
      return this.#failed(error)
    }
  }

  async #enter(
    { claims, idToken }: Vouched,
    flow: Flow,
    settings: OidcSettings,
    exchange: Exchange,
  ): Promise<Landing> {
    const context = this.#context
    const { state, catalog, deps, admin } = context
    // An issuer should take each code once; here each sign-in ends once whatever it does.
    if (!(await state.sessions.claim(hash('sha256', flow.state), 2 * FLOW_MS))) return backWith('expired')
    const sealedIdToken = settings.issuerLogout ? seal(deps.secretKeys, idToken, ID_TOKEN) : null
    const person: SessionPerson = { ...personOf(claims, settings), sealedIdToken }
    // The newest workspaces may be another node's.
    await catalog.refresh()
    const reach = reachOf(person, settings.grants, (id) => catalog.current().apps.has(id))
    if (reach === null) {
      deps.log.warn({ reason: 'no role' }, 'sign-in by OpenID Connect refused')
      return backWith('no_role')
    }
    const beginner = { keySha256: null, person, holder: personHolder(person) }
    const { token, session } = await beginSession(beginner, settings.sessionMs, exchange, context)
    await audit(admin.state.catalog, personActor(person, reach), {
      action: 'session.begin',
      workspace: null,
      target: sessionTarget(session.id),
      detail: `as ${reach.role} of ${reach.role === 'operator' ? 'all workspaces' : reach.workspaces.join(', ')}`,
    })
    const encrypted = exchange.encrypted || settings.publicUrl.startsWith('https:')
    const seconds = Math.floor((session.expiresAtMs - session.beganAtMs) / 1000)
    const cookie = sessionCookie(token, seconds, { headers: exchange.headers, encrypted })
    return { location: flow.returnTo, cookies: [cookie] }
  }

  /**
   * Ends the sessions that the issuer wants ended. An order of the issuer is carried out however many were refused
   * that came from its address: anyone may send some.
   *
   * @throws GatewayError INVALID_REQUEST for anything but an order of the issuer, RATE_LIMITED for too many of these,
   *         DEPENDENCY_UNAVAILABLE
   */
  async obey(exchange: Exchange): Promise<WholeReply> {
    const { settings } = this
    const token = await logoutTokenIn(exchange)
    const order = settings && (await this.#orderIn(token, settings))
    if (settings === null || order === null) throw this.#refusedOrder(exchange)
    await this.#carryOut(order, settings)
    return { status: 200, body: '{}' }
  }

  #refusedOrder(exchange: Exchange): GatewayError {
    const retryAfterMs = this.#orders.waitMs(exchange)
    if (retryAfterMs !== null) return new GatewayError('RATE_LIMITED', undefined, { retryAfterMs })
    this.#orders.note(exchange)
    return new GatewayError('INVALID_REQUEST', 'the logout_token is not from the configured issuer', {
      param: 'logout_token',
    })
  }

  /** Ends the sessions that an order means, unless it was carried out before: a later session is not meant by it. */
  async #carryOut({ id, subject, issuerSession }: LogoutOrder, { issuer }: OidcSettings): Promise<void> {
    const { sessions } = this.#context.state
    const mark = hash('sha256', `logout ${id}`)
    if (await sessions.isClaimed(mark)) return
    const holder = subject === null ? null : personHolder({ issuer, subject })
    const found = await sessions.list(holder, SESSIONS_MAX)
    const meant = found.filter(({ person }) => {
      if (person === null || person.issuer !== issuer) return false
      return issuerSession === null || person.issuerSession === issuerSession
    })
    await Promise.all(meant.map((session) => sessions.end(session.id)))
    // Only now: where an end failed, the issuer sends the same order again, which has to count then.
    await sessions.claim(mark, 2 * ORDER_MS)
    this.#context.deps.log.info({ count: meant.length }, 'the issuer ended sessions of the console')
  }

  /** Null: it is none. The issuer is asked for its keys only where the token names it. */
  async #orderIn(token: string, settings: OidcSettings): Promise<LogoutOrder | null> {
    if (!looksLikeLogoutToken(token, settings.issuer)) return null
    const read = async (agedMs?: number) => {
      const { issuer, keys } = await this.#issuerOf(settings)
        .orders(agedMs)
        .catch((error: unknown) => {
          throw new GatewayError('DEPENDENCY_UNAVAILABLE', undefined, {
            cause: new Error(issuerFailure(error).reason),
          })
        })
      const { clientId } = settings
      return readLogoutToken(token, keys, { issuer, clientId, nowMs: this.#context.clock.wallNow() })
    }
    // It may be signed with a key that the issuer has published since.
    return (await read()) ?? read(KEYS_AGAIN_MS)
  }

  /** Where the browser is to go when a person has signed out here; null: nowhere. */
  async logoutUrl(person: SessionPerson): Promise<string | null> {
    const { settings } = this
    if (settings === null || !settings.issuerLogout || settings.issuer !== person.issuer) return null
    const { secretKeys } = this.#context.deps
    const idToken = person.sealedIdToken === null ? null : unseal(secretKeys, person.sealedIdToken, ID_TOKEN)
    return this.#issuerOf(settings).logoutUrl(idToken)
  }

  #issuerOf(settings: OidcSettings): Issuer {
    // Every change of the catalog makes new settings, mostly equal ones.
    if (!isDeepStrictEqual(this.#issuer?.of, settings))
      this.#issuer = { of: settings, issuer: new Issuer(settings, this.#context.clock) }
    return this.#issuer!.issuer
  }

  #failed(error: unknown): Landing {
    const away = error instanceof GatewayError && { page: 'unavailable' as const, reason: error.code }
    const { page, reason } = away || issuerFailure(error)
    this.#context.deps.log.warn({ reason }, 'sign-in by OpenID Connect failed')
    return backWith(page)
  }
}

/** The `logout_token` of a form. @throws GatewayError INVALID_REQUEST without one, REQUEST_TOO_LARGE */
async function logoutTokenIn(exchange: Exchange): Promise<string> {
  const chunks: Buffer[] = []
  const take = (view: Buffer) => void chunks.push(Buffer.from(view))
  await readBody(exchange, ORDER_BYTES_MAX, exchange.signal, { take })
  const token = new URLSearchParams(Buffer.concat(chunks).toString()).get('logout_token')
  if (token === null) throw new GatewayError('INVALID_REQUEST', undefined, { param: 'logout_token' })
  return token
}

/** The two visits of a browser that signs in at the OpenID provider, which answer with redirects alone, and logout. */
export function oidcEndpoints(context: ConsoleContext, singleSignOn: SingleSignOn): EdgeRoute[] {
  const route = (method: 'GET' | 'POST', path: string, answer: (exchange: Exchange) => Promise<WholeReply>) =>
    observedRoute(context.deps, { method, path }, (exchange, call) => {
      call.answer.headers['cache-control'] = 'no-store'
      return answer(exchange)
    })
  return [
    route('GET', START_PATH, (exchange) => singleSignOn.start(exchange)),
    route('GET', CALLBACK_PATH, (exchange) => singleSignOn.finish(exchange)),
    route('POST', LOGOUT_PATH, (exchange) => singleSignOn.obey(exchange)),
  ]
}

/** Where a browser goes next. */
interface Landing {
  readonly location: string
  /** Values of `set-cookie`. */
  readonly cookies: readonly string[]
}

function backWith(fault: SignInFault): Landing {
  return { location: `/console?sign_in=${fault}`, cookies: [] }
}

function redirect({ location, cookies }: Landing): WholeReply {
  return {
    status: 303,
    headers: {
      location,
      // The address that is left holds a code.
      'referrer-policy': 'no-referrer',
    },
    lines: cookies.map((cookie) => `\r\nset-cookie: ${cookie}`).join(''),
    body: '{}',
  }
}
