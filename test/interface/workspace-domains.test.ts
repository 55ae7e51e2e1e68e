import t from 'tap'
import { INVALID_LABELS } from '../support/guard-urls.ts'
import { startWorkspaceApi } from './workspace-api.ts'

const PATH = '/audio-url-domains'
const numbered = (count: number) => Array.from({ length: count }, (_, index) => `d${index}.example.com`)

t.test('a list is replaced as a whole, and is the one of its workspace', async (t) => {
  const api = await startWorkspaceApi(t)
  const get = async (options = {}) => (await api.ask('GET', PATH, options)).body
  t.same(await get(), { domains: [], max_domains: 20 }, 'none at first')
  for (const domains of [['a.example.com', '*.b.example.com'], ['c.example.com'], numbered(20), []]) {
    const answer = await api.ask('PUT', PATH, { body: { domains } })
    t.same([answer.status, answer.body], [200, { domains, max_domains: 20 }])
    t.same(await get(), { domains, max_domains: 20 })
  }
  await api.ask('PUT', PATH, { body: { domains: ['mine.example.com'] } })
  const theirs = { key: api.keys.foreignAdmin, workspace: 'other' }
  t.same(await get(theirs), { domains: [], max_domains: 20 })
  await api.ask('PUT', PATH, { ...theirs, body: { domains: ['theirs.example.com'] } })
  t.same(await get(), { domains: ['mine.example.com'], max_domains: 20 })
})

t.test('domains are kept in one form, each once, in the order given', async (t) => {
  const api = await startWorkspaceApi(t)
  const put = async (domains: unknown) => (await api.ask('PUT', PATH, { body: { domains } })).body.domains
  t.same(await put(['CDN.Example.COM', 'bücher.example', '*.BÜCHER.example', 'example。org']), [
    'cdn.example.com',
    'xn--bcher-kva.example',
    '*.xn--bcher-kva.example',
    'example.org',
  ])
  t.same(await put(['b.example', 'a.example', 'B.example', '*.a.example', 'a.EXAMPLE']), [
    'b.example',
    'a.example',
    '*.a.example',
  ])
  t.same(
    await put([...numbered(20), ...numbered(20).map((name) => name.toUpperCase())]),
    numbered(20),
    '20 of 40',
  )
})

const REFUSED: readonly (readonly [body: unknown, param: string | null, message: RegExp])[] = [
  [{}, 'domains', /must be given/],
  [{ domains: null }, 'domains', /must be a list/],
  [{ domains: 'a.example.com' }, 'domains', /must be a list/],
  [{ domains: { 0: 'a.example.com' } }, 'domains', /must be a list/],
  [{ domains: [1] }, 'domains[0]', /must be a string/],
  [{ domains: ['a.example.com', null] }, 'domains[1]', /must be a string/],
  [{ domains: numbered(21) }, 'domains', /at most 20/],
  [
    { domains: ['a.example.com', 'x', 'b.example.com', '10.0.0.1'] },
    'domains[1]',
    /^`domains\[1\]`, `domains\[3\]` must /,
  ],
  [{ domains: [...numbered(21), 'x'] }, 'domains[21]', /^`domains\[21\]` must /],
]
const NO_DOMAINS = [
  ...['', ' ', '*', '*.', '*.com', '*.*.example.com', 'a.*.example.com', '*example.com', 'localhost'],
  ...['https://example.com', '//example.com', 'example.com/', 'example.com:443', 'example.com?'],
  ...['example.com#', 'user@example.com', 'exa mple.com', 'example.com\n', 'example.com\u0000'],
  ...['example..com', '.example.com', 'example.com.', '-a.example.com', 'a_b.example.com', 'exa%6dple.com'],
  ...['10.0.0.1', '10.1', '0x7f.1', '2130706433', '１０.0.0.1', '[::1]', '::1', 'a⒈.example'],
  ...INVALID_LABELS.map((label) => `${label}.example`),
  `${'a'.repeat(64)}.example.com`,
  `${'a.'.repeat(130)}example.com`,
]

t.test('what is refused changes nothing, and is named', async (t) => {
  const api = await startWorkspaceApi(t)
  await api.ask('PUT', PATH, { body: { domains: ['kept.example.com'] } })
  const rows = [
    ...REFUSED,
    ...NO_DOMAINS.map(
      (domain) => [{ domains: ['a.example.com', domain] }, 'domains[1]', /host name/] as const,
    ),
  ]
  for (const [body, param, message] of rows) {
    const answer = await api.ask('PUT', PATH, { body })
    const name = JSON.stringify(body).slice(0, 100)
    t.match(answer, { status: 400, body: { error: { code: 'INVALID_REQUEST', param, message } } }, name)
  }
  const many = await api.ask('PUT', PATH, { body: { domains: Array.from({ length: 5_000 }, () => '') } })
  t.match(many.body, { error: { param: 'domains[0]', message: /`domains\[19\]` and 4980 more must / } })
  t.ok(many.text.length < 1_000, 'a refusal stays short')
  const secret = await api.ask('PUT', PATH, { body: { domains: ['canary_value'] } })
  t.notMatch(secret.text, 'canary', 'what was sent is not repeated')
  t.same((await api.ask('GET', PATH)).body, { domains: ['kept.example.com'], max_domains: 20 })
})

t.test('of two lists that come at once one is there in the end, whole', async (t) => {
  const api = await startWorkspaceApi(t)
  for (let round = 0; round < 20; round += 1) {
    const lists = ['one', 'two', 'three'].map((name) =>
      numbered(20).map((domain) => `${name}-${round}.${domain}`),
    )
    const answers = await Promise.all(lists.map((domains) => api.ask('PUT', PATH, { body: { domains } })))
    t.same(
      answers.map(({ body }) => body.domains),
      lists,
    )
    const { domains } = (await api.ask('GET', PATH)).body
    t.ok(lists.some((list) => JSON.stringify(list) === JSON.stringify(domains)))
  }
})
