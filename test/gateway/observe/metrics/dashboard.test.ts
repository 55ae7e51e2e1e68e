import { execFileSync, spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { load } from 'js-yaml'
import t from 'tap'
import { type Exposition, readExposition } from '../../../support/exposition.ts'
import { testTiming } from '../../../support/larkway.ts'
import { section } from '../../../support/manual.ts'
import { startMeteredNode } from '../../../support/metered-node.ts'
import { waitUntil } from '../../../support/wait-until.ts'

interface Target {
  readonly expr?: string
}

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly gridPos: Readonly<Record<'x' | 'y' | 'w' | 'h', number>>
  readonly targets?: readonly Target[]
}

interface Dashboard {
  readonly panels: readonly Panel[]
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition?: string }[] }
}

const DEPLOY = new URL('../../../../scripts/deploy/', import.meta.url)
const dashboard: Dashboard = JSON.parse(await readFile(new URL('grafana-dashboard.json', DEPLOY), 'utf8'))
const panels = dashboard.panels.filter(({ type }) => type !== 'row')
const expressions = panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr = '' }) => ({ title, expr })),
)

interface AlertGroup {
  readonly name: string
  readonly rules: readonly { readonly alert: string; readonly expr: string; readonly for?: string }[]
}

const ALERTS = new URL('prometheus-alerts.yml', DEPLOY)
const { groups } = load(await readFile(ALERTS, 'utf8')) as { readonly groups: readonly AlertGroup[] }
const alerts = groups.flatMap(({ rules }) => rules.map(({ alert, expr }) => ({ title: alert, expr })))

const CHART = new URL('../../../scripts/helm/everything.yaml', import.meta.url)
const scaling = [...(await readFile(CHART, 'utf8')).matchAll(/^ +query: (.*)$/gm)].map(([, expr = '']) => ({
  title: 'scaling of the chart',
  expr,
}))

/** What an expression selects: names of series and of labels, without its functions, strings and durations. */
function namesIn(expr: string): { series: string[]; labels: string[] } {
  const labels = [...expr.matchAll(/(?:\bby|\bwithout|\bon) \(([^)]*)\)|\{([^}]*)\}/g)].flatMap(
    ([, by, selector]) =>
      (by ?? selector ?? '')
        .split(/,\s*/)
        .filter((part) => part !== '')
        .map((part) => part.replace(/\s*(?:=|!=|=~|!~)\s*".*$/, '').trim()),
  )
  const bare = expr
    .replace(/"[^"]*"/g, '')
    .replace(/\b(?:by|without|on) \([^)]*\)/g, '')
    .replace(/\{[^}]*\}|\[[^\]]*\]/g, '')
  const series = [...bare.matchAll(/\b[a-z_][a-z0-9_]*\b(?!\s*\()/g)].map(([name]) => name)
  return { series: series.filter((name) => !['or', 'and', 'unless', 'by'].includes(name)), labels }
}

t.test('what an expression names is found', async (t) => {
  const expr =
    'histogram_quantile(0.95, sum by (le, provider) (rate(a_seconds_bucket{error_type="", x=~"$x"}[$__i])))'
  t.same(namesIn(expr), { series: ['a_seconds_bucket'], labels: ['le', 'provider', 'error_type', 'x'] })
  t.same(namesIn('(sum(rate(a{b=~"5.."}[1m])) or vector(0)) / sum(c) * 60').series, ['a', 'c'])
})

t.test('the dashboard fits together', async (t) => {
  t.ok(expressions.length > 40)
  t.equal(new Set(dashboard.panels.map(({ id }) => id)).size, dashboard.panels.length, 'ids')
  t.ok(
    dashboard.panels.every(({ gridPos: { x, w } }) => x + w <= 24),
    'within the grid',
  )
  const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, at) => `${x + (at % w)},${y + Math.floor(at / w)}`),
  )
  t.equal(new Set(cells).size, cells.length, 'no panel covers another one')
  const variables = new Set(dashboard.templating.list.map(({ name }) => name))
  const used = [...JSON.stringify(dashboard).matchAll(/\$\{?([a-z]+)\b/g)].map(([, name = '']) => name)
  t.same(
    [...new Set(used)].filter((name) => !variables.has(name)),
    [],
  )
})

t.equal(scaling.length, 3)

let served: Exposition | null = null

t.test('it names only what a server tells that has served', { timeout: 120_000 }, async (t) => {
  const node = await startMeteredNode(t, testTiming({ usage: { segmentMs: 300 } }))
  await node.serveTraffic()
  const books = 'larkway_books_difference_usd'
  t.ok(await waitUntil(async () => (await node.scrape()).types.has(books), 60_000), 'books are compared')
  served = await node.scrape()
  t.equal(served.value(books, { side: 'unrecorded' }), 0)
  t.equal(served.value(books, { side: 'uncharged' }), 0)
  const { samples } = served
  /** Of a target, not of us. */
  const scraped = ['instance', 'job']
  const labelsOf = new Map<string, Set<string>>()
  for (const { name, labels } of samples) {
    const known = labelsOf.get(name) ?? new Set(scraped)
    for (const label of Object.keys(labels)) known.add(label)
    labelsOf.set(name, known)
  }
  for (const { title, expr } of [...expressions, ...alerts, ...scaling]) {
    const { series, labels } = namesIn(expr)
    t.ok(series.length > 0, `${title}: ${expr}`)
    for (const name of series) {
      // Prometheus itself tells it, of whom it scrapes.
      if (name === 'up') continue
      // A short run may get by without a garbage collection.
      const isUncollected = name.startsWith('nodejs_gc_') && served.types.has('nodejs_gc_duration_seconds')
      if (!labelsOf.has(name) && !isUncollected) t.fail(`${title}: ${name} is not told`)
      for (const label of labels)
        if (labelsOf.get(name)?.has(label) === false) t.fail(`${title}: ${name} has no label ${label}`)
    }
  }
  for (const { definition } of dashboard.templating.list)
    if (definition !== undefined) t.ok(labelsOf.has(/\((\w+),/.exec(definition)?.[1] ?? ''), definition)

  const shown = new Set(expressions.flatMap(({ expr }) => namesIn(expr).series))
  const unshown = [...served.types]
    .filter(([name]) => /^(larkway|gen_ai)_/.test(name))
    .filter(([name]) => !['', '_bucket', '_sum', '_count'].some((suffix) => shown.has(name + suffix)))
  t.same(unshown, [], 'and shows all that is ours')
})

t.test('every metric of ours is documented with its labels, and none is stale', async (t) => {
  const table = section('Metrics')
  const words = (cell = '') => [...cell.matchAll(/`([a-z_]+)`/g)].map(([, word = '']) => word)
  const rows = [...table.matchAll(/^\| (`[a-z_`, ]+`) \| ([a-z_`, ]*) ?\|/gm)].flatMap(([, names, labels]) =>
    words(names).map((name) => [name, words(labels)] as const),
  )
  const { types, samples } = served ?? readExposition('')
  const expected = [...types.keys()].filter((name) => /^(larkway|gen_ai)_/.test(name))
  t.same(rows.map(([name]) => name).sort(), expected.sort())
  for (const [name, labels] of rows) {
    const one = samples.find((sample) => sample.name === name || sample.name === `${name}_count`)
    // The ages of a queue stand in a row with its depths, which have a label more.
    const told = Object.keys(one?.labels ?? {})
    const extra = name === 'larkway_queue_oldest_seconds' ? ['state'] : []
    t.same([...told, ...extra].sort(), [...labels].sort(), name)
  }
})

const promtool = spawnSync('promtool', ['--version']).status === 0
const withoutPromtool = promtool ? false : 'promtool is not installed'

t.test('promtool finds no fault', { skip: withoutPromtool }, async (t) => {
  const check = (args: readonly string[], input = '') =>
    spawnSync('promtool', args, { input, encoding: 'utf8', timeout: 30_000 })
  const metrics = check(['check', 'metrics'], served?.text)
  // It would have other names for some of Node's, which it complains of with status 3.
  const ours = metrics.stderr.split('\n').filter((line) => /^(larkway|gen_ai)_/.test(line))
  t.same(ours, [])
  t.ok(metrics.status === 0 || metrics.status === 3, metrics.stderr)
  const rules = expressions.map(({ expr }, at) => ({
    record: `larkway:panel_${at}`,
    expr: expr.replaceAll('$__rate_interval', '1m').replaceAll('$instance', '.*'),
  }))
  const file = t.testdir({ 'rules.yml': JSON.stringify({ groups: [{ name: 'panels', rules }] }) })
  const checked = check(['check', 'rules', '--lint=none', `${file}/rules.yml`])
  t.equal(checked.status, 0, checked.stderr)
})

t.test('every alert of the rules is one of its name', async (t) => {
  t.ok(alerts.length > 8)
  t.equal(new Set(alerts.map(({ title }) => title)).size, alerts.length)
  for (const { title } of alerts) t.match(title, /^Larkway[A-Z][A-Za-z]+$/)
})

t.test('promtool finds no fault with the alerts', { skip: withoutPromtool }, async (t) => {
  const checked = spawnSync('promtool', ['check', 'rules', ALERTS.pathname], {
    encoding: 'utf8',
    timeout: 30_000,
  })
  t.equal(checked.status, 0, checked.stderr)
})

t.test('the configuration of Prometheus is one', async (t) => {
  const path = new URL('prometheus.yml', DEPLOY)
  const { scrape_configs, rule_files } = load(await readFile(path, 'utf8')) as {
    readonly scrape_configs: { job_name: string }[]
    readonly rule_files: string[]
  }
  t.same(rule_files, ['prometheus-alerts.yml'])
  t.ok(scrape_configs.some(({ job_name }) => job_name === 'larkway'))
  if (promtool)
    t.doesNotThrow(() => execFileSync('promtool', ['check', 'config', path.pathname], { stdio: 'pipe' }))
})
