import t from 'tap'
import { speak } from '../../src/sandbox/speak.ts'
import { startConsoleBench } from '../support/console-bench.ts'
import { type ConsoleNode, startConsoleNode, type Visitor } from '../support/console-node.ts'
import { requestRecord } from '../support/console-record.ts'
import { waitUntil } from '../support/wait-until.ts'

let node: ConsoleNode
let admin: Visitor

interface Impact {
  readonly requests: number
  readonly moves: readonly { readonly to: { readonly model: string }; readonly requests: number }[]
  readonly entries: readonly { readonly model: string; readonly published: number; readonly draft: number }[]
  readonly refused: { readonly published: number; readonly draft: number; readonly newly: number }
  readonly cost: { readonly requests: number; readonly published_usd: number; readonly draft_usd: number }
}

const ROUTE = '/workspaces/acme/routes/acme.moving'
const price = (perHour: number) => ({ price: { per_hour_usd: perHour } })
/** Sandbox models: whatever is declared of them, it serves all alike. */
const dear = { provider: 'acme-own', model: 'morse-1', ...price(3.6) }
const cheap = { provider: 'acme-own', model: 'morse-1-mini', features: [], ...price(1.8) }

t.before(async () => {
  node = await startConsoleNode(t)
  admin = await node.signIn(node.keys.admin)
})

async function publish(fields: object, note?: string): Promise<void> {
  const before = (await admin.get(ROUTE)).body.draft as { revision: number } | null | undefined
  const saved = await admin.put(`${ROUTE}/draft`, { fields, revision: before?.revision ?? null })
  const { revision } = saved.body.draft as { revision: number }
  const published = await admin.post(`${ROUTE}/publish`, {
    revision,
    ...(note === undefined ? {} : { note }),
  })
  t.equal(published.status, 200, published.text)
}

const impact = async (body: object = {}) => {
  const told = await admin.post(`${ROUTE}/impact`, body)
  t.equal(told.status, 200, told.text)
  return told.body as unknown as Impact
}

interface Served {
  readonly status: number
  readonly model: string | null
  readonly costUsd: number
}

/** Six calls that ask for nothing more, three with speakers and two with the times of words. */
async function callAll(key: string): Promise<readonly Served[]> {
  const asked = [...Array<object>(6).fill({}), ...Array<object>(3).fill({ diarization: 'true' })]
  asked.push({ timestamps: 'word' }, { timestamps: 'word' })
  const served: Served[] = []
  for (const fields of asked) {
    const form = new FormData()
    form.append('file', new Blob([speak('e', 600, 12)]), 'a.wav')
    for (const [name, value] of Object.entries(fields)) form.append(name, String(value))
    const answer = await fetch(`${node.url}/v1/transcription`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: form,
    })
    const body = (await answer.json()) as { model?: string; cost_usd?: number }
    served.push({ status: answer.status, model: body.model ?? null, costUsd: body.cost_usd ?? 0 })
  }
  return served
}

/** Asked now and then: admins may make so many requests. */
const until = (isSo: () => Promise<boolean>) => waitUntil(isSo, 15_000, 500)

const micros = (usd: number) => Math.round(usd * 1_000_000)
const recorded = async () => {
  const { body } = await admin.get('/workspaces/acme/requests?limit=300')
  return (body.requests as { route: string }[]).filter(({ route }) => route === 'acme.moving').length
}

t.test('a draft is held against the requests that were really served', async (t) => {
  await publish({ entries: [dear] })
  await admin.put('/workspaces/acme/apps/moving', { route: 'acme.moving' })
  const { body } = await admin.post('/workspaces/acme/keys', { name: 'moving', app: 'moving' })
  const key = String(body.key)
  t.match(await impact(), { requests: 0, moves: [], cost: { requests: 0 } }, 'nothing was sent yet')

  const first = await callAll(key)
  t.ok(first.every(({ status, model }) => status === 200 && model === 'morse-1'))
  const spent = first.reduce((sum, { costUsd }) => sum + micros(costUsd), 0)
  t.ok(spent > 0)
  await until(async () => (await recorded()) === 11)

  // The console reads records again after a few seconds.
  await until(async () => (await impact()).requests === 11)
  const same = await impact()
  t.match(same, { moves: [], refused: { published: 0, draft: 0, newly: 0 }, cost: { requests: 11 } })
  t.equal(micros(same.cost.published_usd), spent, 'what they cost is what their answers said')
  t.equal(micros(same.cost.draft_usd), spent)
  t.match((await admin.get(`${ROUTE}/traffic`)).body, {
    requests: 11,
    entries: [{ provider: 'acme-own', model: 'morse-1', requests: 11 }],
  })

  const alone = await impact({ fields: { entries: [cheap] } })
  t.match(alone, {
    requests: 11,
    moves: [{ from: { model: 'morse-1' }, to: { model: 'morse-1-mini' }, requests: 6 }],
    entries: [
      { model: 'morse-1-mini', published: 0, draft: 6 },
      { model: 'morse-1', published: 11, draft: 0 },
    ],
    refused: {
      ...{ published: 0, draft: 5, newly: 5 },
      reasons: [
        { code: 'REQUIRED_FEATURE_UNAVAILABLE', message: /diarization/, requests: 3 },
        { code: 'REQUIRED_FEATURE_UNAVAILABLE', message: /word_timestamps/, requests: 2 },
      ],
    },
    cost: { requests: 6, unknown: 0 },
    left_out: { not_recorded: 0, app_gone: 0, answered_without_provider: 0 },
    uncertain: 0,
  })
  const plain = first.slice(0, 6).map(({ costUsd }) => micros(costUsd))
  t.equal(
    micros(alone.cost.published_usd),
    plain.reduce((sum, one) => sum + one, 0),
  )
  t.equal(
    micros(alone.cost.draft_usd),
    plain.reduce((sum, one) => sum + Math.round(one / 2), 0),
    'half the price',
  )

  const both = { entries: [cheap, dear] }
  const mixed = await impact({ fields: both })
  t.match(mixed, {
    moves: [{ to: { model: 'morse-1-mini' }, requests: 6 }],
    refused: { draft: 0 },
    cost: { requests: 11 },
  })
  t.equal(micros(mixed.cost.published_usd) - micros(mixed.cost.draft_usd), micros(alone.cost.draft_usd))

  const weighted = {
    strategy: 'weighted',
    entries: [
      { ...dear, weight: 3 },
      { ...dear, model: 'morse-1-mini' },
    ],
  }
  const drawn = await impact({ fields: weighted })
  t.equal(
    drawn.entries.reduce((sum, { draft }) => sum + draft, 0),
    11,
  )
  t.same(await impact({ fields: weighted }), drawn, 'the same question has the same answer')

  t.test('and what it foretells comes about', async (t) => {
    await publish(both, '  cheaper, after the trial  ')
    const second = await callAll(key)
    for (const { model, draft } of mixed.entries)
      t.equal(second.filter((one) => one.model === model).length, draft, model)
    t.equal(
      second.reduce((sum, { costUsd }) => sum + micros(costUsd), 0),
      micros(mixed.cost.draft_usd),
      'at the foretold cost',
    )
    await until(async () => (await impact()).requests === 22)
    const settled = await impact()
    t.match(settled, { moves: [], refused: { newly: 0 } })

    await publish({ entries: [cheap] })
    const third = await callAll(key)
    t.equal(third.filter(({ status }) => status === 422).length, alone.refused.draft)
    await until(async () => (await impact()).requests === 33)
    t.match(await impact({ fields: both }), { refused: { published: 15, draft: 0, newly: 0 }, moves: [] })
  })
})

t.test('a note says why a version was published', async (t) => {
  const { versions } = (await admin.get(`${ROUTE}/versions`)).body as { versions: { note: string | null }[] }
  t.same(
    versions.map(({ note }) => note),
    [null, 'cheaper, after the trial', null],
  )
  const { lines } = (await admin.get('/audit')).body as { lines: { action: string; detail: string | null }[] }
  t.same(
    lines.filter(({ action }) => action === 'route.publish').map(({ detail }) => detail),
    [null, 'cheaper, after the trial', null],
  )
  const saved = await admin.put(`${ROUTE}/draft`, { fields: { entries: [dear] }, revision: null })
  const { revision } = saved.body.draft as { revision: number }
  for (const note of ['x'.repeat(501), 'a\u202eb', 'two\nlines', 5])
    t.match(await admin.post(`${ROUTE}/publish`, { revision, note }), {
      status: 400,
      body: { error: { param: 'note' } },
    })
  const hostile = '<img src=x onerror=alert(1)> =1+1'
  t.match((await admin.post(`${ROUTE}/publish`, { revision, note: hostile })).body, {
    published: { number: 4, note: hostile },
  })
})

t.test('what cannot be judged is said', async (t) => {
  const faulty = await admin.post(`${ROUTE}/impact`, {
    fields: { entries: [{ provider: 'nobody', model: 'x' }] },
  })
  t.match(faulty, {
    status: 200,
    body: { issues: ['/entries/0/provider: there is no provider "nobody"'], requests: 0 },
  })
  for (const [path, body] of [
    [`${ROUTE}/impact`, { more: 1 }],
    [`${ROUTE}/impact`, { fields: [] }],
  ] as const)
    t.equal((await admin.post(path, body)).status, 400)
  t.equal((await admin.post('/workspaces/acme/routes/acme.none/impact')).status, 404)
  const foreign = await node.signIn(node.keys.foreignAdmin)
  t.equal((await foreign.post(`${ROUTE}/impact`)).status, 404)
  t.equal((await foreign.get(`${ROUTE}/traffic`)).status, 404)
  const probing = '/workspaces/other/routes/acme.moving/impact'
  t.notMatch(
    (await foreign.post(probing, { fields: { entries: [] } })).text,
    /morse/,
    'nor under the own workspace',
  )
  await admin.put('/workspaces/acme/apps/moving', { route: 'voice' })
  t.match(await impact({ fields: { entries: [cheap] } }), { moves: [] }, 'the app uses another route now')
})

t.test('figures that were worked out by hand', async (t) => {
  const { visitors, state } = await startConsoleBench(t)
  const { admin, foreign } = visitors
  const place = 'workspaces/acme/routes/acme.chat'
  const entry = (model: string, input: number, output: number) => ({
    ...{ provider: 'acme', model, capabilities: ['text'] },
    price: { per_1m_input_tokens_usd: input, per_1m_output_tokens_usd: output },
  })
  const fields = { entries: [entry('large', 2, 4)] }
  const saved = await admin.ask('PUT', `${place}/draft`, { fields, revision: null })
  const { revision } = saved.body.draft as { revision: number }
  t.equal((await admin.ask('POST', `${place}/publish`, { revision })).status, 200)
  await admin.ask('PUT', 'workspaces/acme/apps/chat', { route: 'acme.chat' })

  const nowMs = Date.now()
  const usage = { input_tokens: 1000, output_tokens: 500, total_tokens: 1500 }
  const call = { operation: 'chat', sample: { characters: 4000 } } as const
  const attempts = [{ provider: 'acme', model: 'large', status: 200, milliseconds: 5, reason: 'ok' }]
  const made = { app: 'chat', route: 'acme.chat', atMs: nowMs, usage, call, attempts, costUsd: 0.004 }
  const withTools = { ...call, sample: { ...call.sample, tools: true } }
  await state.console.requests.add('all', [
    ...Array.from({ length: 10 }, () => requestRecord('acme', made)),
    requestRecord('acme', { ...made, call: { ...call, unrecorded: ['response_schema', 'audio'] } }),
    // Its usage was not counted, so its price is not known.
    requestRecord('acme', { ...made, usage: null, costUsd: null }),
    requestRecord('acme', {
      ...made,
      call: withTools,
      status: 422,
      error: 'NO_HEALTHY_PROVIDER',
      attempts: [],
    }),
    requestRecord('acme', { ...made, app: 'gone' }),
    requestRecord('acme', { ...made, replayed: true }),
    requestRecord('acme', { ...made, cache: 'hit' }),
    requestRecord('acme', { ...made, call: undefined } as object),
    requestRecord('acme', { ...made, route: 'acme.other' }),
    requestRecord('other', made),
  ])
  const small = { ...entry('small', 1, 2), capabilities: ['text', 'function_calling'] }
  const { body } = await admin.ask('POST', `${place}/impact`, { fields: { entries: [small] } })
  const { from: _from, to: _to, coverage: _coverage, ...counted } = body
  t.same(counted, {
    issues: [],
    requests: 13,
    left_out: { not_recorded: 1, app_gone: 1, answered_without_provider: 2 },
    entries: [
      { provider: 'acme', model: 'small', published: 0, draft: 13 },
      { provider: 'acme', model: 'large', published: 12, draft: 0 },
    ],
    moves: [
      { from: { provider: 'acme', model: 'large' }, to: { provider: 'acme', model: 'small' }, requests: 12 },
    ],
    refused: { published: 1, draft: 0, newly: 0, reasons: [] },
    // 11 times 1,000 tokens at $2 and 500 at $4 a million; half of it by the draft.
    cost: { requests: 11, unknown: 1, published_usd: 0.044, draft_usd: 0.022 },
    uncertain: 1,
    unrecorded: [
      { field: 'response_schema', requests: 1 },
      { field: 'audio', requests: 1 },
    ],
  })
  t.match((await admin.get(`${place}/traffic`)).body, {
    requests: 14,
    entries: [{ provider: 'acme', model: 'large', requests: 14 }],
  })
  t.equal((await foreign.ask('POST', `${place}/impact`, {})).status, 404)
})
