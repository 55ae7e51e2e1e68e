import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createEndUserHash, keptEndUser } from '../../src/gateway/call/context/end-users.ts'
import { END_USER_LENGTH_MAX } from '../../src/gateway/catalog/workspace.ts'
import { principal } from '../support/catalog.ts'
import { tenantsOf, type WorkspaceOptions } from '../support/fleet.ts'
import { startGateway } from '../support/gateway.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { usageRecords } from '../support/usage-records.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

/** Eleven characters at 100 micro-USD each: what it costs is known before. */
const SPOKEN = { input: 'eleven char' }
const SPOKEN_MICROS = 1_100
const USAGE = { prompt_tokens: 10, completion_tokens: 50, total_tokens: 60 }
const ENTRY = {
  provider: 'one',
  model: 'm',
  capabilities: ['text', 'completion', 'audio_input', 'audio_output', 'image', 'embeddings'],
  price: {
    per_1k_characters_usd: 0.1,
    per_1m_input_tokens_usd: 1,
    per_1m_output_tokens_usd: 1,
    per_hour_usd: 36,
    per_image_usd: 1,
  },
}
const budget = (calls: number) => ({ budget_usd: { per_month: (calls * SPOKEN_MICROS) / 1_000_000 } })
const ofAll = (end_users: object): WorkspaceOptions => ({ entries: [ENTRY], terms: { end_users } })
const sound = (seconds: number) => filledWav(seconds * 32_000).toString('base64')
const PLAIN = 'x-canary@customer.example'

const WORKSPACES: Readonly<Record<string, WorkspaceOptions>> = {
  free: { entries: [ENTRY] },
  capped: ofAll({ ...budget(3), overrides: { vip: budget(5), none: budget(0) } }),
  hashed: ofAll({ ...budget(2), hash: true }),
  limited: ofAll({
    rate_limit: { requests_per_minute: 1, burst: 2 },
    overrides: { vip: { rate_limit: { requests_per_minute: 60, burst: 4 } } },
  }),
}

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly error: { code: string; param: string | null; details: Record<string, unknown> } | undefined
  readonly json: Record<string, unknown>
}

async function start(t: Test) {
  const upstream = await startUpstream(t, { script: { usage: USAGE } })
  const provider = { kind: 'openai-compatible', base_url: upstream.url, access: 'platform' }
  const terms = { credits_usd: 1_000, grant_id: 'initial' }
  const workspaces = Object.fromEntries(
    Object.entries(WORKSPACES).map(([name, of]) => [name, { ...of, terms: { ...terms, ...of.terms } }]),
  )
  const tenants = tenantsOf({ providers: { one: provider }, workspaces })
  const gateway = await startGateway(t, { config: tenants.config, env: { LARKWAY_USAGE: 'true' } })
  const ask = async (
    workspace: string,
    path: string,
    body: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> => {
    const response = await fetch(gateway.url + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        authorization: tenants.authorizationOf(workspace),
        'content-type': 'application/json',
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const json = (await response.json()) as Record<string, unknown> & Pick<Answer, 'error'>
    return { status: response.status, headers: response.headers, error: json.error, json }
  }
  const speak = (workspace: string, endUser?: string) =>
    ask(workspace, '/v1/speech', SPOKEN, endUser === undefined ? {} : { 'x-lk-end-user': endUser })
  return { upstream, gateway, tenants, ask, speak }
}

const CHAT = { messages: [{ role: 'user', content: 'hello' }], max_tokens: 10 }
/** Where OpenAI's clients send one, and by which names. */
const DOORS: readonly (readonly [path: string, body: object, names: readonly string[]])[] = [
  ['/openai/v1/chat/completions', CHAT, ['user', 'safety_identifier']],
  ['/openai/v1/responses', { input: 'hello', max_output_tokens: 20 }, ['user', 'safety_identifier']],
  ['/openai/v1/completions', { prompt: 'hello', max_tokens: 10 }, ['user']],
  ['/openai/v1/embeddings', { input: 'hello' }, ['user']],
  ['/openai/v1/images/generations', { prompt: 'hello' }, ['user', 'safety_identifier']],
]
const HOSTILE = [
  'a'.repeat(END_USER_LENGTH_MAX + 1),
  ...[' a', 'a ', 'a\tb', 'a\u0000b', 'a\nb', 'a\u202eb', '\ud800', '\u00a0'],
]

t.test('end users at one node', { timeout: 120_000 }, async (t) => {
  const rig = await start(t)
  const { ask, speak, upstream, gateway } = rig

  t.test('what names an end user is checked, and the field that did is named', async (t) => {
    for (const [path, body, names] of DOORS) {
      for (const name of names) {
        const send = (value: unknown) => ask('free', path, { ...body, [name]: value })
        t.equal((await send('ann')).status, 200, `${path} ${name}`)
        for (const none of ['', null]) t.equal((await send(none)).status, 200, 'none')
        for (const bad of [5, ['a'], {}, true])
          t.match(await send(bad), { status: 400, error: { param: name } })
      }
    }
    const [path, body] = DOORS[0]!
    for (const bad of HOSTILE) {
      const answer = await ask('free', path, { ...body, user: bad })
      t.match(answer, { status: 400, error: { code: 'INVALID_REQUEST', param: 'user' } }, JSON.stringify(bad))
    }
    t.equal((await ask('free', path, { ...body, user: 'Zoë 顧客 🎧' })).status, 200, 'any script')
    const longest = 'a'.repeat(END_USER_LENGTH_MAX)
    for (const good of ['ann', 'a b', longest]) t.equal((await speak('free', good)).status, 200)
    for (const bad of ['', `${longest}a`, 'a\tb', 'a\u00e9'])
      t.match(await speak('free', bad), { status: 400, error: { param: 'X-LK-End-User' } })
    const me = { 'x-lk-end-user': `${longest}a` }
    t.match(await ask('free', '/v1/me', undefined, me), { status: 400 }, 'at every endpoint with a key')
    t.match(await ask('free', '/v1/me', undefined, { 'x-lk-end-user': 'ann' }), { status: 200 })
  })

  t.test('each has a budget of its own, and those who have terms of their own have those', async (t) => {
    const outcomes = async (endUser: string | undefined, times: number) => {
      const answers: Answer[] = []
      for (let call = 0; call < times; call++) answers.push(await speak('capped', endUser))
      return answers
    }
    const ann = await outcomes('ann', 4)
    t.same(
      ann.map(({ status }) => status),
      [200, 200, 200, 402],
    )
    t.match(ann[3]?.error, { code: 'BUDGET_EXCEEDED', details: { budget: 'end_user' } })
    t.same(
      (await outcomes('vip', 6)).map(({ status }) => status),
      [200, 200, 200, 200, 200, 402],
    )
    t.same(
      (await outcomes('none', 1)).map(({ status }) => status),
      [402],
    )
    t.ok(
      (await outcomes(undefined, 5)).every(({ status }) => status === 200),
      'no one named is no one capped',
    )
    const at = '/openai/v1/chat/completions'
    t.match(await ask('capped', at, { ...CHAT, user: 'ann' }), { status: 402 }, 'one budget at every door')
    const both = await ask('capped', at, { ...CHAT, user: 'ann' }, { 'x-lk-end-user': 'eve' })
    t.equal(both.status, 200, 'the header wins')
    t.same(both.json.warnings, undefined)
    const newer = await ask('capped', at, { ...CHAT, user: 'eve', safety_identifier: 'ann' })
    t.equal(newer.status, 402, 'and the newer field over the older')
    t.notOk(
      upstream.received.some(({ body }) => JSON.stringify(body).includes('ann')),
      'providers are told nothing',
    )
  })

  t.test('a call that fails costs its end user nothing', async (t) => {
    upstream.behaveAll({ status: 500 })
    for (let call = 0; call < 4; call++) t.equal((await speak('capped', 'unlucky')).status, 502)
    upstream.behaveAll({ usage: USAGE })
    t.ok(await waitUntil(async () => (await speak('capped', 'unlucky')).status === 200))
  })

  t.test('each has a bucket of its own beside that of the key', async (t) => {
    const answers = [
      await speak('limited', 'ann'),
      await speak('limited', 'ann'),
      await speak('limited', 'ann'),
    ]
    t.same(
      answers.map(({ status }) => status),
      [200, 200, 429],
    )
    const [, , refused] = answers
    t.match(refused?.error, { code: 'RATE_LIMITED', details: { rate_limit: 'end_user' } })
    t.ok(Number(refused?.headers.get('retry-after')) > 30)
    t.equal(refused?.headers.get('x-ratelimit-limit-requests'), '100000', 'the headers tell of the key')
    t.equal((await speak('limited', 'ben')).status, 200)
    t.equal((await speak('limited')).status, 200)
    const vip = await Promise.all(Array.from({ length: 4 }, () => speak('limited', 'vip')))
    t.ok(vip.every(({ status }) => status === 200))
    const chat = { ...CHAT, user: 'ann' }
    t.equal((await ask('limited', '/openai/v1/chat/completions', chat)).status, 429, 'named by the body')
  })

  t.test('a job counts for whom it was submitted', async (t) => {
    const audio = { audio: sound(2) }
    const submit = async (endUser: string) => {
      const headers = { 'x-lk-end-user': endUser }
      const submitted = await ask('capped', '/v1/transcription/jobs', audio, headers)
      const path = submitted.headers.get('location')
      let job: Record<string, unknown> = {}
      await waitUntil(async () => {
        job = (await ask('capped', `${path}?wait=10`, undefined)).json
        return job.status === 'failed'
      })
      return job
    }
    t.match(await submit('none'), { status: 'failed', error: { code: 'BUDGET_EXCEEDED' } })
    t.match(await submit('late'), { status: 'failed' }, 'two seconds cost more than the budget')
  })

  t.test('a workspace that keeps hashes keeps nothing else', async (t) => {
    const statuses = []
    for (let call = 0; call < 3; call++) statuses.push((await speak('hashed', PLAIN)).status)
    t.same(statuses, [200, 200, 402])
    const headers = { 'x-lk-end-user': PLAIN }
    await ask('hashed', '/v1/transcription/jobs', { audio: sound(1) }, headers)
    await ask('hashed', '/openai/v1/chat/completions', { ...CHAT, user: PLAIN })
    await gateway.signal('SIGTERM')
    const records = await usageRecords(join(gateway.dataFolder, 'usage-segments'))
    const namedIn = (name: string) =>
      new Set(records.flatMap(({ workspace, end_user }) => (workspace === name ? [end_user] : [])))
    t.ok(
      ['ann', 'vip', 'eve', 'none', null].every((one) => namedIn('capped').has(one)),
      'the ledger has them',
    )
    t.ok(records.some(({ kind, end_user }) => kind === 'job' && end_user === 'none'))
    t.match([...namedIn('hashed')], [/^eu_[A-Za-z0-9_-]{32}$/], 'or one hash')
    const files = await readdir(gateway.dataFolder, { recursive: true, withFileTypes: true })
    let looked = 0
    for (const file of files.filter((one) => one.isFile() && one.name !== 'larkway.yaml')) {
      const bytes = await readFile(join(file.parentPath, file.name))
      t.notOk(bytes.includes(PLAIN), file.name)
      looked += 1
    }
    t.ok(looked > 0, `${looked} files`)
    t.notOk(
      gateway.output.some((line) => line.includes(PLAIN)),
      'nor does the log',
    )
  })
})

t.test('a keyed hash tells workspaces and installations apart, and stays with the oldest key', async (t) => {
  const [old, other] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
  const hash = createEndUserHash([old])
  t.match(hash('acme', 'ann'), /^eu_[A-Za-z0-9_-]{32}$/)
  t.equal(createEndUserHash([other, old])('acme', 'ann'), hash('acme', 'ann'), 'a key that was put before it')
  const all = [
    hash('acme', 'ann'),
    hash('acme', 'ben'),
    hash('beta', 'ann'),
    createEndUserHash([other])('acme', 'ann'),
  ]
  t.equal(new Set(all).size, 4)
  t.throws(() => createEndUserHash([]))
})

t.test('an id that was kept before ids are hashed is hashed when it is used', async (t) => {
  const endUserHash = createEndUserHash([Buffer.alloc(32, 1)])
  const terms = { budgetMicros: null, rateLimit: null }
  const of = (isHashed: boolean, id: string) => {
    const endUsers = { isHashed, terms, overrides: new Map([['ann', { ...terms, budgetMicros: 7 }]]) }
    const workspace = { ...principal().workspace, endUsers }
    return keptEndUser({ endUserHash }, { workspace }, id)
  }
  const hashed = endUserHash(principal().workspace.id, 'ann')
  t.match(of(false, 'ann'), { id: 'ann', terms: { budgetMicros: 7 } })
  t.match(of(true, 'ann'), { id: hashed, account: of(true, hashed).account })
  t.equal(of(true, hashed).id, hashed, 'once')
})
