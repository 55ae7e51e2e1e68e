import type { Dice } from '../support/dice.ts'
import { ATTACKER, type Planted } from './tenancy-bench.ts'

/** One request, but for the session that it is sent with. */
export interface Attack {
  readonly method: string
  /** As it goes over the wire, from `/console/api` on. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Null: none. */
  readonly body: string | null
}

/** An attack at what is there, and the same at what is not: by the same letters, but for one of each name. */
export interface Twins {
  readonly endpoint: string
  readonly real: Attack
  readonly unknown: Attack
}

/** What is sent to an endpoint, by the names of a workspace that is not the sender's; empty: it takes no body. */
type Bodies = (names: Names) => readonly unknown[]

/** Names that an attacker knows: sometimes of the other workspace, sometimes the own ones. */
interface Names {
  readonly workspace: string
  readonly route: string
  readonly app: string
  readonly purpose: string
  readonly provider: string
  readonly key: string
  readonly job: string
  readonly request: string
}

const W = '/console/api/workspaces/:workspace'
const route = ({ provider }: Names) => ({ entries: [{ provider, model: 'm', capabilities: ['text'] }] })
const provider: Bodies = ({ workspace }) => [
  { kind: 'openai', credential: 'sk-mine' },
  { kind: 'openai', access: 'platform' },
  { kind: 'openai', workspace },
  { kind: 'openai-compatible', base_url: 'http://127.0.0.1:1/v1' },
]
const none: Bodies = () => []

/** What is sent to each endpoint of the console. That none is missing here is a test of its own. */
export const ATTACKS: Readonly<Record<string, Bodies>> = {
  'GET /console/api/session': none,
  'GET /console/api/workspaces': none,
  [`GET ${W}`]: none,
  [`PUT ${W}`]: () => [{ name: 'mine' }, { plan: 'planned' }, { budget_usd_per_month: 0 }],
  [`DELETE ${W}`]: none,
  [`POST ${W}/credits`]: () => [{ amount_usd: -5, grant_id: 'taken' }],
  [`PUT ${W}/content`]: () => [{ shown: true }, { shown: false }],
  [`PUT ${W}/purposes/:purpose`]: () => [{ description: 'mine', enabled: false }, {}],
  [`DELETE ${W}/purposes/:purpose`]: none,
  [`PUT ${W}/apps/:app`]: (names) => [
    { route: names.route },
    { route: 'acme-voice', capability_routes: { audio_input: names.route } },
    { route: 'acme-voice', purposes: { notes: names.route } },
    { route: 'acme-voice', purposes: { [names.purpose]: 'acme-voice' } },
  ],
  [`DELETE ${W}/apps/:app`]: none,
  [`GET ${W}/routes`]: none,
  [`GET ${W}/routes/:route`]: none,
  [`PUT ${W}/routes/:route`]: (names) => [
    { fields: route(names) },
    { fields: route(names), number: null },
    { fields: route(names), number: 1, force: true },
    { fields: { ...route(names), workspace: names.workspace }, force: true },
    { fields: { entries: [{ provider: 'acme-own', model: 'm', purposes: [names.purpose] }] }, force: true },
  ],
  [`DELETE ${W}/routes/:route`]: none,
  [`PUT ${W}/routes/:route/draft`]: (names) => [
    { fields: route(names), revision: null },
    { fields: { ...route(names), workspace: names.workspace }, revision: null },
    { fields: route(names), revision: 1 },
    {
      fields: { entries: [{ provider: 'acme-own', model: 'm', purposes: [names.purpose] }] },
      revision: null,
    },
  ],
  [`DELETE ${W}/routes/:route/draft`]: none,
  [`POST ${W}/routes/:route/publish`]: () => [{ revision: 1 }, { revision: 3 }],
  [`GET ${W}/routes/:route/versions`]: none,
  [`GET ${W}/routes/:route/shadow`]: none,
  [`GET ${W}/routes/:route/traffic`]: none,
  [`POST ${W}/routes/:route/impact`]: (names) => [
    {},
    { fields: route(names) },
    { fields: { ...route(names), workspace: names.workspace } },
    { fields: { entries: [{ provider: 'acme-own', model: 'm', purposes: [names.purpose] }] } },
  ],
  [`POST ${W}/routes/:route/rollback`]: () => [{ number: 1 }, { number: 2 }],
  [`POST ${W}/explain`]: (names) => [
    { app: names.app, endpoint: 'transcription' },
    { app: 'web', endpoint: 'transcription', sample: { purpose: names.purpose } },
    { route: names.route, endpoint: 'transcription' },
    { route: names.route, endpoint: 'transcription', fields: route(names) },
    {
      route: names.route,
      endpoint: 'transcription',
      fields: { entries: [{ provider: 'acme-own', model: 'm' }] },
    },
    { route: 'acme.own', endpoint: 'chat', fields: route(names) },
    { route: 'acme.own', endpoint: 'chat', fields: { ...route(names), workspace: names.workspace } },
    {
      app: names.app,
      route: names.route,
      endpoint: 'chat',
      fields: route({ ...names, provider: 'acme-own' }),
    },
  ],
  [`GET ${W}/models`]: none,
  [`GET ${W}/setup`]: none,
  [`GET ${W}/providers`]: none,
  [`GET ${W}/providers/:name`]: none,
  [`PUT ${W}/providers/:name`]: provider,
  [`DELETE ${W}/providers/:name`]: none,
  [`POST ${W}/providers/:name/check`]: none,
  'GET /console/api/providers': none,
  'GET /console/api/providers/:name': none,
  'PUT /console/api/providers/:name': provider,
  'DELETE /console/api/providers/:name': none,
  'POST /console/api/providers/:name/check': none,
  [`GET ${W}/keys`]: none,
  [`POST ${W}/keys`]: ({ app }) => [
    { name: 'mine', app },
    { name: 'mine', app, scopes: ['admin'] },
    { name: 'mine', app: 'web', scopes: ['operator'] },
  ],
  [`DELETE ${W}/keys/:id`]: none,
  [`PUT ${W}/keys/:id`]: () => [
    { name: 'mine' },
    { name: 'mine', scopes: ['admin'] },
    { name: 'mine', scopes: ['operator'], budget_usd_per_month: 1 },
  ],
  [`POST ${W}/keys/:id/rotation`]: () => [{ overlap_seconds: 0 }, { overlap_seconds: 60 }],
  [`POST ${W}/playground-key`]: ({ app }) => [{ app }],
  [`GET ${W}/audio-url-domains`]: none,
  [`PUT ${W}/audio-url-domains`]: () => [{ domains: [] }, { domains: ['mine.example.net'] }],
  [`GET ${W}/webhook`]: none,
  [`PUT ${W}/webhook`]: () => [{ url: 'https://mine.example.net/' }, { url: 'http://127.0.0.1:1/' }],
  [`DELETE ${W}/webhook`]: none,
  [`POST ${W}/webhook/test`]: none,
  [`GET ${W}/webhook/deliveries`]: none,
  [`POST ${W}/webhook/deliveries/:job/redeliver`]: none,
  [`GET ${W}/jobs`]: none,
  [`GET ${W}/jobs/:job`]: none,
  [`POST ${W}/jobs/:job/cancel`]: none,
  [`POST ${W}/jobs/:job/retry`]: none,
  [`GET ${W}/jobs/:job/result`]: none,
  [`GET ${W}/requests`]: none,
  [`GET ${W}/requests/:id`]: none,
  [`GET ${W}/apps`]: none,
  [`GET ${W}/names`]: none,
  'GET /console/api/log': none,
  'GET /console/api/log-rows': none,
  'GET /console/api/log/:record': none,
  'GET /console/api/live': none,
  [`POST ${W}/live/:session/end`]: none,
  'GET /console/api/endpoints': none,
  'GET /console/api/health': none,
  'GET /console/api/overview': none,
  'GET /console/api/usage': none,
  'GET /console/api/audit': none,
  'GET /console/api/books': none,
}

/** What signs in or out, and sessions: of no workspace, and the end of the attacker's session. */
export const NOT_ATTACKED = [
  'GET /console/api/sign-in',
  'GET /console/api/sign-in/oidc',
  'GET /console/api/sign-in/oidc/callback',
  'POST /console/api/sign-in/oidc/logout',
  'POST /console/api/session',
  'DELETE /console/api/session',
  'GET /console/api/sessions',
  'DELETE /console/api/sessions/:id',
]

/** What is made there has the name of the path, whatever another workspace calls so: both twins would make the same. */
const MAKES_ANY_NAME = /^PUT .*:(app|purpose)$/

const ANY: Names = {
  ...{ workspace: 'a', route: 'a', app: 'a', purpose: 'a' },
  ...{ provider: 'a', key: 'a', job: 'a', request: 'a' },
}

/** Each endpoint as often as there are things to send to it, in turns. */
export const TARGETS: readonly string[] = Object.entries(ATTACKS)
  .flatMap(([endpoint, bodies]) => [endpoint, ...bodies(ANY)].map((_, turn) => ({ endpoint, turn })))
  .sort((one, two) => one.turn - two.turn)
  .map(({ endpoint }) => endpoint)

/** These reach other hosts, or make something new each time, when they are of the own workspace. */
const FOREIGN_ONLY = /\/(check|test)$/

/** Ways to write a name in a path that somebody might take for the name. */
const SPELLINGS: readonly ((name: string) => string)[] = [
  (name) => `%${name.charCodeAt(0).toString(16)}${name.slice(1)}`,
  (name) => [...Buffer.from(name)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  (name) => `%25${name.charCodeAt(0).toString(16)}${name.slice(1)}`,
  (name) => name.toUpperCase(),
  (name) => name[0]!.toUpperCase() + name.slice(1),
  (name) => `${name}.`,
  (name) => `${name}%00`,
  (name) => `${name}%00.json`,
  (name) => `%20${name}`,
  (name) => `${name}%20`,
  (name) => `${name};x=1`,
  (name) => `./${name}`,
  (name) => `${ATTACKER}/../${name}`,
  (name) => `${ATTACKER}%2f..%2f${name}`,
  (name) => `..%2f${name}`,
  (name) => `${name}%2f`,
  (name) => `/${name}`,
  (name) => `${ATTACKER},${name}`,
  (name) => `${name}%c0%ae`,
  (name) => `%ef%bd%96${name.slice(1)}`,
  (name) => `${name}%e2%80%8b`,
  (name) => `${name}%0d%0ax:%20y`,
]

const PROTOTYPE_NAMES = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', '%5f_proto__']

const HOSTILE_BODIES = [
  '',
  '{',
  'null',
  '[]',
  '"text"',
  '{"__proto__":{"role":"operator"}}',
  '{"constructor":{"prototype":{"role":"operator"}}}',
  `${'['.repeat(20_000)}${']'.repeat(20_000)}`,
  `${'{"fields":'.repeat(5_000)}1${'}'.repeat(5_000)}`,
  `{"name":"${'a'.repeat(300_000)}"}`,
  '{"app":"web","app":"__proto__"}',
  '{"revision":1e999}',
  '{"name":"\\ud800\\u0000"}',
  '\u0000\u0001',
]

const EXTRA_FIELDS: readonly Readonly<Record<string, unknown>>[] = [
  { workspace: 'WORKSPACE' },
  { role: 'operator' },
  { scopes: ['operator'] },
  { access: 'platform' },
  { managed_by: 'console' },
]

const WRONG_VALUES: readonly unknown[] = [null, 7, true, [], {}, '', [['x']], { $ne: null }, '__proto__', -1]

/** Whether anybody believes a header that is not his to set. */
const HOSTILE_HEADERS: readonly ((names: Names) => Readonly<Record<string, string>>)[] = [
  () => ({ 'x-http-method-override': 'DELETE' }),
  ({ workspace }) => ({ 'x-original-url': `/console/api/workspaces/${workspace}` }),
  ({ workspace }) => ({ 'x-workspace': workspace, 'x-lk-workspace': workspace }),
  () => ({ 'x-forwarded-host': 'evil.example', 'x-forwarded-for': '127.0.0.1' }),
  () => ({ authorization: 'Bearer lk_live_nobody' }),
]

/** Names an attacker has made up for his own parts: two of each, so that one can be sent with each twin. */
const OWN = { route: 'acme.mine', app: 'mine', purpose: 'mine', provider: 'acme.mine' }

/**
 * Makes attacks of an admin of one workspace at others, each with its twin.
 *
 * @param number of the sender: so that two of them do not change the same parts
 */
export class AttackMaker {
  readonly #planted: Planted
  readonly #dice: Dice
  readonly #number: number
  readonly #aliases: Aliases

  constructor(planted: Planted, dice: Dice, number: number) {
    this.#planted = planted
    this.#dice = dice
    this.#number = number
    this.#aliases = aliasesOf(planted, number)
  }

  make(endpoint: string): Twins {
    const dice = this.#dice
    const [method = '', template = ''] = endpoint.split(' ')
    const bodies = ATTACKS[endpoint]
    if (bodies === undefined) throw new Error(`nothing is known of ${endpoint}`)
    const names = this.#names()
    const isAbroad = FOREIGN_ONLY.test(template) || dice.chance(0.5)
    const path = this.#path(endpoint, names, isAbroad) + this.#query(names)
    const attack: Attack = {
      method,
      path,
      headers: dice.chance(0.15) ? dice.one(HOSTILE_HEADERS)(names) : {},
      body: method === 'GET' ? null : this.#body(bodies(names), names),
    }
    return { endpoint, real: attack, unknown: this.#twin(attack) }
  }

  #names(): Names {
    const planted = this.#planted
    const dice = this.#dice
    return {
      workspace: dice.one(planted.workspaces),
      route: dice.one(planted.routes),
      app: dice.one(planted.apps),
      purpose: dice.one(planted.purposes),
      provider: dice.one(planted.providers),
      key: dice.one(planted.keys),
      job: dice.one(planted.jobs),
      request: dice.one(planted.requests),
    }
  }

  #path(endpoint: string, names: Names, isAbroad: boolean): string {
    const [, template = ''] = endpoint.split(' ')
    return template.replaceAll(/:(\w+)/g, (_, param: string) => {
      if (param === 'workspace') return isAbroad ? this.#spelled(names.workspace) : ATTACKER
      if (!isAbroad && MAKES_ANY_NAME.test(endpoint)) return `${OWN.app}${this.#number}a`
      if (this.#dice.chance(0.1)) return this.#dice.one(PROTOTYPE_NAMES)
      const name = this.#nameFor(param, template, names)
      return this.#dice.chance(0.2) ? this.#spelled(name) : name
    })
  }

  #nameFor(param: string, template: string, names: Names): string {
    const dice = this.#dice
    const isOwn = dice.chance(0.25)
    const own = (text: string) => `${text}${this.#number}a`
    if (param === 'route') return isOwn ? own(OWN.route) : names.route
    if (param === 'app') return isOwn ? own(OWN.app) : names.app
    if (param === 'purpose') return isOwn ? own(OWN.purpose) : names.purpose
    if (param === 'name') return isOwn ? own(OWN.provider) : names.provider
    // No live session is open: any name will do.
    if (param === 'job' || param === 'session') return names.job
    if (param === 'record') return names.request
    if (param === 'id') return template.includes('/requests/') ? names.request : names.key
    throw new Error(`nothing is known of the parameter ${param}`)
  }

  #spelled(name: string): string {
    return this.#dice.chance(0.4) ? this.#dice.one(SPELLINGS)(name) : name
  }

  #query({ workspace, app, key, job }: Names): string {
    if (this.#dice.chance(0.6)) return ''
    return this.#dice.one([
      `?workspace=${workspace}`,
      `?workspace=${this.#dice.one(SPELLINGS)(workspace)}`,
      `?workspace=${ATTACKER}&workspace=${workspace}`,
      `?workspace[]=${workspace}`,
      `?workspace=`,
      `?since=0&workspace=${workspace}`,
      `?below=3`,
      `?app=${app}`,
      `?key_id=${key}`,
      `?job_id=${job}`,
      '?limit=200',
      '?__proto__=x',
      '?%',
    ])
  }

  #body(bodies: readonly unknown[], names: Names): string | null {
    const dice = this.#dice
    if (bodies.length === 0) return dice.chance(0.8) ? null : dice.one(HOSTILE_BODIES)
    if (dice.chance(0.15)) return dice.one(HOSTILE_BODIES)
    const body = dice.one(bodies) as Readonly<Record<string, unknown>>
    if (dice.chance(0.7)) return JSON.stringify(body)
    if (dice.chance(0.5)) {
      const extra = JSON.stringify({ ...body, ...dice.one(EXTRA_FIELDS) })
      return extra.replace('WORKSPACE', names.workspace)
    }
    const wrong = dice.one(Object.keys(body))
    return JSON.stringify({ ...body, [wrong]: dice.one(WRONG_VALUES) })
  }

  /** With names that nothing has: of parts alone as often as of their workspaces, too. */
  #twin(attack: Attack): Attack {
    const other = this.#dice.chance(0.5) ? this.#aliases.nearest : this.#aliases.all
    const headers = Object.fromEntries(
      Object.entries(attack.headers).map(([name, value]) => [name, other(value)]),
    )
    return { ...attack, path: other(attack.path), headers, body: attack.body && other(attack.body) }
  }

  /** A text as it would be of the twin, whichever of the two it is of. */
  alike(text: string): string {
    return this.#aliases.all(text)
  }
}

interface Aliases {
  /** Changes the last letter of every name, e.g. of a route. */
  readonly nearest: (text: string) => string
  /** The same, and the workspaces that names of routes begin with. */
  readonly all: (text: string) => string
}

/** Longer than any text with a name in it. */
const LONG_TEXT = 10_000

function aliasesOf(planted: Planted, number: number): Aliases {
  const own = Object.values(OWN).map((text) => `${text}${number}a`)
  const nearest = replacing([...new Set([...Object.values(planted).flat(), ...own])])
  const workspaces = replacing(planted.workspaces)
  return { nearest, all: (text) => workspaces(nearest(text)) }
}

/** Replaces names, in whichever spelling, by their twins. */
function replacing(names: readonly string[]): (text: string) => string {
  const twins = new Map<string, string>()
  for (const name of names) {
    const twin = twinOf(name)
    twins.set(name, twin)
    for (const spell of SPELLINGS) {
      twins.set(spell(name), spell(twin))
      twins.set(decoded(spell(name)), decoded(spell(twin)))
    }
  }
  const longestFirst = [...twins.keys()].sort((one, two) => two.length - one.length)
  const pattern = new RegExp(
    longestFirst.map((text) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|'),
    'g',
  )
  return (text) =>
    text.length > LONG_TEXT ? text : text.replace(pattern, (found) => twins.get(found) ?? found)
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Letters that follow one another in ids, too. */
const LETTERS = '0123456789abcdefghjkmnpqrstvwxyz'

/** The name with its last letter changed: it has the same form, and nothing has it. */
function twinOf(name: string): string {
  const at = LETTERS.indexOf(name.at(-1) ?? '')
  const letter = at < 0 ? 'z' : LETTERS[(at + 1) % LETTERS.length]
  return name.slice(0, -1) + letter
}
