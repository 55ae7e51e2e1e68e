import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { dump } from 'js-yaml'
import t, { type Test } from 'tap'
import { importFile } from '../../src/cli/transfer.ts'
import type { State } from '../../src/contracts/state.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { BentFile, EXAMPLE } from '../support/catalog-file.ts'
import { publish } from '../support/catalog-under-test.ts'
import { type Bench, startRedisBench, startSqliteBench } from '../support/cli-state.ts'
import { withoutServers } from '../support/servers.ts'
import { storedKey } from '../support/stored-key.ts'

const EMPTY = 'providers: {}\nroutes: {}\nworkspaces: {}\n'
const ENV = { OPENAI_API_KEY: 'sk-of-openai' }
/** Of the example. */
const RECORDS = 10

const benches: readonly [string, (t: Test, text: string) => Promise<Bench>, { skip: string | false }][] = [
  ['SQLite', startSqliteBench, { skip: false }],
  ['Redis', startRedisBench, { skip: withoutServers }],
]

/** Writes a file beside the configuration of the bench, and imports it. */
async function importing({ folder, run }: Bench, text: string, ...flags: string[]) {
  const path = join(folder, 'imported.yaml')
  await writeFile(path, text)
  return run(['import', path, ...flags], ENV)
}

function bent(bend: (file: BentFile) => BentFile): string {
  return dump(bend(new BentFile()).document)
}

/** All that an import may change. */
async function standing({ catalog, keys }: State) {
  const { version, records } = await catalog.published()
  return {
    version,
    times: records.map(({ atMs }) => atMs),
    records: records.length,
    keys: await keys.list(),
    audit: await catalog.audit(null, null, 500),
  }
}

for (const [kind, start, options] of benches) {
  t.test(
    `${kind}: a configuration is imported once, in one version, and put on the audit list`,
    options,
    async (t) => {
      const bench = await start(t, EMPTY)
      const before = await bench.withState(standing)
      const dry = await importing(bench, EXAMPLE, '--dry-run')
      t.match(dry, {
        code: 0,
        errors: '',
        output: /\nroute\/voice +new\nroute\/calls +new\nkey\/key_web +new\n/,
      })
      t.match(dry.output, /\n10 records and 1 key would be imported; 0 records and 0 keys there already\n$/)
      t.same(await bench.withState(standing), before, 'a dry run changes nothing')

      const done = await importing(bench, EXAMPLE)
      t.equal(done.output, dry.output.replace('would be imported', 'imported'))
      const after = await bench.withState(standing)
      t.equal(after.records, RECORDS)
      t.equal(new Set(after.times).size, 1, 'all of it is one change')
      t.match(after.keys, [
        {
          id: 'key_web',
          sha256: '0a'.repeat(32),
          prefix: 'lk_live_',
          workspace: 'acme',
          app: 'web',
          scopes: ['inference', 'jobs', 'queue'],
          rateLimit: { requestsPerMinute: 60, burst: 100 },
          budgetMicros: 50_000_000,
          revokedAtMs: null,
        },
      ])
      t.equal(after.audit.length, RECORDS + 1)
      const by = { via: 'cli', keyId: null, name: 'larkway import' }
      const line = (target: string) => after.audit.find((one) => one.target === target)
      t.match(line('route/voice'), { by, action: 'route.publish', workspace: 'acme', before: null })
      t.match(line('route/voice')?.after, /^[0-9a-f]{64}$/)
      t.match(line('plan/pro'), { by, workspace: null })
      t.match(line('key/key_web'), { by, action: 'key.create', workspace: 'acme' })

      const again = await importing(bench, EXAMPLE)
      t.same(again, {
        code: 0,
        errors: '',
        output: '0 records and 0 keys imported; 10 records and 1 key there already\n',
      })
      t.same(await bench.withState(standing), after, 'a second time changes nothing')

      const other = bent((file) =>
        file.set('/routes/voice/strategy', 'weighted').remove('/routes/calls/entries/0/purposes'),
      )
      const changed = await importing(bench, other)
      t.equal(
        changed.output,
        [
          'route/voice  changed',
          'route/calls  changed',
          '2 records and 0 keys imported; 8 records and 1 key there already',
          '',
        ].join('\n'),
      )
      await bench.withState(async ({ catalog }) => {
        const route = { kind: 'route', workspace: 'acme', name: 'voice' } as const
        const versions = await catalog.versions(route, null, 10)
        t.match(versions, [{ number: 2, note: 'imported' }, { number: 1 }])
        const [newest] = await catalog.audit('acme', null, 500)
        t.match(newest, { action: 'route.publish', before: /^[0-9a-f]{64}$/ })
      })
    },
  )

  t.test(`${kind}: imports at once`, options, async (t) => {
    const bench = await start(t, EMPTY)
    const files = ['one', 'two', 'three'].map((name) =>
      bent((file) => file.set(`/routes/${name}`, file.get('/routes/calls')).set('/workspaces/acme/keys', [])),
    )
    const paths = await Promise.all(
      files.map(async (text, index) => {
        const path = join(bench.folder, `${index}.yaml`)
        await writeFile(path, text)
        return path
      }),
    )
    const runs = await Promise.all(paths.map((path) => bench.run(['import', path], ENV)))
    for (const run of runs) t.match(run, { code: 0, errors: '' })
    const { records } = await bench.withState(standing)
    t.equal(records, RECORDS + 3, 'each has added what the others had not')
  })
}

t.test('what the servers define stays theirs', async (t) => {
  const bench = await startSqliteBench(t, EXAMPLE)
  const same = await importing(bench, EXAMPLE)
  t.same(same, {
    code: 0,
    errors: '',
    output: '0 records and 0 keys imported; 10 records and 1 key there already\n',
  })

  const more = bent((file) =>
    file
      .set('/deadline_seconds', 30)
      .set('/routes/acme.more', file.get('/routes/calls'))
      .set('/workspaces/acme/apps/mobile', { route: 'acme.more' })
      .set('/workspaces/acme/keys/-', { id: 'key_mobile', app: 'mobile', sha256: hashKey(makeKey()) }),
  )
  t.match(await importing(bench, more), {
    code: 0,
    output: [
      'head/head        new',
      'app/acme/mobile  new',
      'route/acme.more  new',
      'key/key_mobile   new',
      '3 records and 1 key imported; 9 records and 1 key there already',
      '',
    ].join('\n'),
  })

  const otherwise = bent((file) =>
    file
      .set('/audio_url_domains', ['other.example.com'])
      .set('/plans/pro/includes', ['text'])
      .set('/providers/whisper/base_url', 'http://10.0.0.6:8000/v1/')
      .set('/routes/voice/strategy', 'weighted')
      .set('/workspaces/acme/name', 'Acme')
      .set('/workspaces/acme/purposes/dictation', {})
      .set('/workspaces/acme/apps/web/route', 'calls')
      .set('/workspaces/acme/keys/0/scopes', ['jobs']),
  )
  const before = await bench.withState(standing)
  const refused = await importing(bench, otherwise)
  t.match(refused, { code: 1, errors: '' })
  const why = 'must be changed in the configuration of the servers, which defines it differently'
  t.same(refused.output.split('\n').slice(1, -1).sort(), [
    `  /audio_url_domains: ${why}`,
    `  /plans/pro: ${why}`,
    `  /providers/whisper: ${why}`,
    `  /routes/voice: ${why}`,
    `  /workspaces/acme/apps/web: ${why}`,
    `  /workspaces/acme/keys/key_web: ${why}`,
    `  /workspaces/acme/purposes/dictation: ${why}`,
    `  /workspaces/acme: ${why}`,
  ])
  t.same(await bench.withState(standing), before)
})

t.test('what cannot be imported', async (t) => {
  const bench = await startSqliteBench(t, EMPTY)
  const before = await bench.withState(standing)
  const rows: readonly [string, RegExp][] = [
    ['routes: [', /imported\.yaml is not valid:\n {2}line 1, column /],
    ['routes: {}\n', /imported\.yaml is not valid:\n {2}\/providers: is missing\n/],
    [
      bent((file) => file.set('/routes/voice/entries/0/provider', 'gone')),
      /\/routes\/voice\/entries\/0\/provider: there is no provider "gone"/,
    ],
    [
      bent((file) => file.set('/providers/openai/api_key', `\${NOT_SET_HERE}`)),
      /\/providers\/openai\/api_key: the environment variable NOT_SET_HERE is not set/,
    ],
    [
      bent((file) => file.set('/providers/openai/api_key', 'file:larkway.yaml')),
      /\/providers\/openai\/api_key: (the file larkway\.yaml must hold a credential|must be an absolute path)/,
    ],
    [
      bent((file) => file.set('/providers/openai/api_key', 'file:secret')),
      /beside what is served, is not valid:\n {2}\/providers\/openai\/api_key: must be an absolute path/,
    ],
    [
      bent((file) => file.set('/providers/openai/api_key', 'sealed:sealed1.00000000.AAAA')),
      /\/providers\/openai\/api_key: must be sealed again for this provider/,
    ],
  ]
  await writeFile(join(bench.folder, 'secret'), 'sk-of-a-file')
  const path = join(bench.folder, 'imported.yaml')
  const desk = { ...bench.desk, env: { ...bench.desk.env, ...ENV } }
  for (const [text, expected] of rows) {
    await writeFile(path, text)
    await t.rejects(importFile([path], desk), { name: 'CatalogError', message: expected })
  }
  t.match(await bench.run(['import', 'nothing.yaml'], ENV), { code: 1, output: /cannot be read \(ENOENT\)/ })
  t.match(await bench.run(['import'], ENV), { code: 2, errors: /import takes a configuration file/ })
  t.same(await bench.withState(standing), before, 'nothing of it was kept')
})

t.test('what the state has otherwise', async (t) => {
  const bench = await startSqliteBench(t, EMPTY)
  const route = { kind: 'route', workspace: 'beta', name: 'voice' } as const
  await bench.withState(async ({ catalog, keys }) => {
    const by = { via: 'cli', keyId: null, name: 'test' } as const
    const steps = [publish(route, { workspace: 'beta', entries: [] })]
    await catalog.change({ token: 'one', expected: null, steps, by, audit: [] })
    await keys.create(storedKey({ id: 'key_web', name: 'another' }))
  })
  t.match(await importing(bench, EXAMPLE), {
    code: 1,
    output: [
      `${join(bench.folder, 'imported.yaml')} is not valid:`,
      '  /routes/voice: must have another name: in the state, this one belongs to another workspace',
      '  /workspaces/acme/keys/key_web: the state has another key of this id or hash',
      '',
    ].join('\n'),
  })
})

t.test('a key that was revoked stays so', async (t) => {
  const bench = await startSqliteBench(t, EMPTY)
  t.match(await importing(bench, EXAMPLE), { code: 0 })
  t.match(await bench.run(['key', 'revoke', 'key_web']), { code: 0 })
  t.match(await importing(bench, EXAMPLE), {
    code: 0,
    output:
      /^key\/key_web +was revoked, and stays so\n0 records and 0 keys imported; 10 records and 0 keys there already\n$/,
  })
  const [key] = (await bench.withState(standing)).keys
  t.type(key?.revokedAtMs, 'number')
})
