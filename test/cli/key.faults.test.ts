import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { load } from 'js-yaml'
import t, { type Test } from 'tap'
import { UsageError } from '../../src/cli/arguments.ts'
import { key } from '../../src/cli/key.ts'
import { hashKey, looksLikeKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { EXAMPLE } from '../support/catalog-file.ts'
import { type Bench, startRedisBench, startSqliteBench } from '../support/cli-state.ts'
import { withoutServers } from '../support/servers.ts'
import { storedKey } from '../support/stored-key.ts'

/** Runs `larkway key create`, which has to succeed. */
async function created(t: Test, { run }: Bench, ...flags: string[]) {
  const { code, output, errors } = await run([
    ...['key', 'create', '--workspace', 'acme', '--app', 'web'],
    ...flags,
  ])
  t.same({ code, errors }, { code: 0, errors: '' })
  const [, plain = '', id = ''] = /^key {2}(\S+)\nid {3}(key_[0-9a-z]{26})\n$/.exec(output) ?? []
  t.ok(looksLikeKey(plain), 'the key is shown this once')
  return { plain, id }
}

/** Nothing that was printed shows more of a key than its prefix, or its hash. */
function isHidden(t: Test, output: string, plain: string): void {
  t.notMatch(output, plain.slice(0, 13))
  t.notMatch(output, hashKey(plain))
}

const benches: readonly [string, (t: Test) => Promise<Bench>, { skip: string | false }][] = [
  ['SQLite', startSqliteBench, { skip: false }],
  ['Redis', startRedisBench, { skip: withoutServers }],
]

for (const [kind, start, options] of benches) {
  t.test(`${kind}: a key is created, listed and revoked`, options, async (t) => {
    const bench = await start(t)
    const { run, withState } = bench
    const plain = await created(t, bench)
    const full = await created(
      t,
      bench,
      ...['--name', 'Größe: 🎙', '--scopes', 'jobs, admin,jobs', '--expires', '2099-01-31T00:00:00+01:00'],
      ...['--requests-per-minute', '7', '--tokens-per-minute', '50', '--audio-seconds-per-minute', '0'],
      ...['--budget-usd', '2.5'],
    )

    const stored = await withState(({ keys }) => keys.list())
    t.match(stored, [
      {
        id: plain.id,
        sha256: hashKey(plain.plain),
        prefix: plain.plain.slice(0, 12),
        workspace: 'acme',
        app: 'web',
        name: plain.id,
        scopes: ['inference', 'jobs', 'queue'],
        rateLimit: null,
        budgetMicros: null,
        expiresAtMs: null,
        revokedAtMs: null,
      },
      {
        id: full.id,
        name: 'Größe: 🎙',
        scopes: ['jobs', 'admin'],
        rateLimit: { requestsPerMinute: 7, burst: 100, tokensPerMinute: 50 },
        budgetMicros: 2_500_000,
        expiresAtMs: Date.UTC(2099, 0, 30, 23),
      },
    ])

    const revoked = await run(['key', 'revoke', plain.id])
    t.match(revoked, {
      code: 0,
      errors: '',
      output: new RegExp(`^${plain.id} \\(lk_live_.{4}…, acme\\) is revoked`),
    })
    isHidden(t, revoked.output, plain.plain)
    t.same(await run(['key', 'revoke', plain.id]), revoked, 'revoking it again keeps the first time')

    const changed = await run([
      'key',
      'change',
      full.id,
      ...['--budget-usd', 'none', '--burst', '9', '--tokens-per-minute', 'none', '--name', 'two'],
    ])
    t.match(changed, { code: 0, errors: '', output: /^key_\w+ \(lk_live_.{4}…, acme\) is changed\n$/ })
    const rotated = await run(['key', 'rotate', full.id, '--overlap', '3600'])
    t.match(rotated, { code: 0, errors: '' })
    const [, fresh = '', former = ''] =
      /^key {2}(lk_live_\w+)\nid {3}key_\w+\nold {2}(lk_live_\w{4})… until 20\S+Z\n$/.exec(rotated.output) ??
      []
    t.equal(former, full.plain.slice(0, 12))
    const [, after] = await withState(({ keys }) => keys.list())
    t.match(after, {
      id: full.id,
      name: 'two',
      sha256: hashKey(fresh),
      former: { sha256: hashKey(full.plain) },
    })
    t.match(after, {
      budgetMicros: null,
      rateLimit: { requestsPerMinute: 7, burst: 9, tokensPerMinute: undefined },
      scopes: ['jobs', 'admin'],
    })
    for (const [flags, said] of [
      [['change', full.id], /takes what to change/],
      [['change', full.id, '--tokens-per-minute', '5', '--burst', 'none'], /takes the whole rate limit away/],
      [['rotate'], /takes the id of a key/],
      [['rotate', fresh], /not the key itself/],
      [['rotate', full.id, '--overlap', '2592001'], /overlap/],
      [['rotate', full.id], /stays valid until/],
      [['rotate', plain.id], /revoked for good/],
    ] as const) {
      const refused = await run(['key', ...flags]).catch((error: Error) => ({
        code: 2,
        errors: error.message,
      }))
      t.not(refused.code, 0)
      t.match(refused.errors, said)
    }
    const json = await run(['key', 'list', '--json'])
    t.match(
      JSON.parse(json.output).find(({ id }: { id: string }) => id === full.id),
      { former: { prefix: former } },
    )
    isHidden(t, json.output, full.plain)

    const list = await run(['key', 'list'])
    t.match(list, { code: 0, errors: '' })
    for (const { plain: text } of [plain, full]) isHidden(t, list.output, text)
    t.match(
      list.output,
      /^KEY +WORKSPACE +APP +SOURCE +STATE +PREFIX +NAME +SCOPES +EXPIRES +RATE LIMIT +BUDGET USD\n/,
    )
    t.match(
      list.output,
      /\nkey_web +acme +web +file +active +- +key_web +[a-z,]+ +never +60\/min, burst 100 +50\.00\/month\n/,
    )
    t.match(list.output, new RegExp(`\n${plain.id} +acme +web +state +revoked +lk_live_\\w{4} +${plain.id} `))
    t.match(
      list.output,
      new RegExp(`\n${full.id} .+ active .+ 2099-01-30T23:00:00.000Z +7/min, burst 9 +-\n`),
    )
  })

  t.test(`${kind}: the states of keys, and the list as JSON`, options, async (t) => {
    const { run, withState } = await start(t)
    const expired = storedKey({ expiresAtMs: Date.now() - 1, rateLimit: { requestsPerMinute: 5, burst: 2 } })
    const unserved = storedKey({ app: 'gone', budgetMicros: 1 })
    const elsewhere = storedKey({ workspace: 'former' })
    await withState(async ({ keys }) => {
      for (const [index, key] of [expired, unserved, elsewhere].entries())
        await keys.create({ ...key, createdAtMs: 1_900_000_000_000 + index })
    })
    const list = await run(['key', 'list', '--json'])
    t.match(list, { code: 0, errors: '' })
    const rows: Record<string, unknown>[] = JSON.parse(list.output)
    t.same(
      rows.map(({ id, source, state }) => [id, source, state]),
      [
        ['key_web', 'file', 'active'],
        [expired.id, 'state', 'expired'],
        [unserved.id, 'state', 'unserved'],
        [elsewhere.id, 'state', 'unserved'],
      ],
    )
    t.same(rows[1], {
      id: expired.id,
      prefix: expired.prefix,
      workspace: 'acme',
      app: 'web',
      name: 'mobile',
      scopes: ['inference'],
      source: 'state',
      state: 'expired',
      rate_limit: { requests_per_minute: 5, burst: 2 },
      budget_usd: null,
      created_at: '2030-03-17T17:46:40.000Z',
      expires_at: new Date(expired.expiresAtMs ?? 0).toISOString(),
      revoked_at: null,
      former: null,
    })
    t.match(rows[0], { prefix: null, budget_usd: 50, created_at: null })
    for (const { sha256 } of [expired, unserved, elsewhere]) t.notMatch(list.output, sha256)

    const ids = async (workspace: string) => {
      const { output } = await run(['key', 'list', '--workspace', workspace, '--json'])
      return (JSON.parse(output) as { id: string }[]).map(({ id }) => id)
    }
    t.same(await ids('acme'), ['key_web', expired.id, unserved.id])
    t.same(await ids('former'), [elsewhere.id], 'the configuration knows it no more')
  })
}

t.test('what the configuration does not have is refused, and nothing is kept', async (t) => {
  const { run, withState } = await startSqliteBench(t)
  const rows: readonly [readonly string[], string][] = [
    [['create', '--workspace', 'amce', '--app', 'web'], 'there is no such workspace; there is "acme"'],
    [
      ['create', '--workspace', 'acme', '--app', 'mobile'],
      '--app must name an app of the workspace; there is "web"',
    ],
    [
      ['create', '--workspace', 'acme', '--app', 'constructor'],
      '--app must name an app of the workspace; there is "web"',
    ],
    [['list', '--workspace', 'amce'], 'there is no such workspace; there is "acme"'],
    [['revoke', 'key_nobody'], 'there is no such key'],
    [['revoke', 'key_web'], 'the key is defined in the configuration file: remove it there'],
  ]
  for (const [args, sentence] of rows)
    t.same(await run(['key', ...args]), { code: 1, output: '', errors: `larkway: ${sentence}\n` })
  t.same(await withState(({ keys }) => keys.list()), [])
})

t.test('flags that cannot be followed', async (t) => {
  const { desk, withState } = await startSqliteBench(t)
  const give = (args: readonly string[]) => key(args, desk)
  const create = ['create', '--workspace', 'acme', '--app', 'web']
  const plain = makeKey()
  const rows: readonly [readonly string[], string][] = [
    [['create', '--app', 'web'], 'key create needs --workspace; see larkway key create --help'],
    [['create', '--workspace', 'acme'], 'key create needs --app; see larkway key create --help'],
    [[...create, 'word'], 'unexpected argument "word"'],
    [[...create, '--scope', 'jobs'], "Unknown option '--scope'"],
    [
      [...create, '--scopes', 'jobs,root'],
      '--scopes must be one of `inference`, `jobs`, `queue`, `admin`, `operator`',
    ],
    [
      [...create, '--scopes', ''],
      '--scopes must be one of `inference`, `jobs`, `queue`, `admin`, `operator`',
    ],
    [[...create, '--expires', 'tomorrow'], '--expires must be a time such as 2027-01-31T00:00:00Z'],
    [
      [...create, '--expires', '2099-02-30T00:00:00Z'],
      '--expires must be a time such as 2027-01-31T00:00:00Z',
    ],
    [[...create, '--expires', '2020-01-31T00:00:00Z'], '--expires must be in the future'],
    [[...create, '--burst', '0'], '--burst must be a number above 0'],
    [[...create, '--burst', '1.5'], '--burst must be a whole number from 1 to 100000'],
    [
      [...create, '--budget-usd', '0.0000001'],
      '--budget-usd must be an amount in USD, 0 or more, with at most 6 decimals',
    ],
    [
      [...create, '--budget-usd=-1'],
      '--budget-usd must be an amount in USD, 0 or more, with at most 6 decimals',
    ],
    [
      [...create, '--name', 'a\u001b[2J'],
      '--name must have 1 to 1024 characters, not only spaces, none invisible or turning the text direction',
    ],
    [['revoke'], 'key revoke takes the id of a key; see larkway key list'],
    [['revoke', plain], 'key revoke takes the id of the key, not the key itself'],
  ]
  for (const [args, sentence] of rows) await t.rejects(give(args), new UsageError(sentence), sentence)
  t.same(await withState(({ keys }) => keys.list()), [])
})

t.test('a key that leaked is revoked also while the configuration is broken', async (t) => {
  const bench = await startSqliteBench(t)
  const { id } = await created(t, bench)
  await writeFile(bench.config, EXAMPLE.replace('route: voice', 'route: vioce'))
  t.match(await bench.run(['key', 'revoke', id]), { code: 0, output: / is revoked since / })
  t.same(await bench.run(['key', 'revoke', 'key_other']), {
    code: 1,
    output: '',
    errors: 'larkway: the state has no such key, and the configuration is not valid: see larkway check\n',
  })
  t.match(await bench.run(['key', 'list']), { code: 1, output: /is not valid:\n.+there is no route "vioce"/ })
})

t.test('another configuration can be named', async (t) => {
  const bench = await startSqliteBench(t)
  const other = join(bench.folder, 'other.yaml')
  const example = load(EXAMPLE) as { workspaces: { acme: object } }
  const { acme, ...rest } = example.workspaces
  const file = { ...example, workspaces: { ...rest, acme: { ...acme, keys: [] } } }
  await writeFile(other, JSON.stringify(file))
  t.match(await bench.run(['key', 'list', '--config', other]), {
    code: 0,
    output: /^KEY +WORKSPACE [^\n]+\n$/,
  })
})

t.test('without a configuration it is about the demo', async (t) => {
  const { run } = await startSqliteBench(t, null)
  const { code, output } = await run([
    ...['key', 'create', '--workspace', 'demo', '--app', 'demo', '--name', 'mine'],
  ])
  t.equal(code, 0)
  const id = /^id +(\S+)$/m.exec(output)?.[1]
  const list = await run(['key', 'list'])
  t.match(list.output, /\nkey_demo +demo +demo +file +active +- +operator /)
  t.match(list.output, new RegExp(`\n${id} +demo +demo +state +active +lk_live_\\w{4} +mine `))
})

t.test('a state that cannot be had', async (t) => {
  const { run, folder } = await startSqliteBench(t)
  const nowhere = join(folder, 'nowhere')
  t.same(await run(['key', 'list'], { LARKWAY_DATA: nowhere }), {
    code: 1,
    output: '',
    errors:
      `larkway: there is no data folder ${nowhere}: ` +
      "set LARKWAY_DATA to the server's, which makes it when it starts\n",
  })
  t.match(await run(['key', 'list'], { REDIS_URL: 'redis://:sesame@127.0.0.1:9' }), {
    code: 1,
    output: '',
    errors: /^larkway: Redis does not answer/,
  })
  const redis = await run(['key', 'list'], { REDIS_URL: 'redis://:sesame@127.0.0.1:9' })
  t.notMatch(redis.errors, 'sesame')
  t.match(await run(['key', 'list'], { PORT: 'x' }), { code: 1, errors: /^larkway: environment: PORT / })
  const broken = t.testdir({ 'state.sqlite': 'these are notes, and no database '.repeat(100) })
  t.match(await run(['key', 'list'], { LARKWAY_DATA: broken }), {
    code: 1,
    output: '',
    errors: /^larkway: .*state\.sqlite cannot be opened: [^\n]+\n$/,
  })
})
