import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { BENCH, type Launch } from './harness/processes.ts'
import { DIRECT } from './harness/result.ts'
import { larkwayConfiguration } from './larkway.ts'
import { findNginx, installNpmPeers, NPM_PEERS, npmPeerVersion, ROOT } from './peers/install.ts'
import { type NginxBuffers, nginxConfiguration } from './peers/nginx.ts'
import type { S3Store } from './s3.ts'

/** Where a candidate is to run. */
export interface Place {
  readonly port: number
  readonly upstreamPort: number
  /** Empty, its own. */
  readonly folder: string
  /** An address of the machine's network as it is to be called from here. */
  reach(endpoint: string): Promise<string>
}

/** A server that can be measured. */
export interface Candidate {
  /** Stable; gates and results go by it. */
  readonly name: string
  /** For readers. */
  readonly label: string
  /** Answers 200 once the server is up. */
  readonly readyPath: string
  readonly versions: Readonly<Record<string, string>>
  /** The candidate whose process this one is, otherwise switched; absent: it has its own. Of those that take turns. */
  readonly within?: string
  /** A script that starts the server, as another process, and waits. */
  readonly launched?: true
  command(place: Place): Command | Promise<Command>
}

type Command = Pick<Launch, 'command' | 'args' | 'env'>

/** A candidate, or why it cannot be measured here. */
export type Found = { readonly candidate: Candidate } | { readonly name: string; readonly reason: string }

export interface LarkwayOptions {
  readonly name: string
  readonly label: string
  /** Byte budget for held bodies, MiB: decides which tier a body goes to. */
  readonly memoryMib: number
  /** Null: a folder. */
  readonly s3?: S3Store | null
  /** `info` writes a line per request, as in production. */
  readonly logLevel?: 'warn' | 'info'
  /** Content of the configuration file; default: one for calls. */
  readonly configuration?: (upstreamPort: number) => object
  readonly env?: Readonly<Record<string, string>>
  /** Folder of a whole tree, whose server runs as that tree starts it; default: this project's. */
  readonly tree?: string | undefined
}

export function larkway(options: LarkwayOptions): Found {
  const { name, label, memoryMib, s3 = null, logLevel = 'warn', tree = ROOT } = options
  const { configuration: configurationOf = larkwayConfiguration } = options
  return {
    candidate: {
      name,
      label,
      readyPath: '/readyz',
      versions: {},
      async command(place) {
        const configuration = join(place.folder, 'larkway.yaml')
        writeFileSync(configuration, JSON.stringify(configurationOf(place.upstreamPort), null, 2))
        const data = join(place.folder, 'data')
        mkdirSync(data)
        const env = {
          HOST: '127.0.0.1',
          PORT: String(place.port),
          LARKWAY_CONFIG: configuration,
          LARKWAY_DATA: data,
          LARKWAY_MEMORY_MIB: String(memoryMib),
          LOG_LEVEL: logLevel,
          UWS_HTTP_MAX_HEADERS_SIZE: '16384',
          ...(s3 && (await s3Environment(s3, place))),
          ...options.env,
        }
        const { file, flags, env: added } = await serverOf(tree)
        return {
          command: process.execPath,
          args: ['--no-warnings', ...flags, file],
          env: { ...env, ...added },
        }
      },
    },
  }
}

/** How Node runs a program. */
interface Program {
  readonly file: string
  readonly flags: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** The same server as several processes on one port, and the one that starts them. */
export function inProcesses(candidate: Candidate, count: number): Candidate {
  return {
    ...candidate,
    name: `${candidate.name}-${count}`,
    label: `Larkway, ${count} processes`,
    async command(place) {
      const { command, env } = await candidate.command(place)
      const { file, flags, env: added } = await serverOf(ROOT, 'cli.ts')
      const args = ['--no-warnings', ...flags, file, 'serve', '--processes', String(count)]
      return { command, args, env: { ...env, ...added } }
    },
  }
}

/** @throws Error that says why it is missing */
export function candidateOf(found: Found): Candidate {
  if ('candidate' in found) return found.candidate
  throw new Error(`${found.name}: ${found.reason}`)
}

/** A tree's server as its own `npm start` has Node run it: compiled, and with the flags that it chose. */
async function serverOf(tree: string, program: 'main.ts' | 'cli.ts' = 'main.ts'): Promise<Program> {
  const compiler = join(tree, 'scripts', 'compile.mjs')
  if (!existsSync(compiler)) return { file: join(tree, 'src', program), flags: [], env: {} }
  const { compiled } = (await import(compiler)) as { compiled(program: string): Promise<Program> }
  return await compiled(program)
}

/** The same server as `npm start` starts it in a tree. */
export function started(found: Found, root = ROOT): Found {
  if (!('candidate' in found)) return found
  const { candidate } = found
  return {
    candidate: {
      ...candidate,
      launched: true,
      async command(place) {
        const { env } = await candidate.command(place)
        // By the Node that npm would take, which need not be the one that serves.
        return { command: 'node', args: [join(root, 'scripts', 'start.mjs')], ...(env && { env }) }
      },
    },
  }
}

async function s3Environment(s3: S3Store, place: Place): Promise<Record<string, string>> {
  return {
    S3_ENDPOINT: await place.reach(s3.endpoint),
    S3_REGION: s3.region,
    S3_BUCKET: s3.bucket,
    S3_ACCESS_KEY_ID: s3.accessKeyId,
    S3_SECRET_ACCESS_KEY: s3.secretAccessKey,
  }
}

/** @param s3 null: a folder */
export function storeItself(name: string, label: string, s3: S3Store | null): Found {
  return {
    candidate: {
      name,
      label,
      readyPath: '/',
      versions: {},
      async command(place) {
        const { command, args } = program('peers/store-puts.ts', place.port, place.folder)
        return { command, args, env: s3 === null ? {} : await s3Environment(s3, place) }
      },
    },
  }
}

export function bareUws(): Found {
  return {
    candidate: {
      name: 'bare-uws',
      label: 'uWebSockets.js, bare handler',
      readyPath: '/',
      versions: {},
      command: ({ port }) => program('peers/bare-uws.ts', port),
    },
  }
}

export function bareProxy(): Found {
  return {
    candidate: {
      name: 'bare-proxy',
      label: 'uWebSockets.js and undici, bare proxy',
      readyPath: '/',
      versions: {},
      command: ({ port, upstreamPort }) => program('peers/bare-proxy.ts', port, upstreamPort),
    },
  }
}

export function bareRelay(): Found {
  return {
    candidate: {
      name: 'bare-relay',
      label: 'uWebSockets.js and ws, bare relay',
      readyPath: '/',
      versions: {},
      command: ({ port, upstreamPort }) => program('peers/bare-relay.ts', port, upstreamPort),
    },
  }
}

/** The stand-in for a provider, called without anything between. */
export function upstreamItself(): Found {
  return {
    candidate: {
      name: DIRECT,
      label: 'the provider itself',
      readyPath: '/',
      versions: {},
      command: ({ port }) => program('upstream.ts', port),
    },
  }
}

export async function nginx(buffers: NginxBuffers): Promise<Found> {
  const { command: program, env, version } = await findNginx()
  return {
    candidate: {
      name: `nginx-${buffers}`,
      label: buffers === 'tuned' ? 'nginx, tuned' : 'nginx, default buffers',
      readyPath: '/',
      versions: { nginx: version },
      command({ port, upstreamPort, folder }) {
        const configuration = join(folder, 'nginx.conf')
        writeFileSync(configuration, nginxConfiguration({ port, upstreamPort, folder, buffers }))
        return { command: program, args: ['-p', folder, '-c', configuration, '-e', 'stderr'], env }
      },
    },
  }
}

export async function portkey(): Promise<Found> {
  await installNpmPeers()
  return {
    candidate: {
      name: 'portkey',
      label: 'Portkey gateway',
      readyPath: '/',
      versions: { '@portkey-ai/gateway': npmPeerVersion('@portkey-ai/gateway') },
      command: ({ port }) => ({
        command: process.execPath,
        args: [
          join(NPM_PEERS, 'node_modules', '@portkey-ai', 'gateway', 'build', 'start-server.js'),
          `--port=${port}`,
          '--headless',
        ],
      }),
    },
  }
}

export async function fastify(): Promise<Found> {
  await installNpmPeers()
  const packages = ['fastify', '@fastify/multipart', '@fastify/http-proxy']
  return {
    candidate: {
      name: 'fastify',
      label: 'Fastify',
      readyPath: '/healthz',
      versions: Object.fromEntries(packages.map((name) => [name, npmPeerVersion(name)])),
      command: ({ port, upstreamPort }) => program('peers/fastify.ts', port, upstreamPort),
    },
  }
}

/** The same server measured in another way, under another name. */
export function renamed(found: Found, name: string, label: string): Found {
  return 'candidate' in found ? { candidate: { ...found.candidate, name, label } } : { ...found, name }
}

function program(file: string, ...args: (number | string)[]): Pick<Launch, 'command' | 'args'> {
  return { command: process.execPath, args: ['--no-warnings', join(BENCH, file), ...args.map(String)] }
}
