import { isDeepStrictEqual } from 'node:util'
import { load } from 'js-yaml'
import t from 'tap'
import type { ServedCatalog } from '../../../src/contracts/catalog-service.ts'
import { issueLines } from '../../../src/gateway/catalog/issues.ts'
import type { ProviderContext } from '../../../src/gateway/catalog/provider.ts'
import { openServing } from '../../../src/gateway/catalog/serving.ts'
import { NOTHING_SHARED, shareWith } from '../../../src/gateway/catalog/sharing.ts'
import { buildShared, buildSnapshot } from '../../../src/gateway/catalog/snapshot.ts'
import { BentFile, SURROUNDINGS } from '../../support/catalog-file.ts'

const OTHERS = load(`
plans:
  small: { includes: [text], limits: { max_request_body_bytes: 1000 } }
providers:
  gpt:
    { kind: openai-compatible, base_url: "http://10.0.0.6/v1", access: platform, capabilities: [text], price: &price
      { per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 2 } }
  spare: { kind: openai-compatible, base_url: "http://10.0.0.8/v1", access: platform, capabilities: [text] }
  ears: { kind: deepgram, api_key: "\${OPENAI_API_KEY}", access: byok, workspace: acme }
routes:
  other: { workspace: other, entries: [ {provider: gpt, model: m, plans: [small]} ] }
workspaces:
  other:
    plan: small
    prices: { spare: { m: *price } }
    apps: { web: { route: other } }
    keys: [ { id: key_other, app: web, sha256: "${'0b'.repeat(32)}" } ]
`) as Lists

type Lists = Record<string, Record<string, unknown>>

/** The example with a second tenant. */
const BASE: Lists = new BentFile().document as Lists
for (const [list, parts] of Object.entries(OTHERS)) BASE[list] = { ...BASE[list], ...parts }

/** The document with another value at a path; all else of it is identical. */
function changed(document: object, [name = '', ...rest]: readonly string[], value: unknown): object {
  const inner: unknown = Reflect.get(document, name)
  const next = rest.length === 0 ? value : changed(Object(inner), rest, value)
  const copy = Array.isArray(document) ? [...document] : { ...document }
  if (next === undefined) Reflect.deleteProperty(copy, name)
  else Reflect.set(copy, name, next)
  return copy
}

/** By the path: what a part that stays depends on. */
const CHANGES: readonly [string, unknown][] = [
  ['deadline_seconds', 7],
  ['rate_limit', { requests_per_minute: 5 }],
  ['limits', { max_request_body_bytes: 500 }],
  ['plans/small/limits/max_request_body_bytes', 2_000],
  ['plans/small/includes', []],
  ['plans/small', undefined],
  ['providers/gpt/base_url', 'http://10.0.0.7/v1'],
  ['providers/gpt/price/per_1m_input_tokens_usd', 2],
  ['providers/gpt/kind', 'openai'],
  ['providers/gpt/access', 'byok'],
  ['providers/gpt', undefined],
  ['providers/gpt/unknown', 1],
  ['routes/other/strategy', 'weighted'],
  ['routes/other/workspace', 'acme'],
  ['routes/other/entries/0/model', 'n'],
  ['routes/other/entries/0/purposes', ['none']],
  ['routes/other', undefined],
  ['routes/voice/shadow', { entry: { provider: 'gpt', model: 'm' }, share: 0.5 }],
  ['routes/pulled', { workspace: 'acme', entries: [{ provider: 'ears', model: 'nova-3', pull: true }] }],
  ['providers/spare', undefined],
  ['workspaces/other/name', 'Other'],
  ['workspaces/other/prices', { gpt: { m: { per_1m_input_tokens_usd: 9, per_1m_output_tokens_usd: 9 } } }],
  ['workspaces/other/prices', { gpt: {}, none: {} }],
  ['workspaces/other/prices', { openai: { m: { per_1m_input_tokens_usd: 9 } } }],
  ['workspaces/other/apps/web/route', 'voice'],
  ['workspaces/other/apps/web/purposes', { dictation: 'other' }],
  ['workspaces/other/keys/0/id', 'key_web'],
  ['workspaces/other/keys/0/sha256', '0a'.repeat(32)],
  ['workspaces/other/keys/0/sha256', 'no hash'],
  ['workspaces/other/keys/0/app', 'none'],
  ['workspaces/other/keys/0/budget_usd', { per_month: 3 }],
  ['workspaces/acme/purposes/call-center', undefined],
  ['workspaces/acme', undefined],
  ['workspaces', []],
]

const WAYS = [
  ['as usual', SURROUNDINGS],
  ['without the variable', { ...SURROUNDINGS, env: {} }],
  ['with another value', { ...SURROUNDINGS, env: { OPENAI_API_KEY: 'sk-other' } }],
  [
    'with a public bucket',
    { ...SURROUNDINGS, env: { ...SURROUNDINGS.env, S3_BUCKET: 'b', S3_PUBLIC_ENDPOINT: 'https://b' } },
  ],
  [
    'with facts of other models',
    { ...SURROUNDINGS, models: { ...SURROUNDINGS.models, factsOf: () => undefined } },
  ],
  ['as usual again', SURROUNDINGS],
] as const

/** Builds documents one after another, as a process does that serves them. */
function server() {
  let before: ServedCatalog | null = null
  return (document: object, surroundings: ProviderContext) => {
    const built = buildShared(document, surroundings, before === null ? NOTHING_SHARED : shareWith(before))
    if ('found' in built) return { issues: issueLines(built.found) }
    before = built
    return built
  }
}

t.test('what is remembered of parts that stay never decides over what they have become', (t) => {
  let refused = 0
  const serve = server()
  const documents = CHANGES.map(([path, value]) => [path, changed(BASE, path.split('/'), value)] as const)
  for (const [way, surroundings] of WAYS) {
    const anew = (document: object) => buildSnapshot(structuredClone(document), surroundings)
    const base = anew(BASE)
    for (const [path, document] of documents) {
      const expected = anew(document)
      if ('issues' in expected) refused += 1
      t.ok(isDeepStrictEqual(serve(document, surroundings), expected), `${path} ${way}`)
      t.ok(isDeepStrictEqual(serve(BASE, surroundings), base), `the document before ${way}`)
    }
  }
  const all = WAYS.length * CHANGES.length
  t.ok(refused > all / 5 && refused < (4 * all) / 5, `${refused} of ${all} documents were refused`)
  t.end()
})

/** Surroundings that note of which models they were asked for facts: once for each entry that is made. */
function notedSurroundings() {
  const asked: string[] = []
  const factsOf: ProviderContext['models']['factsOf'] = (kind, model) => {
    asked.push(model)
    return SURROUNDINGS.models.factsOf(kind, model)
  }
  return { asked, surroundings: { ...SURROUNDINGS, models: { ...SURROUNDINGS.models, factsOf } } }
}

t.test('parts that stay are not made again', (t) => {
  const serve = server()
  const { asked, surroundings } = notedSurroundings()
  const modelsOf = (path: string, value: unknown) => {
    const built = serve(changed(BASE, path.split('/'), value), surroundings)
    if ('issues' in built) throw new Error(built.issues.join('\n'))
    return { models: asked.splice(0), principals: [...built.snapshot.keys.values()] }
  }
  const first = modelsOf('deadline_seconds', 5)
  t.same(first.models, ['large-v3', 'gpt-transcribe', 'large-v3', 'm'])
  const named = modelsOf('workspaces/other/name', 'Other')
  t.same(named.models, ['m'])
  t.equal(named.principals[0], first.principals[0])
  t.not(named.principals[1], first.principals[1])
  t.same(modelsOf('workspaces/other/name', 'Other').models, ['m'])
  t.same(modelsOf('deadline_seconds', 6).models, ['m'], 'its workspace is the one from before again')
  t.same(modelsOf('deadline_seconds', 7).models, [])
  t.end()
})

t.test('nor are those of a file that was changed', (t) => {
  const { asked, surroundings } = notedSurroundings()
  const read = (document: object) => ({ document: structuredClone(document), hash: JSON.stringify(document) })
  const serving = openServing(read(BASE), surroundings)
  if ('issues' in serving) throw new Error(serving.issues.join('\n'))
  t.equal(asked.splice(0).length, 4)
  const renamed = changed(BASE, ['workspaces', 'other', 'name'], 'Other')
  t.same(serving.offerFile(read(renamed)), { changed: true })
  t.same(asked.splice(0), ['m'])
  t.same(serving.document(), renamed)
  t.match(serving.offerFile(read(changed(BASE, ['routes'], []))), { issues: [/^\/routes: /] })
  t.same(serving.offerFile(read(renamed)), { changed: false })
  t.same(asked, [])
  t.end()
})
