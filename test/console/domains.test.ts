import t from 'tap'
import { auditAfter, type ConsoleBench, startConsoleBench } from '../support/console-bench.ts'

const DOMAINS = 'workspaces/acme/audio-url-domains'

let bench: ConsoleBench

t.before(async () => {
  bench = await startConsoleBench(t)
})

t.test('domains are listed and replaced', async (t) => {
  const { visitors, larkway, keys } = bench
  const { admin, operator, foreign } = visitors
  const rest = { max_domains: 20, platform_domains: ['cdn.example.com'] }
  t.same((await admin.get(DOMAINS)).body, { domains: [], ...rest })
  const sent = ['Audio.Example.COM', '*.bücher.example', 'audio.example.com']
  const domains = ['audio.example.com', '*.xn--bcher-kva.example']
  t.same((await admin.ask('PUT', DOMAINS, { domains: sent })).body, { domains, ...rest })
  t.same((await operator.get(DOMAINS)).body, { domains, ...rest })
  t.same((await foreign.get('workspaces/other/audio-url-domains')).body, { domains: [], ...rest })

  const path = `${larkway.url}/workspace/acme/audio-url-domains`
  const headers = { authorization: `Bearer ${keys.admin}`, 'content-type': 'application/json' }
  t.same(await (await fetch(path, { headers })).json(), { domains, max_domains: 20 })
  const put = await fetch(path, { method: 'PUT', headers, body: '{"domains":[]}' })
  t.same(await put.json(), { domains: [], max_domains: 20 })
  t.same((await admin.get(DOMAINS)).body, { domains: [], ...rest })

  const { lines } = (await admin.get('audit')).body as {
    lines: readonly Readonly<Record<string, unknown>>[]
  }
  const common = { action: 'audio-url-domains.replace', workspace: 'acme', target: 'workspace/acme' }
  t.match(lines, [
    { ...common, by: { via: 'api', key_id: 'key_admin' }, before: lines[1]?.after, detail: 'none' },
    { ...common, by: { via: 'console', key_id: 'key_admin' }, detail: domains.join(', ') },
  ])
  t.equal(lines[0]?.after, lines[1]?.before, 'the list is what it was')

  const long = Array.from({ length: 20 }, (_, at) => `${'a'.repeat(63)}.${'b'.repeat(63)}.host${at}.example`)
  t.equal((await admin.ask('PUT', DOMAINS, { domains: long })).status, 200)
  const [newest] = (await admin.get('audit')).body.lines as readonly { readonly detail: string }[]
  t.equal(newest?.detail, `${long.join(', ').slice(0, 2_000)}…`, 'a line that stays for good is not long')
})

t.test('what is no domain', async (t) => {
  const { visitors } = bench
  const { admin } = visitors
  const lines = await auditAfter(admin)
  const known = (await admin.get(DOMAINS)).body.domains
  const many = Array.from({ length: 21 }, (_, index) => `a${index}.example.com`)
  const refused: readonly (readonly [unknown, string])[] = [
    [['https://a.example.com'], 'domains[0]'],
    [['a.example.com', '127.0.0.1'], 'domains[1]'],
    [['<script>alert(1)</script>'], 'domains[0]'],
    [[1], 'domains[0]'],
    [many, 'domains'],
    ['a.example.com', 'domains'],
  ]
  for (const [domains, param] of refused)
    t.match(await admin.ask('PUT', DOMAINS, { domains }), { status: 400, body: { error: { param } } })
  t.match(await admin.ask('PUT', DOMAINS, { domains: [], max_domains: 30 }), { status: 400 })
  t.same((await admin.get(DOMAINS)).body.domains, known)
  t.same(await lines(), [])
})
