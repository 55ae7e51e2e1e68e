import t from 'tap'
import { nameIssue, wholeName } from '../../../src/console/page/names.ts'
import {
  changedFacts,
  changeOfOthers,
  type DeclaredFacts,
  factsIn,
  jsonText,
  otherFacts,
  readJsonObject,
  withPricePart,
} from '../../../src/console/page/views/providers/facts.ts'

import {
  bodyOf,
  type ProviderForm,
  providerForm,
  providerIssues,
} from '../../../src/console/page/views/providers/provider-form.ts'
import type { KindAnswer, ProviderAnswer } from '../../../src/console/server/answers/providers.ts'
import { FACT_SHAPES } from '../../../src/contracts/facts.ts'

const KINDS: readonly KindAnswer[] = [
  { kind: 'deepgram', needs_credential: true, base_url: 'https://api.deepgram.com' },
  { kind: 'openai-compatible', needs_credential: false, base_url: null },
]

const STORED: ProviderAnswer = {
  name: 'acme.dg',
  kind: 'deepgram',
  access: 'byok',
  workspace: 'acme',
  base_url: null,
  credential: 'stored',
  managed_by: 'console',
  facts: { price: { per_hour_usd: 0.26 } },
}

const NEW = { before: null, kinds: KINDS, workspace: 'acme', taken: ['acme.dg'], setsAddress: false }
const form = (change: Partial<ProviderForm>): ProviderForm => ({ ...providerForm(null, KINDS), ...change })

t.test('names are made in a workspace, and are checked with it', async (t) => {
  t.equal(wholeName('acme', 'voice'), 'acme.voice')
  t.equal(wholeName(null, 'deepgram'), 'deepgram')
  const taken = ['acme.voice']
  for (const [name, isRight] of [
    ['voice-2', true],
    ['V_1', true],
    ['', false],
    ['a.b', false],
    ['-a', false],
    ['a b', false],
    ['<b>', false],
    ['ä', false],
    ['voice', false],
    ['x'.repeat(59), true],
    ['x'.repeat(60), false],
  ] as const)
    t.equal(nameIssue(name, { workspace: 'acme', taken }) === null, isRight, JSON.stringify(name))
  t.match(nameIssue('x'.repeat(60), { workspace: 'acme', taken }), '59')
  t.match(nameIssue('voice', { workspace: 'acme', taken }), '"acme.voice"')
})

t.test('a new provider needs a name, and the credential of its kind', async (t) => {
  t.same(Object.keys(providerIssues(form({}), NEW)).sort(), ['credential', 'name'])
  t.same(providerIssues(form({ name: 'own', credential: 'secret' }), NEW), {})
  t.match(providerIssues(form({ name: 'dg', credential: 'secret' }), NEW), { name: /already/ })
  t.match(providerIssues(form({ name: 'own', credential: ' secret\n' }), NEW), { credential: /spaces/ })
})

t.test('an address is asked for where the kind has none, and holds nothing secret', async (t) => {
  const known = { ...NEW, setsAddress: true }
  const own = (baseUrl: string) =>
    providerIssues(form({ name: 'gpu', kind: 'openai-compatible', baseUrl }), known).baseUrl
  t.equal(own('http://10.0.0.5:8000/v1'), undefined)
  for (const address of [
    '',
    'ftp://host',
    'host',
    'https://user:pass@host',
    'https://host/?key=1',
    'https://host/#a',
  ])
    t.type(own(address), 'string', address)
})

t.test('a stored credential stays unless another is typed, and never under another kind', async (t) => {
  const edited = providerForm(STORED, KINDS)
  const known = { ...NEW, before: STORED }
  t.equal(edited.credential, '')
  t.same(providerIssues(edited, known), {})
  t.same(bodyOf(edited, { setsAddress: true }), {
    kind: 'deepgram',
    base_url: null,
    price: { per_hour_usd: 0.26 },
  })
  t.same(bodyOf({ ...edited, credential: 'new' }, { setsAddress: true }).credential, 'new')
  const kinds = [...KINDS, { kind: 'openai', needs_credential: true, base_url: 'https://api.openai.com/v1' }]
  t.match(providerIssues({ ...edited, kind: 'openai' }, { ...known, kinds }), { credential: /Required/ })
})

t.test('only operators send an address', async (t) => {
  const typed = form({ baseUrl: ' https://host/v1 ' })
  t.equal(bodyOf(typed, { setsAddress: true }).base_url, 'https://host/v1')
  t.notOk('base_url' in bodyOf(typed, { setsAddress: false }))
})

t.test('every fact has a place in the form', async (t) => {
  const all = Object.fromEntries(Object.keys(FACT_SHAPES).map((name) => [name, name]))
  t.same(factsIn({ ...all, provider: 'p', model: 'm', weight: 2 }), all)
  const others = Object.keys(otherFacts(all as DeclaredFacts))
  t.same(others.sort(), [
    ...['conflicts', 'languages', 'limits', 'live', 'operations'],
    ...['region', 'retention', 'training', 'translation_features'],
  ])
})

t.test('facts without a field are replaced as a whole', async (t) => {
  const facts: DeclaredFacts = {
    translates: true,
    limits: { max_images: 1 },
    languages: { diarization: ['en'] },
  }
  const { change, unknown } = changeOfOthers({ limits: { max_images: 2 } })
  t.same(unknown, [])
  t.same(changedFacts(facts, change), { translates: true, limits: { max_images: 2 } })
  t.same(changeOfOthers({ prise: 1, price: {} }).unknown, ['prise', 'price'])
  t.same(changedFacts(facts, changeOfOthers(undefined).change), { translates: true })
})

t.test('prices are amounts, part by part', async (t) => {
  const price = withPricePart({ per_hour_usd: 1, minimum_seconds: 10 }, 'per_image_usd', 2)
  t.same(price, { per_hour_usd: 1, minimum_seconds: 10, per_image_usd: 2 })
  t.same(withPricePart(price, 'per_hour_usd', undefined), { minimum_seconds: 10, per_image_usd: 2 })
  t.equal(withPricePart({ per_hour_usd: 1 }, 'per_hour_usd', undefined), undefined)
})

t.test('JSON that was typed is an object, nothing, or a fault', async (t) => {
  t.same(readJsonObject('{"a": [1]}'), { value: { a: [1] }, fault: null })
  t.same(readJsonObject(' \n'), { value: undefined, fault: null })
  for (const text of ['[]', 'null', '1', '{', '{a: 1}', '"x"'])
    t.type(readJsonObject(text).fault, 'string', text)
  t.equal(jsonText(undefined), '')
  t.equal(jsonText({}), '')
  t.same(readJsonObject(jsonText({ a: { b: 1 } })).value, { a: { b: 1 } })
})

t.test('several addresses, one per line, are the servers of one provider', async (t) => {
  const compatible = { ...form({ kind: 'openai-compatible' }), name: 'acme.x' }
  const issues = (change: Partial<ProviderForm>) =>
    providerIssues({ ...compatible, ...change }, { ...NEW, setsAddress: true })
  const body = (change: Partial<ProviderForm>) => bodyOf({ ...compatible, ...change }, { setsAddress: true })
  const two = 'http://one.test/v1\n  http://two.test/v1 \n'
  t.same(body({ baseUrl: 'http://one.test/v1\n' }), {
    kind: 'openai-compatible',
    base_url: 'http://one.test/v1',
  })
  const base_urls = ['http://one.test/v1', 'http://two.test/v1']
  t.same(body({ baseUrl: two }), { kind: 'openai-compatible', base_urls })
  t.same(body({ baseUrl: two, healthPath: ' /health ' }).health, { path: '/health' })
  const stored: ProviderAnswer = {
    ...{ ...STORED, kind: 'openai-compatible', facts: {} },
    ...{ base_urls, health: { path: '/health', interval_ms: 200 } },
  }
  const kept = bodyOf(providerForm(stored, KINDS), { setsAddress: true })
  t.same(kept, { kind: 'openai-compatible', base_urls, health: { interval_ms: 200, path: '/health' } })

  t.equal(issues({ baseUrl: two }).baseUrl, undefined)
  t.equal(issues({ baseUrl: '' }).baseUrl, 'Required for openai-compatible.')
  t.equal(issues({ baseUrl: 'http://one.test http://one.test' }).baseUrl, 'Enter each address once.')
  t.equal(issues({ baseUrl: `${two} ftp://three.test` }).baseUrl, 'Enter an http or https URL.')
  t.match(issues({ baseUrl: two, kind: 'deepgram' }).baseUrl, /^Enter one address/)
  for (const healthPath of ['health', '//evil.test'])
    t.equal(issues({ baseUrl: two, healthPath }).healthPath, 'Enter a path such as /health.')
  t.equal(issues({ baseUrl: 'http://one.test', healthPath: 'health' }).healthPath, undefined, 'not shown')
})
