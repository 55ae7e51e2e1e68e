import t, { type Test } from 'tap'
import { CommandFailure, UsageError } from '../../src/cli/arguments.ts'
import { webhooks } from '../../src/cli/webhooks.ts'
import { newJobId } from '../../src/contracts/ids.ts'
import { seal } from '../../src/contracts/sealing.ts'
import { readSecretKeys } from '../../src/contracts/secrets.ts'
import type { State } from '../../src/contracts/state.ts'
import { webhookSecretContext } from '../../src/gateway/webhooks/target.ts'
import { type Bench, startRedisBench, startSqliteBench } from '../support/cli-state.ts'
import { KEEP, specOf } from '../support/jobs-under-test.ts'
import { withoutServers } from '../support/servers.ts'
import { answering, type Behaviour, hanging, startReceiver } from '../support/webhook-receiver.ts'
import { forged, isVerified } from '../support/webhook-signatures.ts'

const SECRET = `whsec_${Buffer.alloc(32, 5).toString('base64')}`
const SECRET_KEYS = Buffer.alloc(32, 7).toString('base64')

const benches: readonly [string, (t: Test) => Promise<Bench>, { skip: string | false }][] = [
  ['SQLite', (t) => startSqliteBench(t, null), { skip: false }],
  ['Redis', (t) => startRedisBench(t, null), { skip: withoutServers }],
]

/** The command with what it printed. */
async function ran(bench: Bench, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  let output = ''
  const print = (text: string) => {
    output += text
  }
  const code = await webhooks(args, { env: { ...bench.desk.env, ...env }, print })
  return { code, output }
}

/** A job that was cancelled before it began. @returns its id */
async function endJob({ jobs }: State, workspace: string): Promise<string> {
  const spec = specOf(workspace, { kind: 'transcription' })
  await jobs.submit({ spec, slot: null })
  await jobs.cancel(spec.id, spec, KEEP)
  return spec.id
}

for (const [kind, start, options] of benches) {
  t.test(`${kind}: what waits and what was given up, and how it is delivered again`, options, async (t) => {
    const bench = await start(t)
    const { gone, waiting } = await bench.withState(async (state) => {
      const gone = await endJob(state, 'acme')
      const [event] = await state.outbox.claim({ limit: 1, leaseMs: 60_000, perWorkspace: 16, perAiling: 4 })
      if (event === undefined) throw new Error('there is no event')
      await state.outbox.end(event, { state: 'given_up', reason: 'status 410', keepMs: 60_000 })
      return { gone, waiting: await endJob(state, 'other') }
    })
    const { output } = await ran(bench, ['list'])
    const rows = output.split('\n').map((line) => line.split(/ {2,}/))
    t.same(rows[0], ['JOB', 'WORKSPACE', 'STATUS', 'ENDED', 'ATTEMPTS', 'NEXT ATTEMPT', 'LAST ONE'])
    const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
    const rowOf = (job: string) => rows.find(([id]) => id === job)
    t.match(rowOf(gone), [gone, 'acme', 'cancelled', time, '1', 'given up', 'status 410'])
    t.match(rowOf(waiting), [waiting, 'other', 'cancelled', time, '0', time, '-'])
    t.equal(rows.length, 4)

    const json = async (...args: string[]) =>
      JSON.parse((await ran(bench, ['list', '--json', ...args])).output)
    t.match(await json('--workspace', 'acme'), [
      {
        id: /^evt_/,
        job_id: gone,
        workspace: 'acme',
        status: 'cancelled',
        occurred_at: time,
        attempts: 1,
        next_attempt_at: null,
        reason: 'status 410',
      },
    ])
    t.equal((await json('--limit', '1')).length, 1)
    t.same(await json('--workspace', 'nobody'), [])

    t.same(await ran(bench, ['redeliver', gone]), {
      code: 0,
      output: `the end of ${gone} is announced again within seconds\n`,
    })
    t.match(await json('--workspace', 'acme'), [{ attempts: 0, next_attempt_at: time }])
    const lines = await bench.withState(({ catalog }) => catalog.audit('acme', null, 10))
    const by = { via: 'cli', keyId: null, name: 'larkway webhooks redeliver' }
    t.match(lines, [{ action: 'webhook.redeliver', target: `job/${gone}`, by }])
    const unknown = newJobId('tj', 'acme')
    await t.rejects(ran(bench, ['redeliver', unknown]), new CommandFailure('there is no such job'))
  })

  t.test(`${kind}: a webhook is tried`, options, async (t) => {
    let behave: Behaviour = answering(204)
    const receiver = await startReceiver(t, (line, delivery) => behave(line, delivery), { names: null })
    const bench = await start(t)
    const keys = await readSecretKeys(SECRET_KEYS, bench.folder)
    const put = (url: string) =>
      bench.withState(({ settings }) => {
        const secret = seal(keys, SECRET, webhookSecretContext('acme'))
        return settings.putWebhook('acme', { url, secret, createdAtMs: Date.now() }, 0)
      })
    const env = { LARKWAY_SECRET_KEYS: SECRET_KEYS, LARKWAY_INSECURE_WEBHOOKS: 'true' }
    const args = ['test', '--workspace', 'acme']
    await t.rejects(ran(bench, args, env), new CommandFailure('the workspace has no webhook'))

    await put(`http://127.0.0.1:${receiver.port}/hook?key=canary`)
    const tried = await ran(bench, args, env)
    t.match(tried, { code: 0, output: /^evt_[0-9a-z]{26}: status 204, after \d+ ms\n$/ })
    const [delivery] = receiver.received
    t.match(delivery, { method: 'POST', path: '/hook?key=canary', headers: { 'user-agent': 'Larkway' } })
    t.match(JSON.parse(delivery?.body ?? ''), { type: 'webhook.test', job_id: null, status: null })
    t.ok(tried.output.startsWith(delivery?.headers['webhook-id'] ?? '-'))
    t.ok(delivery && isVerified(SECRET, delivery))
    t.same(await forged(t, SECRET, receiver.received), [])

    behave = answering(500)
    t.match(await ran(bench, args, env), { code: 1, output: /: status 500, after/ })
    behave = answering(302, 'Location: /elsewhere')
    t.match(await ran(bench, args, env), { code: 1, output: /: status 302, after/ })
    const { length } = receiver.received

    const guarded = await ran(bench, args, { ...env, LARKWAY_INSECURE_WEBHOOKS: 'false' })
    t.match(guarded, { code: 1, output: /: the URL must begin with https:\/\/, after/ })
    const other = Buffer.alloc(32, 8).toString('base64')
    const unopened = await ran(bench, args, { ...env, LARKWAY_SECRET_KEYS: other })
    t.match(unopened, {
      code: 1,
      output: /: its secret was sealed with a key that LARKWAY_SECRET_KEYS lacks/,
    })
    await put('https://127.0.0.1/')
    t.match(await ran(bench, args, env), { code: 1, output: /: the URL must have a public host/ })
    t.equal(receiver.received.length, length, 'nothing was sent')
  })
}

t.test('a webhook that does not answer, through the command itself', async (t) => {
  const receiver = await startReceiver(t, hanging, { names: null })
  const { folder, run, withState } = await startSqliteBench(t, null)
  const secret = seal(await readSecretKeys(undefined, folder), SECRET, webhookSecretContext('acme'))
  const url = `http://localhost:${receiver.port}/`
  await withState(({ settings }) => settings.putWebhook('acme', { url, secret, createdAtMs: Date.now() }, 0))
  const tried = await run(['webhooks', 'test', '--workspace', 'acme'], { LARKWAY_INSECURE_WEBHOOKS: 'true' })
  t.match(tried, { code: 1, errors: '', output: /: no answer within 10000 ms, after 1\d{4} ms\n$/ })
  t.ok(receiver.received.every((delivery) => isVerified(SECRET, delivery)))
})

t.test('what cannot be followed', async (t) => {
  const { desk } = await startSqliteBench(t, null)
  const takesJob = 'webhooks redeliver takes the id of a transcription job, tj_…'
  const rows: readonly [readonly string[], UsageError][] = [
    [[], new UsageError('webhooks takes list, redeliver or test; see larkway webhooks --help')],
    [['send'], new UsageError('webhooks takes list, redeliver or test; see larkway webhooks --help')],
    [['redeliver'], new UsageError(takesJob)],
    [['redeliver', 'tj_1'], new UsageError(takesJob)],
    [['redeliver', newJobId('qj', 'acme')], new UsageError(takesJob)],
    [['list', 'acme'], new UsageError('unexpected argument "acme"')],
    [['list', '--limit', '0'], new UsageError('--limit must be a number above 0')],
    [['test'], new UsageError('webhooks test needs --workspace; see larkway webhooks test --help')],
  ]
  for (const [args, error] of rows) await t.rejects(webhooks(args, desk), error, args.join(' '))
  let help = ''
  const print = (text: string) => {
    help += text
  }
  t.equal(await webhooks(['test', '--help'], { ...desk, print }), 0)
  t.match(help, /^larkway webhooks <action>\n/)
})
