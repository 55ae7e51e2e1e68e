import t from 'tap'
import type { AdminActor, AdminContext } from '../../src/gateway/admin/actor.ts'
import { keepKeys } from '../../src/gateway/admin/keys.ts'
import { newKey } from '../../src/gateway/catalog/key.ts'
import { startConsoleNode } from '../support/console-node.ts'

t.test('a workspace changes so much at a time, by whichever key, and can still look', async (t) => {
  const { signIn, keys } = await startConsoleNode(t)
  const [admin, foreign] = await Promise.all([signIn(keys.admin), signIn(keys.foreignAdmin)])
  const made = await admin.post('/workspaces/acme/keys', { name: 'second', app: 'web', scopes: ['admin'] })
  const second = await signIn(String(made.body.key))
  const path = '/workspaces/acme/content'
  const told = await Promise.all(
    Array.from({ length: 320 }, (_, at) => (at % 2 === 0 ? admin : second).put(path, { shown: true })),
  )
  const statuses = new Set(told.map(({ status }) => status))
  t.same([...statuses].sort(), [200, 429])
  t.ok(Number(told.find(({ status }) => status === 429)?.headers.get('retry-after')) >= 1)
  t.equal((await admin.get('/workspaces/acme')).status, 200)
  const elsewhere = await Promise.all(
    Array.from({ length: 100 }, () => foreign.put('/workspaces/other/content', { shown: true })),
  )
  t.same([...new Set(elsewhere.map(({ status }) => status))], [200], 'others have theirs')
})

t.test('a key begins so many sessions at a time', async (t) => {
  const { ask, keys } = await startConsoleNode(t)
  const signIn = () => ask('/session', { method: 'POST', body: { key: keys.admin } })
  const told = await Promise.all(Array.from({ length: 90 }, signIn))
  t.same([...new Set(told.map(({ status }) => status))].sort(), [200, 429])
})

t.test('a workspace has so many keys, and no line about one more', async (t) => {
  const settings = { workspace: 'acme', app: 'web', name: 'one', scopes: ['inference'] as const }
  const none = { rateLimit: null, budgetMicros: null, expiresAtMs: null }
  const { stored } = newKey({ ...settings, ...none }, 0)
  const kept = Array.from({ length: 4_999 }, (_, i) => ({ ...stored, id: `key_${i}`, revokedAtMs: 1 }))
  const notes: unknown[] = []
  const create = async (key: typeof stored) => void kept.push({ ...key, revokedAtMs: 1 })
  const context = {
    state: {
      keys: {
        page: async () => ({ keys: structuredClone(kept), next: null, total: kept.length }),
        version: async () => `${kept.length}`,
        changes: async () => null,
        create,
      },
      catalog: { note: async (_token: string, note: unknown) => void notes.push(note) },
    },
    refreshKeys: async () => {},
  } as unknown as AdminContext
  const actor: AdminActor = {
    role: 'admin',
    workspace: 'acme',
    author: { via: 'console', keyId: null, name: 'anna' },
  }
  await keepKeys(actor, [stored], context)
  await t.rejects(keepKeys(actor, [stored], context), { code: 'INVALID_REQUEST', message: /5000 keys/ })
  await keepKeys(actor, [{ ...stored, workspace: 'other' }], context)
  t.equal(notes.length, 2)
})
