import t from 'tap'
import type { ConsoleBench, Told } from '../support/console-bench.ts'
import { auditAfter, sameFor, startConsoleBench } from '../support/console-bench.ts'

const ACME = 'workspaces/acme'

const creditsIn = ({ body }: Told) => (body.account as { credits_usd: number } | null)?.credits_usd

let bench: ConsoleBench

t.before(async () => {
  bench = await startConsoleBench(t)
})

t.test('credits are booked once under an id, by operators', async (t) => {
  const { visitors, state } = bench
  const { admin, operator } = visitors
  const add = (amount_usd: unknown, grant_id: unknown) =>
    operator.ask('POST', `${ACME}/credits`, { amount_usd, grant_id })
  t.equal(creditsIn(await add(2.5, 'one')), 12.5, 'on top of the grant of the configuration')
  t.equal(creditsIn(await add(2.5, 'one')), 12.5, 'sent again')
  t.match(await add(3, 'one'), {
    status: 400,
    body: {
      error: { param: 'grant_id', message: '`grant_id` was granted before with another amount, 2.50 USD' },
    },
  })
  t.equal(creditsIn(await add(0.000001, 'two')), 12.500001)
  t.equal(creditsIn(await add(-100, 'back')), 0, 'no more than there is is taken back')
  t.equal(creditsIn(await add(-100, 'back')), 0, 'sent again')
  t.equal((await add(-1, 'back')).status, 400)
  const refused: readonly (readonly [unknown, unknown, string])[] = [
    [0, 'x', 'amount_usd'],
    ['1', 'x', 'amount_usd'],
    [0.000_000_1, 'x', 'amount_usd'],
    [1e10, 'x', 'amount_usd'],
    [1, '', 'grant_id'],
    [1, 'a b', 'grant_id'],
    [1, 'x'.repeat(65), 'grant_id'],
  ]
  for (const [amount, id, param] of refused)
    t.match(await add(amount, id), { status: 400, body: { error: { param } } }, `${amount} ${id}`)
  t.equal((await operator.ask('POST', 'workspaces/nowhere/credits', {})).status, 404)

  const mine = await admin.ask('POST', `${ACME}/credits`, { amount_usd: 1, grant_id: 'mine' })
  t.match(mine, { status: 403, body: { error: { code: 'PERMISSION_DENIED' } } })
  const nowhere = await admin.ask('POST', 'workspaces/nowhere/credits', {})
  t.equal(sameFor(await admin.ask('POST', 'workspaces/other/credits', {})), sameFor(nowhere))
  const { lines } = (await admin.get('audit')).body
  const by = { via: 'console', key_id: 'key_operator', name: 'key_operator' }
  t.match(lines, [
    { action: 'credits.add', by, detail: '-100.00 USD as back' },
    { action: 'credits.add', by, detail: '0.000001 USD as two' },
    { action: 'credits.add', by, detail: '2.50 USD as one' },
  ])
  t.equal((lines as unknown[]).length, 3)
  t.equal(
    (await state.accounts.show('other', { grant: null, trial: null, budgetMicros: null })).grants.length,
    0,
  )
})

t.test('whether content is shown is for the workspace to say', async (t) => {
  const { visitors, state } = bench
  const { admin, operator } = visitors
  const after = await auditAfter(admin)
  const put = (shown: unknown, visitor = admin) => visitor.ask('PUT', `${ACME}/content`, { shown })
  t.match((await admin.get(ACME)).body, { content_shown: false })
  t.match((await put(true)).body, { id: 'acme', content_shown: true })
  t.match((await put(true)).body, { content_shown: true })
  t.equal(await state.settings.contentShown('acme'), true)
  t.equal(await state.settings.contentShown('other'), false)
  t.match((await operator.get(ACME)).body, { content_shown: true })
  t.match((await put(false, operator)).body, { content_shown: false })
  for (const shown of ['true', 1, null, undefined])
    t.match(await put(shown), { status: 400, body: { error: { param: 'shown' } } })
  const nowhere = await admin.ask('PUT', 'workspaces/nowhere/content', { shown: true })
  t.equal(sameFor(await admin.ask('PUT', 'workspaces/other/content', { shown: true })), sameFor(nowhere))
  const lines = await after()
  t.match(lines, [
    { action: 'content.hide', by: { key_id: 'key_operator' }, before: lines[1]?.after },
    { action: 'content.show', by: { key_id: 'key_admin' }, after: lines[0]?.before },
  ])
  t.equal(lines.length, 2)
})
