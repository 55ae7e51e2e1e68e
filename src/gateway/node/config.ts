import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import { secretKeysIn } from '../../contracts/secrets.ts'
import { formed } from '../catalog/field.ts'
import { checkShape, Issues } from '../catalog/issues.ts'
import { createEgressProxy } from '../outbound/egress-proxy.ts'

export const DEFAULT_DATA = './data'
export const PROCESSES_MAX = 64

const PORT = { minimum: 0, maximum: 65_535 }
const MIB = { minimum: 1, maximum: 1_048_576 }

const Environment = Type.Object({
  PORT: Type.Integer({ ...PORT, default: 8080, description: 'port to listen on; 0 picks a free one' }),
  HOST: Type.String({ default: '0.0.0.0', description: 'address to listen on' }),
  LARKWAY_TLS_CERT: Type.Optional(
    Type.String({
      description:
        'PEM file of a certificate, and of those up to its authority: HTTPS is served, too; read again on SIGHUP',
    }),
  ),
  LARKWAY_TLS_KEY: Type.Optional(
    Type.String({ description: 'PEM file of its private key, without a passphrase' }),
  ),
  LARKWAY_TLS_PORT: Type.Integer({
    ...PORT,
    default: 8443,
    description: 'port of HTTPS; 0 picks a free one',
  }),
  LARKWAY_TLS_HOST: Type.Optional(Type.String({ description: 'address of that port; default: HOST' })),
  LARKWAY_CHUNKED: Type.Enum(['strict', 'seen', 'refuse'], {
    default: 'seen',
    description:
      'chunked bodies: `strict` refuses what cannot be held against its own bytes, `seen` takes that, ' +
      '`refuse` takes none',
  }),
  LARKWAY_RECEIVE_BUFFERS: Type.Enum(['capped', 'system'], {
    default: 'capped',
    description:
      'receive buffers of connections: `capped` are at most half a megabyte, `system` as large as net.ipv4.tcp_rmem ' +
      'allows, which far senders can use, and which comes on top of LARKWAY_MEMORY_MIB',
  }),
  LARKWAY_CONFIG: Type.Optional(
    Type.String({
      description: 'configuration file; default: larkway.yaml when it exists, else the demo',
    }),
  ),
  LARKWAY_DATA: Type.String({
    default: DEFAULT_DATA,
    description: 'folder for keys, the state file and the folder store',
  }),
  LARKWAY_DEMO_KEY: Type.Optional(
    Type.String({ description: 'API key of the demo workspace; default: made at first start' }),
  ),
  LARKWAY_SECRET_KEYS: Type.Optional(
    Type.String({
      description:
        'comma-separated base64 keys of 32 bytes: the first signs and seals, all open; default: kept in LARKWAY_DATA',
    }),
  ),
  LARKWAY_MODELS_KEYS: Type.Optional(
    formed('^[A-Za-z0-9+/_-]{43}=?(,[A-Za-z0-9+/_-]{43}=?)*$', 'keys of 32 bytes in base64, and commas', {
      description:
        'comma-separated base64 Ed25519 public keys of those who sign model facts; default: none is trusted',
    }),
  ),
  LARKWAY_INSECURE_WEBHOOKS: Type.Boolean({
    default: false,
    description: 'for development: `true` lets webhooks go to `http://127.0.0.1` and `http://localhost`, too',
  }),
  HTTPS_PROXY: Type.Optional(
    Type.String({
      description:
        'proxy, with a name and a password where it asks for them, for what goes over TLS to providers, to receivers ' +
        'of webhooks and to hosts of audio; see [Egress proxy](operations.md#egress-proxy)',
    }),
  ),
  NO_PROXY: Type.Optional(
    Type.String({
      description: 'hosts and networks that are reached without it, separated by commas; `*` for all',
    }),
  ),
  LARKWAY_PUBLIC_URL: Type.Optional(
    formed('^https?://[^/?#]+$', 'an origin such as https://voice.example.com, without a slash at its end', {
      description: 'origin under which callers reach this node, for signed URLs; default: they are paths',
    }),
  ),
  LARKWAY_MEMORY_MIB: Type.Integer({
    ...MIB,
    minimum: 8,
    default: 256,
    description: 'byte budget for held bodies and answers, MiB',
  }),
  LARKWAY_LIVE_MEMORY_MIB: Type.Integer({
    ...MIB,
    default: 128,
    description: 'audio that live sessions may keep until it is settled, all together, MiB',
  }),
  LARKWAY_USAGE: Type.Boolean({
    default: true,
    description: 'record every call, job and live session in the usage ledger',
  }),
  LARKWAY_USAGE_FOLDER: Type.Optional(
    Type.String({
      description:
        'folder on a disk of this machine for records that are not in the object store yet; default: ' +
        '`usage-segments` in LARKWAY_DATA',
    }),
  ),
  LARKWAY_USAGE_BACKLOG_MIB: Type.Integer({
    ...MIB,
    default: 1_024,
    description: 'most of these records, MiB; beyond that new ones are lost',
  }),
  LARKWAY_PROCESSES: Type.Integer({
    minimum: 1,
    maximum: PROCESSES_MAX,
    default: 1,
    description:
      'processes that `larkway serve` and `npm start` run on one port, each with its own LARKWAY_MEMORY_MIB; one per ' +
      'core is enough',
  }),
  LARKWAY_JOBS: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 1_024,
      description:
        'most jobs that this process runs at a time; 0 leaves them to `larkway worker`; default: a quarter of ' +
        'LARKWAY_MEMORY_MIB, from 16 to 64',
    }),
  ),
  LARKWAY_JOBS_PER_WORKSPACE: Type.Integer({
    minimum: 1,
    maximum: 65_536,
    default: 8,
    description: 'jobs of one workspace that run at a time, over all processes',
  }),
  LARKWAY_METRICS_PORT: Type.Optional(
    Type.Integer({ ...PORT, description: 'port of `GET /metrics`; 0 picks a free one; default: none' }),
  ),
  LARKWAY_METRICS_HOST: Type.String({
    default: '127.0.0.1',
    description: 'address of that port, which takes no key',
  }),
  LARKWAY_DRAIN_SECONDS: Type.Integer({
    minimum: 0,
    maximum: 600,
    default: 10,
    description:
      'how long a node that is told to stop goes on listening, while balancers leave it; SIGINT does not wait',
  }),
  REDIS_URL: Type.Optional(
    formed('^rediss?(\\+sentinel|\\+cluster)?://', 'a URL such as redis://:password@host:6379', {
      description:
        'Redis: `redis://`, or `redis+sentinel://host:port,…/master`, `redis+cluster://host:port,…`; with TLS ' +
        '`rediss…`; default: a file in LARKWAY_DATA',
    }),
  ),
  S3_ENDPOINT: Type.Optional(formed('^https?://', 'a URL', { description: 'S3-compatible endpoint' })),
  S3_PUBLIC_ENDPOINT: Type.Optional(
    formed('^https?://', 'a URL', { description: 'endpoint in signed URLs; default: S3_ENDPOINT' }),
  ),
  S3_REGION: Type.String({ default: 'us-east-1', description: 'region of the bucket' }),
  S3_BUCKET: Type.Optional(
    Type.String({ minLength: 3, description: 'bucket; default: objects in the data folder' }),
  ),
  S3_ACCESS_KEY_ID: Type.Optional(
    Type.String({ description: 'access key of the bucket; default: as the AWS SDK finds it' }),
  ),
  S3_SECRET_ACCESS_KEY: Type.Optional(Type.String({ description: 'secret key of the bucket' })),
  LOG_LEVEL: Type.Enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
    default: 'info',
    description: 'least level that is logged: `trace`, `debug`, `info`, `warn`, `error`, `fatal` or `silent`',
  }),
})

/** The environment, checked; what the file configures is in `catalog/`. */
export type Environment = Readonly<Static<typeof Environment> & { LARKWAY_JOBS: number }>

/**
 * Jobs at a time where nothing is configured. A place mostly waits, for a provider or a store, so 64 of them took 23 to
 * 31 % less CPU per job than 16, and 128 no less than 64. What a job has in sockets is outside the byte budget, about
 * half a MiB: fewer places where memory is small.
 */
function defaultJobs(memoryMib: number): number {
  return Math.min(64, Math.max(16, Math.floor(memoryMib / 4)))
}

/** For the table in docs/configuration.md and for tests. */
export const ENVIRONMENT_SCHEMA = Environment

/** Where records of usage are until they are in the object store. */
export function usageFolder({ LARKWAY_USAGE_FOLDER, LARKWAY_DATA }: Environment): string {
  return LARKWAY_USAGE_FOLDER ?? join(LARKWAY_DATA, 'usage-segments')
}

/** Variables that may be in a file, which the variable with `_FILE` behind its name names. */
const SECRET_VARIABLES = [
  ...['REDIS_URL', 'HTTPS_PROXY', 'S3_ACCESS_KEY_ID', 'S3_SECRET_ACCESS_KEY', 'LARKWAY_SECRET_KEYS'],
  'LARKWAY_DEMO_KEY',
] as const

/**
 * The environment with the secrets that are in files, without white space around them. Adds what is wrong to `faults`.
 */
export function withSecretFiles(env: Env, faults: string[] = []): Env {
  const read: Record<string, string> = {}
  for (const name of SECRET_VARIABLES) {
    const path = env[`${name}_FILE`]
    if (!path) continue
    if (env[name]) faults.push(`${name} and ${name}_FILE are both set`)
    try {
      read[name] = readFileSync(path, 'utf8').trim()
    } catch (error) {
      faults.push(`${name}_FILE names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`)
    }
  }
  return { ...env, ...read }
}

type Env = Readonly<Record<string, string | undefined>>

/**
 * Reads the variables that Larkway knows, secrets also from files; others are ignored, empty ones count as not set.
 *
 * @throws Error that names every bad variable at once, so that one restart mends them all. Never prints a value.
 */
export function readEnvironment(env: Env): Environment {
  const given: Record<string, unknown> = {}
  const faults: string[] = []
  const all = withSecretFiles(env, faults)
  for (const [name, schema] of Object.entries(Environment.properties)) {
    const text = all[name] || (name.endsWith('_PROXY') ? all[name.toLowerCase()] : undefined)
    if (text === undefined || text === '') continue
    given[name] = parsedSetting(text, 'type' in schema ? schema.type : undefined)
  }
  const filled = Value.Default(Environment, given) as Static<typeof Environment>
  faults.push(...faultsOf(filled))
  const keys = ['S3_ACCESS_KEY_ID', 'S3_SECRET_ACCESS_KEY'] as const
  const hasKeys = keys.some((name) => given[name] !== undefined)
  const s3 = ['S3_ENDPOINT', 'S3_BUCKET', ...(hasKeys ? keys : [])] as const
  const missing = s3.filter((name) => given[name] === undefined)
  if (missing.length > 0 && missing.length < s3.length)
    faults.push(`an S3 store also needs ${missing.join(', ')}`)
  faults.push(...tlsFaults(filled))
  if (faults.length > 0) throw new Error(`environment: ${faults.join('; ')}`)
  const { LARKWAY_JOBS = defaultJobs(filled.LARKWAY_MEMORY_MIB) } = filled
  return Object.freeze({ ...filled, LARKWAY_JOBS })
}

/** Two listeners on one port would share its connections where processes do. */
function tlsFaults({
  LARKWAY_TLS_CERT: cert,
  LARKWAY_TLS_KEY: key,
  LARKWAY_TLS_PORT: tlsPort,
  PORT: port,
}: Static<typeof Environment>): string[] {
  if (cert === undefined && key === undefined) return []
  if (cert === undefined || key === undefined)
    return [`TLS also needs ${cert === undefined ? 'LARKWAY_TLS_CERT' : 'LARKWAY_TLS_KEY'}`]
  return port === tlsPort && port !== 0 ? ['LARKWAY_TLS_PORT must be another one than PORT'] : []
}

/** A text that is not of the type that the variable has stays one, and is refused as that. */
function parsedSetting(text: string, type: unknown): unknown {
  if (type === 'integer' && /^\d+$/.test(text)) return Number(text)
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  return text
}

/** Addresses that others read as URLs, and whose faults they would report without the name of the variable. */
const URLS = ['LARKWAY_PUBLIC_URL', 'S3_ENDPOINT', 'S3_PUBLIC_ENDPOINT'] as const

function faultsOf(filled: Static<typeof Environment>): string[] {
  const issues = new Issues()
  for (const name of URLS) if (!URL.canParse(filled[name] ?? 'http://a')) issues.add([name], 'must be a URL')
  checkShape(Environment, filled, [], issues)
  const byName = new Map(issues.found.map(({ path: [name], message }) => [name, `${name} ${message}`]))
  const faults = [...byName.values()]
  const { LARKWAY_SECRET_KEYS: keys } = filled
  for (const read of [() => createEgressProxy(filled), () => keys !== undefined && secretKeysIn(keys)])
    try {
      read()
    } catch (error) {
      faults.push((error as Error).message)
    }
  return faults
}
