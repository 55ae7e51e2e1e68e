import { readFile } from 'node:fs/promises'
import t from 'tap'
import { parse } from 'yaml'
import { ENVIRONMENT_SCHEMA } from '../../src/config.ts'
import { larkway } from '../support/cli.ts'
import { startNginx } from '../support/nginx-server.ts'
import { freePort } from '../support/scratch.ts'
import { withoutServers } from '../support/servers.ts'

const FOLDER = new URL('../../scripts/deploy/', import.meta.url)
const read = (name: string) => readFile(new URL(name, FOLDER), 'utf8')

interface Service {
  readonly image?: string
  readonly build?: string
  readonly command?: readonly string[]
  readonly environment?: Readonly<Record<string, string | number>>
  readonly volumes?: readonly string[]
  readonly sysctls?: Readonly<Record<string, string>>
  readonly healthcheck?: { readonly test: readonly string[] }
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>
  readonly restart?: string
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>
  readonly volumes: Readonly<Record<string, null>>
}

const text = await read('compose.yaml')
const compose = parse(text, { merge: true }) as Compose
const services = Object.entries(compose.services)
const nodes = services.filter(([name]) => name.startsWith('larkway-'))

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
    const named = mounts.filter(([, source = '']) => !source.startsWith('./'))
    t.same(named.map(([, source]) => source).sort(), Object.keys(compose.volumes).sort())
    t.same(
      named.map(([name, , target]) => `${name} ${target}`),
      ['valkey /data', 'garage /var/lib/garage/meta', 'garage /var/lib/garage/data'],
    )
    const garage = await read('garage.toml')
    t.match(garage, '/var/lib/garage/meta')
    t.match(garage, '/var/lib/garage/data')
    for (const [, source = '', target = '', mode] of mounts.filter((mount) => !named.includes(mount))) {
      t.equal(mode, 'ro', `${source} is not written to`)
      await t.resolves(read(source === './config' ? 'config/larkway.yaml' : source), target)
    }
  },
)

t.test('the nodes are alike, and told what the gateway knows', async (t) => {
  const [, first] = nodes[0] ?? []
  for (const [name, node] of nodes) t.same(node, first, name)
  const { OPENAI_API_KEY, ...environment } = first?.environment ?? {}
  t.match(OPENAI_API_KEY, /^\$\{OPENAI_API_KEY:\?/, 'of the example configuration')
  for (const name of Object.keys(environment)) t.ok(Object.hasOwn(ENVIRONMENT_SCHEMA.properties, name), name)
  const needed = ['REDIS_URL', 'S3_ENDPOINT', 'S3_BUCKET', 'S3_ACCESS_KEY_ID', 'S3_SECRET_ACCESS_KEY']
  t.match(Object.keys(environment), new Set([...needed, 'LARKWAY_SECRET_KEYS', 'LARKWAY_CONFIG']))
  const sysctl = /^(net\.ipv4\.tcp_rmem) = (.*)$/m.exec(await read('sysctl.conf'))
  t.same(first?.sysctls, { [sysctl?.[1] ?? '']: sysctl?.[2] }, 'receive buffers have the same cap in both')
})

t.test('Valkey keeps what it acknowledged, and throws nothing away', async (t) => {
  const command = compose.services.valkey?.command?.join(' ') ?? ''
  for (const option of ['--appendonly yes', '--appendfsync always', '--maxmemory-policy noeviction'])
    t.ok(command.includes(option), option)
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
    await import('../../src/catalog/file.ts')
  ).CatalogFile.properties
  for (const { maximum } of [deadline, video] as { maximum?: number }[])
    t.ok(seconds('proxy_read_timeout') > (maximum ?? Infinity) + 120, `over ${maximum} s and a fetch`)
  t.ok(seconds('keepalive_timeout') <= 6, 'a node closes an idle connection after 8 s')
  const servers = [...nginx.matchAll(/^\s+server (\S+):8080 /gm)].map(([, name]) => name)
  t.same(
    servers,
    nodes.map(([name]) => name),
  )
})

t.test('nginx takes its configuration, and answers without a node', { skip: withoutServers }, async (t) => {
  const nginx = await startNginx(t, [await freePort(), await freePort(), await freePort()])
  const response = await fetch(`${nginx.url}/v1/me`)
  t.equal(response.status, 503)
  t.match(await response.json(), { error: { code: 'OVERLOADED', retryable: true } })
})
