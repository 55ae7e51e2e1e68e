import t from 'tap'
import { type ConsoleBench, startConsoleBench, type Told } from '../support/console-bench.ts'
import { storedKey } from '../support/stored-key.ts'
import { waitUntil } from '../support/wait-until.ts'

const ACME = 'workspaces/acme'
const DAY_MS = 86_400_000

type Named = { readonly id?: string; readonly name: string }
const listIn = ({ body }: Told, field: string) => body[field] as readonly Named[]
const namesIn = (told: Told, field: string) => listIn(told, field).map(({ name }) => name)

let bench: ConsoleBench

t.before(async () => {
  bench = await startConsoleBench(t)
})

t.test('thousands of keys are searched and paged by the server', async (t) => {
  const { visitors, state } = bench
  const { admin } = visitors
  const nowMs = Date.now()
  const stored = Array.from({ length: 1_000 }, (_, at) =>
    storedKey({
      name: `device unit-${at}-`,
      app: at % 2 === 0 ? 'web' : 'back',
      createdAtMs: nowMs - at * 1_000,
    }),
  )
  const over = storedKey({ name: 'expired', createdAtMs: nowMs - 9 * DAY_MS, expiresAtMs: nowMs - DAY_MS })
  const page = storedKey({ kind: 'playground', createdAtMs: nowMs - 1, expiresAtMs: nowMs + DAY_MS })
  for (const key of [...stored, over, page]) await state.keys.create(key)
  await state.keys.revoke(page.id)

  const first = await admin.get(`${ACME}/keys`)
  const inFile =
    listIn(first, 'keys').length - namesIn(first, 'keys').filter((name) => name.startsWith('device')).length
  t.equal(listIn(first, 'keys').length, 50, 'not all of them')
  t.ok(first.text.length < 30_000, `${first.text.length} bytes`)
  const all = 1_001 + inFile
  t.match(first.body, { total: all, all }, 'a key that the playground has revoked is none of them')
  t.equal(namesIn(first, 'keys')[inFile], 'device unit-0-', 'the newest first, after those of the file')
  const last = await admin.get(`${ACME}/keys?offset=${all - 2}`)
  t.same(namesIn(last, 'keys'), ['device unit-999-', 'expired'], 'what has ended comes last')
  t.same(namesIn(await admin.get(`${ACME}/keys?offset=${all}`), 'keys'), [])
  t.same(namesIn(await admin.get(`${ACME}/keys?state=ended`), 'keys'), ['expired'])
  t.same(namesIn(await admin.get(`${ACME}/keys?search=DEVICE%20unit-777-`), 'keys'), ['device unit-777-'])
  const [one] = stored
  t.same(namesIn(await admin.get(`${ACME}/keys?search=${one!.id}`), 'keys'), [one!.name])
  t.match((await admin.get(`${ACME}/keys?app=back&limit=1`)).body, { total: 500 })
  for (const query of ['limit=201', 'limit=0', 'offset=-1', 'state=x', `search=${'a'.repeat(200)}`])
    t.equal((await admin.get(`${ACME}/keys?${query}`)).status, 400, query)

  const picked = await admin.get(`${ACME}/names?of=keys&search=device%20unit-990-&limit=20`)
  t.equal(picked.body.total, 1)
  t.same(Object.keys(listIn(picked, 'names')[0] ?? {}).sort(), ['id', 'name'])
  t.equal((await admin.get(`${ACME}/names?of=secrets`)).status, 400)
  t.equal((await admin.get('workspaces/other/names?of=keys')).status, 404)

  await state.keys.create(storedKey({ name: 'made elsewhere' }))
  const found = async () => namesIn(await admin.get(`${ACME}/keys?search=elsewhere`), 'keys').length === 1
  t.ok(await found(), 'what another node has made is there at once')
})

t.test('hundreds of routes and apps are searched and paged by the server', async (t) => {
  const { visitors } = bench
  const { admin, operator } = visitors
  const entries = [{ provider: 'acme', model: 'whisper-1' }]
  const names = Array.from({ length: 60 }, (_, at) => `acme.r${String(at).padStart(3, '0')}`)
  for (const name of names) {
    const fields = { workspace: 'acme', entries }
    const put = await operator.ask('PUT', `${ACME}/routes/${name}/draft`, { fields, revision: null })
    if (put.status !== 200) throw new Error(put.text)
  }
  const first = await admin.get(`${ACME}/routes`)
  t.equal(namesIn(first, 'routes').length, 50)
  t.ok(Number(first.body.total) >= 60)
  t.equal(first.body.total, first.body.all)
  const last = await admin.get(`${ACME}/routes?offset=50`)
  t.equal(namesIn(last, 'routes').length, Number(first.body.total) - 50)
  const found = await admin.get(`${ACME}/routes?search=r04`)
  t.same(namesIn(found, 'routes'), names.slice(40, 50))
  t.equal(found.body.all, first.body.all)
  t.ok(namesIn(await admin.get(`${ACME}/routes?search=whisper`), 'routes').length > 0, 'also by model')

  const apps = await admin.get(`${ACME}/apps`)
  const shown = apps.body.apps as readonly { readonly id: string }[]
  t.ok(shown.length > 1)
  t.same((await admin.get(`${ACME}/apps?limit=1&offset=1`)).body.apps, [shown[1]])
  const web = await admin.get(`${ACME}/apps?search=${shown[0]!.id}`)
  t.match(web.body, { apps: [{ id: shown[0]!.id }], all: shown.length })
  t.ok(await waitUntil(async () => (await admin.get(`${ACME}/names?of=apps`)).body.total === shown.length))
  t.equal((await admin.get('workspaces/other/apps')).status, 404)
})
