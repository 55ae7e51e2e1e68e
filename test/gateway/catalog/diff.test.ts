import t from 'tap'
import type { Route } from '../../../src/contracts/catalog.ts'
import { diffRoutes } from '../../../src/gateway/catalog/diff.ts'
import { buildSnapshot } from '../../../src/gateway/catalog/snapshot.ts'
import { BentFile, SURROUNDINGS } from '../../support/catalog-file.ts'

function routesOf(bend: (file: BentFile) => void = () => {}): readonly Route[] {
  const file = new BentFile()
  bend(file)
  const reading = buildSnapshot(file.document, SURROUNDINGS)
  if ('issues' in reading) throw new Error(reading.issues.join('\n'))
  return reading.routes
}

const BEFORE = routesOf()

t.test('equal files have no differences, however they are written', async (t) => {
  t.same(diffRoutes(BEFORE, routesOf()), [])
  const spelled = routesOf((file) =>
    file.set('/routes/voice/published', true).set('/routes/voice/entries/0/weight', 1),
  )
  t.same(diffRoutes(BEFORE, spelled), [])
})

const rows: readonly [what: string, bend: (file: BentFile) => void, lines: readonly string[]][] = [
  [
    'a route setting',
    (file) => file.set('/routes/voice/strategy', 'weighted').set('/routes/voice/published', false),
    ['strategy: "priority" → "weighted"', 'published: true → false'],
  ],
  [
    'an entry more',
    (file) => file.set('/routes/voice/entries/-', { provider: 'openai', model: 'gpt-transcribe' }),
    ['entry 3 added: openai/gpt-transcribe'],
  ],
  [
    'an entry less, so that the next one moves up',
    (file) => file.set('/routes/voice/entries', [{ provider: 'openai', model: 'gpt-transcribe' }]),
    ['entry 1 removed: whisper/large-v3', 'entry 1 openai/gpt-transcribe moved from 2'],
  ],
  [
    'settings of an entry',
    (file) => file.set('/routes/voice/entries/1/weight', 2).set('/routes/voice/entries/1/plans', ['pro']),
    ['entry 2 openai/gpt-transcribe weight: 1 → 2', 'entry 2 openai/gpt-transcribe plans: [] → ["pro"]'],
  ],
  [
    'what is said of its model',
    (file) => file.set('/routes/voice/entries/1/price', { per_hour_usd: 1 }),
    ['entry 2 openai/gpt-transcribe price: {"per_hour_usd":0.27} → {"per_hour_usd":1}'],
  ],
]

for (const [what, bend, lines] of rows) {
  t.test(what, async (t) => {
    const [change, ...others] = diffRoutes(BEFORE, routesOf(bend))
    t.same(others, [])
    t.match(change, { workspace: 'acme', name: 'voice' })
    t.same(change?.lines, lines)
    t.not(change?.before, change?.after, 'the version follows')
  })
}

t.test('routes that come and go', async (t) => {
  const entries = [{ provider: 'openai', model: 'whisper-1' }]
  const added = routesOf((file) => file.set('/routes/night', { workspace: 'acme', entries }))
  const [change] = diffRoutes(BEFORE, added)
  t.match(change, { name: 'night', before: null, after: /^pv_/, lines: ['entry 1 added: openai/whisper-1'] })
  const [back] = diffRoutes(added, BEFORE)
  t.match(back, { name: 'night', before: /^pv_/, after: null, lines: ['entry 1 removed: openai/whisper-1'] })
})

t.test('a price of the provider changes what its entries cost, and no version', async (t) => {
  const cheaper = routesOf((file) => file.set('/providers/whisper/price', { per_hour_usd: 0.01 }))
  const changes = diffRoutes(BEFORE, cheaper)
  t.same(
    changes.map(({ name }) => name),
    ['calls', 'voice'],
  )
  for (const { before, after } of changes) t.equal(before, after)
})
