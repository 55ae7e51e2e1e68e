import t from 'tap'
import type { CliContext } from '../../src/cli/context.ts'
import { credits } from '../../src/cli/credits.ts'
import { key } from '../../src/cli/key.ts'
import { changeOf, publish } from '../support/catalog-under-test.ts'
import { startRedisBench, startSqliteBench } from '../support/cli-state.ts'
import { withoutServers } from '../support/servers.ts'

const ROUTE = { kind: 'route', workspace: 'beta', name: 'beta.voice' } as const
const WORKSPACE = { kind: 'workspace', workspace: 'beta', name: 'beta' } as const
const APP = { kind: 'app', workspace: 'beta', name: 'web' } as const
const FIELDS = { workspace: 'beta', entries: [{ provider: 'whisper', model: 'large-v3' }] }

for (const [kind, start, options] of [
  ['SQLite', startSqliteBench, { skip: false }],
  ['Redis', startRedisBench, { skip: withoutServers }],
] as const) {
  t.test(`${kind}: commands put what they change on the audit list, and nothing else`, options, async (t) => {
    const bench = await start(t)
    const linesOf = (workspace: string | null) =>
      bench.withState(({ catalog }) => catalog.audit(workspace, null, 100))
    let printed = ''
    const desk: CliContext = { ...bench.desk, print: (text) => (printed = text) }
    await key(['create', '--workspace', 'acme', '--app', 'web', '--name', 'ci'], desk)
    const [, id = ''] = /\nid {3}(key_\w+)\n$/.exec(printed) ?? []
    const plain = /^key {2}(\S+)/.exec(printed)?.[1] ?? ''
    await key(['revoke', id], desk)
    await key(['revoke', id], desk)
    await t.rejects(key(['revoke', 'key_unknown'], desk), /there is no such key/)
    await t.rejects(
      key(['create', '--workspace', 'acme', '--app', 'gone'], desk),
      /--app must name an app of the workspace; there is "web"/,
    )
    await credits(['add', '--workspace', 'acme', '--usd', '2.5', '--id', 'first'], desk)
    await credits(['add', '--workspace', 'acme', '--usd', '2.5', '--id', 'first'], desk)
    await key(['list'], desk)

    const by = (command: string) => ({ via: 'cli', keyId: null, name: `larkway ${command}` })
    const lines = await linesOf('acme')
    t.match(lines, [
      {
        by: by('credits add'),
        action: 'credits.add',
        target: 'workspace/acme',
        detail: '2.50 USD as first',
        before: null,
        after: /^[0-9a-f]{64}$/,
      },
      { by: by('key revoke'), action: 'key.revoke', target: `key/${id}`, after: null },
      { by: by('key create'), action: 'key.create', target: `key/${id}`, before: null },
    ])
    t.equal(lines.length, 3)
    t.equal(lines[1]?.before, lines[2]?.after, 'what was made is what was revoked')
    t.notMatch(JSON.stringify(lines), plain.slice(0, 13))
    t.same(await linesOf(null), lines)
  })

  t.test(`${kind}: workspaces that were made in the console are known to commands`, options, async (t) => {
    const bench = await start(t)
    const steps = [publish(WORKSPACE, {}), publish(ROUTE, FIELDS), publish(APP, { route: 'beta.voice' })]
    await bench.withState(({ catalog }) => catalog.change(changeOf(steps)))
    let printed = ''
    const desk: CliContext = { ...bench.desk, print: (text) => (printed = text) }
    await key(['create', '--workspace', 'beta', '--app', 'web'], desk)
    await key(['list', '--workspace', 'beta'], desk)
    t.match(printed, /\nkey_\w+ +beta +web +state +active /)
    await credits(['add', '--workspace', 'beta', '--usd', '1'], desk)
    await credits(['show', '--workspace', 'beta'], desk)
    t.match(printed, /^beta\n {0,}credits +1\.00 USD\n/m)
    await t.rejects(key(['create', '--workspace', 'gone', '--app', 'web'], desk), /there are "acme", "beta"/)
  })
}
