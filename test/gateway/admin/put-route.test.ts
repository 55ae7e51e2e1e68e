import { load } from 'js-yaml'
import t from 'tap'
import type { CatalogStore } from '../../../src/contracts/catalog-store.ts'
import type { AdminActor } from '../../../src/gateway/admin/actor.ts'
import {
  publishRoute,
  putRoute,
  rollBackRoute,
  routeRecord,
  saveDraft,
} from '../../../src/gateway/admin/routes.ts'
import { catalogService, openServing } from '../../../src/gateway/catalog/serving.ts'
import { EXAMPLE, SURROUNDINGS } from '../../support/catalog-file.ts'
import { memoryState } from '../../support/own-state.ts'

const ACTOR: AdminActor = {
  role: 'operator',
  workspace: null,
  author: { via: 'api', keyId: 'key_tf', name: 'tf' },
}
const NAME = { workspace: 'acme', name: 'acme.raced' }
const PUT = { ...NAME, number: undefined, note: '', force: false }
const fieldsOf = (weight: number) => ({ entries: [{ provider: 'openai', model: 'whisper-1', weight }] })

t.test('a draft that somebody saves while a route is published is not lost', async (t) => {
  const state = memoryState()
  t.teardown(() => state.close())
  const serving = openServing({ document: load(EXAMPLE), hash: 'example' }, SURROUNDINGS)
  if ('issues' in serving) throw new Error(serving.issues.join())
  const refresh = async () => void serving.offerPublished(await state.catalog.published())
  await refresh()
  const catalog = () => catalogService(serving, refresh)
  const quiet = { state, catalog }
  /** Somebody saves a draft as soon as a command has seen that there is none. */
  const raced = (weight: number) => {
    let isOver = false
    const store: CatalogStore = {
      ...state.catalog,
      async get(record) {
        const seen = await state.catalog.get(record)
        if (!isOver) {
          isOver = true
          await saveDraft(ACTOR, { ...NAME, fields: fieldsOf(weight), revision: null }, quiet)
        }
        return seen
      },
    }
    return { state: { ...state, catalog: store }, catalog }
  }
  const draftOf = async () => (await state.catalog.get(routeRecord(NAME)))?.draft

  await putRoute(ACTOR, { ...PUT, fields: fieldsOf(1) }, quiet)
  await t.rejects(putRoute(ACTOR, { ...PUT, fields: fieldsOf(2) }, raced(10)), { code: 'CONFLICT' })
  t.match(await draftOf(), { fields: fieldsOf(10) })
  const { revision = 0 } = (await draftOf()) ?? {}
  await publishRoute(ACTOR, { ...NAME, revision, note: '' }, quiet)

  await putRoute(ACTOR, { ...PUT, fields: fieldsOf(3), force: true }, raced(20))
  t.match(await draftOf(), { fields: fieldsOf(20) }, 'also where the author was not asked')
  const { revision: next = 0 } = (await draftOf()) ?? {}
  await publishRoute(ACTOR, { ...NAME, revision: next, note: '' }, quiet)

  await rollBackRoute(ACTOR, { ...NAME, number: 1 }, raced(30))
  t.match(await draftOf(), { fields: fieldsOf(30) }, 'nor by a roll-back')
  t.match((await state.catalog.get(routeRecord(NAME)))?.published, { number: 5, fields: fieldsOf(1) })
})
