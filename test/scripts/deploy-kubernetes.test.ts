import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { loadAll } from 'js-yaml'
import t from 'tap'
import { NODE_FLAGS } from '../../scripts/compile.mjs'
import { healthz, readyz } from '../../src/gateway/api/health.ts'
import { readEnvironment } from '../../src/gateway/node/config.ts'
import { larkway } from '../support/cli.ts'
import { tempFolder } from '../support/scratch.ts'
import { stopSeconds } from './stop-seconds.ts'

const ROOT = new URL('../../', import.meta.url)
const read = (path: string) => readFile(new URL(path, ROOT), 'utf8')

type Labels = Readonly<Record<string, string>>
interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string }
}
interface Container {
  readonly image: string
  readonly command?: readonly string[]
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[]
  readonly env?: readonly { readonly name: string; readonly value: string }[]
  readonly envFrom: readonly Readonly<Record<string, { readonly name: string }>>[]
  readonly startupProbe?: Probe
  readonly readinessProbe?: Probe
  readonly livenessProbe?: Probe
  readonly securityContext: object
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
}
interface Pod {
  readonly terminationGracePeriodSeconds: number
  readonly securityContext: object
  readonly containers: readonly [Container]
  readonly volumes: readonly { readonly name: string; readonly configMap?: { readonly name: string } }[]
}
interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string }
  readonly data?: Labels
  readonly spec?: {
    readonly selector: Labels & { readonly matchLabels: Labels }
    readonly ports?: readonly { readonly targetPort: string }[]
    readonly template: {
      readonly metadata: { readonly labels: Labels; readonly annotations: Labels }
      readonly spec: Pod
    }
  }
}

/** Objects of others, whose types do not come with Kubernetes. */
const FOREIGN = ['ScaledObject', 'HTTPRoute']

const manifestsIn = async (path: string) => loadAll(await read(path)) as Manifest[]
const manifests = await manifestsIn('scripts/deploy/kubernetes.yaml')

function manifest(kind: string, name: string): Manifest {
  const found = manifests.find((one) => one.kind === kind && one.metadata.name === name)
  if (found === undefined) throw new Error(`there is no ${kind} ${name}`)
  return found
}

function podOf(name: string) {
  const { template, selector } = manifest('Deployment', name).spec ?? {}
  if (template === undefined || selector === undefined) throw new Error(`${name} has no pod`)
  return {
    ...template.metadata,
    selector: selector.matchLabels,
    pod: template.spec,
    container: template.spec.containers[0],
  }
}

const environment = manifest('ConfigMap', 'larkway').data ?? {}
const nodes = podOf('larkway')
const workers = podOf('larkway-worker')
const selects = (selector: Labels = {}, labels: Labels) =>
  Object.entries(selector).every(([name, value]) => labels[name] === value)

/** What the TypeScript compiler says of the manifests as values of Kubernetes' own types. */
async function typeFaults(folder: string, documents: readonly Manifest[]): Promise<string> {
  const types = fileURLToPath(new URL('node_modules/kubernetes-types/', ROOT))
  const lines = documents.map(({ kind, apiVersion, ...rest }, index) => {
    const path = apiVersion.includes('/') ? apiVersion.replace('.k8s.io/', '/') : `core/${apiVersion}`
    const value = JSON.stringify({ apiVersion, kind, ...rest }, null, 1)
    return `export const manifest${index}: import('${types}${path}.d.ts').${kind} = ${value}`
  })
  const file = join(folder, 'manifests.ts')
  await writeFile(file, lines.join('\n'))
  const compiler = fileURLToPath(new URL('node_modules/typescript/bin/tsc', ROOT))
  const options = [
    ...['--noEmit', '--strict', '--module', 'preserve', '--allowImportingTsExtensions', '--types', ''],
  ]
  return promisify(execFile)(process.execPath, [compiler, ...options, file], { cwd: folder }).then(
    () => '',
    ({ stdout, stderr }: { stdout: string; stderr: string }) => stdout + stderr,
  )
}

t.test('every object is one of Kubernetes, with no field that it does not know', async (t) => {
  const folder = await tempFolder(t)
  t.equal(await typeFaults(folder, manifests), '')
  const everything = await manifestsIn('test/scripts/helm/everything.yaml')
  t.equal(
    await typeFaults(
      folder,
      everything.filter(({ kind }) => !FOREIGN.includes(kind)),
    ),
    '',
  )
  const misspelt = structuredClone(manifest('Deployment', 'larkway'))
  Object.assign(misspelt.spec?.template.spec ?? {}, { terminationGracePeriodSecond: 1 })
  t.match(await typeFaults(folder, [misspelt]), 'terminationGracePeriodSecond', 'it would be found')
})

t.test('the gateway takes its environment', async (t) => {
  const { env = [], envFrom } = nodes.container
  t.same(envFrom, [{ configMapRef: { name: 'larkway' } }, { secretRef: { name: 'larkway' } }])
  t.same(workers.container.envFrom, envFrom, 'a worker has the same')
  const secrets = { REDIS_URL: 'redis://a', S3_ACCESS_KEY_ID: 'a', S3_SECRET_ACCESS_KEY: 'b' }
  const given = { ...environment, ...Object.fromEntries(env.map(({ name, value }) => [name, value])) }
  const taken = readEnvironment({ ...given, ...secrets })
  for (const [name, value] of Object.entries(given))
    t.equal(String(taken[name as keyof typeof taken]), value, `${name} is one that it knows`)
  t.equal(taken.LARKWAY_JOBS, 0)
  t.ok(readEnvironment({ ...environment, ...secrets }).LARKWAY_JOBS > 0, 'workers work')
  const made = [...(await read('scripts/deploy/README.md')).matchAll(/--from-literal=(\w+)=/g)].map(
    ([, name]) => name,
  )
  t.same(
    made.sort(),
    [...Object.keys(secrets), 'LARKWAY_SECRET_KEYS', 'OPENAI_API_KEY'].sort(),
    'the secret is made',
  )
})

t.test('the configuration is valid, and where it is looked for', async (t) => {
  const folder = await tempFolder(t)
  const path = join(folder, 'larkway.yaml')
  await writeFile(path, manifest('ConfigMap', 'larkway-file').data?.['larkway.yaml'] ?? '')
  const { code, output } = await larkway(['check', path], { env: { OPENAI_API_KEY: 'sk-x' } })
  t.equal(code, 0, output)
  for (const { pod, container } of [nodes, workers]) {
    const volume = pod.volumes.find(({ configMap }) => configMap?.name === 'larkway-file')
    const mount = container.volumeMounts.find(({ name }) => name === volume?.name)
    t.equal(environment.LARKWAY_CONFIG, `${mount?.mountPath}/larkway.yaml`)
    t.ok(
      container.volumeMounts.some(({ mountPath }) => mountPath === '/data'),
      'the image keeps its data there',
    )
  }
})

t.test('ports and probes are those of the image and of the code', async (t) => {
  const dockerfile = await read('Dockerfile')
  const port = Number(/\bPORT=(\d+)/.exec(dockerfile)?.[1])
  const { ports, startupProbe, readinessProbe, livenessProbe } = nodes.container
  t.match(ports, [{ name: 'http', containerPort: port }])
  t.equal(manifest('Service', 'larkway').spec?.ports?.[0]?.targetPort, 'http')
  t.same(readinessProbe?.httpGet, { path: readyz.path, port: 'http' })
  for (const probe of [startupProbe, livenessProbe])
    t.same(probe?.httpGet, { path: healthz.path, port: 'http' })
  for (const probe of [workers.container.startupProbe, workers.container.livenessProbe])
    t.same(probe?.httpGet, { path: healthz.path, port: 'metrics' })
  for (const { container, annotations } of [nodes, workers]) {
    const metrics = container.ports.find(({ name }) => name === 'metrics')?.containerPort
    t.same(
      [environment.LARKWAY_METRICS_PORT, annotations['prometheus.io/port']],
      [`${metrics}`, `${metrics}`],
    )
    t.match(container.image, /^larkway:\d/)
  }
  t.match(
    dockerfile,
    `CMD ${JSON.stringify(['node', ...NODE_FLAGS, 'compiled/main.js']).replaceAll(',', ', ')}`,
    'a node runs what the image runs',
  )
  t.equal(nodes.container.command, undefined)
  t.same(workers.container.command, ['node', 'compiled/cli.js', 'worker'])
  t.match(dockerfile, 'RUN node scripts/gather.mjs image', 'both programs are there')
})

t.test('what is told to stop gets the time for it', async (t) => {
  const drain = Number(environment.LARKWAY_DRAIN_SECONDS)
  t.ok(nodes.pod.terminationGracePeriodSeconds > stopSeconds(drain), `over ${stopSeconds(drain)} s`)
  t.ok(workers.pod.terminationGracePeriodSeconds > 25 + 20, 'jobs get 25 s, and their stores a while')
})

t.test('callers reach nodes and never workers, and selectors find what they should', async (t) => {
  for (const { labels, selector } of [nodes, workers]) t.ok(selects(selector, labels))
  for (const [kind, selector] of [
    ['Service', manifest('Service', 'larkway').spec?.selector],
    ['PodDisruptionBudget', manifest('PodDisruptionBudget', 'larkway').spec?.selector.matchLabels],
    ['Deployment', nodes.selector],
  ] as const) {
    t.ok(selects(selector, nodes.labels), `${kind}: nodes`)
    t.notOk(selects(selector, workers.labels), `${kind}: no workers`)
  }
  t.notOk(selects(workers.selector, nodes.labels))
})

t.test('a pod may do nothing that it need not', async (t) => {
  for (const { pod, container } of [nodes, workers]) {
    t.match(pod.securityContext, { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } })
    t.match(container.securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
    t.match(pod, { automountServiceAccountToken: false })
  }
})
