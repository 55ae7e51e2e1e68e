import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { CommandFailure, UsageError } from '../../src/cli/arguments.ts'
import { withAdmin } from '../../src/cli/context.ts'
import { secrets } from '../../src/cli/secrets.ts'
import { seal, unseal } from '../../src/contracts/sealing.ts'
import { readSecretKeys } from '../../src/contracts/secrets.ts'
import { putProvider } from '../../src/gateway/admin/catalog.ts'
import { removeWebhook, setWebhook } from '../../src/gateway/admin/webhook.ts'
import { webhookTarget } from '../../src/gateway/webhooks/target.ts'
import { type Bench, startRedisBench, startSqliteBench } from '../support/cli-state.ts'
import { tempFolder } from '../support/scratch.ts'
import { withoutServers } from '../support/servers.ts'

const [OLD, NEW, STRANGE] = [randomBytes(32), randomBytes(32), randomBytes(32)]
const both = [NEW, OLD].map((key) => key.toString('base64')).join(',')
const PROVIDER = { kind: 'provider', workspace: 'acme', name: 'acme.voices' } as const
const CREDENTIAL = 'sk-of-acme'

const benches: readonly [string, (t: Test) => Promise<Bench>, { skip: string | false }][] = [
  ['SQLite', (t) => startSqliteBench(t), { skip: false }],
  ['Redis', (t) => startRedisBench(t), { skip: withoutServers }],
]

/** The command with what it printed. */
async function rotated(bench: Bench, keys: string) {
  let output = ''
  const print = (text: string) => {
    output += text
  }
  const env = { ...bench.desk.env, LARKWAY_SECRET_KEYS: keys }
  const code = await secrets(['rotate'], { env, print })
  return { code, output }
}

/** A provider and a webhook that was set twice, all of it sealed with one key. @returns its newest secret */
function furnish(bench: Bench, key: Buffer): Promise<string> {
  return withAdmin(bench.desk, { command: 'test' }, async ({ actor, admin }) => {
    const context = { ...admin, webhooks: { secretKeys: [key], insecure: false } }
    const fields = { kind: 'elevenlabs', credential: CREDENTIAL }
    await putProvider(actor, { workspace: 'acme', name: PROVIDER.name, fields }, context)
    await setWebhook(actor, { workspace: 'acme', url: 'https://hooks.example.com/1' }, context)
    const set = await setWebhook(actor, { workspace: 'acme', url: 'https://hooks.example.com/1' }, context)
    return set.signingSecret
  })
}

/** The credential as a node with these keys alone would have it. */
async function credentialOf(bench: Bench, keys: readonly Buffer[]): Promise<string | null> {
  const record = await bench.withState(({ catalog }) => catalog.get(PROVIDER))
  const sealed = String(record?.published?.fields.api_key).replace('sealed:', '')
  return unseal(keys, sealed, { purpose: 'provider-credential', workspace: PROVIDER.name })
}

for (const [kind, start, options] of benches) {
  t.test(`${kind}: everything opens with the new key alone`, options, async (t) => {
    const bench = await start(t)
    const secret = await furnish(bench, OLD)
    const targetWith = (keys: readonly Buffer[]) =>
      bench.withState(({ settings }) => webhookTarget(settings, keys, 'acme'))
    const before = await targetWith([OLD])
    t.same(before?.secrets.length, 2)
    t.equal(await credentialOf(bench, [NEW]), null)

    const first = await rotated(bench, both)
    t.equal(first.code, 0)
    t.match(first.output, /^provider\/acme\.voices: sealed with the first key now\nwebhook\/acme: sealed/)
    t.match(first.output, /\n2 sealed, 0 were before, 0 lost\n/)
    const until = Date.parse(/until (\S+)\.\n/.exec(first.output)?.[1] ?? '')
    t.ok(Math.abs(until - (Date.now() + 259_200_000)) < 60_000, 'as long as results of jobs are kept')
    t.equal(await credentialOf(bench, [NEW]), CREDENTIAL)
    t.same(await targetWith([NEW]), before)
    t.equal(before?.secrets[0], secret)

    const lines = await bench.withState(({ catalog }) => catalog.audit(null, null, 3))
    t.match(lines, [{ action: 'webhook.reseal' }, { action: 'provider.reseal' }, { action: 'webhook.set' }])
    t.notMatch(JSON.stringify(lines), new RegExp(`${CREDENTIAL}|whsec_`))

    const second = await rotated(bench, both)
    t.match(second.output, /^0 sealed, 2 were before, 0 lost\n/)
    t.same(await bench.withState(({ catalog }) => catalog.audit(null, null, 3)), lines, 'nothing was done')
  })

  t.test(`${kind}: secrets that no key opens`, options, async (t) => {
    const bench = await start(t)
    await furnish(bench, STRANGE)
    const { code, output } = await rotated(bench, both)
    t.equal(code, 1)
    t.match(output, /provider\/acme\.voices: no key opens it; set it again\nwebhook\/acme: no key opens it/)
    t.match(output, /\n0 sealed, 0 were before, 2 lost\n/)
    t.equal(await credentialOf(bench, [STRANGE]), CREDENTIAL, 'they are left as they are')
    await withAdmin(bench.desk, { command: 'test' }, ({ actor, admin }) =>
      removeWebhook(actor, { workspace: 'acme' }, admin),
    )
    t.match((await rotated(bench, both)).output, /\n0 sealed, 0 were before, 1 lost\n/)
  })
}

t.test('a webhook that is set meanwhile is left alone', async (t) => {
  const bench = await startSqliteBench(t)
  await furnish(bench, OLD)
  await bench.withState(async ({ settings }) => {
    const read = await settings.webhook('acme')
    if (read === null) throw new Error('there is no webhook')
    const set = {
      url: read.url,
      secret: seal([NEW], 'whsec_later', { purpose: 'stt-webhook', workspace: 'acme' }),
    }
    await settings.putWebhook('acme', { ...set, createdAtMs: Date.now() }, 60_000)
    t.equal(await settings.resealWebhook('acme', read, { secret: 'x', previous: null }), false)
    t.equal((await settings.webhook('acme'))?.secret, set.secret)
  })
})

t.test('keys are made, and there have to be two', async (t) => {
  const bench = await startSqliteBench(t)
  const alone = 'there is one key: put a new one in front of it, and restart every node, first'
  await t.rejects(rotated(bench, NEW.toString('base64')), new CommandFailure(alone))
  const unknown = 'secrets takes make or rotate; see larkway secrets --help'
  await t.rejects(secrets(['turn'], bench.desk), new UsageError(unknown))
  const { output } = await bench.run(['secrets', 'make'])
  t.equal(Buffer.from(output.trim(), 'base64').length, 32)
  const folder = await tempFolder(t)
  t.same(await readSecretKeys(`${output.trim()},${OLD.toString('base64')}`, folder), [
    Buffer.from(output, 'base64'),
    OLD,
  ])
})
