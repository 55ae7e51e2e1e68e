import t from 'tap'
import { TenantMetrics, type TenantTerms } from '../../../../src/gateway/observe/metrics/tenant-metrics.ts'
import { principal } from '../../../support/catalog.ts'
import { readExposition } from '../../../support/exposition.ts'

function callOf(workspace: string, app: string, costUsd: number | null = null) {
  const whole = principal()
  return {
    principal: { ...whole, workspace: { ...whole.workspace, id: workspace }, app: { id: app } },
    money: { costUsd },
  }
}

const textOf = (metrics: TenantMetrics) => metrics.families.flatMap((one) => [...one.render()]).join('')

t.test('there is no metric unless it is asked for', async (t) => {
  const metrics = new TenantMetrics()
  metrics.ended(callOf('acme', 'web', 1), 200, false)
  metrics.ran({ workspace: 'acme', app: 'web' }, { costUsd: 1 })
  t.same(metrics.families, [])
})

t.test('requests and spending by tenant; those beyond the first are other', async (t) => {
  let terms: TenantTerms | undefined = { labels: ['workspace', 'app'], most: 2 }
  const metrics = new TenantMetrics()
  metrics.goBy(() => terms)
  metrics.ended(callOf('acme', 'web', 0.25), 200, false)
  metrics.ended(callOf('acme', 'web'), 200, true)
  metrics.ended(callOf('acme', 'web'), 429, true)
  metrics.ended(callOf('acme', 'web'), null, true)
  metrics.ran({ workspace: 'acme', app: 'batch' }, { costUsd: 0.5 })
  for (let index = 0; index < 1_000; index += 1) metrics.ended(callOf(`w${index}`, 'web', 0.001), 200, false)
  metrics.ended({ principal: null, money: { costUsd: null } }, 401, true)
  metrics.ended(callOf('acme', 'web'), 200, false)

  const served = readExposition(textOf(metrics))
  const requests = (labels: Record<string, string>) => served.value('larkway_tenant_requests_total', labels)
  t.equal(requests({ workspace: 'acme', app: 'web', outcome: 'ok' }), 2)
  t.equal(requests({ workspace: 'acme', app: 'web', outcome: 'server_error' }), 2)
  t.equal(requests({ workspace: 'acme', app: 'web', outcome: 'client_error' }), 1)
  t.equal(requests({ workspace: 'other', app: 'other', outcome: 'ok' }), 1_000)
  t.equal(served.value('larkway_tenant_spent_usd_total', { workspace: 'acme', app: 'web' }), 0.25)
  t.equal(served.value('larkway_tenant_spent_usd_total', { workspace: 'acme', app: 'batch' }), 0.5)
  t.equal(served.samples.length, 7)

  terms = { labels: ['workspace'], most: 2 }
  metrics.ended(callOf('acme', 'web'), 200, false)
  const anew = readExposition(textOf(metrics))
  t.same(
    anew.samples.map(({ labels }) => labels),
    [{ workspace: 'acme', outcome: 'ok' }, { workspace: 'acme' }],
  )
})
