import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { newId } from '../../../src/contracts/ids.ts'
import type { AccountView } from '../../../src/contracts/ledger.ts'
import { BooksWatch } from '../../../src/gateway/admin/books-watch.ts'
import { hashKey, makeKey } from '../../../src/gateway/catalog/key.ts'
import { openEmbeddedState } from '../../../src/gateway/state/embedded/state.ts'
import { runInProcess } from '../../support/cli.ts'
import { scrape } from '../../support/exposition.ts'
import { startGateway } from '../../support/gateway.ts'
import { waitUntil } from '../../support/wait-until.ts'

interface Book {
  readonly workspace?: string
  readonly booked_usd: number
  readonly recorded_usd: number
  readonly difference_usd: number
  readonly reserved_usd: number
}

interface Books {
  readonly complete_until: string
  readonly data: readonly Book[]
  readonly total: Book
}

const keys = { acme: makeKey(), free: makeKey(), ops: makeKey() }
const price = {
  per_hour_usd: 36,
  per_1k_characters_usd: 1,
  per_1m_input_tokens_usd: 10,
  per_1m_output_tokens_usd: 10,
  per_image_usd: 0.04,
  per_video_second_usd: 0.1,
}
const workspaceOf = (name: keyof typeof keys, scopes: readonly string[]) => ({
  apps: { web: { route: name } },
  keys: [{ id: `key_${name}`, app: 'web', sha256: hashKey(keys[name]), scopes }],
})
const CONFIG = {
  metrics: { tenant_labels: ['workspace'] },
  providers: {
    house: { kind: 'sandbox', access: 'platform' },
    own: { kind: 'sandbox', access: 'byok', workspace: 'free', api_key: `\${OWN_KEY}` },
  },
  routes: {
    acme: { workspace: 'acme', entries: [{ provider: 'house', model: 'morse-1', price }] },
    free: { workspace: 'free', entries: [{ provider: 'own', model: 'morse-1', price }] },
    ops: { workspace: 'ops', entries: [{ provider: 'house', model: 'morse-1', price }] },
  },
  workspaces: {
    acme: { credits_usd: 5, grant_id: 'first', ...workspaceOf('acme', ['inference']) },
    // Without credits or a budget: counted behind its calls, in batches.
    free: workspaceOf('free', ['inference']),
    ops: workspaceOf('ops', ['inference', 'operator']),
  },
}

t.test('what accounts are charged is what records cost, and a difference is told', async (t) => {
  const gateway = await startGateway(t, {
    config: CONFIG,
    env: { LARKWAY_USAGE: 'true', LARKWAY_METRICS_PORT: '0', OWN_KEY: 'sk-own' },
    timing: { usage: { segmentMs: 100 } },
  })
  const ask = (name: keyof typeof keys, path: string, body?: object) =>
    fetch(gateway.url + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${keys[name]}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  const call = async (name: keyof typeof keys, path: string, body: object) => {
    const response = await ask(name, path, body)
    await response.arrayBuffer()
    t.equal(response.status, 200, `${name}: ${path}`)
  }
  const booksNow = async () => (await (await ask('ops', '/v1/admin/books')).json()) as Books
  for (const name of ['acme', 'free'] as const) {
    await call(name, '/v1/speech', { input: 'hello' })
    await call(name, '/v1/chat', { messages: [{ role: 'user', content: 'hello' }] })
  }
  await call('acme', '/v1/chat', { messages: [{ role: 'user', content: 'again' }], stream: true })
  const endedMs = Date.now()
  let books = await booksNow()
  const isWhole = async () => {
    books = await booksNow()
    const isCharged = books.data.every(({ workspace, booked_usd }) => workspace === 'ops' || booked_usd > 0)
    return Date.parse(books.complete_until) > endedMs && books.total.reserved_usd === 0 && isCharged
  }
  t.ok(await waitUntil(isWhole, 30_000), JSON.stringify(books))
  const of = (workspace: string) => books.data.find((one) => one.workspace === workspace)
  t.ok((of('acme')?.booked_usd ?? 0) > 0.005)
  t.ok((of('free')?.booked_usd ?? 0) > 0.005)
  for (const book of [...books.data, books.total])
    t.same([book.difference_usd, book.recorded_usd], [0, book.booked_usd], book.workspace ?? 'total')

  const metricsPort = Number(gateway.log.find(({ msg }) => msg === 'listening')?.metrics_port)
  const name = 'larkway_books_difference_usd'
  t.ok(await waitUntil(async () => (await scrape(metricsPort)).types.has(name), 30_000))
  const { value } = await scrape(metricsPort)
  for (const side of ['unrecorded', 'uncharged']) {
    t.equal(value(name, { side }), 0)
    for (const workspace of ['acme', 'free', 'ops'])
      t.equal(value('larkway_tenant_books_difference_usd', { workspace, side }), 0)
  }

  const state = await openEmbeddedState({
    file: join(gateway.dataFolder, 'state.sqlite'),
    log: pino({ level: 'silent' }),
  })
  await state.accounts.addUsage({
    token: newId('call'),
    workspace: 'acme',
    spentMicros: { key_acme: 12_345 },
  })
  await state.close()
  books = await booksNow()
  t.equal(of('acme')?.difference_usd, 0.012345)
  t.equal(of('free')?.difference_usd, 0)
  t.equal(books.total.difference_usd, 0.012345)
  const env = { LARKWAY_DATA: gateway.dataFolder, LARKWAY_CONFIG: join(gateway.dataFolder, 'larkway.yaml') }
  const shown = await runInProcess(['credits', 'show', '--workspace', 'acme'], {
    cwd: gateway.dataFolder,
    env,
  })
  t.match(shown, { code: 0, errors: '', output: /\ndifference +0\.012345 USD/ })
})

/** A watch over one workspace, in a time of its own. */
function watched() {
  const now = { ms: Date.UTC(2026, 10, 25, 12), completeMs: 0, booked: 100, recorded: 100, isAway: false }
  const view = () => ({
    booked: { sinceMs: Date.UTC(2026, 10, 1), months: [{ month: '2026-11', micros: now.booked }] },
    reservedMicros: 0,
  })
  const answer = () => ({ rows: [{ values: ['acme'], sums: { cost_usd: now.recorded } }] })
  const counts = { asked: 0 }
  const watch = new BooksWatch({
    usage: {
      nowMs: () => now.ms,
      completeUntilMs: async () => now.completeMs,
      reader: {
        ask: async () => {
          counts.asked += 1
          if (now.isAway) throw new Error('the store is away')
          return answer()
        },
      } as unknown as ConstructorParameters<typeof BooksWatch>[0]['usage']['reader'],
    },
    accounts: { show: async () => view() as unknown as AccountView },
    catalog: () =>
      ({
        current: () => ({ apps: new Map([['acme', new Map([['web', { workspace: { terms: {} } }]])]]) }),
        parts: () => [],
      }) as unknown as ReturnType<ConstructorParameters<typeof BooksWatch>[0]['catalog']>,
  })
  /** A look, and what it set going. */
  const look = async () => {
    await new Promise(setImmediate)
    watch.look()
    await new Promise(setImmediate)
    // Charges are read again once the last batch of spending has had its time.
    now.ms += 2_000
    watch.look()
    await new Promise(setImmediate)
    return watch.look()
  }
  return { now, counts, watch, look }
}

t.test('calls under way make no difference, and money that no record tells does', async (t) => {
  const { now, counts, look } = watched()
  t.equal(await look(), null, 'what was charged is read')
  now.booked = 150
  now.recorded = 120
  await look()
  t.equal(counts.asked, 0, 'records are not asked for before they are complete')
  now.completeMs = now.ms
  const none = { workspace: 'acme', unrecordedMicros: 0, unchargedMicros: 0 }
  t.same(await look(), [none], 'those of 100 are there, and 20 of the 50 that came later')
  now.ms += 60_000
  now.completeMs = now.ms
  now.recorded = 90
  await look()
  await look()
  t.equal(counts.asked, 1, 'and not again within half an hour')
  now.ms += 30 * 60_000
  now.completeMs = now.ms
  await look()
  t.same(await look(), [{ ...none, unrecordedMicros: 60 }])
  now.ms += 31 * 60_000
  now.completeMs = now.ms
  now.recorded = 170
  await look()
  t.same(await look(), [{ ...none, unchargedMicros: 20 }])
  now.ms += 31 * 60_000
  now.completeMs = now.ms
  now.isAway = true
  await look()
  t.equal(await look(), null, 'absent while the store is away')
  now.isAway = false
  now.ms += 61_000
  now.completeMs = now.ms
  await look()
  t.same(await look(), [{ ...none, unchargedMicros: 20 }], 'and looked at again a minute later')
})
