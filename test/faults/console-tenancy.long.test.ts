import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { Pool } from 'undici'
import { STORES, visit } from '../support/console-bench.ts'
import { consoleEndpoints } from '../support/console-endpoints.ts'
import { requestRecord } from '../support/console-record.ts'
import { openSession, type SignedIn } from '../support/console-session.ts'
import { Dice } from '../support/dice.ts'
import { startLarkway } from '../support/larkway.ts'
import { ATTACKS, type Attack, AttackMaker, NOT_ATTACKED, TARGETS, type Twins } from './tenancy-attacks.ts'
import type { TenancyBench } from './tenancy-bench.ts'
import { attackerAt, HIDDEN, NEIGHBOUR, sightOf, startTenancyBench, VICTIM } from './tenancy-bench.ts'

const LONG = process.env.LARKWAY_TEST_LONG === '1'
/** Each is made twice: at what is there, and at what is not. */
const TRIES = LONG ? 12_000 : 800
const SENDERS = 4
const SEED = Number(process.env.LARKWAY_TEST_SEED ?? 20_261_120)

t.test('every endpoint of the console is attacked', (t) => {
  const known = [...Object.keys(ATTACKS), ...NOT_ATTACKED]
  t.same(
    consoleEndpoints()
      .map(({ method, path }) => `${method} ${path}`)
      .sort(),
    known.sort(),
  )
  t.ok(known.length > 45, `${known.length} endpoints`)
  t.end()
})

interface Heard {
  readonly status: number
  readonly text: string
  readonly headers: Readonly<Record<string, string>>
}

interface Session extends SignedIn {
  readonly workspace: string
}

/** What differs from answer to answer to the very same request. */
const VARYING: readonly (readonly [RegExp, string])[] = [
  [/\breq_[0-9a-hjkmnp-tv-z]{26}\b/g, 'REQUEST'],
  [/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME'],
  // Of a body that is too long, as much as has come by then.
  [/"received_bytes":\d+/g, 'RECEIVED'],
]
const OWN_HEADERS = new Set(['date', 'x-lk-request-id'])

/** A body's true length says no more than the body, and varies with what varies in it. */
function isLengthOf(text: string, name: string, value: string): boolean {
  return name === 'content-length' && value === String(Buffer.byteLength(text))
}

function plain(text: string): string {
  return VARYING.reduce((said, [pattern, word]) => said.replaceAll(pattern, word), text)
}

class Sender {
  readonly #pool: Pool
  readonly #sessions: readonly Session[]
  #next = 0

  constructor(pool: Pool, sessions: readonly Session[]) {
    this.#pool = pool
    this.#sessions = sessions
  }

  /** Goes on as an admin of another workspace, so that none of them is slowed down. */
  turn(): void {
    this.#next = (this.#next + 1) % this.#sessions.length
  }

  /** @param isForged without the token of the session */
  async send({ method, path, headers, body }: Attack, isForged: boolean): Promise<Heard> {
    const { cookie, csrf, workspace } = this.#sessions[this.#next]!
    const own = (text: string) => text.replaceAll(/acme(?!\.[xy])/g, workspace)
    const change = method === 'GET' ? {} : { 'content-type': 'application/json' }
    const token = method === 'GET' || isForged ? {} : { 'x-lk-csrf': csrf }
    const answer = await this.#pool.request({
      path: own(path),
      method: method as 'GET',
      headers: { cookie, ...change, ...token, ...headers },
      body: body && own(body),
    })
    const text = await answer.body.text()
    const told = Object.entries(answer.headers).map(([name, value]) => [name, String(value)] as const)
    const known = told.filter(([name, value]) => !OWN_HEADERS.has(name) && !isLengthOf(text, name, value))
    return { status: answer.statusCode, headers: Object.fromEntries(known), text }
  }
}

async function signIn({ larkway }: TenancyBench, key: string, index: number): Promise<Session> {
  return { ...(await openSession(larkway.url, key)), workspace: attackerAt(index) }
}

/** What lists the own workspace, which all senders change meanwhile, or goes by the clock. */
const MOVING = /\/(overview|audit|routes|webhook|audio-url-domains|workspaces|:workspace)$/

/** Of what was done in the own workspace, only what stays the same from one answer to the next. */
function isComparable({ endpoint }: Twins, { status }: Heard): boolean {
  if (status >= 400) return true
  return (endpoint.startsWith('GET ') && !MOVING.test(endpoint)) || endpoint.endsWith('/explain')
}

/** Null: the two say the same. */
function difference(twins: Twins, maker: AttackMaker, real: Heard, unknown: Heard): string | null {
  const said = ({ status, headers, text }: Heard) =>
    plain(maker.alike(`${status} ${JSON.stringify(headers)} ${text}`))
  if (isComparable(twins, real) ? said(real) === said(unknown) : real.status === unknown.status) return null
  const { method, path, body } = twins.real
  return `${method} ${path} ${String(body).slice(0, 300)}\n  there:   ${said(real)}\n  unknown: ${said(unknown)}`
}

interface Tally {
  readonly statuses: Map<number, number>
  readonly differences: string[]
  readonly leaks: string[]
}

/** Sends attacks one after the other, each endpoint in its turn. */
async function attack(sender: Sender, maker: AttackMaker, dice: Dice, tries: number, tally: Tally) {
  const send = async (one: Attack, isForged: boolean) => {
    const heard = await sender.send(one, isForged)
    tally.statuses.set(heard.status, (tally.statuses.get(heard.status) ?? 0) + 1)
    if (`${heard.text}${JSON.stringify(heard.headers)}`.toLowerCase().includes(HIDDEN))
      tally.leaks.push(
        `${one.method} ${one.path} ${String(one.body).slice(0, 300)}\n  ${heard.text.slice(0, 600)}`,
      )
    return heard
  }
  for (let round = 0; round < tries; round++) {
    const twins = maker.make(TARGETS[round % TARGETS.length]!)
    const isForged = dice.chance(0.05)
    // The sender changes the own workspace meanwhile, as may the others: what is different once is tried again.
    let found: string | null = ''
    sender.turn()
    for (let again = 0; found !== null && again < 3; again++)
      found = difference(twins, maker, await send(twins.real, isForged), await send(twins.unknown, isForged))
    if (found !== null) tally.differences.push(found)
  }
}

/** What only operators may do, tried by an admin in the own workspace; every one of them has to fail. */
function escalations(victim: string): readonly (readonly [string, string, unknown, number])[] {
  const W = 'workspaces/acme'
  const key = { name: 'mine', app: 'web' }
  const own = { kind: 'openai', credential: 'sk-mine' }
  const app = { route: 'acme-voice' }
  const keyed = (scopes: readonly string[]) => ['POST', `${W}/keys`, { ...key, scopes }, 403] as const
  const provided = (body: object, status: number) => ['PUT', `${W}/providers/acme.up`, body, status] as const
  const credentials = [
    `\${HOME}`,
    `\${LARKWAY_SECRET_KEY}`,
    'file:/etc/passwd',
    'file:larkway.yaml',
    ` \${HOME}`,
  ]
  const sealed = 'sealed:sealed1.AAAA.AAAA'
  const platform = {
    entries: [{ provider: 'house', model: 'm', price: { per_hour_usd: 0 }, capabilities: ['text'] }],
  }
  const names = (own: string, theirs: string) => [
    theirs,
    `${own}.x.y`,
    `${own}.`,
    own,
    `${own}..x`,
    `.${own}.x`,
    `${own.toUpperCase()}.x`,
    `${own}.x%00`,
    `${own}.x%20`,
    `${own}.%e2%80%8bx`,
    `${own}%ef%bc%8ex`,
    `${own}.%d1%85`,
    `${own}.x%2fy`,
    `${own}.%2e%2e`,
    `${own}.${'a'.repeat(64)}`,
    '__proto__',
    'house',
    'mine',
  ]
  const routes = names('acme', `${victim}.mine`).flatMap((name) => [
    ['PUT', `${W}/routes/${name}/draft`, { fields: platform, revision: null }, 400] as const,
    ['POST', `${W}/routes/${name}/publish`, { revision: 1 }, 404] as const,
    ['POST', `${W}/routes/${name}/rollback`, { number: 1 }, 404] as const,
  ])
  const providers = names('acme', `${victim}.mine`).map(
    (name) => ['PUT', `${W}/providers/${name}`, own, 400] as const,
  )
  const parts = ['.x', '-x', 'a%2fb', 'a%00', '%e2%80%8ba', 'a b', '__proto__', 'a'.repeat(65)].flatMap(
    (name) => [
      ['PUT', `${W}/apps/${encodeURI(decodeURI(name))}`, app, 400] as const,
      ['PUT', `${W}/purposes/${encodeURI(decodeURI(name))}`, {}, 400] as const,
    ],
  )
  return [
    keyed(['operator']),
    keyed(['admin', 'operator']),
    keyed(['operator', 'operator']),
    ['POST', `${W}/keys`, { ...key, scopes: ['Operator'] }, 400],
    ['POST', `${W}/keys`, { ...key, scopes: ['operator '] }, 400],
    ['POST', `${W}/keys`, { ...key, scopes: 'operator' }, 400],
    ['POST', `${W}/keys`, { ...key, scope: 'operator' }, 400],
    ['POST', `${W}/keys`, { ...key, workspace: victim }, 400],
    ['POST', `${W}/keys`, { ...key, app: `${victim}/vapp` }, 400],
    ['POST', `${W}/keys`, { ...key, app: `../${victim}/apps/vapp` }, 400],
    ['POST', `${W}/playground-key`, { app: 'web', scopes: ['operator'] }, 400],
    provided({ ...own, base_url: 'http://127.0.0.1:1/v1' }, 403),
    provided({ ...own, base_url: '' }, 403),
    provided({ ...own, access: 'platform' }, 400),
    provided({ ...own, workspace: victim }, 400),
    provided({ ...own, api_key: `\${HOME}` }, 400),
    provided({ kind: 'openai-compatible', credential: 'sk-mine' }, 400),
    provided({ ...own, limits: { voice_pattern: '(a+)+$' } }, 400),
    ...[...credentials, sealed].map((credential) => provided({ ...own, credential }, 400)),
    ['PUT', W, { name: 'mine' }, 403],
    ['PUT', W, { plan: 'planned' }, 403],
    ['PUT', W, { budget_usd_per_month: 1_000_000 }, 403],
    ['PUT', W, { trial: { allowance_usd: 1000, expires_at: '2099-01-01T00:00:00Z' } }, 403],
    ['DELETE', W, undefined, 403],
    ['POST', `${W}/credits`, { amount_usd: 1000, grant_id: 'mine' }, 403],
    ['GET', 'providers', undefined, 403],
    ['PUT', 'providers/mine', own, 403],
    ['PUT', 'providers/house', own, 403],
    ['DELETE', 'providers/house', undefined, 403],
    ['POST', 'providers/house/check', undefined, 403],
    ['PUT', `workspaces/${victim}.new`, { name: 'mine' }, 404],
    ['PUT', 'workspaces/mine', { name: 'mine' }, 404],
    ['PUT', `${W}/routes/acme.up/draft`, { fields: { ...platform, workspace: victim }, revision: null }, 400],
    ['PUT', `${W}/apps/up`, { route: 'ops-voice' }, 400],
    ['PUT', `${W}/apps/web`, app, 400],
    ['PUT', `${W}/apps/up`, { ...app, plan: 'planned' }, 400],
    ...routes,
    ...providers,
    ...parts,
  ]
}

t.test('an admin does not become more than that', async (t) => {
  const bench = await startTenancyBench(t, 'embedded')
  const admin = await visit(bench.larkway.url, bench.attackers[0]!)
  const W = 'workspaces/acme'
  const own = async () =>
    [await bench.operator.get(W), await bench.operator.get('providers')].map(({ text }) => text)
  const before = [await own(), await sightOf(bench, VICTIM, bench.victim)]
  const tries = escalations(VICTIM)
  for (const [method, path, body, status] of tries) {
    const told = await admin.ask(method, path, body)
    t.equal(told.status, status, `${method} ${path} ${JSON.stringify(body)}`) || t.comment(told.text)
    t.notMatch(told.text, /root:|sealed1/, 'nothing is read for it')
  }
  t.comment(`${tries.length} tries`)

  const priced = `${W}/routes/acme.priced`
  const entry = { provider: 'house', model: 'm', capabilities: ['audio_input'], price: { per_hour_usd: 0 } }
  const draft = await admin.ask('PUT', `${priced}/draft`, { fields: { entries: [entry] }, revision: null })
  const { revision } = draft.body.draft as { revision: number }
  t.equal(
    (await admin.ask('POST', `${priced}/publish`, { revision })).status,
    400,
    'nor sets a price of the platform',
  )
  t.equal((await admin.ask('DELETE', `${priced}/draft`)).status, 200)
  t.same([await own(), await sightOf(bench, VICTIM, bench.victim)], before, 'all is as it was')
  t.same((await admin.get(`${W}/keys`)).text.includes('operator'), false)
})

t.test('what a route of another workspace would be is not explained, nor that it is there', async (t) => {
  const bench = await startTenancyBench(t, 'embedded')
  const admin = await visit(bench.larkway.url, bench.attackers[0]!)
  const own = { entries: [{ provider: 'acme-own', model: 'm', capabilities: ['audio_input'] }] }
  const about = [{}, { fields: own }, { fields: { ...own, published: false } }, { fields: {} }]
  const told = async (route: string, more: object) => {
    const body = { route, endpoint: 'transcription', ...more }
    const { status, text } = await admin.ask('POST', 'workspaces/acme/explain', body)
    return plain(`${status} ${text.replaceAll(route, 'ROUTE')}`)
  }
  for (const route of bench.planted.routes)
    for (const more of about)
      for (const app of [{}, { app: 'web' }]) {
        const unknown = await told(route.replace(/.$/, 'z'), { ...more, ...app })
        t.equal(
          await told(route, { ...more, ...app }),
          unknown,
          `${route} ${JSON.stringify({ ...more, ...app })}`,
        )
      }
  const mine = await told('acme.mine', { fields: own })
  t.match(mine, /^200 .*"rank":1/, 'an own one that is not there yet is explained')
})

/** A configuration as the file of a node has it. */
type Config = Readonly<Record<'providers' | 'routes', Readonly<Record<string, unknown>>>>

t.test('what a restart leaves out does not say whose a name is now', async (t) => {
  const bench = await startTenancyBench(t, 'embedded')
  const { dataFolder } = bench.larkway
  const first = JSON.parse(await readFile(join(dataFolder, 'larkway.yaml'), 'utf8')) as Config
  const spare = first.providers.house
  const second = first.routes['acme-voice']
  const config = (provider: object, route: object) => ({
    ...first,
    providers: { ...first.providers, ...provider },
    routes: { ...first.routes, ...route },
  })
  let running = bench.larkway
  const start = async (changed: object) => {
    await running.signal('SIGTERM')
    running = await startLarkway(t, { dataFolder, config: changed, env: { LARKWAY_JOBS: '0' } })
    return visit(running.url, bench.attackers[0]!)
  }
  const W = 'workspaces/acme'
  const admin = await start(config({ spare }, { 'acme-second': second }))
  const fields = { entries: [{ provider: 'spare', model: 'm' }] }
  const draft = await admin.ask('PUT', `${W}/routes/acme.later/draft`, { fields, revision: null })
  const { revision } = draft.body.draft as { revision: number }
  t.equal((await admin.ask('POST', `${W}/routes/acme.later/publish`, { revision })).status, 200)
  t.equal((await admin.ask('PUT', `${W}/apps/later`, { route: 'acme-second' })).status, 200)

  const seenWith = async (changed: object) => {
    const visitor = await start(changed)
    const paths = [W, `${W}/routes`, `${W}/routes/acme.later`, `${W}/providers`, `${W}/models`]
    return Promise.all(paths.map(async (path) => (await visitor.get(path)).text))
  }
  const gone = await seenWith(first)
  t.match(gone[0], /there is no route/)
  t.match(gone[1], /there is no provider/)
  const theirs = { spare: { ...(spare as object), access: 'byok', workspace: VICTIM } }
  const taken = await seenWith(config(theirs, { 'acme-second': first.routes['fileroute-v'] }))
  t.same(taken, gone)
})

for (const [store, options] of STORES)
  t.test(`${store}: an id that two workspaces use is each one's own`, options, async (t) => {
    const bench = await startTenancyBench(t, store)
    const admin = await visit(bench.larkway.url, bench.attackers[0]!)
    const atMs = Date.now()
    const record = (workspace: string, path: string, laterMs: number) =>
      requestRecord(workspace, { id: 'chosen-by-callers', path, atMs: atMs + laterMs })
    await bench.state.console.requests.add('mine', [record('acme', '/v1/mine', 0)])
    await bench.state.console.requests.add('theirs', [record(VICTIM, '/v1/theirs', 1)])
    await bench.state.console.requests.add('next', [record(NEIGHBOUR, '/v1/next', 2)])
    const pathIn = async (workspace: string, visitor: typeof admin) =>
      (await visitor.get(`workspaces/${workspace}/requests/chosen-by-callers`)).body.path
    t.equal(await pathIn('acme', admin), '/v1/mine')
    t.equal(await pathIn(VICTIM, bench.victim), '/v1/theirs')
    t.equal(await pathIn(NEIGHBOUR, bench.operator), '/v1/next')
    t.notOk((await admin.get('workspaces/acme/requests?limit=200')).text.includes('/v1/theirs'))
  })

for (const [store, options] of STORES) {
  if (store === 'redis' && !LONG) continue
  t.test(`${store}: an admin neither sees nor changes another workspace`, options, async (t) => {
    const bench = await startTenancyBench(t, store)
    const pool = new Pool(bench.larkway.url, { connections: SENDERS })
    t.teardown(() => pool.destroy())
    const sessions = await Promise.all(bench.attackers.map((key, index) => signIn(bench, key, index)))
    const before = [
      await sightOf(bench, VICTIM, bench.victim),
      await sightOf(bench, NEIGHBOUR, bench.neighbour),
    ]
    t.ok(JSON.stringify(before).includes(HIDDEN), 'what is hidden is there to be found')

    const tally: Tally = { statuses: new Map(), differences: [], leaks: [] }
    const share = sessions.length / SENDERS
    const startedAt = Date.now()
    await Promise.all(
      Array.from({ length: SENDERS }, (_, number) => {
        const dice = new Dice(SEED + number)
        const maker = new AttackMaker(bench.planted, dice, number)
        const sender = new Sender(pool, sessions.slice(number * share, (number + 1) * share))
        return attack(sender, maker, dice, TRIES / SENDERS, tally)
      }),
    )
    const seconds = (Date.now() - startedAt) / 1000
    const statuses = Object.fromEntries([...tally.statuses].sort())
    t.comment(`seed ${SEED}: ${TRIES} tries and as many twins in ${seconds} s: ${JSON.stringify(statuses)}`)
    t.same(tally.differences.slice(0, 10), [], `${tally.differences.length} answers tell what is there`)
    t.same(tally.leaks.slice(0, 10), [], `${tally.leaks.length} answers hold what is hidden`)
    t.notOk(tally.statuses.has(429), 'no try was spent on the limit of the rate')
    t.same(
      [...tally.statuses.keys()].filter((status) => status >= 500),
      [],
      'nothing broke',
    )
    t.ok((tally.statuses.get(404) ?? 0) > TRIES / 3, 'most of it is not there')
    t.ok((tally.statuses.get(200) ?? 0) > TRIES / 50, 'and some of it is the own workspace')

    const after = [
      await sightOf(bench, VICTIM, bench.victim),
      await sightOf(bench, NEIGHBOUR, bench.neighbour),
    ]
    t.same(after, before, 'all is as it was')
  })
}
