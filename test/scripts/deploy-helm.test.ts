import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { load, loadAll } from 'js-yaml'
import t from 'tap'
import { ENVIRONMENT_SCHEMA } from '../../src/gateway/node/config.ts'

/*
 * The chart is rendered by helm where there is one; what it renders is kept, and judged on every machine. To write it
 * anew: LARKWAY_TEST_WRITE_MANIFESTS=1.
 */

const ROOT = new URL('../../', import.meta.url)
const CHART = fileURLToPath(new URL('scripts/deploy/helm', ROOT))
const VALUES = fileURLToPath(new URL('helm/values.yaml', import.meta.url))

const run = promisify(execFile)
const without = async (program: string, ask = 'version') => {
  const found = await run(program, [ask]).then(
    () => true,
    () => false,
  )
  return found ? false : `there is no ${program} here`
}
const withoutHelm = await without('helm')

/** Objects of the chart as helm renders them, without the places that it notes. */
async function rendered(release: string, ...options: readonly string[]): Promise<string> {
  const args = ['template', release, CHART, '--kube-version', '1.32.0', ...options]
  const { stdout } = await run('helm', args)
  return stdout.replace(/^# Source: .*\n/gm, '').replace(/[ \t]+$/gm, '')
}

const KEPT = [
  {
    file: new URL('scripts/deploy/kubernetes.yaml', ROOT),
    head: '# The chart in helm/ with its defaults, rendered. Redis and S3 are elsewhere. See README.md.\n',
    render: () => rendered('larkway'),
  },
  {
    file: new URL('helm/everything.yaml', import.meta.url),
    head: '# Rendered of values.yaml beside it.\n',
    render: () => rendered('speech', '--values', VALUES),
  },
]

for (const { file, head, render } of KEPT) {
  const name = file.pathname.split('/').at(-1)
  t.test(`${name} is what the chart renders`, { skip: withoutHelm }, async (t) => {
    const made = head + (await render())
    if (process.env.LARKWAY_TEST_WRITE_MANIFESTS === '1') await writeFile(file, made)
    t.equal(made, await readFile(file, 'utf8'))
  })
}

t.test('helm finds no fault, and refuses a value that it does not know', { skip: withoutHelm }, async (t) => {
  const { stdout } = await run('helm', ['lint', '--strict', CHART, '--values', VALUES])
  t.match(stdout, '0 chart(s) failed')
  await t.rejects(
    rendered('larkway', '--set', 'nodes.replica=5'),
    /additional properties 'replica' not allowed/,
  )
  await t.rejects(rendered('larkway', '--set', 'environment.jobs=5'), /environment/)
})

t.test(
  'kube-score finds nothing critical',
  { skip: withoutHelm || (await without('kube-score')) },
  async (t) => {
    // No limit of CPU on purpose; images are pinned by tag or digest; the image's user is 1000.
    const left = 'container-image-pull-policy,container-security-context-user-group-id'
    const args = [
      'score',
      '--kubernetes-version',
      'v1.32',
      '--ignore-container-cpu-limit',
      '--ignore-test',
      left,
      '-',
    ]
    const scorer = spawn('kube-score', args)
    scorer.stdin.end(await rendered('larkway'))
    const [output] = await Promise.all([text(scorer.stdout), once(scorer, 'exit')])
    t.match(output, /\[|larkway/)
    t.notMatch(output, /CRITICAL/)
  },
)

const withoutSchemas = await without('kubernetes-validate', '--version')

t.test(
  'manifests are what Kubernetes 1.25 and 1.32 take, by their schemas',
  { skip: withoutSchemas },
  async (t) => {
    const judged = (path: string, version = '1.32.0') =>
      run('kubernetes-validate', ['--strict', '--no-warn', '-k', version, path])
    for (const { file } of KEPT) {
      await t.resolves(judged(fileURLToPath(file)), file.pathname)
      await t.resolves(judged(fileURLToPath(file), '1.25.0'), `${file.pathname}, 1.25`)
    }
    const text = await readFile(new URL('scripts/deploy/kubernetes.yaml', ROOT), 'utf8')
    const misspelt = join(t.testdir(), 'misspelt.yaml')
    await writeFile(misspelt, text.replace('replicas:', 'replica:'))
    const { stdout } = await judged(misspelt).catch((error: { readonly stdout: string }) => error)
    t.match(stdout, "'replica' was unexpected")
  },
)

interface Manifest {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>> }
  readonly data?: Readonly<Record<string, string>>
  readonly spec?: {
    readonly replicas?: number
    readonly selector?: { readonly matchLabels: Readonly<Record<string, string>> }
    readonly scaleTargetRef?: { readonly name: string }
    readonly egress?: readonly {
      readonly to: readonly { readonly ipBlock: { readonly except?: string[] } }[]
    }[]
    readonly template?: { readonly spec: { readonly containers: readonly [{ readonly image: string }] } }
  }
}

const everything: readonly Manifest[] = loadAll(
  await readFile(new URL('helm/everything.yaml', import.meta.url), 'utf8'),
) as Manifest[]
const of = (kind: string) => everything.filter((one) => one.kind === kind)

t.test('releases in one namespace never select pods of each other', async (t) => {
  for (const { spec } of [...of('Deployment'), ...of('PodDisruptionBudget')])
    t.equal(spec?.selector?.matchLabels['app.kubernetes.io/instance'], 'speech')
  t.same(
    of('Deployment').map(({ metadata }) => metadata.name),
    ['speech-larkway', 'speech-larkway-worker'],
  )
  const { digest } = (load(await readFile(VALUES, 'utf8')) as { image: { digest: string } }).image
  const images = of('Deployment').map(({ spec }) => spec?.template?.spec.containers[0].image)
  for (const one of images) t.ok(one?.endsWith(`@${digest}`), 'pinned by its digest')
})

t.test('what scales has no number of its own, which a new rendering would put back', async (t) => {
  t.equal(of('ScaledObject').length, 2)
  for (const { spec } of of('ScaledObject')) {
    const target = of('Deployment').find(({ metadata }) => metadata.name === spec?.scaleTargetRef?.name)
    t.ok(target)
    t.equal(target?.spec?.replicas, undefined)
  }
})

t.test('variables are those of the program, and no pod asks for credentials of the cloud', async (t) => {
  const [environment] = of('ConfigMap')
  t.same(
    Object.keys(environment?.data ?? {}).filter(
      (name) => !Object.hasOwn(ENVIRONMENT_SCHEMA.properties, name),
    ),
    [],
  )
  const policies = of('NetworkPolicy')
  t.equal(policies.length, 2)
  for (const { spec } of policies) t.match(spec?.egress?.[0]?.to[0]?.ipBlock.except, ['169.254.0.0/16'])
})
