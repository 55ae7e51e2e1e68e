import { randomBytes } from 'node:crypto'
import { load } from 'js-yaml'
import t, { type Test } from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { type SealContext, unseal } from '../../../src/contracts/sealing.ts'
import type { AdminActor } from '../../../src/gateway/admin/actor.ts'
import {
  putApp,
  putProvider,
  putPurpose,
  putWorkspace,
  removeWorkspace,
} from '../../../src/gateway/admin/catalog.ts'
import type { ChangeContext } from '../../../src/gateway/admin/change.ts'
import { putRoute, routeRecord } from '../../../src/gateway/admin/routes.ts'
import { WorkspaceShape } from '../../../src/gateway/catalog/file.ts'
import { catalogService, openServing } from '../../../src/gateway/catalog/serving.ts'
import { EXAMPLE, SURROUNDINGS } from '../../support/catalog-file.ts'
import { memoryState } from '../../support/own-state.ts'

const ACTOR: AdminActor = {
  role: 'operator',
  workspace: null,
  author: { via: 'api', keyId: 'key_tf', name: 'tf' },
}

/** A state, and nodes that serve it without hearing of one another. */
function openRig(t: Test) {
  const state = memoryState()
  t.teardown(() => state.close())
  const keys = [randomBytes(32), randomBytes(32)] as const
  const openNode = async (secretKeys: readonly Buffer[] = [keys[0]]) => {
    const surroundings = {
      ...SURROUNDINGS,
      open: (sealed: string, of: SealContext) => unseal(secretKeys, sealed, of),
    }
    const serving = openServing({ document: load(EXAMPLE), hash: 'example' }, surroundings)
    if ('issues' in serving) throw new Error(serving.issues.join())
    const refresh = async () => void serving.offerPublished(await state.catalog.published())
    await refresh()
    const webhooks = { secretKeys, insecure: false }
    return { state, webhooks, catalog: () => catalogService(serving, refresh) }
  }
  const changes = async () => (await state.catalog.audit(null, null, 100)).length
  return { state, keys, openNode, changes }
}

const PURPOSE = { workspace: 'acme', name: 'letters' }
const purposeOf = (description: string) => ({ ...PURPOSE, fields: { description } })

t.test('what is put again as it is makes no version and no line', async (t) => {
  const { state, openNode, changes } = openRig(t)
  const node = await openNode()
  const fields = { kind: 'openai', credential: 'sk-own', concurrency: 4 }
  const puts: Readonly<Record<string, () => Promise<void>>> = {
    workspace: () => putWorkspace(ACTOR, { workspace: 'neu', fields: { name: 'Neu', plan: null } }, node),
    purpose: () => putPurpose(ACTOR, purposeOf('writing'), node),
    app: () => putApp(ACTOR, { workspace: 'acme', name: 'phone', fields: { route: 'voice' } }, node),
    provider: () => putProvider(ACTOR, { workspace: 'acme', name: 'acme.own', fields }, node),
  }
  for (const [kind, put] of Object.entries(puts)) {
    await put()
    const before = [await changes(), await state.catalog.version()]
    await put()
    t.same([await changes(), await state.catalog.version()], before, kind)
  }
  const before = await changes()
  await putPurpose(ACTOR, purposeOf('other'), node)
  await putPurpose(ACTOR, purposeOf('writing'), node)
  t.equal(await changes(), before + 2, 'what is another again makes one')
})

t.test('whose it is and where it is managed is looked at all the same', async (t) => {
  const node = await openRig(t).openNode()
  await putPurpose(ACTOR, purposeOf('writing'), node)
  const other: AdminActor = { ...ACTOR, role: 'admin', workspace: 'other' }
  await t.rejects(putPurpose(other, purposeOf('writing'), node), { code: 'NOT_FOUND' })
  const ofFile = { workspace: 'acme', name: 'dictation', fields: { enabled: false } }
  await t.rejects(putPurpose(ACTOR, ofFile, node), { code: 'INVALID_REQUEST' })
})

t.test(
  'a node that has not heard of a change does not take the former fields for those in force',
  async (t) => {
    const { state, openNode } = openRig(t)
    const [one, two] = [await openNode(), await openNode()]
    await putPurpose(ACTOR, purposeOf('first'), one)
    await two.catalog().refresh()
    await putPurpose(ACTOR, purposeOf('second'), one)
    await putPurpose(ACTOR, purposeOf('first'), two)
    const kept = await state.catalog.get({ kind: 'purpose', ...PURPOSE })
    t.match(kept?.published, { number: 3, fields: { description: 'first' } })

    const entries = (weight: number) => [{ provider: 'openai', model: 'whisper-1', weight }]
    const route = { workspace: 'acme', name: 'acme.two', number: undefined, note: '', force: false }
    const put = (weight: number, node: typeof one) =>
      putRoute(ACTOR, { ...route, fields: { entries: entries(weight) } }, node)
    await put(1, one)
    await two.catalog().refresh()
    await put(2, one)
    await put(1, two)
    t.match((await state.catalog.get(routeRecord(route)))?.published, { number: 3 }, 'of a route neither')
  },
)

t.test('a credential that is put again is sealed anew with another one, or with another key', async (t) => {
  const { state, keys, openNode } = openRig(t)
  const put = async (credential: string, secretKeys: readonly Buffer[]) => {
    const fields = { kind: 'openai', credential }
    await putProvider(ACTOR, { workspace: 'acme', name: 'acme.own', fields }, await openNode(secretKeys))
    const record = { kind: 'provider', workspace: 'acme', name: 'acme.own' } as const
    return (await state.catalog.get(record))?.published?.number
  }
  const [first, second] = keys
  t.equal(await put('sk-own', [first]), 1)
  t.equal(await put('sk-own', [first]), 1)
  t.equal(await put('sk-other', [first]), 2)
  t.equal(await put('sk-other', [second, first]), 3)
  t.equal(await put('sk-other', [second, first]), 3)
})

t.test('terms of a workspace that a change does not name stay, and those that are null go', async (t) => {
  const { state, openNode } = openRig(t)
  const node = await openNode()
  const put = async (fields: Readonly<Record<string, unknown>>) => {
    await putWorkspace(ACTOR, { workspace: 'neu', fields }, node)
    return (await state.catalog.get({ kind: 'workspace', workspace: 'neu', name: 'neu' }))?.published?.fields
  }
  const terms = {
    ...{ name: 'Neu', plan: 'pro', credits_usd: 5, grant_id: 'first', budget_usd: { per_month: 7 } },
    require: { region: 'eu' },
    trial: { allowance_usd: 5, expires_at: '2100-01-31T12:00:00Z' },
    rate_limit: { tokens_per_minute: 1_000 },
    prices: { whisper: { 'large-v3': { per_hour_usd: 1 } } },
    end_users: { hash: true },
    usage: { retention_days: 400 },
    limits: { max_audio_bytes: 1_000 },
  }
  const ofItsOwn = new Set([...Object.keys(terms), 'purposes', 'apps', 'keys'])
  t.same([...ofItsOwn].sort(), Object.keys(WorkspaceShape.properties).sort(), 'all that a file may say')
  t.same(await put(terms), terms)
  t.same(await put({ name: 'New' }), { ...terms, name: 'New' })
  const { plan: _p, rate_limit: _r, ...rest } = terms
  t.same(await put({ plan: null, rate_limit: null }), { ...rest, name: 'New' })
})

t.test('a workspace that is made has no settings of one that was there before', async (t) => {
  const { state, openNode } = openRig(t)
  const { settings } = state
  const [node, other] = [{ ...(await openNode()), nowMs: Date.now }, await openNode()]
  const put = (name: string, at: ChangeContext = node) =>
    putWorkspace(ACTOR, { workspace: 'neu', fields: { name, plan: null } }, at)
  await settings.putContentShown('neu', true)
  await put('Neu')
  t.equal(await settings.contentShown('neu'), false, 'the one before went with its file')

  await settings.putContentShown('neu', true)
  await put('Another name', other)
  await put('Neu')
  await put('Neu')
  t.equal(
    await settings.contentShown('neu'),
    true,
    'one that is there keeps them, also at a node that learns so',
  )

  const refuses = {
    ...state.catalog,
    change: () => Promise.reject(new GatewayError('DEPENDENCY_UNAVAILABLE')),
  }
  const broken = {
    ...node,
    state: { ...state, catalog: { ...refuses, version: () => state.catalog.version() } },
  }
  const remove = (at: typeof node) => removeWorkspace(ACTOR, { workspace: 'neu' }, at)
  await t.rejects(remove(broken as typeof node), { code: 'DEPENDENCY_UNAVAILABLE' })
  t.equal(await settings.contentShown('neu'), false, 'they go first')
  await remove(node)
})
