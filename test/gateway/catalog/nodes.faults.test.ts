import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { CatalogStep } from '../../../src/contracts/catalog-store.ts'
import type { State } from '../../../src/contracts/state.ts'
import { hashKey, makeKey } from '../../../src/gateway/catalog/key.ts'
import { createRedisState } from '../../../src/gateway/state/redis/state.ts'
import { changeOf, publish, remove } from '../../support/catalog-under-test.ts'
import { larkway } from '../../support/cli.ts'
import { type Larkway, startLarkway } from '../../support/larkway.ts'
import { startRedis } from '../../support/redis-server.ts'
import { withoutServers } from '../../support/servers.ts'
import { storedKey } from '../../support/stored-key.ts'
import { waitUntil } from '../../support/wait-until.ts'

/** So soon a node serves what was published elsewhere. */
const SOON_MS = 5_000

const ROUTE = { kind: 'route', workspace: 'beta', name: 'beta.voice' } as const
const WORKSPACE = { kind: 'workspace', workspace: 'beta', name: 'beta' } as const
const APP = { kind: 'app', workspace: 'beta', name: 'web' } as const

const KEY = makeKey()
/** The file has a provider and a workspace of its own. */
const FILE = {
  providers: {
    whisper: {
      kind: 'openai-compatible',
      base_url: 'http://127.0.0.1:9/v1',
      access: 'platform',
      price: { per_hour_usd: 0.1 },
      capabilities: ['audio_input'],
    },
  },
  routes: { voice: routeOf('acme', 'large-v3') },
  workspaces: {
    acme: { apps: { web: { route: 'voice' } }, keys: [{ id: 'key_web', app: 'web', sha256: hashKey(KEY) }] },
  },
}

function routeOf(workspace: string, model: string) {
  return { workspace, entries: [{ provider: 'whisper', model }] }
}

interface Me {
  readonly status: number
  readonly route: string | undefined
  readonly version: string | undefined
}

async function meAt({ url }: Larkway, key: string): Promise<Me> {
  const response = await fetch(`${url}/v1/me`, { headers: { authorization: `Bearer ${key}` } })
  const body = (await response.json()) as { route?: { name: string; policy_version_id: string } }
  return { status: response.status, route: body.route?.name, version: body.route?.policy_version_id }
}

/** Asserts that every node comes to answer so, within the time that it has. */
async function become(
  t: Test,
  nodes: readonly Larkway[],
  key: string,
  isSo: (me: Me) => boolean,
  what: string,
): Promise<void> {
  for (const [index, node] of nodes.entries()) {
    const startedAtMs = performance.now()
    const did = await waitUntil(async () => isSo(await meAt(node, key)), SOON_MS)
    t.ok(did, `${what}, node ${index} (after ${Math.round(performance.now() - startedAtMs)} ms)`)
  }
}

/** Another process would do the same: this one serves nothing. */
async function withRedis<Result>(url: string, work: (state: State) => Promise<Result>): Promise<Result> {
  const state = await createRedisState({ url, log: pino({ level: 'silent' }) })
  try {
    return await work(state)
  } finally {
    await state.close()
  }
}

async function publishAt(t: Test, url: string, ...steps: readonly CatalogStep[]): Promise<void> {
  const answer = await withRedis(url, ({ catalog }) => catalog.change(changeOf(steps)))
  t.match(answer, { state: 'done' })
}

t.test(
  'two nodes over one Redis serve what a third process publishes',
  { skip: withoutServers },
  async (t) => {
    const { url } = await startRedis(t)
    const env = { REDIS_URL: url }
    const nodes = await Promise.all([
      startLarkway(t, { env, config: FILE }),
      startLarkway(t, { env, config: FILE }),
    ])
    const plain = makeKey()
    const key = storedKey({ workspace: 'beta', sha256: hashKey(plain) })
    await withRedis(url, ({ keys }) => keys.create(key))
    await publishAt(
      t,
      url,
      publish(WORKSPACE, { name: 'Beta' }),
      publish(ROUTE, routeOf('beta', 'one')),
      publish(APP, { route: 'beta.voice' }),
    )
    await become(t, nodes, plain, ({ route }) => route === 'beta.voice', 'published')
    const first = await meAt(nodes[0], plain)
    t.match(first.version, /^pv_[0-9a-f]{16}$/)
    t.same(await meAt(nodes[1], plain), first, 'the same version everywhere')

    await publishAt(t, url, publish(ROUTE, routeOf('beta', 'two')))
    await become(t, nodes, plain, ({ version }) => version !== first.version, 'published again')
    await publishAt(t, url, publish(ROUTE, routeOf('beta', 'one'), 'rolled back to 1'))
    await become(t, nodes, plain, ({ version }) => version === first.version, 'rolled back')

    await publishAt(
      t,
      url,
      publish(ROUTE, { workspace: 'beta', entries: [{ provider: 'gone', model: 'm' }] }),
    )
    const refused = (node: Larkway) =>
      node.log.find(({ msg }) => msg === 'published catalog refused, it does not fit; the old one stays')
    for (const node of nodes) t.ok(await waitUntil(() => refused(node) !== undefined, SOON_MS))
    t.same(await meAt(nodes[0], plain), first, 'what does not fit is not served, and what was stays')

    await publishAt(t, url, remove(APP), remove(ROUTE), remove(WORKSPACE))
    await become(t, nodes, plain, ({ status }) => status === 401, 'removed')
    t.equal((await meAt(nodes[1], KEY)).status, 200, 'the file is served as ever')
  },
)

t.test('a Redis that is away at the start, and later', { skip: withoutServers }, async (t) => {
  const redis = await startRedis(t, { durable: true })
  const [plain, unknown] = [makeKey(), makeKey()]
  const key = storedKey({ workspace: 'beta', sha256: hashKey(plain) })
  await withRedis(redis.url, ({ keys }) => keys.create(key))
  await publishAt(
    t,
    redis.url,
    publish(WORKSPACE, {}),
    publish(ROUTE, routeOf('beta', 'one')),
    publish(APP, { route: 'beta.voice' }),
  )
  await redis.kill()
  const node = await startLarkway(t, { env: { REDIS_URL: redis.url }, config: FILE })
  t.equal((await meAt(node, KEY)).status, 200, 'the file is served')
  t.equal((await meAt(node, plain)).status, 503, 'of others nothing can be said')

  await redis.restart()
  t.ok(await waitUntil(async () => (await meAt(node, plain)).route === 'beta.voice', 20_000))
  t.equal((await meAt(node, unknown)).status, 401)
  const { version } = await meAt(node, plain)

  await redis.kill()
  await sleep(3_000)
  t.same(await meAt(node, plain), { status: 200, route: 'beta.voice', version }, 'the last known one holds')
  await redis.restart()
  await publishAt(t, redis.url, publish(ROUTE, routeOf('beta', 'two')))
  t.ok(await waitUntil(async () => (await meAt(node, plain)).version !== version, 20_000))
})

const EMPTY = { providers: {}, routes: {}, workspaces: {} }

/** Imports a file into the state of the data folder, beside whatever is served there. */
async function importInto(t: Test, folder: string, file: object): Promise<void> {
  const path = join(folder, 'imported.yaml')
  await writeFile(path, JSON.stringify(file))
  const env = { LARKWAY_DATA: folder, LARKWAY_CONFIG: join(folder, 'larkway.yaml') }
  t.match(await larkway(['import', path], { env }), { code: 0, errors: '' })
}

t.test('beside a running server: import, and a server that starts with what is kept', async (t) => {
  const folder = t.testdir()
  const node = await startLarkway(t, { dataFolder: folder, config: EMPTY })
  t.equal((await meAt(node, KEY)).status, 401)
  await importInto(t, folder, FILE)
  await become(t, [node], KEY, ({ route }) => route === 'voice', 'imported')

  t.equal(await node.signal('SIGTERM'), 0)
  const again = await startLarkway(t, { dataFolder: folder, config: EMPTY })
  t.equal((await meAt(again, KEY)).route, 'voice', 'known with the first request')
})

t.test('at the start what does not fit is left out, and the log says so', async (t) => {
  const folder = t.testdir()
  const { whisper } = FILE.providers
  const more = { workspace: 'acme', entries: [{ provider: 'spare', model: 'm' }] }
  await writeFile(join(folder, 'larkway.yaml'), JSON.stringify(EMPTY))
  await importInto(t, folder, {
    ...FILE,
    providers: { whisper, spare: whisper },
    routes: { ...FILE.routes, 'acme.more': more },
  })
  // Now the file has the provider, and says of its models neither what they can do nor what they cost.
  const spare = { kind: whisper.kind, base_url: whisper.base_url, access: whisper.access }
  const config = { ...EMPTY, providers: { spare } }
  const node = await startLarkway(t, { dataFolder: folder, config })
  t.equal((await meAt(node, KEY)).route, 'voice', 'what fits is served')
  t.match(
    node.log.find(({ left_out }) => left_out !== undefined),
    { level: 'error', left_out: [{ record: 'route/acme.more', issues: [/^\/entries\/0\//] }] },
  )
})
