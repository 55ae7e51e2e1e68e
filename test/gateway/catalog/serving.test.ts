import { dump } from 'js-yaml'
import t from 'tap'
import type { Entry } from '../../../src/contracts/catalog.ts'
import type { PublishedRecord } from '../../../src/contracts/catalog-service.ts'
import { recordId } from '../../../src/contracts/catalog-store.ts'
import type { Price } from '../../../src/contracts/facts.ts'
import type { ModelTable } from '../../../src/contracts/models.ts'
import type { Failure } from '../../../src/contracts/upstream.ts'
import { createCircuitBreakers, createLatencyTracker } from '../../../src/gateway/call/select/health.ts'
import { parseText } from '../../../src/gateway/catalog/parse-text.ts'
import { openServing, type Serving } from '../../../src/gateway/catalog/serving.ts'

import { BentFile, SURROUNDINGS } from '../../support/catalog-file.ts'
import { publishedOf, recordOf, routeFields } from './catalog-records.ts'

function fileOf(bend: (file: BentFile) => void = () => {}) {
  const file = new BentFile()
  bend(file)
  const text = dump(file.document)
  const parsed = parseText(text)
  if ('issues' in parsed) throw new Error(parsed.issues.join('\n'))
  return { ...parsed, hash: text }
}

function servingOf(...records: readonly PublishedRecord[]): Serving {
  const serving = openServing(fileOf(), SURROUNDINGS)
  if ('issues' in serving) throw new Error(serving.issues.join('\n'))
  if (records.length > 0) serving.offerPublished(publishedOf(...records))
  return serving
}

const A = recordOf('route/acme.a', 'acme', routeFields('acme'))
const B = recordOf('route/acme.b', 'acme', routeFields('acme', { strategy: 'weighted' }))
const APP_A = recordOf('app/acme/a', 'acme', { route: 'acme.a' })
const APP_B = recordOf('app/acme/b', 'acme', { route: 'acme.b' })

const appOf = (serving: Serving, id: string) => serving.current().apps.get('acme')?.get(id)
const entriesOf = (serving: Serving, id: string) => appOf(serving, id)?.route.entries ?? []

t.test(
  'the file is served until the state could be read, which then is told from an empty one',
  async (t) => {
    const serving = servingOf()
    t.ok(appOf(serving, 'web'))
    t.notOk(serving.isWhole())
    const away = { name: 'GatewayError', code: 'DEPENDENCY_UNAVAILABLE' }
    t.throws(() => serving.version(), away)
    t.throws(() => serving.tryChange([]), away)
    t.same(serving.offerPublished({ version: '7', records: [] }), { changed: true })
    t.ok(serving.isWhole())
    t.equal(serving.version(), '7')
    t.match(serving.tryChange([]), { version: '7' })
  },
)

t.test('what is published is served, and gone when it is removed', async (t) => {
  const serving = servingOf(A, APP_A)
  t.equal(appOf(serving, 'a')?.route.name, 'acme.a')
  t.same(serving.records().map(recordId), ['route/acme.a', 'app/acme/a'])
  t.same(serving.offerPublished(publishedOf(A)), { changed: true })
  t.equal(appOf(serving, 'a'), undefined)
  t.ok(serving.good().routes.some(({ name }) => name === 'acme.a'))
})

t.test('the file wins: what it names too has no effect until it does not any more', async (t) => {
  const record = recordOf('route/calls', 'acme', routeFields('acme', { strategy: 'weighted' }))
  const serving = servingOf(record)
  const calls = () => serving.good().routes.find(({ name }) => name === 'calls')
  t.equal(calls()?.strategy, 'priority')
  t.same(serving.shadowed(), [record])
  t.same(serving.records(), [])
  const without = fileOf((file) =>
    file.remove('/routes/calls').set('/workspaces/acme/apps/web', { route: 'voice' }),
  )
  t.same(serving.offerFile(without), { changed: true })
  t.equal(calls()?.strategy, 'weighted', 'it was handed over')
  t.same(serving.shadowed(), [])
})

t.test('at the start what does not fit is left out, with what depends on it', async (t) => {
  const bad = recordOf('route/acme.bad', 'acme', routeFields('acme', {}, 'gone'))
  const app = recordOf('app/acme/bad', 'acme', { route: 'acme.bad' })
  const serving = servingOf(A, APP_A, bad, app)
  t.ok(appOf(serving, 'a'))
  t.equal(appOf(serving, 'bad'), undefined)
  t.same(
    serving.broken().map(({ record, issues }) => [recordId(record), issues]),
    [
      ['app/acme/bad', ['/route: there is no route "acme.bad"']],
      ['route/acme.bad', ['/entries/0/provider: there is no provider "gone"']],
    ],
  )
  t.same(serving.refused(), [])

  t.match(serving.tryChange([{ do: 'publish', record: B, fields: B.fields }]), { version: serving.version() })
  const mended = recordOf('route/acme.bad', 'acme', routeFields('acme'))
  t.same(serving.offerPublished(publishedOf(A, APP_A, mended, app)), { changed: true })
  t.same(serving.broken(), [])
  t.ok(appOf(serving, 'bad'), 'what depended on it is back, too')
})

t.test('later a file that costs what is served is refused, and taken once it does not', async (t) => {
  const byOwn = recordOf('route/acme.own', 'acme', {
    workspace: 'acme',
    entries: [{ provider: 'openai', model: 'whisper-1' }],
  })
  const serving = servingOf(A, byOwn)
  const before = serving.current()
  const without = fileOf((file) =>
    file
      .remove('/providers/openai')
      .set('/routes/voice/entries', [{ provider: 'whisper', model: 'large-v3' }]),
  )
  const line = 'route/acme.own /entries/0/provider: there is no provider "openai"'
  t.same(serving.offerFile(without), { issues: [line] })
  t.equal(serving.current(), before, 'the very same snapshot')
  t.same(serving.refused(), [line])

  t.test('what is published meanwhile is served with the file of before', async (t) => {
    t.same(serving.offerPublished(publishedOf(A, byOwn, B)), { issues: [line] })
    t.ok(serving.good().routes.some(({ name }) => name === 'acme.b'))
    t.ok(serving.good().providers.some(({ name }) => name === 'openai'))
    t.same(serving.refused(), [line])
  })

  t.same(serving.offerPublished(publishedOf(A, B)), { changed: true }, 'nothing is in its way any more')
  t.same(serving.refused(), [])
  t.notOk(serving.good().providers.some(({ name }) => name === 'openai'))
})

t.test('later what is published does not fit: what is served stays, what is new is left out', async (t) => {
  const serving = servingOf(A, APP_A)
  const before = serving.current()
  const worse = recordOf('route/acme.a', 'acme', routeFields('acme', {}, 'gone'))
  const refusal = serving.offerPublished(publishedOf(worse, APP_A))
  t.match(refusal, {
    issues: [
      'route/acme.a /entries/0/provider: there is no provider "gone"',
      'app/acme/a /route: there is no route "acme.a"',
    ].sort(),
  })
  t.equal(serving.current(), before)

  const newer = recordOf('route/acme.new', 'acme', routeFields('acme', {}, 'gone'))
  t.same(serving.offerPublished(publishedOf(A, APP_A, B, newer)), { changed: true })
  t.ok(serving.good().routes.some(({ name }) => name === 'acme.b'))
  t.same(
    serving.broken().map(({ record }) => recordId(record)),
    ['route/acme.new'],
  )

  const file = fileOf((bent) =>
    bent.set('/providers/gone', {
      kind: 'openai-compatible',
      base_url: 'http://10.0.0.9/v1',
      access: 'platform',
      price: { per_hour_usd: 0.1 },
      capabilities: ['audio_input'],
    }),
  )
  t.same(serving.offerFile(file), { changed: true })
  t.same(serving.broken(), [], 'a file that has what it lacked heals it')
})

t.test('a faulty file is refused by itself, and does not hinder what is published', async (t) => {
  const serving = servingOf(A)
  const line = '/deadline_seconds: must be >= 1'
  t.same(serving.offerFile(fileOf((file) => file.set('/deadline_seconds', 0))), { issues: [line] })
  t.same(serving.offerPublished(publishedOf(A, B)), { changed: true })
  t.same(serving.refused(), [line])
  const leaning = fileOf((file) => file.set('/workspaces/acme/apps/web/route', 'acme.a'))
  t.match(serving.offerFile(leaning), { issues: [/there is no route "acme.a"/] }, 'it leans on a record')
  t.same(serving.offerFile({ issues: ['/: the file cannot be read (ENOENT)'] }), {
    issues: ['/: the file cannot be read (ENOENT)'],
  })
  t.same(serving.offerFile(fileOf()), { changed: false })
  t.same(serving.refused(), [])
})

t.test('the same again changes nothing, not even an identity', async (t) => {
  const serving = servingOf()
  const published = publishedOf(A, APP_A)
  t.same(serving.offerPublished(published), { changed: true })
  const before = serving.current()
  t.same(serving.offerPublished(published), { changed: false })
  t.same(serving.offerFile(fileOf()), { changed: false })
  t.equal(serving.current(), before)
})

const FAILURE: Failure = { kind: 'server', status: 503, reason: 'x', retryAfterMs: null, providerMessage: '' }

t.test('a breaker and the latencies of route B survive that route A is published', async (t) => {
  const serving = servingOf(A, APP_A, B, APP_B)
  const [health, latency] = [createCircuitBreakers(), createLatencyTracker()]
  const trip = (entry: Entry | undefined) => {
    for (let failures = 0; entry !== undefined && failures < 5; failures++) health.failed(entry, FAILURE, 0)
    if (entry !== undefined) latency.note(entry, 250, 0)
  }
  const seen = (id: string) => {
    const [entry] = entriesOf(serving, id)
    if (entry === undefined) throw new Error(`there is no app ${id}`)
    return { state: health.view(entry, 1).state, median: latency.medianMs(entry, 1) }
  }
  trip(entriesOf(serving, 'a')[0])
  trip(entriesOf(serving, 'b')[0])
  const [routeB, appB, web] = [appOf(serving, 'b')?.route, appOf(serving, 'b'), appOf(serving, 'web')]
  const principal = serving.current().keys.get('0a'.repeat(32))

  const other = recordOf('route/acme.a', 'acme', {
    workspace: 'acme',
    entries: [{ provider: 'whisper', model: 'large-v3', weight: 2 }],
  })
  t.same(serving.offerPublished(publishedOf(other, APP_A, B, APP_B)), { changed: true })
  t.same(seen('a'), { state: 'closed', median: 0 }, 'what changed is judged anew')
  t.same(seen('b'), { state: 'open', median: 250 })
  t.equal(appOf(serving, 'b')?.route, routeB)
  t.equal(appOf(serving, 'b'), appB, 'so are apps')
  t.equal(appOf(serving, 'web'), web)
  t.equal(serving.current().keys.get('0a'.repeat(32)), principal, 'and principals')

  t.same(serving.offerFile(fileOf((file) => file.set('/deadline_seconds', 60))), { changed: true })
  t.same(seen('b'), { state: 'open', median: 250 }, 'a change of the file leaves them, too')
})

t.test('an entry stays the same one when others come before it', async (t) => {
  const entry = { provider: 'whisper', model: 'large-v3' }
  const route = (...entries: object[]) => recordOf('route/acme.a', 'acme', { workspace: 'acme', entries })
  const serving = servingOf(route(entry, entry), APP_A)
  const [first, second] = entriesOf(serving, 'a')
  t.not(first, second, 'two that say the same are two')
  serving.offerPublished(publishedOf(route({ ...entry, pinned: true }, entry, entry), APP_A))
  t.equal(entriesOf(serving, 'a')[1], first)
  t.equal(entriesOf(serving, 'a')[2], second)
})

t.test('a route of thousands of entries is compared without holding up the calls', async (t) => {
  const entries = (more: number) =>
    Array.from({ length: 3_000 }, (_, at) => ({ provider: 'whisper', model: 'large-v3', weight: at + more }))
  const route = (more: number) =>
    recordOf('route/acme.a', 'acme', { workspace: 'acme', entries: entries(more) })
  const serving = servingOf(route(1), APP_A)
  const [, second] = entriesOf(serving, 'a')
  const beganMs = performance.now()
  serving.offerPublished(publishedOf(route(2), APP_A))
  const tookMs = performance.now() - beganMs
  t.ok(tookMs < 5_000, `${tookMs} ms; when each is compared with each, it takes half a minute`)
  t.equal(entriesOf(serving, 'a')[0], second, 'those that have moved are the same ones')
})

t.test('a change is tried without being made', async (t) => {
  const serving = servingOf(A, APP_A, B)
  const before = serving.current()
  const version = serving.version()
  const tried = serving.tryChange([{ do: 'publish', record: APP_B, fields: APP_B.fields }])
  t.match(tried, { version })
  if ('issues' in tried) return t.fail(tried.issues.join())
  t.equal(
    tried.snapshot.apps.get('acme')?.get('b')?.route,
    serving.good().routes.find((r) => r.name === 'acme.b'),
  )
  t.equal(serving.current(), before)

  const issuesOf = (...edits: Parameters<Serving['tryChange']>[0]) => {
    const answer = serving.tryChange(edits)
    return 'issues' in answer ? answer.issues : []
  }
  const bad = { ...A, fields: routeFields('acme', {}, 'gone') }
  const put = (record: PublishedRecord) => ({ do: 'publish' as const, record, fields: record.fields })
  t.same(issuesOf(put(bad)), ['/entries/0/provider: there is no provider "gone"'])
  t.same(
    issuesOf(put(bad), put(APP_B)),
    ['/routes/acme.a/entries/0/provider: there is no provider "gone"'],
    'of several records, from the root',
  )
  t.same(issuesOf({ do: 'remove', record: A }), ['/workspaces/acme/apps/a/route: there is no route "acme.a"'])
  t.same(issuesOf({ do: 'remove', record: A }, { do: 'remove', record: APP_A }), [])
  t.same(issuesOf({ do: 'remove', record: recordOf('route/acme.none', 'acme', {}) }), [])
  t.same(issuesOf(put(recordOf('route/voice', 'acme', routeFields('acme')))), [
    '/: is defined by the configuration file',
  ])
  t.same(issuesOf(put({ ...B, fields: routeFields('beta') })), ['/workspace: must be acme'])
  t.same(issuesOf(put(recordOf('app/gone/web', 'gone', { route: 'voice' }))), [
    '/workspace: there is no workspace "gone"',
  ])
  t.same(issuesOf(put(recordOf('route/no good', 'acme', routeFields('acme')))), [
    '/: must be named with 1 to 64 letters, digits, ".", "_" or "-"',
  ])
  t.same(issuesOf(put(recordOf('head/head', null, { deadline_seconds: 0, x: 1 }))), [
    '/x: is not a known key; remove it or correct its spelling',
  ])
  t.same(issuesOf(put(recordOf('head/head', null, { deadline_seconds: 0 }))), [
    '/deadline_seconds: must be >= 1',
  ])
  t.equal(serving.current(), before)
})

t.test(
  'facts of models are taken up, unless a catalog that is served would not be valid with them',
  async (t) => {
    const document = {
      providers: { stt: { kind: 'deepgram', access: 'platform', api_key: `\${OPENAI_API_KEY}` } },
      routes: { voice: { workspace: 'acme', entries: [{ provider: 'stt', model: 'nova-3' }] } },
      workspaces: { acme: { apps: { web: { route: 'voice' } } } },
    }
    const serving = openServing({ document, hash: '1' }, SURROUNDINGS)
    if ('issues' in serving) throw new Error(serving.issues.join('\n'))
    const before = SURROUNDINGS.models
    const priced = (issuedAt: string, price: Price | null): ModelTable => ({
      ...{ issuedAt, origin: 'stored', dated: () => undefined, all: () => [] },
      factsOf: (kind, model) => ({ ...before.factsOf(kind, model)!, price }),
    })
    const costOf = () => serving.good().routes[0]?.entries[0]?.facts.price?.per_hour_usd
    t.same(serving.offerModels(priced('2099-01-01T00:00:00.000Z', { per_hour_usd: 7 })), { changed: true })
    t.equal(costOf(), 7)
    t.equal(serving.current().modelsIssuedAt, '2099-01-01T00:00:00.000Z')
    const refused = serving.offerModels(priced('2099-02-01T00:00:00.000Z', null))
    t.match(refused, { issues: [/^\/routes\/voice\/entries\/0\/price\/per_hour_usd: is missing/] })
    t.equal(costOf(), 7, 'those before stay in force')
    t.same(serving.offerFile({ document: { ...document, deadline_seconds: 9 }, hash: '2' }), {
      changed: true,
    })
    t.equal(costOf(), 7, 'and another file is read with them')
    t.equal(serving.models().issuedAt, '2099-01-01T00:00:00.000Z')
    t.same(serving.offerModels(before), { changed: true })
    t.equal(costOf(), 0.462)
    const nova = { stt: { ...document.providers.stt, prices: { 'nova-3': { per_hour_usd: 1 } } } }
    t.same(serving.offerFile({ document: { ...document, providers: nova }, hash: '3' }), { changed: true })
    t.same(serving.models(), before, 'facts in whose place others came are not waited for')

    t.same(serving.offerFile({ document, hash: '4' }), { changed: true })
    t.match(serving.offerModels(priced('2099-03-01T00:00:00.000Z', null)), refused)
    t.same(serving.offerFile({ document: { ...document, providers: nova }, hash: '5' }), { changed: true })
    t.equal(serving.models().issuedAt, '2099-03-01T00:00:00.000Z', 'a file that fits brings them into force')

    t.same(serving.offerModels(before), { changed: true })
    t.same(serving.offerFile({ document, hash: '6' }), { changed: true })
    const later = priced('2099-04-01T00:00:00.000Z', null)
    const known: ModelTable = {
      ...later,
      factsOf: (kind, model) =>
        model === 'nova-9' ? before.factsOf(kind, 'nova-3') : later.factsOf(kind, model),
    }
    t.match(serving.offerModels(known), refused)
    const entries = [{ provider: 'stt', model: 'nova-9' }]
    const newer = { ...document, routes: { voice: { workspace: 'acme', entries } } }
    t.same(serving.offerFile({ document: newer, hash: '7' }), { changed: true }, 'also one that needs them')
    t.equal(serving.models().issuedAt, '2099-04-01T00:00:00.000Z')
  },
)
