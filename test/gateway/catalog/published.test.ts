import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { load } from 'js-yaml'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { PublishedRecord } from '../../../src/contracts/catalog-service.ts'
import type { PublishedCatalog } from '../../../src/contracts/catalog-store.ts'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { openServing, pollPublished } from '../../../src/gateway/catalog/serving.ts'
import { SHIPPED } from '../../../src/gateway/providers/facts.ts'
import { EXAMPLE, SURROUNDINGS } from '../../support/catalog-file.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { publishedOf, recordOf, routeFields } from './catalog-records.ts'

const POLL_MS = 20

/** The part of a state that is read, which may be away. */
class Store {
  models() {
    return Promise.resolve(null)
  }

  catalog: PublishedCatalog = publishedOf()
  away = false
  reads = 0

  put(...records: readonly PublishedRecord[]): void {
    this.catalog = publishedOf(...records)
  }

  async version(): Promise<string> {
    if (this.away) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
    return this.catalog.version
  }

  async published(): Promise<PublishedCatalog> {
    this.reads += 1
    if (this.away) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
    return this.catalog
  }
}

function polled(t: Test, store: Store, pollMs = POLL_MS) {
  const serving = openServing({ document: load(EXAMPLE), hash: 'example' }, SURROUNDINGS)
  if ('issues' in serving) throw new Error(serving.issues.join('\n'))
  const lines: Record<string, unknown>[] = []
  const log = pino({ base: null, timestamp: false }, { write: (line) => void lines.push(JSON.parse(line)) })
  const polling = pollPublished({
    serving,
    store,
    readModels: () => ({ table: SHIPPED, refused: null }),
    log,
    pollMs,
  })
  t.teardown(() => polling.close())
  const messages = () => lines.map(({ msg }) => msg)
  const has = (name: string) => serving.good().routes.some((route) => route.name === name)
  return { serving, polling, lines, messages, has }
}

const A = recordOf('route/acme.a', 'acme', routeFields('acme'))
const BAD = recordOf('route/acme.bad', 'acme', routeFields('acme', {}, 'gone'))

t.test('what is published is served soon, and read only when it changed', async (t) => {
  const store = new Store()
  const { polling, has, messages } = polled(t, store)
  await polling.ready()
  t.same(messages(), ['published catalog read'])
  store.put(A)
  t.ok(await waitUntil(() => has('acme.a')))
  store.put()
  t.ok(await waitUntil(() => !has('acme.a')))
  const { reads } = store
  await new Promise((resolve) => setTimeout(resolve, 5 * POLL_MS))
  t.equal(store.reads, reads)
  t.equal(messages().length, 3)
})

t.test('who has published does not wait for the next poll', async (t) => {
  const store = new Store()
  const { polling, has } = polled(t, store, 600_000)
  await polling.ready()
  store.put(A)
  await polling.refresh()
  t.ok(has('acme.a'))
  store.put()
  await Promise.all([polling.refresh(), polling.refresh(), polling.refresh()])
  t.notOk(has('acme.a'))
  t.equal(store.reads, 3)
})

t.test('a state that is away at the start: the file is served, then what is published', async (t) => {
  const store = new Store()
  store.put(A, BAD)
  store.away = true
  const { polling, serving, has, lines, messages } = polled(t, store)
  await polling.ready()
  t.notOk(serving.isWhole())
  t.notOk(has('acme.a'))
  await polling.refresh()
  t.same(messages(), ['the published catalog cannot be read; the last known one holds'], 'it is said once')
  t.match(lines, [{ known: null }])

  store.away = false
  t.ok(await waitUntil(() => has('acme.a')), 'what does not fit is left out, as at the start')
  t.ok(serving.isWhole())
  t.same(messages().slice(1).sort(), [
    'published catalog read',
    'published records do not fit the configuration and are left out',
    'the published catalog can be read again',
  ])
  t.match(
    lines.find(({ left_out }) => left_out !== undefined),
    {
      level: 50,
      left_out: [{ record: 'route/acme.bad', issues: ['/entries/0/provider: there is no provider "gone"'] }],
    },
  )
})

t.test('a state that goes away later: the last known catalog holds', async (t) => {
  const store = new Store()
  store.put(A)
  const { polling, has, lines } = polled(t, store)
  await polling.ready()
  store.away = true
  t.ok(await waitUntil(() => lines.some(({ known }) => known === 1)))
  t.ok(has('acme.a'))
  store.put()
  store.away = false
  t.ok(await waitUntil(() => !has('acme.a')))
})

t.test('what is refused is said once, and so is that it is mended', async (t) => {
  const store = new Store()
  store.put(A)
  const { polling, has, messages } = polled(t, store)
  await polling.ready()
  store.put(recordOf('route/acme.a', 'acme', routeFields('acme', {}, 'gone')))
  await polling.refresh()
  await polling.refresh()
  t.ok(has('acme.a'))
  store.put(A, BAD)
  await polling.refresh()
  store.put(A)
  await polling.refresh()
  t.same(messages(), [
    'published catalog read',
    'published catalog refused, it does not fit; the old one stays',
    'published catalog read',
    'published records do not fit the configuration and are left out',
    'published catalog read',
    'every published record is served',
  ])
})

t.test('once closed it reads no more, and says nothing', async (t) => {
  const store = new Store()
  const { polling, messages } = polled(t, store)
  await polling.ready()
  polling.close()
  store.put(A)
  await polling.refresh()
  t.equal(store.reads, 1)
  t.equal(messages().length, 1)
})

t.test('it keeps no process alive', async (t) => {
  const program = `
    import { startPolling } from '${new URL('../../../src/gateway/catalog/polling.ts', import.meta.url)}'
    const polling = startPolling({ read: async () => {}, onAway() {}, onBack() {}, pollMs: 60_000 })
    await polling.ready()
  `
  const args = ['--input-type=module', '--eval', program]
  const cwd = fileURLToPath(new URL('../../..', import.meta.url))
  await t.resolves(promisify(execFile)(process.execPath, args, { cwd, timeout: 20_000 }))
})
