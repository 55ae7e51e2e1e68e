import { randomBytes } from 'node:crypto'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { load } from 'js-yaml'
import t from 'tap'
import { sealCredential } from '../../src/gateway/catalog/secret.ts'
import { BentFile, EXAMPLE } from '../support/catalog-file.ts'
import { changeOf, publish } from '../support/catalog-under-test.ts'
import { startRedisBench, startSqliteBench } from '../support/cli-state.ts'
import { withoutServers } from '../support/servers.ts'
import { storedKey } from '../support/stored-key.ts'

interface Exported {
  readonly providers: Readonly<Record<'openai' | 'whisper', { readonly api_key: string }>>
  readonly routes: object
  readonly workspaces: Readonly<
    Record<
      'acme' | 'demo',
      { readonly keys: readonly { readonly id: string; readonly rate_limit: object }[] }
    >
  >
}
const exportedIn = (text: string) => load(text) as Exported

const ROUTE = { kind: 'route', workspace: 'acme', name: 'acme.more' } as const
const APP = { kind: 'app', workspace: 'acme', name: 'mobile' } as const
const FIELDS = { workspace: 'acme', entries: [{ provider: 'whisper', model: 'large-v3' }] }

for (const [kind, start, options] of [
  ['SQLite', startSqliteBench, { skip: false }],
  ['Redis', startRedisBench, { skip: withoutServers }],
] as const) {
  t.test(`${kind}: the file and the state are one file, which check takes`, options, async (t) => {
    const bench = await start(t)
    const key = storedKey({
      app: 'mobile',
      scopes: ['jobs', 'operator'],
      rateLimit: { requestsPerMinute: 7, burst: 2 },
      budgetMicros: 2_500_000,
      expiresAtMs: Date.UTC(2099, 0, 31),
    })
    await bench.withState(async ({ catalog, keys }) => {
      await catalog.change(changeOf([publish(ROUTE, FIELDS), publish(APP, { route: 'acme.more' })]))
      await keys.create(key)
      await keys.create(storedKey({ revokedAtMs: Date.now() }))
      await keys.create(storedKey({ kind: 'playground', expiresAtMs: Date.now() + 3_600_000 }))
    })
    const out = join(bench.folder, 'out.yaml')
    t.same(await bench.run(['export', '--out', out]), { code: 0, output: '', errors: '' })
    const text = await readFile(out, 'utf8')
    t.equal((await stat(out)).mode & 0o777, 0o600)
    t.same(await bench.run(['export']), { code: 0, output: text, errors: '' }, 'or on standard output')
    t.match(text, /^# The catalog that Larkway serves, as `larkway export` writes it\./)
    t.notMatch(text, /Left out/)

    const expected = new BentFile()
      .set('/routes/acme.more', FIELDS)
      .set('/workspaces/acme/apps/mobile', { route: 'acme.more' })
      .set('/workspaces/acme/keys/0/rate_limit/burst', 100)
      .set('/workspaces/acme/keys/-', {
        id: key.id,
        name: 'mobile',
        app: 'mobile',
        sha256: key.sha256,
        scopes: ['jobs', 'operator'],
        expires_at: '2099-01-31T00:00:00.000Z',
        rate_limit: { requests_per_minute: 7, burst: 2 },
        budget_usd: { per_month: 2.5 },
      })
    const exported = load(text)
    const byId = (keys: { readonly id: string }[]) => keys.sort((a, b) => (a.id < b.id ? -1 : 1))
    byId(expected.get('/workspaces/acme/keys') as { id: string }[])
    t.same(exported, expected.document)
    const checked = await bench.run(['check', out], { OPENAI_API_KEY: 'sk-x' })
    t.match(checked, {
      code: 0,
      errors: '',
      output: new RegExp(`\n${'acme +mobile +'}${key.id} +acme\\.more `),
    })
  })
}

t.test(
  'a key without a limit of tokens has none there either, whatever others have by default',
  async (t) => {
    const file = new BentFile()
      .set('/rate_limit', { tokens_per_minute: 1_000 })
      .set('/workspaces/acme/keys/0/rate_limit/tokens_per_minute', 0)
    const bench = await startSqliteBench(t, JSON.stringify(file.document))
    const rateLimit = { requestsPerMinute: 7, burst: 2, audioSecondsPerMinute: 60 }
    await bench.withState(({ keys }) => keys.create(storedKey({ id: 'key_phone', app: 'web', rateLimit })))
    const { keys } = exportedIn((await bench.run(['export'])).output).workspaces.acme
    const limits = keys.map(({ id, rate_limit }) => [id, rate_limit])
    t.same(Object.fromEntries(limits), {
      key_phone: { requests_per_minute: 7, burst: 2, tokens_per_minute: 0, audio_seconds_per_minute: 60 },
      key_web: { requests_per_minute: 60, burst: 100, tokens_per_minute: 0 },
    })
  },
)

t.test('what cannot be in it is told in it', async (t) => {
  const bench = await startSqliteBench(t)
  const orphan = storedKey({ app: 'gone' })
  await bench.withState(async ({ catalog, keys }) => {
    const fields = { ...FIELDS, entries: [{ provider: 'gone', model: 'm' }] }
    await catalog.change(changeOf([publish(ROUTE, fields), publish(APP, { route: 'acme.more' })]))
    await keys.create(orphan)
    await keys.create(storedKey({ id: 'key_web' }))
  })
  const { output } = await bench.run(['export'])
  t.same(
    [...output.matchAll(/^# Left out, (.*)$/gm)].map(([, what]) => what),
    [
      'since it does not fit: app/acme/mobile',
      'since it does not fit: route/acme.more',
      `since there is no app acme/gone: the key ${orphan.id}`,
    ],
  )
  t.same(
    exportedIn(output).workspaces.acme.keys.map(({ id }) => id),
    ['key_web'],
    'of a key of the file, the file says what it may',
  )
})

t.test('credentials stay references, or sealed; check opens those with the key of the servers', async (t) => {
  const key = randomBytes(32)
  const file = new BentFile()
    .set('/providers/openai/api_key', sealCredential([key], 'openai', 'sk-that-was-sealed'))
    .set('/providers/whisper/api_key', 'file:keys/whisper')
  const bench = await startSqliteBench(t, JSON.stringify(file.document))
  const out = join(bench.folder, 'elsewhere.yaml')
  t.match(await bench.run(['export', '--out', out]), { code: 0, errors: '' })
  const text = await readFile(out, 'utf8')
  t.notMatch(text, /sk-that-was-sealed/)
  const { providers } = exportedIn(text)
  t.equal(providers.openai.api_key, file.get('/providers/openai/api_key'))
  t.equal(providers.whisper.api_key, `file:${join(bench.folder, 'keys/whisper')}`, 'found from anywhere')

  const checked = (env: Record<string, string>) => bench.run(['check', out], env)
  const path = join(bench.folder, 'keys/whisper')
  const missing = `  /providers/whisper/api_key: the file ${path} cannot be read (ENOENT)\n`
  t.match(await checked({}), {
    code: 1,
    output:
      /\n {2}\/providers\/openai\/api_key: must be sealed again for this provider: no key in LARKWAY_SECRET_KEYS /,
  })
  const keys = { LARKWAY_SECRET_KEYS: `${randomBytes(32).toString('base64')},${key.toString('base64')}` }
  t.same(await checked(keys), { code: 1, errors: '', output: `${out} is not valid:\n${missing}` })
  await writeFile(join(bench.folder, 'secret-key'), key.toString('base64'))
  t.same(await checked({}), { code: 1, errors: '', output: `${out} is not valid:\n${missing}` })
  t.match(await checked({ LARKWAY_SECRET_KEYS: 'x' }), {
    code: 1,
    errors: /LARKWAY_SECRET_KEYS must hold 32 bytes/,
  })
})

t.test('without a configuration the demo is exported, with what was added to it', async (t) => {
  const bench = await startSqliteBench(t, null)
  const route = { kind: 'route', workspace: 'demo', name: 'demo.more' } as const
  const key = storedKey({ workspace: 'demo', app: 'demo' })
  await bench.withState(async ({ catalog, keys }) => {
    const fields = { workspace: 'demo', entries: [{ provider: 'sandbox', model: 'morse-1' }] }
    await catalog.change(changeOf([publish(route, fields)]))
    await keys.create(key)
  })
  const out = join(bench.folder, 'out.yaml')
  t.match(await bench.run(['export', '--out', out]), { code: 0, errors: '' })
  const text = await readFile(out, 'utf8')
  const { routes, workspaces } = exportedIn(text)
  t.same(Object.keys(routes), ['demo', 'demo.more'])
  t.same(
    workspaces.demo.keys.map(({ id }) => id),
    [key.id],
    'the key of the demo is its own',
  )
  t.notMatch(text, 'base_url', 'the sandbox is found wherever it is started')
  t.match(await bench.run(['check', out]), { code: 0 })
})

t.test('what keeps it from being written', async (t) => {
  const bench = await startSqliteBench(t, EXAMPLE.replace('route: voice', 'route: vioce'))
  t.match(await bench.run(['export']), { code: 1, output: /there is no route "vioce"/, errors: '' })
  await writeFile(bench.config, EXAMPLE)
  const out = join(bench.folder, 'nowhere/out.yaml')
  t.same(await bench.run(['export', '--out', out]), {
    code: 1,
    output: '',
    errors: `larkway: ${out} cannot be written (ENOENT)\n`,
  })
  t.match(await bench.run(['export', 'x']), { code: 2, errors: 'larkway: unexpected argument "x"\n' })
  t.match(await bench.run(['export', '--help']), { code: 0, output: /^larkway export \[--config FILE\]/ })
})
