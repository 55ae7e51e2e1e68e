import t from 'tap'
import { buildSnapshot } from '../../../src/gateway/catalog/snapshot.ts'
import { SURROUNDINGS } from '../../support/catalog-file.ts'

const KEY = `\${OPENAI_API_KEY}`

/** Two workspaces that share a provider of the platform, each with the parts that are added to it. */
function pricesIn(parts: { provider?: object; acme?: object; entry?: object }) {
  const entries = [{ provider: 'stt', model: 'nova-3', ...parts.entry }]
  const read = buildSnapshot(
    {
      providers: {
        stt: { kind: 'deepgram', access: 'platform', api_key: KEY, ...parts.provider },
        own: { kind: 'deepgram', access: 'byok', workspace: 'other', api_key: KEY },
      },
      routes: { voice: { workspace: 'acme', entries }, speech: { workspace: 'other', entries } },
      workspaces: {
        acme: { apps: { web: { route: 'voice' } }, ...parts.acme },
        other: { apps: { web: { route: 'speech' } } },
      },
    },
    SURROUNDINGS,
  )
  if ('issues' in read) return read.issues
  return read.routes.map(({ workspace, entries: [entry] }) => [
    workspace,
    entry?.facts.price?.per_hour_usd,
    entry?.facts.live?.price?.per_hour_usd,
  ])
}

t.test('the price of a contract: the entry, the workspace, the provider, the table', async (t) => {
  const list = { 'nova-3': { per_hour_usd: 0.2, live: { per_hour_usd: 0.24 } } }
  const table = [0.462, 0.348]
  t.same(pricesIn({}), [
    ['acme', ...table],
    ['other', ...table],
  ])
  t.same(pricesIn({ provider: { prices: list, price: { per_hour_usd: 9 } } }), [
    ['acme', 0.2, 0.24],
    ['other', 0.2, 0.24],
  ])
  const own = { prices: { stt: { 'nova-3': { per_hour_usd: 0.18 } } } }
  t.same(pricesIn({ provider: { prices: list }, acme: own }), [
    ['acme', 0.18, 0.24],
    ['other', 0.2, 0.24],
  ])
  t.same(pricesIn({ provider: { prices: list }, acme: own, entry: { price: { per_hour_usd: 1 } } }), [
    ['acme', 1, 0.24],
    ['other', 1, 0.24],
  ])
  const facts = { features: [], hints: [], limits: { max_session_seconds: 60 } }
  t.same(pricesIn({ provider: { prices: list }, entry: { live: facts } })[0], ['acme', 0.2, 0.24])
  const live = { prices: { stt: { 'nova-3': { live: { per_hour_usd: 0.1 } } } } }
  t.same(pricesIn({ acme: live }), [
    ['acme', 0.462, 0.1],
    ['other', ...table],
  ])
  t.same(
    pricesIn({ provider: { prices: { 'nova-2': { per_hour_usd: 1 }, constructor: { per_hour_usd: 2 } } } }),
    [
      ['acme', ...table],
      ['other', ...table],
    ],
  )
})

const ORDER = 'must be greater than in the tier before'

t.test('a price list that cannot be meant', async (t) => {
  const periods = [{ from: '2027-02-01', until: '2027-01-01', per_hour_usd: 1 }]
  t.same(
    pricesIn({
      provider: { prices: { 'nova-3': { live: { per_hour_usd: 1, periods } } } },
      acme: {
        prices: {
          stt: {
            'nova-3': {
              per_hour_usd: 1,
              by_service_tier: { flex: { tiers: [{ over_input_tokens: 9 }, { over_input_tokens: 9 }] } },
            },
          },
          own: { 'nova-3': { per_hour_usd: 1 } },
          gone: { 'nova-3': { per_hour_usd: 1 } },
        },
      },
    })
      .toString()
      .split(',/'),
    [
      '/providers/stt/prices/nova-3/live/periods/0: must end after it begins: 2027-01-01',
      `workspaces/acme/prices/stt/nova-3/by_service_tier/flex/tiers/1/over_input_tokens: ${ORDER}`,
      'workspaces/acme/prices/own: the provider "own" belongs to another workspace',
      'workspaces/acme/prices/gone: there is no provider "gone"',
    ],
  )
  t.match(`${pricesIn({ provider: { prices: { 'nova-3': { per_day_usd: 1 } } } })}`, /per_day_usd/)
  t.match(`${pricesIn({ acme: { prices: { stt: { 'nova-3': { per_hour_usd: -1 } } } } })}`, /per_hour_usd/)
})
