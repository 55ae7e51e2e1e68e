import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { CommandFailure, UsageError } from '../../src/cli/arguments.ts'
import { credits } from '../../src/cli/credits.ts'
import { newId } from '../../src/contracts/ids.ts'
import type { AccountTerms, ReservationTerms } from '../../src/contracts/ledger.ts'
import type { State } from '../../src/contracts/state.ts'
import { EXAMPLE } from '../support/catalog-file.ts'
import { type Bench, startRedisBench, startSqliteBench } from '../support/cli-state.ts'
import { withoutServers } from '../support/servers.ts'

/** The example with a trial and a budget; a grant of 100 USD and a key budget of 50 it has already. */
const CONFIG = EXAMPLE.replace(
  '    grant_id: initial\n',
  [
    '    grant_id: initial',
    '    trial: {allowance_usd: 5, expires_at: 2099-01-31T00:00:00Z}',
    '    budget_usd: {per_month: 300}',
    '',
  ].join('\n'),
)
const TERMS: AccountTerms = {
  grant: { id: 'initial', micros: 100_000_000 },
  trial: { allowanceMicros: 5_000_000, expiresAtMs: Date.UTC(2099, 0, 31) },
  budgetMicros: 300_000_000,
}

const benches: readonly [string, (t: Test) => Promise<Bench>, { skip: string | false }][] = [
  ['SQLite', (t) => startSqliteBench(t, CONFIG), { skip: false }],
  ['Redis', (t) => startRedisBench(t, CONFIG), { skip: withoutServers }],
]

/** A call that sets money aside. */
async function reserve({ ledger }: State, over: Partial<ReservationTerms>): Promise<string> {
  const token = newId('call')
  const reservation = {
    keyId: 'key_web',
    terms: TERMS,
    keyBudgetMicros: 50_000_000,
    platformMicros: 0,
    spendMicros: 0,
    leaseMs: 60_000,
    ...over,
  }
  const begun = await ledger.begin({ token, workspace: 'acme', slot: null, reservation })
  if (begun.state !== 'begun') throw new Error(JSON.stringify(begun))
  return token
}

for (const [kind, start, options] of benches) {
  t.test(`${kind}: credits are added, taken back, and added once`, options, async (t) => {
    const { run } = await start(t)
    const add = (...args: string[]) => run(['credits', 'add', '--workspace', 'acme', ...args])
    const made = await add('--usd', '12.345678')
    t.match(made, {
      code: 0,
      errors: '',
      output: /^added {4}12\.345678 USD as grant_[0-9a-z]{26}\ncredits {2}112\.345678 USD\n$/,
    })
    t.match(
      (await add('--usd', '0.1')).output,
      /\ncredits {2}112\.445678 USD\n/,
      'without an id each is another',
    )

    const once = await add('--usd', '7', '--id', 'invoice-2026/11')
    t.same(once, {
      code: 0,
      errors: '',
      output: 'added    7.00 USD as invoice-2026/11\ncredits  119.445678 USD\n',
    })
    t.same(await add('--usd', '7', '--id', 'invoice-2026/11'), {
      code: 0,
      errors: '',
      output: 'invoice-2026/11 was granted before: nothing has changed\ncredits  119.445678 USD\n',
    })
    t.match(
      (await add('--usd', '100', '--id', 'initial')).output,
      /^initial was granted before/,
      "the configuration's own",
    )
    t.same(await add('--usd', '1', '--id', 'initial'), {
      code: 2,
      output: '',
      errors: 'larkway: --id was granted before with another amount, 100.00 USD\n',
    })

    t.match(
      (await add('--usd', '-19.445678')).output,
      /^added {4}-19\.445678 USD as .+\ncredits {2}100\.00 USD\n/,
    )
    t.match((await add('--usd=-1000')).output, /\ncredits {2}0\.00 USD\n/, 'not below zero')
  })

  t.test(`${kind}: an account is shown with all that stands on it`, options, async (t) => {
    const { run, withState } = await start(t)
    const created = await run([
      ...['key', 'create', '--workspace', 'acme', '--app', 'web', '--budget-usd', '20'],
    ])
    const stored = /^id +(\S+)$/m.exec(created.output)?.[1]
    const month = await withState(async (state) => {
      const { accounts, ledger } = state
      const settled = await reserve(state, { platformMicros: 1_500_000, spendMicros: 1_500_000 })
      const charge = { platformMicros: 1_750_000, spendMicros: 1_750_000 }
      await ledger.settle({ token: settled, workspace: 'acme', slot: null, charge })
      await reserve(state, { platformMicros: 250_000, spendMicros: 250_000 })
      await reserve(state, { platformMicros: 100_000, spendMicros: 100_000, leaseMs: 1 })
      await accounts.addUsage({ token: newId('call'), workspace: 'acme', spentMicros: { key_gone: 42 } })
      await sleep(50)
      return (await accounts.show('acme', TERMS)).month
    })

    const shown = await run(['credits', 'show', '--workspace', 'acme'])
    t.match(shown, { code: 0, errors: '' })
    const lines = shown.output.split('\n').map((line) => line.trim().replace(/ {2,}/, ' | '))
    const bookedAt = /as initial, (\S+)/.exec(shown.output)?.[1] ?? ''
    const hour = `${bookedAt.slice(0, 14)}00:00.000Z`
    t.ok(Math.abs(Date.parse(bookedAt) - Date.now()) < 60_000)
    t.same(lines, [
      'acme',
      'credits | 100.00 USD',
      `grant | 100.00 USD as initial, ${bookedAt}`,
      'trial | 1.85 of 5.00 USD, ends 2099-01-31T00:00:00.000Z',
      'reserved | 0.25 USD by calls under way',
      'overage | 0.25 USD that calls cost above what was reserved',
      'expired | 0.10 USD in 1 reservations that no node settled',
      `spent in ${month} | 2.100042 of 300.00 USD`,
      `${stored} | 0.00 of 20.00 USD`,
      'key_gone | 0.000042 USD',
      'key_web | 2.10 of 50.00 USD',
      `charged | 1.850042 USD since ${hour}`,
      'recorded | not known here',
      '',
    ])

    const json = await run(['credits', 'show', '--json'])
    t.match(json, { code: 0, errors: '' })
    const [account, ...others] = JSON.parse(json.output)
    t.same(others, [])
    t.same(
      { ...account, keys: account.keys.length },
      {
        workspace: 'acme',
        credits_usd: 100,
        grants: [{ id: 'initial', usd: 100, booked_at: bookedAt }],
        trial: { allowance_usd: 5, spent_usd: 1.85, expires_at: '2099-01-31T00:00:00.000Z' },
        reserved_usd: 0.25,
        overage_usd: 0.25,
        expired_reservations: { count: 1, usd: 0.1 },
        month,
        spent_usd: 2.100042,
        budget_usd: 300,
        booked: {
          since: hour,
          booked_usd: 1.850042,
          recorded_usd: null,
          difference_usd: null,
          complete_until: null,
        },
        keys: 3,
      },
    )
    t.same(account.keys, [
      { id: stored, spent_usd: 0, budget_usd: 20 },
      { id: 'key_gone', spent_usd: 0.000042, budget_usd: null },
      { id: 'key_web', spent_usd: 2.1, budget_usd: 50 },
    ])
  })
}

t.test('without a configuration it is the demo that has credits', async (t) => {
  const { run } = await startSqliteBench(t, null)
  t.match(await run(['credits', 'add', '--workspace', 'demo', '--usd', '5']), {
    code: 0,
    output: /\ncredits {2}5\.00 USD\n$/,
  })
  t.match(await run(['credits', 'show']), { code: 0, output: /^demo\ncredits +5\.00 USD\n/ })
})

t.test('every workspace is shown, also one that nobody can spend for', async (t) => {
  const two = CONFIG.replace('workspaces:\n', 'workspaces:\n  empty: {}\n')
  const { run } = await startSqliteBench(t, two)
  const { code, output } = await run(['credits', 'show'])
  t.equal(code, 0)
  t.match(output, /^empty\ncredits +0\.00 USD\ntrial +none\n/)
  t.match(output, /\n\nacme\ncredits +100\.00 USD\n/)
})

t.test('what cannot be followed, and what cannot be done', async (t) => {
  const { run, desk, withState } = await startSqliteBench(t, CONFIG)
  const add = ['add', '--workspace', 'acme']
  const amount = '--usd must be an amount in USD other than 0, with at most 6 decimals'
  const rows: readonly [readonly string[], UsageError | CommandFailure][] = [
    [['spend'], new UsageError('credits takes add or show; see larkway credits --help')],
    [['add', '--usd', '5'], new UsageError('credits add needs --workspace; see larkway credits add --help')],
    [add, new UsageError('credits add needs --usd; see larkway credits add --help')],
    [[...add, '--usd', '0'], new UsageError(amount)],
    [[...add, '--usd', '-0.0000001'], new UsageError(amount)],
    [[...add, '--usd', '1e3'], new UsageError(amount)],
    [[...add, '--usd', '1000000001'], new UsageError(amount)],
    [
      [...add, '--usd', '5', '--id', 'no spaces'],
      new UsageError('--id must be 1 to 64 visible ASCII characters'),
    ],
    [
      [...add, '--usd', '5', '--id', 'x'.repeat(65)],
      new UsageError('--id must be 1 to 64 visible ASCII characters'),
    ],
    [
      ['add', '--workspace', 'amce', '--usd', '5'],
      new CommandFailure('there is no such workspace; there is "acme"'),
    ],
    [['show', '--workspace', 'amce'], new CommandFailure('there is no such workspace; there is "acme"')],
  ]
  for (const [args, error] of rows) await t.rejects(credits(args, desk), error, error.message)
  t.same((await withState(({ accounts }) => accounts.show('acme', TERMS))).grants.length, 1)

  const away = await run(['credits', ...add, '--usd', '5'], { REDIS_URL: 'redis://127.0.0.1:9' })
  t.match(away, {
    code: 1,
    output: '',
    errors: /^larkway: Redis does not answer.*; to try again, add --id grant_[0-9a-z]{26}\n$/,
  })
})
